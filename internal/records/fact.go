package records

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/storage"
)

// writeBody is a task's or an input's write: by the number of its version, or with its data in place.
type writeBody struct {
	Channel string `json:"c"`
	Op      string `json:"o"`
	Value   int64  `json:"v,omitempty"`
	Data    []byte `json:"b,omitempty"`
	Took    bool   `json:"t,omitempty"`
}

func packWrites(ws []core.Write) []writeBody {
	out := make([]writeBody, len(ws))
	for i, w := range ws {
		out[i] = writeBody{Channel: w.Channel, Op: string(w.Op), Data: w.Data, Took: w.Took}
	}
	return out
}

func unpackWrites(in []writeBody) ([]core.Write, error) {
	var out []core.Write
	for _, w := range in {
		if len(w.Op) != 1 || !strings.Contains("samc", w.Op) {
			return nil, fmt.Errorf("write to channel %q has the unknown form %q", w.Channel, w.Op)
		}
		out = append(out, core.Write{Channel: w.Channel, Op: core.Op(w.Op[0]), Data: w.Data, Took: w.Took})
	}
	return out, nil
}

type runBody struct {
	core.Run
	Input []writeBody `json:"input,omitempty"`
	Edits []writeBody `json:"edits,omitempty"`
}

// RunRow writes a run's attempt. The row's seq is run.Seq.
func (b Box) RunRow(thread int64, r *core.Run) (storage.Row, error) {
	body := runBody{Run: *r, Input: packWrites(r.Input), Edits: packWrites(r.Edits)}
	body.Run.Input, body.Run.Edits = nil, nil
	packed, err := b.packJSON(Run, body)
	return storage.Row{Key: []any{thread, r.N}, Fields: []any{r.ID, r.Seq}, Body: packed}, err
}

// ReadRun reads a row back.
func (b Box) ReadRun(thread string, row storage.Row) (*core.Run, error) {
	where := fmt.Sprintf("%d of thread %q", row.Key[1], thread)
	var body runBody
	if err := b.unpackJSON(Run, where, row.Body, &body); err != nil {
		return nil, err
	}
	if body.ID == "" || body.Status == "" {
		return nil, lacks(Run, where, "id or status")
	}
	input, err := unpackWrites(body.Input)
	if err != nil {
		return nil, &DamagedError{Kind: Run, Where: where, Err: err}
	}
	edits, err := unpackWrites(body.Edits)
	if err != nil {
		return nil, &DamagedError{Kind: Run, Where: where, Err: err}
	}
	body.Run.Input, body.Run.Edits, body.Run.Seq = input, edits, row.Fields[1].(int64)
	return &body.Run, nil
}

type stepBody struct {
	Task   string          `json:"t"`
	Path   string          `json:"p,omitempty"`
	Node   string          `json:"n"`
	Name   string          `json:"s"`
	Key    string          `json:"k,omitempty"`
	Result json.RawMessage `json:"r"`
	Cached bool            `json:"d,omitempty"`
	At     time.Time       `json:"at"`
}

// StepRow writes a finished step.
func (b Box) StepRow(thread int64, s *core.Step) (storage.Row, error) {
	packed, err := b.packJSON(Step, stepBody{s.Task, s.Path, s.Node, s.Name, s.Key, s.Result, s.Cached, s.At})
	return storage.Row{Key: []any{thread, s.Checkpoint, s.Address}, Fields: []any{int64(0)}, Body: packed}, err
}

// ReadStep reads a row back.
func (b Box) ReadStep(thread string, row storage.Row) (*core.Step, error) {
	where := fmt.Sprintf("%v of thread %q", row.Key[2], thread)
	var body stepBody
	if err := b.unpackJSON(Step, where, row.Body, &body); err != nil {
		return nil, err
	}
	if body.Name == "" || body.Result == nil {
		return nil, lacks(Step, where, "name or result")
	}
	return &core.Step{
		Address: row.Key[2].(string), Checkpoint: row.Key[1].(int64), Task: body.Task, Path: body.Path,
		Node: body.Node, Name: body.Name, Key: body.Key, Result: body.Result, Cached: body.Cached, Seq: row.Fields[0].(int64), At: body.At,
	}, nil
}

// QuestionRow writes a question.
func (b Box) QuestionRow(q *core.Question) (storage.Row, error) {
	packed, err := b.packJSON(Question, q)
	due := int64(0)
	if !q.Due.IsZero() {
		due = q.Due.UnixMilli()
	}
	return storage.Row{
		Key: []any{q.ID}, Fields: []any{q.Tenant, q.ThreadN, q.Checkpoint, string(q.State), due, q.Seq}, Body: packed,
	}, err
}

// ReadQuestion reads a row back.
func (b Box) ReadQuestion(row storage.Row) (*core.Question, error) {
	where := fmt.Sprint(row.Key[0])
	var q core.Question
	if err := b.unpackJSON(Question, where, row.Body, &q); err != nil {
		return nil, err
	}
	if q.ID != where || q.State == "" {
		return nil, lacks(Question, where, "state, or is another question")
	}
	q.Rev, q.Seq, q.ThreadN = row.Rev, row.Fields[5].(int64), row.Fields[1].(int64)
	if q.AskedSeq == 0 { // the body was made before the asking had its number
		q.AskedSeq = q.Seq
	}
	return &q, nil
}

// GraphRow writes a topology under its digest.
func (b Box) GraphRow(t *core.Topology) (storage.Row, error) {
	packed, err := b.packJSON(Graph, t)
	return storage.Row{Key: []any{core.GraphDigest(t)}, Body: packed}, err
}

// ReadGraph reads a row back.
func (b Box) ReadGraph(row storage.Row) (*core.Topology, error) {
	where := fmt.Sprint(row.Key[0])
	var t core.Topology
	if err := b.unpackJSON(Graph, where, row.Body, &t); err != nil {
		return nil, err
	}
	if t.Graph == "" {
		return nil, lacks(Graph, where, "name")
	}
	return &t, nil
}
