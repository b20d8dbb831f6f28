package records

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/storage"
)

// A run's row and a failed task's row are written again when they go on. What they told before is kept under its number,
// so that everybody who reads the facts reads the same ones, whenever they come.

type pastBody struct {
	Run     int64       `json:"r,omitempty"`
	Status  core.Status `json:"s,omitempty"`
	Resumed bool        `json:"g,omitempty"`
	Aside   bool        `json:"a,omitempty"`
	Cause   core.Cause  `json:"c,omitempty"`
	Error   string      `json:"e,omitempty"`
	Node    string      `json:"n,omitempty"`

	Checkpoint int64      `json:"cp,omitempty"`
	Task       string     `json:"t,omitempty"`
	Ended      *endedBody `json:"f,omitempty"`
}

// PastRuns are the facts that a run's stored row tells and that next, written in its place, does not.
func (b Box) PastRuns(thread int64, old, next *core.Run) ([]storage.Row, error) {
	body := pastBody{
		Run: old.N, Status: old.Status, Resumed: old.Resumed, Aside: old.Aside, Cause: old.Cause, Error: old.Error, Node: old.ErrorNode,
	}
	row, err := b.pastRow(thread, old.Seq, body)
	out := []storage.Row{row}
	if err == nil && old.Status != core.StatusRunning && old.Began > 0 && (old.Began != next.Began || next.Status == core.StatusRunning) {
		row, err = b.pastRow(thread, old.Began, pastBody{Run: old.N, Status: core.StatusRunning, Resumed: old.Resumed})
		out = append(out, row)
	}
	return out, err
}

// PastEnded is the failure of a task that another end takes the place of.
func (b Box) PastEnded(thread int64, old *core.Ended) (storage.Row, error) {
	return b.pastRow(thread, old.Seq, pastBody{Checkpoint: old.Checkpoint, Task: old.Result.Task.ID, Ended: &endedBody{
		Node: old.Result.Task.Node, Index: old.Result.Task.Index, Failed: old.Failed, Error: old.Error, Cause: old.Cause,
		Tries: old.Tries, At: old.At,
	}})
}

func (b Box) pastRow(thread, seq int64, body pastBody) (storage.Row, error) {
	packed, err := b.packJSON(Past, body)
	return storage.Row{Key: []any{thread, seq}, Body: packed}, err
}

func (r *Reader) pastFacts(after int64) ([]Fact, error) {
	rows, err := r.Tx.List(Past, storage.Query{Range: storage.Range{Prefix: []any{r.Info.N}, From: after + 1}})
	if err != nil {
		return nil, err
	}
	out := make([]Fact, 0, len(rows))
	for _, row := range rows {
		body, err := r.Box.readPast(r.Info.ID, row)
		if err != nil {
			return nil, err
		}
		seq := row.Key[1].(int64)
		if body.Run > 0 {
			run, err := r.Run(body.Run)
			if err != nil {
				return nil, err
			}
			then := *run
			then.Seq, then.Status, then.Resumed, then.Aside = seq, body.Status, body.Resumed, body.Aside
			then.Cause, then.Error, then.ErrorNode = body.Cause, body.Error, body.Node
			out = append(out, Fact{Seq: seq, Run: then})
			continue
		}
		e := &core.Ended{
			Checkpoint: body.Checkpoint, Seq: seq, Failed: body.Ended.Failed, Error: body.Ended.Error,
			Cause: body.Ended.Cause, Tries: body.Ended.Tries, At: body.Ended.At,
		}
		e.Result.Task = core.Task{ID: body.Task, Node: body.Ended.Node, Index: body.Ended.Index}
		if out, err = r.endedFact(out, e); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (b Box) readPast(thread string, row storage.Row) (*pastBody, error) {
	where := fmt.Sprintf("%d of thread %q", row.Key[1], thread)
	body := &pastBody{}
	if err := b.unpackJSON(Past, where, row.Body, body); err != nil {
		return nil, err
	}
	if body.Run == 0 && body.Ended == nil {
		return nil, lacks(Past, where, "run or task")
	}
	return body, nil
}
