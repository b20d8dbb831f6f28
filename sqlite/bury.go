package sqlite

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/storage"
)

// mourning is how long the file of a dead member stays after its leases were freed: longer than any View lives that
// may still see them.
const mourning = 2 * viewLife

// bury frees the leases of dead members, and removes their files later: whoever finds a lease that names a dead member
// finds its file. Best effort: what fails is left to the next Join.
func (db *DB) bury(ctx context.Context) {
	dead := db.dead()
	if len(dead) == 0 {
		return
	}
	ids, err := json.Marshal(slices.Collect(maps.Keys(dead)))
	if err != nil {
		return
	}
	var freed []string
	if err := db.update(ctx, func(t *tx) error {
		var owners []string
		err := t.conn.rows(disownAll, []any{string(ids)}, func(row []any) error {
			owners = append(owners, row[0].(string))
			return nil
		})
		freed, t.wrote = owners, t.wrote || owners != nil
		return err
	}); err != nil {
		return
	}
	now := time.Now()
	for _, id := range freed {
		delete(dead, id)
		_ = os.Chtimes(db.memberFile(id), now, now)
	}
	maps.DeleteFunc(dead, func(_ string, since time.Time) bool { return now.Sub(since) < mourning })
	if len(dead) == 0 {
		return
	}
	_ = db.update(ctx, func(t *tx) error { // nobody takes a lease meanwhile
		for id := range dead {
			named := false
			if err := t.conn.rows(namedBy, []any{id}, func([]any) error { named = true; return nil }); err != nil {
				return err
			}
			if !named {
				removeUnlocked(db.memberFile(id))
			}
		}
		return nil
	})
}

// dead lists the members whose files nobody has locked, and when these were touched last.
func (db *DB) dead() map[string]time.Time {
	entries, err := os.ReadDir(db.memberDir())
	if err != nil {
		return nil
	}
	out := map[string]time.Time{}
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".lock")
		if !ok {
			continue
		}
		st, err := e.Info()
		if err != nil {
			continue
		}
		if lives, err := locked(db.memberFile(id)); err == nil && !lives {
			out[id] = st.ModTime()
		}
	}
	return out
}

// update is Update with the driver's own Tx.
func (db *DB) update(ctx context.Context, fn func(*tx) error) error {
	return db.Update(ctx, func(_ context.Context, x storage.Tx) error {
		_, err := guard(x.(*tx), true, func() (bool, error) { return true, fn(x.(*tx)) })
		return err
	})
}

// removeUnlocked removes a file that nobody has locked.
func removeUnlocked(path string) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer f.Close()
	removeIfDead(f, path)
}

// removeIfDead removes the file at path if it is f and nobody has it locked. While this holds a lock of its own nobody
// else gets one, and so nobody makes another file in its place.
func removeIfDead(f *os.File, path string) {
	if free, err := tryLock(f, shared); err == nil && free && isAt(f, path) {
		os.Remove(path)
	}
}
