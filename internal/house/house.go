// Package house wires an engine with everything that most programs want: a database, effects, approvals, audit and
// redaction, with safe defaults.
package house

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/redact"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/worker"
)

// House is a database that is open, and the engine over it.
type House struct {
	DB     storage.DB
	Engine *pawl.Engine
	Ledger *effect.Ledger
	Memory *store.Memory
	// Keyed says that the ledger's key will be there tomorrow: it is in a file.
	Keyed bool
}

// Kinds are the record kinds of all packages.
func Kinds() []storage.Kind {
	return slices.Concat(pawl.Kinds(), audit.Kinds(), approval.Kinds(), effect.Kinds(), store.Kinds())
}

// KeyFile is where the key to a database file is kept.
func KeyFile(path string) string { return path + ".key" }

// Open opens a database: a file, sqlite:FILE, or memory: for one that ends with the process. A file that is not there
// is made, and so is its key where graphs are given. Without graphs, and without a key file, the key is for this
// process only: nothing sealed can be read.
func Open(ctx context.Context, dsn string, graphs ...pawl.Registrable) (_ *House, err error) {
	h := &House{}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	driver, path, err := place(dsn)
	if err != nil {
		return nil, err
	}
	if driver == memory {
		h.DB, err = memdb.Open(Kinds()...)
	} else {
		h.DB, err = OpenFile(path)
	}
	if err != nil {
		h.DB = nil
		return nil, err
	}
	key, err := h.key(driver, path, len(graphs) > 0)
	if err != nil {
		return nil, err
	}
	redactor := redact.New(nil)
	if h.Ledger, err = effect.NewLedger(effect.Options{Key: key, Redactor: redactor}); err != nil {
		return nil, err
	}
	if h.Memory, err = store.New(store.Options{}); err != nil {
		return nil, err
	}
	if h.Engine, err = pawl.NewEngine(h.DB, &pawl.Options{Parts: []pawl.Part{redactor, audit.Part{}, h.Ledger, h.Memory}}); err != nil {
		return nil, err
	}
	return h, h.Engine.Register(graphs...)
}

// OpenFile opens a database file with all kinds.
func OpenFile(path string) (storage.DB, error) {
	db, err := sqlite.Open(path, Kinds()...)
	if err != nil {
		return nil, err
	}
	return db, nil
}

const (
	file   = "sqlite"
	memory = "memory"
)

// place reads a DSN. A name without a scheme is a file.
func place(dsn string) (driver, path string, err error) {
	scheme, rest, found := strings.Cut(dsn, ":")
	switch {
	case dsn == "":
		return "", "", errors.New("pawl: the database has no name; give a file, such as pawl.db, or memory:; nothing was opened")
	case !found || strings.ContainsAny(scheme, `/\`) || len(scheme) == 1: // C:\pawl.db
		return file, dsn, nil
	case scheme == memory:
		return memory, "", nil
	case scheme == file || scheme == "file":
		if path = strings.TrimPrefix(rest, "//"); path != "" {
			return file, path, nil
		}
	case scheme == "postgres" || scheme == "postgresql":
		return "", "", errors.New("pawl: PostgreSQL comes later; give a file; nothing was opened")
	}
	if u, bad := url.Parse(dsn); bad == nil {
		dsn = u.Redacted()
	} else {
		dsn = scheme + ":..."
	}
	return "", "", fmt.Errorf("pawl: the database %q is none of FILE, sqlite:FILE, memory:; nothing was opened", dsn)
}

func (h *House) key(driver, path string, durable bool) ([]byte, error) {
	if driver == file {
		_, err := os.Stat(KeyFile(path))
		if durable || !errors.Is(err, fs.ErrNotExist) {
			h.Keyed = true
			return effect.KeyFile(KeyFile(path))
		}
	}
	key := make([]byte, effect.KeySize)
	_, _ = rand.Read(key) // never fails
	return key, nil
}

// Worker makes a worker for what is due of these tenants; of the one without a name where none is given. What is shared
// by all, such as the order of the audit trail, is looked after for all.
func (h *House) Worker(o *worker.Options, tenants ...string) *worker.Worker {
	return worker.New(h.DB, o, h.sources(tenants)...)
}

// Fire fires what is due now, as the worker of these tenants would, and says how many times that was. Runs that it resumed
// have stopped.
func (h *House) Fire(ctx context.Context, tenants ...string) (fired int, err error) {
	const limit = 100
	for _, s := range h.sources(tenants) {
		for {
			n, _, err := s.Due(ctx, limit)
			if fired += n; err != nil {
				return fired, fmt.Errorf("%s: %w; what is due stays due", s.Name(), err)
			}
			if n < limit {
				break
			}
		}
		if runs, ok := s.(interface{ Wait(context.Context) error }); ok {
			if err := runs.Wait(ctx); err != nil {
				return fired, err
			}
		}
	}
	return fired, nil
}

func (h *House) sources(tenants []string) []worker.Source {
	if len(tenants) == 0 {
		tenants = []string{""}
	}
	sources := []worker.Source{audit.NewSequencer(h.DB), store.Sweeper{DB: h.DB}}
	for _, tenant := range tenants {
		eng := h.Engine.Tenant(tenant)
		sources = append(sources, eng.Timer(), eng.Runner(), approval.NewTimer(eng, h.DB), h.Ledger.Due(eng, h.DB))
	}
	return sources
}

// Close ends the runs of this process and frees the database.
func (h *House) Close() (err error) {
	if h.Engine != nil {
		err = h.Engine.Close()
	}
	if h.DB != nil {
		err = errors.Join(err, h.DB.Close())
	}
	return err
}
