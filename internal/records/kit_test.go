package records

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/storage"
)

const (
	threadN  = int64(7)
	threadID = "order-17"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)

func graph() *core.Topology {
	return &core.Topology{
		Graph: "loop",
		Nodes: []core.Node{
			{Name: core.Start, Kind: core.KindNode, Version: 1, Edges: []string{"ping"}},
			{Name: "ping", Kind: core.KindNode, Version: 2, Durable: true, Uses: []string{"ship"}, Edges: []string{"pong"}},
			{Name: "pong", Kind: core.KindAsk, Version: 1, Targets: []string{core.End, "ping"}},
		},
		Joins:    []core.Join{{From: []string{"ping", "pong"}, To: "pong"}},
		Channels: []core.Channel{{Name: "n", Merge: core.MergeSum, Type: "int", Number: core.Signed}, {Name: "list", Merge: core.MergeAppend, Type: "list", Optional: true}},
		Children: []core.Child{{Name: "sub", Mode: core.PerThread, Graph: &core.Topology{
			Graph: "inner", Nodes: []core.Node{{Name: "deep", Kind: core.KindNode, Version: 1}},
			Channels: []core.Channel{{Name: "n", Merge: core.MergeSum, Type: "int", Number: core.Signed, Hidden: true}},
		}}},
		AskAtTop: true,
	}
}

// masked is a codec that changes every byte by one of its keys.
type masked map[string]byte

func (m masked) KeyID() string { return "key-2" }

func (m masked) Encode(kind string, body []byte) ([]byte, error) { return m.mask(kind, "key-2", body) }

func (m masked) Decode(kind, key string, body []byte) ([]byte, error) { return m.mask(kind, key, body) }

func (m masked) mask(kind, key string, body []byte) ([]byte, error) {
	b, ok := m[key]
	if !ok {
		return nil, fmt.Errorf("there is no key %q", key)
	}
	out := bytes.Clone(body)
	for i := range out {
		out[i] ^= b ^ byte(len(kind))
	}
	return out, nil
}

// sample is one record of a kind: its row, and how that is read back.
type sample struct {
	kind string
	row  storage.Row
	want any
	read func(row storage.Row) (any, error) // nil when nothing was read
}

func orNil[T any](v *T, err error) (any, error) {
	if v == nil {
		return nil, err
	}
	return v, err
}

// noValues is a Tx for rows that refer to none.
type noValues struct{ storage.Tx }

func must(t testing.TB, row storage.Row, err error) storage.Row {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// samples are records of every kind with every field set, seen as after the Update that wrote them.
func samples(t testing.TB, b Box) []sample {
	t.Helper()
	top := graph()
	var out []sample
	put := func(kind string, want any, read func(storage.Row) (any, error)) func(storage.Row, error) {
		return func(row storage.Row, err error) {
			row = must(t, row, err)
			if kind != Thread && kind != Graph {
				Rehome(kind, &row, threadN, 41)
			}
			out = append(out, sample{kind, row, want, read})
		}
	}
	info := &ThreadInfo{Tenant: "acme", ID: threadID, N: threadN, Graph: "loop", Status: core.StatusRunning,
		Updated: noon.Truncate(time.Millisecond), Run: 3, Cancel: "too slow", Lineage: "order"}
	put(Thread, info, func(row storage.Row) (any, error) { return orNil(b.ReadThread(row)) })(b.ThreadRow(info))

	run := &core.Run{
		N: 3, ID: "run-3", Attempt: "attempt", AttemptN: 2, Kind: core.RunFork, Mode: core.Async, Status: core.StatusFailed,
		Cause: core.CauseDrift, Error: "it drifted", ErrorNode: "pong",
		Input:     []core.Write{{Channel: "n", Op: core.OpAdd, Data: []byte("5")}, {Channel: "list", Op: core.OpSet, Data: []byte{0xff, 0}}},
		InputHash: "hash", Edits: []core.Write{{Channel: "n", Op: core.OpClear, Took: true}}, Before: 4, Inside: 2,
		Graphs: []string{"one", "two"}, Since: 1, Typed: 1, Moved: &core.Moved{From: 3, Since: 1}, Earlier: []string{"bob"}, Crashes: 2, Breaks: &core.Breaks{Before: []string{"b"}, After: []string{"a"}}, Aside: true, Resumed: true, Began: 30, Actor: "ann", Reason: "told to", Accepted: noon, Seq: 41,
	}
	put(Run, run, func(row storage.Row) (any, error) { return orNil(b.ReadRun(threadID, row)) })(b.RunRow(0, run))

	cp := &core.Checkpoint{
		N: 5, ID: "01890a5d-ac96-774b-bcce-b302099a8057", Parent: 4, Step: 12, Source: core.SourceFork, Run: 3, Seq: 41,
		Due:   []core.Due{{Node: "ping"}, {Node: "pong", Send: true, Arg: []byte(`{"a":1.50}`)}, {Node: "pong", Send: true, Arg: []byte("null")}},
		Later: []string{"pong"}, Joins: map[string][]string{"ping+pong>pong": {"ping"}}, Visited: []string{"ping", "pong", "sub|deep"}, Graph: 1, Quiet: true,
	}
	nine := &core.Value{ID: 9, Op: core.OpSet}
	did := withValues(cp, nine, nil)
	did.Merged = []core.Result{
		{Task: core.Task{Node: "ping", Index: -1}, Writes: []core.Write{{Channel: "n", Op: core.OpSet, Value: nine}}},
		{Task: core.Task{Node: "pong", Index: 1}, Cached: true, Writes: []core.Write{
			{Channel: "list", Op: core.OpAdd, Data: []byte(`["a"]`)}, {Channel: "n", Op: core.OpClear, Took: true},
			{Channel: "list", Op: core.OpAdd, Value: &core.Value{ID: 8}},
		}},
	}
	merged := []mergedBody{
		{"ping", -1, false, []mergedWrite{{channel: "n"}}, false},
		{"pong", 1, true, []mergedWrite{
			{channel: "list", op: core.OpAdd, ref: Ref{Data: []byte(`["a"]`)}}, {channel: "n", op: core.OpClear, took: true},
			{channel: "list", op: core.OpAdd, ref: Ref{N: 8}},
		}, false},
	}
	put(Checkpoint, &Stored{Checkpoint: cp, Refs: map[string]Ref{"n": {N: 9}}, merged: merged}, func(row storage.Row) (any, error) {
		s, err := b.ReadCheckpoint(threadID, row)
		if err == nil {
			err = s.Under(top)
		}
		if err != nil {
			return nil, err
		}
		s.visited = ""
		return s, nil
	})(b.CheckpointRow(0, did, top))

	frame := &core.Frame{
		N: 6, Under: []core.Level{{Child: "outer", Task: "1"}, {Child: "sub", Task: "2"}}, Key: "k", Mode: core.PerThread, Path: "pong:1|sub",
		Checkpoint: 5, Node: "pong", Address: "address", In: "/step", Before: 3,
		Input: []core.Write{{Channel: "n", Op: core.OpAdd, Data: []byte("5")}}, Stored: true,
	}
	put(Frame, frame, func(row storage.Row) (any, error) { return orNil(b.ReadFrame(threadID, row)) })(b.FrameRow(0, frame))

	inner := *cp
	inner.N, inner.Frame, inner.Visited = 7, frame, []string{"deep"}
	want := inner
	want.Frame = nil
	put(Nested, &Stored{Checkpoint: &want, Refs: map[string]Ref{"n": {N: 9}}}, func(row storage.Row) (any, error) {
		s, n, err := b.ReadNested(threadID, row)
		if err == nil && n != frame.N {
			err = fmt.Errorf("it is of frame %d", n)
		}
		if err == nil {
			err = s.Under(top.Children[0].Graph)
		}
		if err != nil {
			return nil, err
		}
		s.visited = ""
		return s, nil
	})(b.NestedRow(0, withValues(&inner, &core.Value{ID: 9, Op: core.OpSet}), top.Children[0].Graph))

	ended := &core.Ended{
		Checkpoint: 5, Failed: true, Error: "no", Cause: core.CauseConflict, Tries: 3, Seq: 41, At: noon, Again: true,
		Result: core.Result{
			Task:   core.Task{ID: "task", Node: "ping", Index: 2},
			Writes: []core.Write{{Channel: "n", Op: core.OpAdd, Data: []byte("5")}, {Channel: "list", Op: core.OpClear, Took: true}},
			Next:   []core.Due{{Node: "pong"}, {Node: "pong", Send: true, Arg: []byte("[1]")}},
			Inside: []string{"sub|deep"}, Cached: true,
		},
	}
	put(Ended, ended, func(row storage.Row) (any, error) {
		return orNil(b.ReadEnded(noValues{}, &Values{Box: b, Thread: threadID, ThreadN: threadN}, row))
	})(b.EndedRow(0, ended))

	step := &core.Step{Address: "address", Checkpoint: 5, Task: "task", Path: "sub:1", Node: "ping", Name: "rate", Key: "eur", Result: []byte("null"), Cached: true, Seq: 41, At: noon}
	put(Step, step, func(row storage.Row) (any, error) { return orNil(b.ReadStep(threadID, row)) })(b.StepRow(0, step))

	q := &core.Question{
		ID: "question", Kind: "approval", Address: "address", Revision: 2, Tenant: "acme", Thread: threadID, ThreadN: threadN, Graph: "loop", Run: "run-3",
		Checkpoint: 5, Task: "task", Path: "pong:task", Under: []core.Level{{Child: "sub", Task: "1"}}, Node: "pong", Name: "ship", Key: "k", Body: json.RawMessage(`{"q":1}`), Digest: "digest",
		Schema: json.RawMessage(`true`), Rule: true, Drift: 1, State: core.QuestionAnswered, Due: noon, Asked: noon, Answer: json.RawMessage(`"yes"`),
		AnsweredBy: "bob", AnsweredAt: noon, Reason: "because", AskedSeq: 40, Seq: 41, Rev: 6,
	}
	put(Question, q, func(row storage.Row) (any, error) { row.Rev = 6; return orNil(b.ReadQuestion(row)) })(b.QuestionRow(q))

	put(Graph, top, func(row storage.Row) (any, error) { return orNil(b.ReadGraph(row)) })(b.GraphRow(top))

	value := &core.Value{ID: 9, Op: core.OpSet, Data: []byte(`"text"`), Size: 6, Cost: 46}
	put(Value, value, func(row storage.Row) (any, error) {
		vs := &Values{Box: b, Thread: threadID, ThreadN: threadN}
		return orNil(vs.Load(rowsOf{row}, "list", 9))
	})(b.ValueRow(0, value))

	was := &pastBody{
		Run: 3, Status: core.StatusFailed, Resumed: true, Aside: true, Cause: core.CauseDrift, Error: "it drifted", Node: "pong",
		Checkpoint: 5, Task: "task", Ended: &endedBody{Node: "ping", Failed: true, At: noon},
	}
	put(Past, was, func(row storage.Row) (any, error) { return orNil(b.readPast(threadID, row)) })(b.pastRow(0, 40, *was))

	drain := &DrainInfo{Tenant: "acme", Graph: "mail", Version: "v1", By: "ann", Reason: "v2 is out", At: noon}
	put(Drain, drain, func(row storage.Row) (any, error) { return orNil(b.ReadDrain(row)) })(b.DrainRow(drain))

	kept := &core.Cached{
		Key:    core.CacheKey{Graph: "mail", Node: "sub|fetch", ID: "id"},
		Writes: []core.Write{{Channel: "n", Op: core.OpAdd, Data: []byte("5")}},
		Gotos:  []core.Due{{Node: "ping"}, {Node: "pong", Send: true, Arg: []byte("1")}}, Step: []byte("null"),
	}
	put(Cache, kept, func(row storage.Row) (any, error) { return orNil(b.ReadCache(row)) })(b.CacheRow("acme", kept))
	return out
}

func withValues(cp *core.Checkpoint, vs ...*core.Value) *core.Checkpoint {
	c := *cp
	c.Values = vs
	return &c
}

// rowsOf is a Tx whose walk gives these rows.
type rowsOf []storage.Row

func (r rowsOf) Walk(string, int64) ([]storage.Row, error)         { return r, nil }
func (r rowsOf) Get(string, ...any) (storage.Row, bool, error)     { panic("not used") }
func (r rowsOf) Put(string, storage.Row, storage.If) (bool, error) { panic("not used") }
func (r rowsOf) Delete(string, storage.Range) (int, error)         { panic("not used") }
func (r rowsOf) List(string, storage.Query) ([]storage.Row, error) { return nil, nil }
func (r rowsOf) Seq(int64, int64, int) (int64, bool, error)        { panic("not used") }
func (r rowsOf) Lease(int64, storage.LeaseOp, string) (storage.Lease, bool, error) {
	panic("not used")
}
func (r rowsOf) Now() time.Time { return noon }

// home is an empty home, and update writes to it.
func home(t testing.TB) *memdb.DB {
	t.Helper()
	db, err := memdb.Open(Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func update(t testing.TB, db storage.DB, fn func(tx storage.Tx) error) {
	t.Helper()
	if err := db.Update(context.Background(), func(_ context.Context, tx storage.Tx) error { return fn(tx) }); err != nil {
		t.Fatal(err)
	}
}

// storeValues numbers and stores versions in the order given.
func storeValues(t testing.TB, db storage.DB, b Box, vs ...*core.Value) {
	t.Helper()
	update(t, db, func(tx storage.Tx) error {
		for _, v := range vs {
			row, err := b.ValueRow(threadN, v)
			if err != nil {
				return err
			}
			if _, err := tx.Put(Value, row, storage.Always()); err != nil {
				return err
			}
		}
		return nil
	})
}

func load(db storage.DB, b Box, n int64) (v *core.Value, err error) {
	err = db.View(context.Background(), func(_ context.Context, tx storage.Tx) (err error) {
		v, err = (&Values{Box: b, Thread: threadID, ThreadN: threadN}).Load(tx, "list", n)
		return err
	})
	return v, err
}

// damaged fails unless err is a *DamagedError that names the kind and a row, and nothing was read.
func damaged(t testing.TB, what string, s sample, got any, err error) {
	t.Helper()
	var d *DamagedError
	switch {
	case got != nil:
		t.Fatalf("%s: a %s was read: %+v", what, s.kind, got)
	case !errors.As(err, &d):
		t.Fatalf("%s: a %s gives %v; want a *DamagedError", what, s.kind, err)
	case d.Kind != s.kind || d.Where == "" || d.Err == nil:
		t.Fatalf("%s: the error of a %s does not name it: %+v", what, s.kind, d)
	}
}

func boxes() map[string]Box {
	return map[string]Box{"plain": {}, "under a codec": {Codec: masked{"key-1": 3, "key-2": 5}}}
}

func changed(row storage.Row, body []byte) storage.Row {
	row.Body = body
	row.Key, row.Fields = slices.Clone(row.Key), slices.Clone(row.Fields)
	return row
}
