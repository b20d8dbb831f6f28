package records

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/storage"
)

// Pruning is what to do with a thread of which some checkpoints are kept.
type Pruning struct {
	Drop   []int64       // checkpoints that go, the oldest first
	Whole  []*core.Value // versions to be written in full, so that what is below them may go
	Orphan []int64       // versions that nothing refers to once both is done, ascending
}

// Prune works out what to do so that the checkpoints that keep accepts stay whole and the others go. It reads the whole
// thread.
func (r *Reader) Prune(keep func(*core.Checkpoint) bool) (*Pruning, error) {
	out := &Pruning{}
	needed := map[int64]bool{}   // versions that stay
	anchored := map[int64]bool{} // versions that need nothing below them
	for after := int64(0); ; {
		const page = 64
		rows, err := r.Tx.List(Checkpoint, storage.Query{
			Range: storage.Range{From: Place(r.Info.N, after+1), To: Place(r.Info.N+1, 0)}, Limit: page,
		})
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			s, err := r.stored(row)
			if err != nil {
				return nil, err
			}
			if after = s.Checkpoint.N; !keep(s.Checkpoint) {
				out.Drop = append(out.Drop, after)
				continue
			}
			if err := r.anchor(s, needed, anchored, out); err != nil {
				return nil, err
			}
		}
		if len(rows) < page {
			break
		}
	}
	rows, err := r.Tx.List(Value, storage.Query{Range: Places(r.Info.N), NoBody: true})
	for _, row := range rows {
		if n := Local(row.Key[0].(int64)); !needed[n] {
			out.Orphan = append(out.Orphan, n)
		}
	}
	return out, err
}

// anchor marks what a kept checkpoint, and the results that hang from it, need.
func (r *Reader) anchor(s *Stored, needed, anchored map[int64]bool, out *Pruning) error {
	values := Values{Box: r.Box, Thread: r.Info.ID, ThreadN: r.Info.N}
	var heads []*core.Value
	for _, channel := range sortedKeys(s.Refs) {
		ref := s.Refs[channel]
		if ref.Data != nil {
			continue // it goes and stays with its checkpoint
		}
		v, err := values.Load(r.Tx, channel, ref.N)
		if err != nil {
			return err
		}
		heads = append(heads, v)
	}
	rows, err := r.Tx.List(Ended, storage.Query{Range: storage.Range{Prefix: []any{r.Info.N, s.Checkpoint.N}}})
	if err != nil {
		return err
	}
	for _, row := range rows {
		e, err := r.Box.ReadEnded(r.Tx, &values, row)
		if err != nil {
			return err
		}
		for _, w := range e.Result.Writes {
			if w.Value != nil {
				heads = append(heads, w.Value)
			}
		}
	}
	for _, v := range heads {
		if err := anchorValue(v, needed, anchored, out); err != nil {
			return err
		}
	}
	return nil
}

// anchorValue keeps a version: with the deltas down to one that stands alone already, or by making it stand alone.
func anchorValue(v *core.Value, needed, anchored map[int64]bool, out *Pruning) error {
	var chain []*core.Value
	for at := v; at != nil; at = at.Base {
		if anchored[at.ID] || at.Op == core.OpSet && at == v {
			break
		}
		chain = append(chain, at)
		if at.Base == nil || at.Op == core.OpSet {
			whole, err := v.Bytes()
			if err != nil {
				return err
			}
			if len(whole) > core.MaxValue {
				break // it stays a chain of deltas
			}
			full := core.NewSet(whole)
			full.ID = v.ID
			out.Whole = append(out.Whole, full)
			chain = nil
			break
		}
	}
	for _, at := range chain {
		needed[at.ID], anchored[at.ID] = true, true
		for _, p := range at.Parts {
			needed[p.ID] = true
		}
	}
	needed[v.ID], anchored[v.ID] = true, true
	return nil
}

func sortedKeys(m map[string]Ref) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
