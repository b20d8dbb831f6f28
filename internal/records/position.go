package records

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/storage"
)

// Reader reads one thread inside one Tx.
type Reader struct {
	Box     Box
	Tx      storage.Tx
	Info    *ThreadInfo
	Program core.Def // the thread's graph, under which what its children left is read; nil: their values are not
	graphs  map[string]*core.Topology
	runs    map[int64]*core.Run
	frames  map[int64]*core.Frame
	values  Values
}

// FindThread reads a thread's own row; nil when there is none.
func (b Box) FindThread(tx storage.Tx, tenant, id string) (*ThreadInfo, error) {
	row, ok, err := tx.Get(Thread, tenant, id)
	if err != nil || !ok {
		return nil, err
	}
	return b.ReadThread(row)
}

// NewReader reads the thread of info.
func NewReader(b Box, tx storage.Tx, info *ThreadInfo) *Reader {
	return &Reader{
		Box: b, Tx: tx, Info: info, graphs: map[string]*core.Topology{}, runs: map[int64]*core.Run{},
		frames: map[int64]*core.Frame{},
		values: Values{Box: b, Thread: info.ID, ThreadN: info.N},
	}
}

// Run reads an attempt by number.
func (r *Reader) Run(n int64) (*core.Run, error) {
	if run := r.runs[n]; run != nil {
		return run, nil
	}
	row, ok, err := r.Tx.Get(Run, r.Info.N, n)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, &storage.MissingError{Kind: Run, ID: n}
	}
	run, err := r.Box.ReadRun(r.Info.ID, row)
	if err == nil {
		r.runs[n] = run
	}
	return run, err
}

// Topology reads the graph that a checkpoint was made under.
func (r *Reader) Topology(cp *core.Checkpoint) (*core.Topology, error) {
	run, err := r.Run(cp.Run)
	if err != nil {
		return nil, err
	}
	if cp.Graph >= len(run.Graphs) {
		return nil, &DamagedError{Kind: Checkpoint, Where: cp.ID, Err: fmt.Errorf("its run knows no graph number %d", cp.Graph)}
	}
	t, err := r.Graph(run.Graphs[cp.Graph])
	if err != nil || cp.Frame == nil {
		return t, err
	}
	inner, ok := t.Within(cp.Frame.Under)
	if !ok {
		return nil, &DamagedError{Kind: Nested, Where: cp.ID, Err: fmt.Errorf("graph %q has no child %q", t.Graph, cp.Frame.Path)}
	}
	return inner, nil
}

// Met is a graph as a run knows it: the children that are not done went on under graphs of their own heads, which can be
// newer than their parent's. Of several under one name the oldest counts.
func (r *Reader) Met(t *core.Topology, children map[string][]*core.Position) (*core.Topology, error) {
	met, from := *t, map[string]int{}
	met.Children = slices.Clone(t.Children)
	for _, positions := range children {
		for _, p := range positions {
			i := slices.IndexFunc(met.Children, func(c core.Child) bool { return c.Name == p.Frame.Child() })
			if old, seen := from[p.Frame.Child()]; i < 0 || seen && old <= p.Head.Graph {
				continue
			}
			own, err := r.Topology(p.Head)
			if err != nil {
				return nil, err
			}
			if met.Children[i].Graph, err = r.Met(own, p.Children); err != nil {
				return nil, err
			}
			from[p.Frame.Child()] = p.Head.Graph
		}
	}
	return &met, nil
}

// Graph reads a topology by digest.
func (r *Reader) Graph(digest string) (*core.Topology, error) {
	if t := r.graphs[digest]; t != nil {
		return t, nil
	}
	row, ok, err := r.Tx.Get(Graph, digest)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("thread %q: graph version %.12s is referred to and missing", r.Info.ID, digest)
	}
	t, err := r.Box.ReadGraph(row)
	if err == nil {
		r.graphs[digest] = t
	}
	return t, err
}

// Head reads the newest checkpoint without its values; nil when there is none.
func (r *Reader) Head() (*Stored, error) {
	rows, err := r.Tx.List(Checkpoint, storage.Query{Range: Places(r.Info.N), Desc: true, Limit: 1})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return r.stored(rows[0])
}

// Checkpoint reads one checkpoint without its values; nil when there is none.
func (r *Reader) Checkpoint(n int64) (*Stored, error) {
	row, ok, err := r.Tx.Get(Checkpoint, Place(r.Info.N, n))
	if err != nil || !ok {
		return nil, err
	}
	return r.stored(row)
}

// Checkpoints reads a page of history without values, newest first: those numbered below before (0: from the head).
func (r *Reader) Checkpoints(before int64, limit int) ([]*Stored, error) {
	keys := Places(r.Info.N)
	if before > 0 {
		keys.To = Place(r.Info.N, before)
	}
	rows, err := r.Tx.List(Checkpoint, storage.Query{Range: keys, Desc: true, Limit: limit})
	if err != nil {
		return nil, err
	}
	out := make([]*Stored, 0, len(rows))
	for _, row := range rows {
		s, err := r.stored(row)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func (r *Reader) stored(row storage.Row) (*Stored, error) {
	s, err := r.Box.ReadCheckpoint(r.Info.ID, row)
	if err != nil {
		return nil, err
	}
	t, err := r.Topology(s.Checkpoint)
	if err != nil {
		return nil, err
	}
	return s, s.Under(t)
}

// Fill loads a checkpoint's values into the order of t's channels, and reads with up what was stored under another type.
// A channel that t does not have is an error. Nothing that is stored changes.
func (r *Reader) Fill(s *Stored, t *core.Topology, up core.Upgrader) error {
	old, err := r.Topology(s.Checkpoint)
	if err != nil {
		return err
	}
	s.Checkpoint.Values = make([]*core.Value, len(t.Channels))
	known := 0
	for c := range t.Channels {
		at := t.Source(old, c)
		if at < 0 {
			continue
		}
		ref, ok := s.Refs[old.Channels[at].Name]
		if !ok {
			continue
		}
		known++
		v, err := r.values.at(r.Tx, t.Channels[c].Name, ref)
		if err == nil {
			v, err = t.Upgraded(old.Channels[at], c, v, up)
		}
		if err != nil {
			return fmt.Errorf("thread %q: checkpoint %s: %w", r.Info.ID, s.Checkpoint.ID, err)
		}
		s.Checkpoint.Values[c] = v
	}
	if known != len(s.Refs) {
		for name := range s.Refs {
			if i := old.Channel(name); i < 0 || t.Heir(old, i) < 0 {
				return fmt.Errorf("thread %q: checkpoint %s holds channel %q, which graph %q does not have; nothing was run",
					r.Info.ID, s.Checkpoint.ID, name, t.Graph)
			}
		}
	}
	return nil
}

// Hanging reads what hangs from a checkpoint: ended tasks, finished steps, questions, and the runs of children.
func (r *Reader) Hanging(n int64, p *core.Position) error {
	ended, err := r.Ended(n)
	if err != nil {
		return err
	}
	p.Ended = ended
	rows, err := r.Tx.List(Step, storage.Query{Range: storage.Range{Prefix: []any{r.Info.N, n}}})
	if err != nil {
		return err
	}
	p.Steps = map[string][]core.Step{}
	for _, row := range rows {
		s, err := r.Box.ReadStep(r.Info.ID, row)
		if err != nil {
			return err
		}
		p.Steps[s.Task] = append(p.Steps[s.Task], *s)
	}
	if p.Questions, err = r.Questions(n); err != nil {
		return err
	}
	p.Children, err = r.Children(n)
	return err
}

// HangingUnder is Hanging for a program whose graph is t: what ended wrote to the channels that t has.
func (r *Reader) HangingUnder(cp *core.Checkpoint, t *core.Topology, up core.Upgrader, p *core.Position) error {
	if err := r.Hanging(cp.N, p); err != nil || len(p.Ended) == 0 {
		return err
	}
	old, err := r.Topology(cp)
	if err != nil || core.Compare(old, t, nil) != nil || core.GraphDigest(old) == core.GraphDigest(t) {
		return err
	}
	for i := range p.Ended {
		e := &p.Ended[i]
		if e.Result.Writes, err = core.UpgradeWrites(old, t, e.Result.Writes, up); err != nil {
			return fmt.Errorf("thread %q: node %q ended beside others under graph version %.8s: %w; go on with a program of that version", r.Info.ID, e.Result.Task.Node, core.GraphDigest(old), err)
		}
	}
	return nil
}

// Ended reads the tasks that ended at a checkpoint, in the order in which they did.
func (r *Reader) Ended(n int64) ([]core.Ended, error) {
	rows, err := r.Tx.List(Ended, storage.Query{Range: storage.Range{Prefix: []any{r.Info.N, n}}})
	if err != nil {
		return nil, err
	}
	var out []core.Ended
	for _, row := range rows {
		e, err := r.Box.ReadEnded(r.Tx, &r.values, row)
		if err != nil {
			return nil, err
		}
		out = append(out, *e)
	}
	return out, nil
}

// Questions reads the questions asked at a checkpoint, by task, older revisions first.
func (r *Reader) Questions(n int64) (map[string][]core.Question, error) {
	rows, err := r.Tx.List(Question, storage.Query{Index: "by_place", Range: storage.Range{Prefix: []any{r.Info.N, n}}})
	if err != nil {
		return nil, err
	}
	out := map[string][]core.Question{}
	for _, row := range rows {
		q, err := r.Box.ReadQuestion(row)
		if err != nil {
			return nil, err
		}
		out[q.Task] = append(out[q.Task], *q)
	}
	for _, qs := range out {
		sortQuestions(qs)
	}
	return out, nil
}

// Open reads a thread's open questions, in the order in which they were asked.
func (r *Reader) Open() ([]core.Question, error) {
	var out []core.Question
	for _, state := range []core.QuestionState{core.QuestionOpen, core.QuestionSubmitted} {
		rows, err := r.Tx.List(Question, storage.Query{
			Index: "by_thread", Range: storage.Range{Prefix: []any{r.Info.N, string(state)}},
		})
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			q, err := r.Box.ReadQuestion(row)
			if err != nil {
				return nil, err
			}
			out = append(out, *q)
		}
	}
	sortQuestions(out)
	return out, nil
}

func sortQuestions(qs []core.Question) {
	slices.SortFunc(qs, func(a, b core.Question) int {
		return cmp.Or(cmp.Compare(a.AskedSeq, b.AskedSeq), cmp.Compare(a.ID, b.ID))
	})
}
