// Package records gives the engine's facts their rows: which kinds there are, and how each fact is written and read
// back. Reading is strict: a damaged or unknown body is an error that names kind, thread and row, never a zero.
package records

import "github.com/pawl-dev/pawl/storage"

// The kinds that the engine owns.
const (
	Thread     = "thread"
	Run        = "run"
	Graph      = "graph"
	Checkpoint = "checkpoint"
	Value      = "value"
	Ended      = "ended"
	Step       = "step"
	Question   = "question"
	Drain      = "drain" // versions of graphs that take no new runs
	Frame      = "frame"
	Nested     = "nested"
	Cache      = "cache" // results of nodes and steps that are kept for others
	Past       = "past"  // facts whose rows tell a newer one
)

// Kinds declares every kind of the engine, for a driver's Open.
func Kinds() []storage.Kind {
	thread := storage.Field{Name: "thread", Type: storage.Int}
	cp := storage.Field{Name: "cp", Type: storage.Int}
	seq := storage.Field{Name: "seq", Type: storage.Int}
	id := storage.Field{Name: "id", Type: storage.Text}
	tenant := storage.Field{Name: "tenant", Type: storage.Text}
	status := storage.Field{Name: "status", Type: storage.Text}
	bySeq := storage.Index{Name: "by_seq", Fields: []string{"thread", "seq"}}
	return append(nestedKinds(thread, cp, seq, bySeq), []storage.Kind{
		{
			Name: Thread, Key: []storage.Field{tenant, id},
			Fields: []storage.Field{
				{Name: "n", Type: storage.Int}, {Name: "graph", Type: storage.Text}, status,
				{Name: "updated", Type: storage.Int}, {Name: "run", Type: storage.Int}, {Name: "cancel", Type: storage.Text},
			},
			Indexes: []storage.Index{
				{Name: "by_number", Fields: []string{"n"}},
				{Name: "by_status", Fields: []string{"tenant", "status", "updated"}},
				{Name: "by_cancel", Fields: []string{"cancel"}},
			},
		},
		{
			Name: Run, Key: []storage.Field{thread, {Name: "n", Type: storage.Int}},
			Fields: []storage.Field{id, seq}, Indexes: []storage.Index{
				{Name: "by_id", Fields: []string{"thread", "id"}}, bySeq,
			},
		},
		{Name: Past, Key: []storage.Field{thread, seq}},
		{Name: Graph, Key: []storage.Field{{Name: "digest", Type: storage.Text}}},
		{Name: Drain, Key: []storage.Field{tenant, {Name: "graph", Type: storage.Text}, {Name: "version", Type: storage.Text}}},
		{
			Name: Cache, Key: []storage.Field{tenant, {Name: "graph", Type: storage.Text}, {Name: "node", Type: storage.Text}, id},
			Fields:  []storage.Field{{Name: "until", Type: storage.Int}}, // in milliseconds, by the home's clock
			Indexes: []storage.Index{{Name: "by_until", Fields: []string{"tenant", "until"}}},
		},
		{
			Name: Checkpoint, Key: []storage.Field{{Name: "place", Type: storage.Int}},
			Fields: []storage.Field{{Name: "uuid", Type: storage.Bytes}, seq, {Name: "step", Type: storage.Int}},
		},
		{
			Name: Value, Key: []storage.Field{{Name: "place", Type: storage.Int}},
			Fields: []storage.Field{{Name: "base", Type: storage.Int}, {Name: "size", Type: storage.Int}, {Name: "cost", Type: storage.Int}},
		},
		{
			Name: Ended, Key: []storage.Field{thread, cp, {Name: "task", Type: storage.Text}},
			Fields: []storage.Field{seq}, Indexes: []storage.Index{bySeq},
		},
		{
			Name: Step, Key: []storage.Field{thread, cp, {Name: "address", Type: storage.Text}},
			Fields: []storage.Field{seq}, Indexes: []storage.Index{bySeq},
		},
		questionKind(id, tenant, thread, cp, seq, bySeq),
	}...)
}

func questionKind(id, tenant, thread, cp, seq storage.Field, bySeq storage.Index) storage.Kind {
	return storage.Kind{
		Name: Question, Key: []storage.Field{id},
		Fields: []storage.Field{
			tenant, thread, cp, {Name: "state", Type: storage.Text}, {Name: "due", Type: storage.Int}, seq,
		},
		Indexes: []storage.Index{
			{Name: "by_place", Fields: []string{"thread", "cp"}},
			{Name: "by_state", Fields: []string{"tenant", "state", "due"}},
			{Name: "by_thread", Fields: []string{"thread", "state"}},
			bySeq,
		},
		Revised: true,
	}
}

// A thread's checkpoints and values are keyed by one integer, the thread's number above and their own below: the
// table's own order, with no second tree to maintain.
const localBits = 32

// Place is the key of a thread's n-th checkpoint or value.
func Place(thread, n int64) int64 { return thread<<localBits | n }

// Local is the part of a key that counts within its thread.
func Local(place int64) int64 { return place & (1<<localBits - 1) }

// Places is the range of a thread's keys.
func Places(thread int64) storage.Range {
	return storage.Range{From: Place(thread, 0), To: Place(thread+1, 0)}
}

// ByThread is the range of rows whose key starts with the thread's number.
func ByThread(thread int64) storage.Range { return storage.Range{Prefix: []any{thread}} }

// Rehome gives a row, made before its thread had a number, the thread's number and its place in the order of facts.
func Rehome(kind string, row *storage.Row, thread, seq int64) {
	switch kind {
	case Checkpoint:
		row.Key[0], row.Fields[1] = Place(thread, Local(row.Key[0].(int64))), seq
	case Nested:
		row.Key[0], row.Fields[1], row.Fields[2] = Place(thread, Local(row.Key[0].(int64))), thread, seq
		row.Fields[4] = Place(thread, Local(row.Fields[4].(int64)))
	case Frame, Past:
		row.Key[0] = thread
	case Value:
		row.Key[0] = Place(thread, Local(row.Key[0].(int64)))
		if base := row.Fields[0].(int64); base != 0 {
			row.Fields[0] = Place(thread, Local(base))
		}
	case Run:
		row.Key[0], row.Fields[1] = thread, seq
	case Ended, Step:
		row.Key[0], row.Fields[0] = thread, seq
	case Question:
		row.Fields[1], row.Fields[5] = thread, seq
	}
}
