package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/internal/house"
	"github.com/pawl-dev/pawl/storage"
)

// health is what doctor finds.
type health struct {
	OK        bool                `json:"ok"`
	Driver    string              `json:"driver"`
	Where     string              `json:"where"`
	Schema    int                 `json:"schema"`
	Durable   bool                `json:"durable"`
	Note      string              `json:"note"`
	Graphs    []string            `json:"graphs"` // whose code this program has
	Threads   map[pawl.Status]int `json:"threads"`
	Questions int                 `json:"questions_open"`
	Overdue   int                 `json:"questions_expired"` // open in the rows, past their time
	Approvals int                 `json:"approvals_open"`
	Unknown   int                 `json:"effects_unknown"`
	Restored  time.Time           `json:"restored_and_not_reconciled,omitzero"` // since when
	Key       string              `json:"key_file,omitempty"`                   // what parameters and receipts are encrypted under
	Writes    *latency            `json:"writes,omitempty"`
}

// latency is measured on a scratch file beside the database, never in it.
type latency struct {
	Count  int    `json:"count"`
	Least  string `json:"least"`
	Median string `json:"median"`
	Most   string `json:"most"`
	Error  string `json:"error,omitempty"`
}

const aboutDoctor = `Check the database: silent and 0 when it is well, so it serves as a health check. -v explains.

It opens the file, checks all of it and reads every thread's status; it writes nothing into it and repairs nothing. With -v
or -o json the time of a durable write is measured on a scratch file in the same folder, which is removed again.

Exit 1: the file is damaged, written by a newer Pawl, or no Pawl database. Exit 9: it is missing, cannot be reached or
cannot be opened (not writable, on a network file system).`

func (p *Program) doctor() *cobra.Command {
	var verbose bool
	c := &cobra.Command{
		Use: "doctor", Short: "Is the database well? Silent when it is", Long: aboutDoctor, Args: p.takes(0, "no argument"),
		Example: "  pawl doctor && echo well\n  pawl doctor -v --db /var/lib/my.db",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.within(cmd.Context(), func(h *home) error {
				found, err := p.examine(cmd.Context(), h)
				if err != nil {
					return err
				}
				if !verbose && !p.JSON() {
					return nil
				}
				found.Writes = p.measure(cmd.Context())
				return p.Emit(found, func(g *Page) { found.print(g) })
			})
		},
	}
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "say what was found")
	return c
}

func (p *Program) examine(ctx context.Context, in *home) (*health, error) {
	eng := in.eng
	if whole, ok := in.DB.(interface{ Check(context.Context) error }); ok {
		if err := whole.Check(ctx); err != nil {
			return nil, err
		}
	}
	d := eng.Doctor()
	h := &health{
		OK: true, Driver: d.Storage.Driver, Where: d.Storage.Where, Schema: d.Storage.Schema, Durable: d.Storage.Durable,
		Note: d.Note, Graphs: append([]string{}, d.Graphs...), Threads: map[pawl.Status]int{},
	}
	for after := ""; ; {
		const page = 1000
		list, err := eng.Threads(ctx, after, page)
		if err != nil {
			return nil, err
		}
		for _, t := range list {
			after = t.Thread
			h.Threads[t.Status]++
		}
		if len(list) < page {
			break
		}
	}
	open, err := eng.Questions(ctx, 0)
	for _, q := range open {
		h.Questions++
		if !q.Due.IsZero() && !p.Now().Before(q.Due) {
			h.Overdue++
		}
	}
	if err != nil {
		return nil, err
	}
	if in.Keyed {
		h.Key = house.KeyFile(p.db)
	}
	waiting, err := in.approvals().List(ctx, approval.Filter{State: approval.Requested})
	if err != nil {
		return nil, err
	}
	unknown, err := in.effects().Unknown(ctx)
	if err != nil {
		return nil, err
	}
	restore, err := in.effects().Restored(ctx)
	if restore != nil {
		h.Restored = restore.At.UTC()
	}
	h.Approvals, h.Unknown = len(waiting), len(unknown)
	return h, err
}

// measure times durable writes on the disk of the database.
func (p *Program) measure(ctx context.Context) *latency {
	const writes = 9
	took, err := p.timed(ctx, writes)
	if err != nil {
		return &latency{Error: err.Error()}
	}
	slices.Sort(took)
	return &latency{
		Count: writes, Least: took[0].Round(time.Microsecond).String(), Median: took[writes/2].Round(time.Microsecond).String(),
		Most: took[writes-1].Round(time.Microsecond).String(),
	}
}

func (p *Program) timed(ctx context.Context, writes int) (took []time.Duration, err error) {
	dir, err := os.MkdirTemp(filepath.Dir(p.db), ".pawl-doctor-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	db, err := house.OpenFile(filepath.Join(dir, "scratch.db"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for range writes {
		begin := time.Now()
		if err := db.Update(ctx, func(_ context.Context, tx storage.Tx) error {
			_, _, err := tx.Seq(0, storage.AnyEpoch, 1)
			return err
		}); err != nil {
			return nil, err
		}
		took = append(took, time.Since(begin))
	}
	return took, nil
}

func (h *health) print(g *Page) {
	var counts []string
	for _, s := range statuses {
		if n := h.Threads[s]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, s))
		}
	}
	if counts == nil {
		counts = []string{"none"}
	}
	writes := fmt.Sprintf("%s median of %d (%s to %s), on a scratch file in the same folder", h.Writes.Median, h.Writes.Count,
		h.Writes.Least, h.Writes.Most)
	if h.Writes.Error != "" {
		writes = "not measured: " + h.Writes.Error
	}
	graphs := strings.Join(h.Graphs, ", ")
	if graphs == "" {
		graphs = "none in this program: it reads and answers"
	}
	key := h.Key
	if key == "" {
		key = "none: no effect was kept here, or its file is gone"
	}
	held := ""
	if !h.Restored.IsZero() {
		held = fmt.Sprintf("; those to targets that recognise no key are held back since the restore of %s: effects report, then effects reconciled", h.Restored.Format(time.RFC3339))
	}
	g.Table(nil,
		[]string{"database", h.Driver + " " + h.Where}, []string{"layout", fmt.Sprint(h.Schema)}, []string{"check", "the whole file reads well"},
		[]string{"durable", h.Note}, []string{"a write", writes}, []string{"threads", strings.Join(counts, ", ")},
		[]string{"questions", fmt.Sprintf("%d open, %d of them expired", h.Questions, h.Overdue)}, []string{"approvals", fmt.Sprintf("%d wait for a decision", h.Approvals)},
		[]string{"effects", fmt.Sprintf("%d of unknown outcome", h.Unknown) + held}, []string{"key", key}, []string{"graphs", graphs})
}
