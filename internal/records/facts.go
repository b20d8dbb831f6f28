package records

import (
	"cmp"
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/storage"
)

// Fact is something stored of a thread, with its place in the thread's order. Beside the run that it belongs to at most
// one of the others is set; with none the fact is the run itself, as it stands.
type Fact struct {
	Seq        int64
	Run        core.Run
	Checkpoint *core.Checkpoint
	Step       *core.Step
	Question   *core.Question
}

// Facts reads what was stored after a sequence number, in order.
func (r *Reader) Facts(after int64) ([]Fact, error) {
	out, err := r.checkpointFacts(after)
	if err != nil {
		return nil, err
	}
	nested, err := r.nestedFacts(after)
	if err != nil {
		return nil, err
	}
	out = append(out, nested...)
	since := storage.Query{Index: "by_seq", Range: storage.Range{Prefix: []any{r.Info.N}, From: after + 1}}
	for kind, read := range map[string]func(storage.Row) (Fact, error){
		Run: func(row storage.Row) (Fact, error) {
			run, err := r.Box.ReadRun(r.Info.ID, row)
			if err != nil {
				return Fact{}, err
			}
			return Fact{Seq: run.Seq, Run: *run}, nil
		},
		Step: func(row storage.Row) (Fact, error) {
			s, err := r.Box.ReadStep(r.Info.ID, row)
			if err != nil {
				return Fact{}, err
			}
			return Fact{Seq: s.Seq, Step: s}, nil
		},
		Question: func(row storage.Row) (Fact, error) {
			q, err := r.Box.ReadQuestion(row)
			if err != nil {
				return Fact{}, err
			}
			return Fact{Seq: q.Seq, Question: q, Run: core.Run{ID: q.Run}}, nil
		},
	} {
		rows, err := r.Tx.List(kind, since)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			f, err := read(row)
			if err != nil {
				return nil, err
			}
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(a, b Fact) int { return cmp.Compare(a.Seq, b.Seq) })
	return out, nil
}

// checkpointFacts reads history backwards until it meets what was told before.
func (r *Reader) checkpointFacts(after int64) ([]Fact, error) {
	const page = 64
	var out []Fact
	before := int64(0)
	for {
		stored, err := r.Checkpoints(before, page)
		if err != nil {
			return nil, err
		}
		for _, s := range stored {
			cp := s.Checkpoint
			if before = cp.N; cp.Seq <= after {
				return out, nil
			}
			run, err := r.Run(cp.Run)
			if err != nil {
				return nil, err
			}
			out = append(out, Fact{Seq: cp.Seq, Checkpoint: cp, Run: *run})
		}
		if len(stored) < page {
			return out, nil
		}
	}
}
