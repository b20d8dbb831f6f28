package pawl

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/local"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
)

// ThreadInfo is one line of a list of threads.
type ThreadInfo struct {
	Thread  string    `json:"thread"`
	Graph   string    `json:"graph"`
	Status  Status    `json:"status"`
	Updated time.Time `json:"updated"`
	// Cause and Reason say why a run failed or was cancelled, and that it was drained.
	Cause  Cause  `json:"cause,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Waiting is what is open of a thread that waits, at most ten of it. With none it goes on with a resume.
	Waiting []OpenWait `json:"waiting,omitempty"`
	// Breakpoint: it waits in front of a node or behind one, with nothing open.
	Breakpoint bool `json:"breakpoint,omitempty"`
}

// OpenWait is something that a thread waits for, without what was asked.
type OpenWait struct {
	ID   string    `json:"id"`
	Kind string    `json:"kind,omitempty"` // as in Question: empty, or "approval"
	Name string    `json:"name"`           // of the interrupt or the effect
	Due  time.Time `json:"due,omitzero"`
}

const openShown = 10 // of what a thread waits for, in a list

// Threads lists the tenant's threads by id, at most limit, those after the given id. No state is read for it: of a thread
// that does not run or is done, its run's row, and what is open.
func (e *Engine) Threads(ctx context.Context, after string, limit int) ([]ThreadInfo, error) {
	if err := e.allowed(ctx, VerbInfo{Verb: VerbRead}); err != nil {
		return nil, err
	}
	if e.store == nil {
		return nil, nil
	}
	var out []ThreadInfo
	err := e.store.View(ctx, func(tx storage.Tx) error {
		q := storage.Query{Range: storage.Range{Prefix: []any{e.tenant}}, Limit: limit}
		if after != "" {
			q.Range.From = after + "\x00"
		}
		rows, err := tx.List(records.Thread, q)
		if err != nil {
			return err
		}
		list := make([]ThreadInfo, 0, len(rows))
		for _, row := range rows {
			info, err := e.store.Box.ReadThread(row)
			if err != nil {
				return err
			}
			lease, _, err := tx.Lease(info.N, storage.Look, "")
			if err != nil {
				return err
			}
			line := ThreadInfo{Thread: info.ID, Graph: info.Graph, Status: local.StatusOf(info, lease), Updated: info.Updated}
			if err := e.explain(records.NewReader(e.store.Box, tx, info), &line); err != nil {
				return err
			}
			list = append(list, line)
		}
		out = list
		return nil
	})
	return out, err
}

// explain says why a thread stands.
func (e *Engine) explain(r *records.Reader, line *ThreadInfo) error {
	if line.Status != Waiting && line.Status != Failed && line.Status != Cancelled || r.Info.Run == 0 {
		return nil
	}
	run, err := r.Run(r.Info.Run)
	if err != nil {
		return err
	}
	line.Cause, line.Reason = run.Cause, run.Error
	if line.Status != Waiting {
		return nil
	}
	rows, err := r.Tx.List(records.Question, storage.Query{
		Index: "by_thread", Range: storage.Range{Prefix: []any{r.Info.N, string(core.QuestionOpen)}}, Limit: openShown,
	})
	if err != nil {
		return err
	}
	for _, row := range rows {
		q, err := e.store.Box.ReadQuestion(row)
		if err != nil {
			return err
		}
		line.Waiting = append(line.Waiting, OpenWait{ID: q.ID, Kind: q.Kind, Name: q.Name, Due: q.Due})
	}
	if len(rows) == 0 && run.Cause == "" {
		line.Breakpoint, err = e.atBreak(r, run)
	}
	return err
}

// atBreak says whether a run with nothing open stands at a breakpoint: it has some, and its head was not entered.
func (e *Engine) atBreak(r *records.Reader, run *core.Run) (bool, error) {
	d, _ := e.graph(r.Info.Graph)
	if b := breaksOf(d, run); len(b.Before)+len(b.After) == 0 {
		return false, nil
	}
	head, err := r.Head()
	if err != nil || head == nil || head.Checkpoint.Run != run.N || head.Checkpoint.Source != core.SourceLoop {
		return false, err
	}
	asked, err := r.Tx.List(records.Question, storage.Query{
		Index: "by_place", Range: storage.Range{Prefix: []any{r.Info.N}, From: head.Checkpoint.N}, Limit: 1, NoBody: true,
	}) // those of children in it hang from later numbers
	return len(asked) == 0, err
}
