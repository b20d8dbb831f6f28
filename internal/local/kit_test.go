package local

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

const thread = "order-17"

func graph() *core.Topology {
	return &core.Topology{
		Graph: "loop",
		Nodes: []core.Node{{Name: core.Start}, {Name: "ping"}, {Name: "pong"}},
		Channels: []core.Channel{
			{Name: "list", Merge: core.MergeAppend, Type: "list"}, {Name: "last", Merge: core.MergeLast, Type: "string"},
		},
	}
}

func disk(t testing.TB) *memdb.DB {
	t.Helper()
	db, err := memdb.Open(records.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// process is one owner: a store of its own over the shared disk.
type process struct {
	*Store
	faults *fault.DB
	member storage.Member
}

func start(t testing.TB, disk storage.DB, plan fault.Plan) *process {
	t.Helper()
	f := fault.Wrap(disk, plan)
	m, err := f.Join(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return &process{&Store{DB: f, Member: m.ID()}, f, m}
}

// run is a thread in the hands of one process, driven as the loop does it.
type run struct {
	*Home
	head *core.Checkpoint
}

// open looks at the thread and makes a home for it, with a run that is not yet claimed.
func (p *process) open(mode core.Durability) (*Home, *Seen, *core.Run, error) {
	seen, err := p.Peek(context.Background(), "", thread)
	if err != nil {
		return nil, nil, nil, err
	}
	h := NewHome(p.Store, seen, "", thread, graph(), 0)
	n := h.NewRun()
	r := &core.Run{N: n, ID: fmt.Sprint("run-", n), AttemptN: 1, Status: core.StatusRunning, Mode: mode, Graphs: []string{core.GraphDigest(graph())}}
	return h, seen, r, nil
}

// claim starts a run with one checkpoint: written with the claim under Sync, queued in the other modes.
func (p *process) claim(mode core.Durability) (*run, error) {
	h, seen, r, err := p.open(mode)
	if err != nil {
		return nil, err
	}
	cp := &core.Checkpoint{Source: core.SourceInput, Run: r.N, Values: make([]*core.Value, 2), Due: []core.Due{{Node: "ping"}}}
	if seen.Head != nil {
		cp.Parent = seen.Head.Checkpoint.N
	}
	cp.N, cp.ID = h.Fresh()
	b := Batch{Graph: graph(), Runs: []*core.Run{r}}
	if mode == core.Sync {
		b.Checkpoints = []*core.Checkpoint{cp}
	}
	if err := h.Claim(context.Background(), seen, r, b); err != nil {
		return nil, err
	}
	if mode != core.Sync {
		h.Queue([]*core.Checkpoint{cp})
	}
	return &run{h, cp}, nil
}

func (p *process) mustClaim(t testing.TB, mode core.Durability) *run {
	t.Helper()
	r, err := p.claim(mode)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *run) task(node string) core.Task {
	return core.Task{ID: core.ID(r.head.ID, node), Node: node, Index: -1}
}

// result is what a task of the head wrote.
func (r *run) result(node string) core.Result {
	res := core.Result{Task: r.task(node), Writes: []core.Write{{Channel: "list", Op: core.OpAdd, Data: fmt.Appendf(nil, "[%d]", r.head.N)}}}
	if err := core.Adopt(r.head, graph(), &res); err != nil {
		panic(err)
	}
	return res
}

// next merges results into the checkpoint that follows; it is not yet committed.
func (r *run) next(results ...core.Result) *core.Checkpoint {
	cp, err := core.Apply(r.head, graph(), nil, results)
	if err != nil {
		panic(err)
	}
	cp.Due = []core.Due{{Node: "ping"}}
	cp.N, cp.ID = r.Fresh()
	return cp
}

// advance commits one super-step of one task.
func (r *run) advance() error {
	cp := r.next(r.result("ping"))
	err := r.Commit(context.Background(), core.Commit{Checkpoint: r.head, Next: cp})
	r.head = cp
	return err
}

// ended commits a task that ended while others go on.
func (r *run) ended(res core.Result) error {
	e := core.Ended{Checkpoint: r.head.N, Result: res}
	return r.Commit(context.Background(), core.Commit{Checkpoint: r.head, Ended: []core.Ended{e}})
}

func (r *run) step(name string) error {
	return r.Record(context.Background(), &core.Step{
		Address: core.ID(r.head.ID, name), Checkpoint: r.head.N, Task: r.task("ping").ID, Node: "ping", Name: name, Result: []byte(`1`),
	})
}

func (r *run) question(name string, revision int) *core.Question {
	return &core.Question{
		ID: core.ID(r.head.ID, name, fmt.Sprint(revision)), Address: name, Revision: revision, Checkpoint: r.head.N,
		Task: r.task("pong").ID, Node: "pong", Name: name, Body: []byte(`"?"`), Schema: []byte(`true`), State: core.QuestionOpen, Asked: r.Now(),
	}
}

func (r *run) stop(status core.Status) error {
	return r.Commit(context.Background(), core.Commit{Checkpoint: r.head, Stop: &core.Stop{Status: status}})
}

// answer is what somebody does who knows nothing of the run.
func answer(t testing.TB, db storage.DB, id, text string) {
	t.Helper()
	err := db.Update(context.Background(), func(_ context.Context, tx storage.Tx) error {
		row, _, err := tx.Get(records.Question, id)
		if err != nil {
			return err
		}
		q, err := records.Box{}.ReadQuestion(row)
		if err != nil {
			return err
		}
		q.State, q.Answer = core.QuestionAnswered, []byte(text)
		if row, err = (records.Box{}).QuestionRow(q); err != nil {
			return err
		}
		if row.Fields[5], _, err = tx.Seq(q.ThreadN, storage.AnyEpoch, 1); err != nil {
			return err
		}
		_, err = tx.Put(records.Question, row, storage.AtRev(q.Rev))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// contents are all rows of a disk, by kind.
func contents(t testing.TB, db storage.DB) map[string][]storage.Row {
	t.Helper()
	out := map[string][]storage.Row{}
	err := db.View(context.Background(), func(_ context.Context, tx storage.Tx) error {
		for _, k := range records.Kinds() {
			rows, err := tx.List(k.Name, storage.Query{})
			if err != nil {
				return err
			}
			out[k.Name] = rows
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func text(rows map[string][]storage.Row) string { return fmt.Sprint(rows) }

// places are the numbers of the checkpoints on disk.
func places(rows map[string][]storage.Row) (out []int64) {
	for _, row := range rows[records.Checkpoint] {
		out = append(out, records.Local(row.Key[0].(int64)))
	}
	return out
}

func samePlaces(t testing.TB, db storage.DB, want ...int64) {
	t.Helper()
	if got := places(contents(t, db)); !slices.Equal(got, want) {
		t.Fatalf("checkpoints %v are on disk; want %v", got, want)
	}
}

// sound fails if something on disk hangs from what is not: the order of durability, as a reader sees it.
func sound(t testing.TB, db storage.DB, when string) {
	t.Helper()
	rows := contents(t, db)
	there := places(rows)
	hangs := func(what string, n int64) {
		t.Helper()
		if !slices.Contains(there, n) {
			t.Fatalf("%s: a %s is on disk and its checkpoint %d is not", when, what, n)
		}
	}
	for _, row := range rows[records.Ended] {
		hangs("task that ended", row.Key[1].(int64))
	}
	for _, row := range rows[records.Step] {
		hangs("step", row.Key[1].(int64))
	}
	for _, row := range rows[records.Question] {
		hangs("question", row.Fields[2].(int64))
	}
	seqs := map[int64]string{}
	for kind, at := range map[string]int{records.Checkpoint: 1, records.Run: 1, records.Ended: 0, records.Step: 0, records.Question: 5} {
		for _, row := range rows[kind] {
			n := row.Fields[at].(int64)
			if other, twice := seqs[n]; twice || n <= 0 {
				t.Fatalf("%s: a %s has the number %d of a %s", when, kind, n, other)
			}
			seqs[n] = kind
		}
	}
	err := db.View(context.Background(), func(_ context.Context, tx storage.Tx) error {
		info, err := records.Box{}.FindThread(tx, "", thread)
		if err != nil || info == nil {
			return err
		}
		r := records.NewReader(records.Box{}, tx, info)
		for _, n := range there {
			s, err := r.Checkpoint(n)
			if err != nil {
				return err
			}
			if p := s.Checkpoint.Parent; p != 0 && !slices.Contains(there, p) {
				return fmt.Errorf("checkpoint %d has the parent %d, which is not on disk", n, p)
			}
			if err := r.Fill(s, graph(), nil); err != nil {
				return err
			}
			for _, v := range s.Checkpoint.Values {
				if _, err := v.Bytes(); err != nil {
					return err
				}
			}
			if err := r.Hanging(n, &core.Position{}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
}

func stepNames(t testing.TB, db storage.DB) (out []string) {
	t.Helper()
	for _, row := range contents(t, db)[records.Step] {
		s, err := records.Box{}.ReadStep(thread, row)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, s.Name)
	}
	slices.Sort(out)
	return out
}

var modes = []core.Durability{core.Sync, core.Async, core.Exit}

func year(n int) time.Time { return time.Date(n, 1, 1, 0, 0, 0, 0, time.UTC) }

func readCheckpoint(t testing.TB, p *process, n int64) (cp *core.Checkpoint) {
	t.Helper()
	err := p.View(context.Background(), func(tx storage.Tx) error {
		info, err := p.Box.FindThread(tx, "", thread)
		if err != nil {
			return err
		}
		s, err := records.NewReader(p.Box, tx, info).Checkpoint(n)
		if err == nil {
			cp = s.Checkpoint
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return cp
}
