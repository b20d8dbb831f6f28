package pawl

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
)

// Timer makes questions that nobody answered in time visible. It is a source of package worker. Deadlines are facts
// without it: every door judges them by the clock, and Resume enters a node whose question is due.
type Timer struct{ background }

// Timer makes a timer for the engine's tenant.
func (e *Engine) Timer() *Timer { return &Timer{background{eng: e, busy: map[string]bool{}}} }

// Name is "questions".
func (t *Timer) Name() string { return "questions" }

const (
	overdue = time.Minute // after which a due question is called expired, though no program here could resume its thread
	tryNext = time.Second // between two looks at one that could not be resumed
)

// timerActor resumes threads whose questions are due.
var timerActor = Actor{ID: "timer", Kind: "service"}

// Due resumes threads with a question that is due, where this program has their graph: the node is entered and gets
// ErrExpired or the question's default. It does not wait for these runs; Close does. A question whose thread could not be
// resumed for a minute is stored as expired, and its thread stands until somebody resumes it. Waits of other kinds, such
// as approvals, are treated alike.
func (t *Timer) Due(ctx context.Context, limit int) (done int, next time.Time, err error) {
	due, now, next, err := t.due(ctx, limit)
	if err != nil {
		return 0, time.Time{}, err
	}
	for _, q := range due {
		late := now.Sub(q.Due) > overdue
		if _, served := t.eng.graph(q.Graph); served && !late {
			if t.resume(ctx, q) {
				done++
			}
		} else if late {
			moved, err := t.expire(ctx, q.ID)
			if err != nil {
				return done, next, err
			}
			if moved {
				done++
			}
		}
		if soon := time.Now().Add(tryNext); next.IsZero() || soon.Before(next) {
			next = soon
		}
	}
	return done, next, nil
}

// due reads the questions that are due now, by the database's clock, and when the next one is, by this process's.
func (t *Timer) due(ctx context.Context, limit int) (due []*core.Question, now, next time.Time, err error) {
	e := t.eng
	if e.store == nil {
		return nil, now, next, nil
	}
	err = e.store.DB.View(ctx, func(_ context.Context, tx storage.Tx) error {
		due, now, next = nil, tx.Now(), time.Time{}
		behind := time.Since(now).Truncate(time.Second)
		open := storage.Range{Prefix: []any{e.tenant, string(core.QuestionOpen)}, From: int64(1), To: now.UnixMilli()}
		rows, err := tx.List(records.Question, storage.Query{Index: "by_state", Range: open, Limit: max(limit, 0)})
		if err != nil {
			return err
		}
		for _, row := range rows {
			q, err := e.store.Box.ReadQuestion(row)
			if err != nil {
				return err
			}
			due = append(due, q)
		}
		open.From, open.To = open.To, nil
		rows, err = tx.List(records.Question, storage.Query{Index: "by_state", Range: open, Limit: 1, NoBody: true})
		for _, row := range rows {
			next = time.UnixMilli(row.Fields[4].(int64) + 1).UTC().Add(behind) // a due time is stored in whole milliseconds
		}
		return err
	})
	return due, now, next, err
}

// resume starts a thread's run in the background, if it has none of this timer already.
func (t *Timer) resume(ctx context.Context, q *core.Question) bool {
	e := t.eng
	return t.begin(q.Thread, func() {
		out, err := e.Thread(q.Graph, q.Thread).Resume(WithActor(context.WithoutCancel(ctx), timerActor))
		if err == nil && out.Status == Waiting { // another question of the same task is open still
			_, err = t.expire(context.WithoutCancel(ctx), q.ID)
		}
		if err != nil && e.opts.Logger != nil {
			e.opts.Logger.Info("resuming a thread whose question is due", "thread", q.Thread, "question", q.ID, "error", err)
		}
	})
}

// expire stores that a question expired, if it is open and due by the database's clock.
func (t *Timer) expire(ctx context.Context, id string) (moved bool, err error) {
	err = t.eng.store.DB.Update(ctx, func(_ context.Context, tx storage.Tx) error {
		moved = false
		q, err := t.eng.question(tx, id, "")
		if err != nil || q.State != core.QuestionOpen || !expired(q, tx.Now()) {
			return err
		}
		q.State = core.QuestionExpired
		moved, err = moveQuestion(tx, t.eng.store.Box, q)
		return err
	})
	return moved, err
}
