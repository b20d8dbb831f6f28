package records

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/storage"
)

// Fact is something stored of a thread, with its place in the thread's order. Beside the run that it belongs to at most
// one of the others is set; with none the fact is the run itself, as it stood then.
type Fact struct {
	Seq        int64
	Run        core.Run
	Checkpoint *core.Checkpoint // without its values
	Ended      *core.Ended      // a task, with what it wrote
	Under      *core.Checkpoint // what the task of Ended, Step or Question hangs from; nil: it is gone
	Step       *core.Step
	Question   *core.Question // as it stood then: open, or as it is now
}

// Facts reads what was stored after a sequence number, in order. Whoever reads them, and whenever, reads the same ones:
// what a newer fact took the place of is kept, except of the states of a question between the first and the last.
func (r *Reader) Facts(after int64) ([]Fact, error) {
	out, err := r.checkpointFacts(after)
	if err != nil {
		return nil, err
	}
	for _, read := range []func(int64) ([]Fact, error){r.nestedFacts, r.runFacts, r.endedFacts, r.stepFacts, r.questionFacts, r.pastFacts} {
		more, err := read(after)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	slices.SortFunc(out, func(a, b Fact) int { return cmp.Compare(a.Seq, b.Seq) })
	return out, nil
}

// since lists the rows of a kind whose newest fact came after a number.
func (r *Reader) since(kind string, after int64) ([]storage.Row, error) {
	return r.Tx.List(kind, storage.Query{Index: "by_seq", Range: storage.Range{Prefix: []any{r.Info.N}, From: after + 1}})
}

func (r *Reader) runFacts(after int64) (out []Fact, err error) {
	rows, err := r.since(Run, after)
	for _, row := range rows {
		run, err := r.Box.ReadRun(r.Info.ID, row)
		if err != nil {
			return nil, err
		}
		if out = append(out, Fact{Seq: run.Seq, Run: *run}); run.Status != core.StatusRunning && run.Began > after {
			then := *run
			then.Seq, then.Status, then.Aside, then.Cause, then.Error, then.ErrorNode = run.Began, core.StatusRunning, false, "", "", ""
			out = append(out, Fact{Seq: run.Began, Run: then})
		}
	}
	return out, err
}

func (r *Reader) stepFacts(after int64) (out []Fact, err error) {
	rows, err := r.since(Step, after)
	for _, row := range rows {
		s, err := r.Box.ReadStep(r.Info.ID, row)
		if err != nil {
			return nil, err
		}
		f := Fact{Seq: s.Seq, Step: s}
		if err := r.hangs(&f, s.Checkpoint); err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, err
}

func (r *Reader) questionFacts(after int64) (out []Fact, err error) {
	rows, err := r.since(Question, after)
	for _, row := range rows {
		q, err := r.Box.ReadQuestion(row)
		if err != nil {
			return nil, err
		}
		f := Fact{Seq: q.Seq, Question: q, Run: core.Run{ID: q.Run}}
		if err := r.hangs(&f, q.Checkpoint); err != nil {
			return nil, err
		}
		if out = append(out, f); q.AskedSeq < q.Seq && q.AskedSeq > after {
			asked := *q
			asked.Seq, asked.State, asked.Answer, asked.AnsweredBy, asked.Reason = q.AskedSeq, core.QuestionOpen, nil, "", ""
			f.Seq, f.Question = q.AskedSeq, &asked
			out = append(out, f)
		}
	}
	return out, err
}

func (r *Reader) endedFacts(after int64) (out []Fact, err error) {
	rows, err := r.since(Ended, after)
	for _, row := range rows {
		e, err := r.Box.readEnded(r.Info.ID, row, r.own)
		if err != nil {
			return nil, err
		}
		if out, err = r.endedFact(out, e); err != nil {
			return nil, err
		}
	}
	return out, err
}

// endedFact adds a task's end, unless what it hangs from is gone.
func (r *Reader) endedFact(out []Fact, e *core.Ended) ([]Fact, error) {
	f := Fact{Seq: e.Seq, Ended: e}
	if err := r.hangs(&f, e.Checkpoint); err != nil || f.Under == nil {
		return out, err
	}
	return append(out, f), nil
}

// hangs finds what a fact hangs from, and the attempt that it belongs to.
func (r *Reader) hangs(f *Fact, cp int64) error {
	under, err := r.any(cp)
	if err != nil || under == nil {
		return err
	}
	run, err := r.Run(under.Checkpoint.Run)
	if err == nil {
		f.Run, f.Under = *run, under.Checkpoint
	}
	return err
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
			if before = s.Checkpoint.N; s.Checkpoint.Seq <= after {
				return out, nil
			}
			if out, err = r.checkpointFact(out, s, after); err != nil {
				return nil, err
			}
		}
		if len(stored) < page {
			return out, nil
		}
	}
}

// checkpointFact adds a checkpoint and, before it, the tasks that it merged.
func (r *Reader) checkpointFact(out []Fact, s *Stored, after int64) ([]Fact, error) {
	run, err := r.Run(s.Checkpoint.Run)
	if err != nil {
		return nil, err
	}
	merged, err := r.results(s)
	if err != nil {
		return nil, err
	}
	for i := range merged {
		if e := &merged[i]; e.Seq > after {
			if out, err = r.endedFact(out, e); err != nil {
				return nil, err
			}
		}
	}
	return append(out, Fact{Seq: s.Checkpoint.Seq, Checkpoint: s.Checkpoint, Run: *run}), nil
}

func (r *Reader) nestedFacts(after int64) ([]Fact, error) {
	rows, err := r.since(Nested, after)
	if err != nil {
		return nil, err
	}
	var out []Fact
	for _, row := range rows {
		s, err := r.nested(row)
		if err == nil {
			out, err = r.checkpointFact(out, s, after)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// HeadAt reads the thread's newest checkpoint of when a fact was stored; nil: there was none, or it is gone.
func (r *Reader) HeadAt(seq int64) (*Stored, error) { return newestAt(seq, r.Checkpoints) }

// NestedAt is HeadAt for a run of a child.
func (r *Reader) NestedAt(f *core.Frame, seq int64) (*Stored, error) {
	return newestAt(seq, func(before int64, limit int) ([]*Stored, error) { return r.NestedIn(f, before, limit) })
}

func newestAt(seq int64, read func(before int64, limit int) ([]*Stored, error)) (*Stored, error) {
	const page = 16
	for before := int64(0); ; {
		stored, err := read(before, page)
		if err != nil {
			return nil, err
		}
		for _, s := range stored {
			if before = s.Checkpoint.N; s.Checkpoint.Seq < seq {
				return s, nil
			}
		}
		if len(stored) < page {
			return nil, nil
		}
	}
}

// OpenAt reads the questions that were open when a fact was stored, in the order of asking.
func (r *Reader) OpenAt(seq int64) ([]core.Question, error) {
	rows, err := r.Tx.List(Question, storage.Query{Index: "by_thread", Range: storage.Range{Prefix: []any{r.Info.N}}})
	if err != nil {
		return nil, err
	}
	var out []core.Question
	for _, row := range rows {
		q, err := r.Box.ReadQuestion(row)
		if err != nil {
			return nil, err
		}
		if open := q.State == core.QuestionOpen || q.State == core.QuestionSubmitted; q.AskedSeq < seq && (open || q.Seq > seq) {
			q.State, q.Answer, q.AnsweredBy, q.AnsweredAt, q.Reason = core.QuestionOpen, nil, "", time.Time{}, ""
			out = append(out, *q)
		}
	}
	sortQuestions(out)
	return out, nil
}
