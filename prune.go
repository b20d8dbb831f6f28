package pawl

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/local"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
)

// Keep says which checkpoints a Prune leaves.
type Keep struct {
	Newest int      // of the current branch, at least 1
	Also   []string // checkpoints by id
}

// Pruned says what a Prune did.
type Pruned struct {
	Thread      string `json:"thread"`
	Kept        int    `json:"kept"`
	Checkpoints int    `json:"checkpoints"` // dropped
	Values      int    `json:"values"`      // dropped versions of channels
	Written     int    `json:"written"`     // versions written in full, so that what they were made from could go
}

// Prune drops old checkpoints of a thread, with the journal of steps and results under them, and keeps the newest of the
// current branch. It always leaves the head and the newest checkpoint of every other branch, what an open question hangs
// from, and the state before the input of a run that could be retried. Answered questions stay. What is kept reads as
// before, but for what came of the tasks of a checkpoint whose next one is gone. It needs a Reason, is refused while
// somebody runs the thread and while a part objects, and works in bounded Updates: a death in between leaves a whole
// thread, which Prune finishes when it is called again.
func (t *Thread) Prune(ctx context.Context, keep Keep, options ...RunOption) (*Pruned, error) {
	cfg := configured(options)
	if err := t.mayMove(ctx, VerbPrune, cfg, false); err != nil {
		return nil, err
	}
	if keep.Newest < 1 {
		return nil, fmt.Errorf("pawl: thread %q: prune keeps at least the head: Newest is %d; nothing was changed", t.id, keep.Newest)
	}
	out := &Pruned{Thread: t.id}
	_, err := t.claiming(ctx, VerbPrune, func() (*Outcome, error) {
		var p *records.Pruning
		var kept int
		v := &view{}
		err := t.eng.store.View(ctx, func(tx storage.Tx) error {
			seen, err := t.eng.store.PeekTx(tx, t.eng.tenant, t.id)
			if err != nil {
				return err
			}
			*v = view{Seen: seen}
			if err := t.legal(VerbPrune, v, cfg); err != nil || seen.Head == nil {
				return err
			}
			r := records.NewReader(t.eng.store.Box, tx, seen.Info)
			wanted, err := t.kept(r, seen, keep)
			if err != nil {
				return err
			}
			kept = len(wanted)
			p, err = r.Prune(func(cp *core.Checkpoint) bool { return wanted[cp.N] })
			return err
		})
		if err != nil || p == nil {
			return nil, err
		}
		info := t.info(ctx, VerbPrune)
		info.Reason = cfg.reason
		err = t.eng.store.Prune(ctx, t.eng.tenant, t.id, v.Seen, p, func(ctx context.Context, tx storage.Tx) error {
			_, err := t.eng.consent(ctx, tx, info)
			return err
		})
		if err == nil {
			out.Kept, out.Checkpoints, out.Values, out.Written = kept, len(p.Drop), len(p.Orphan), len(p.Whole)
		}
		return nil, err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// kept are the numbers of the checkpoints that a Prune must leave.
func (t *Thread) kept(r *records.Reader, seen *local.Seen, keep Keep) (map[int64]bool, error) {
	kept := map[int64]bool{seen.Run.Before: true}
	for _, id := range keep.Also {
		s, err := t.find(r, seen, Checkpoint(id))
		if err != nil {
			return nil, err
		}
		kept[s.Checkpoint.N] = true
	}
	for _, q := range seen.Open {
		kept[q.Checkpoint] = true
	}
	if seen.Run.Moved != nil {
		kept[seen.Run.Moved.From] = true
	}
	for s, left := seen.Head, keep.Newest; s != nil && left > 0; left-- {
		kept[s.Checkpoint.N] = true
		if s.Checkpoint.Parent == 0 {
			break
		}
		var err error
		if s, err = r.Checkpoint(s.Checkpoint.Parent); err != nil {
			return nil, err
		}
	}
	parents := map[int64]bool{}
	for before := int64(0); ; { // the newest first: a checkpoint without children ends its branch
		page, err := r.Checkpoints(before, 256)
		if err != nil {
			return nil, err
		}
		for _, s := range page {
			if before = s.Checkpoint.N; !parents[before] {
				kept[before] = true
			}
			parents[s.Checkpoint.Parent] = true
		}
		if len(page) < 256 {
			delete(kept, 0)
			return kept, nil
		}
	}
}
