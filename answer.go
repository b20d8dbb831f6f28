package pawl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/local"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
)

// Verdict is what became of an answer.
type Verdict struct {
	Question  Question
	Taken     bool // it stands, and is on disk
	Already   bool // the same answer stood before; nothing changed
	Submitted bool // this program lacks the rule that checks it: a program with the graph does, before the node runs
}

// Answer gives an answer to an open question by its id. The answer is checked against the question's type and rule
// first: a bad one is refused with an *AnswerError and the question stays as it is. Taken means stored. Answering does
// not run the thread: Resume does. An unknown id, also one of another tenant, is a *NotFoundError. Of the options only
// Reason has a meaning here.
func (e *Engine) Answer(ctx context.Context, question string, value any, options ...RunOption) (_ *Verdict, err error) {
	defer e.refused(ctx, VerbInfo{Verb: VerbAnswer, Question: question}, &err)
	if err := e.allowed(ctx, VerbInfo{Verb: VerbAnswer, Question: question}); err != nil {
		return nil, err
	}
	doc, err := marshalAnswer(value)
	if err != nil {
		return nil, err
	}
	return e.answer(ctx, givenAnswer{id: question, value: doc, reason: configured(options).reason}, "")
}

// Answer gives an answer to a question of this thread; an empty id means the only open one, and is refused when not
// precisely one is open.
func (t *Thread) Answer(ctx context.Context, question string, value any, options ...RunOption) (_ *Verdict, err error) {
	defer t.eng.refused(ctx, VerbInfo{Verb: VerbAnswer, Graph: t.graph, Thread: t.id, Question: question}, &err)
	if err := t.eng.allowed(ctx, VerbInfo{Verb: VerbAnswer, Graph: t.graph, Thread: t.id, Question: question}); err != nil {
		return nil, err
	}
	doc, err := marshalAnswer(value)
	if err != nil {
		return nil, err
	}
	if question == "" {
		open, err := t.open(ctx)
		if err != nil {
			return nil, err
		}
		if question, err = onlyOne(t.id, open); err != nil {
			return nil, err
		}
	}
	return t.eng.answer(ctx, givenAnswer{id: question, value: doc, reason: configured(options).reason}, t.id)
}

func onlyOne(thread string, open []Question) (string, error) {
	if len(open) == 1 {
		return open[0].ID, nil
	}
	e := &AnswerError{Thread: thread, Reason: ReasonAmbiguous}
	for _, q := range open {
		e.Open = append(e.Open, q.ID)
	}
	return "", e
}

// answer takes one answer in an Update of its own.
func (e *Engine) answer(ctx context.Context, g givenAnswer, thread string) (*Verdict, error) {
	if e.store == nil {
		return nil, &NoStorageError{Question: g.id}
	}
	for range looks {
		q, now, err := e.asked(ctx, g.id, thread)
		if err != nil {
			return nil, err
		}
		next, err := e.judge(ctx, q, g, now)
		if err != nil {
			return nil, err
		}
		if next == nil {
			return &Verdict{Question: questionOf(q), Taken: q.State == core.QuestionAnswered, Already: true, Submitted: q.State == core.QuestionSubmitted}, nil
		}
		err = e.take(ctx, next)
		if errors.Is(err, local.ErrMoved) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return &Verdict{Question: questionOf(next), Taken: next.State == core.QuestionAnswered, Submitted: next.State == core.QuestionSubmitted}, nil
	}
	return nil, fmt.Errorf("pawl: question %s: %w; nothing was consumed, send the answer again", g.id, ErrBusy)
}

// asked reads a question as it stands, and the database's clock.
func (e *Engine) asked(ctx context.Context, id, thread string) (q *core.Question, now time.Time, err error) {
	err = e.store.View(ctx, func(tx storage.Tx) (err error) {
		now = tx.Now()
		q, err = e.question(tx, id, thread)
		return err
	})
	return q, now, err
}

// question reads a question of this tenant.
func (e *Engine) question(tx storage.Tx, id, thread string) (*core.Question, error) {
	return readQuestion(tx, e.store.Box, e.tenant, id, thread)
}

func readQuestion(tx storage.Tx, box records.Box, tenant, id, thread string) (*core.Question, error) {
	row, ok, err := tx.Get(records.Question, id)
	if err != nil {
		return nil, err
	}
	if !ok || row.Fields[0].(string) != tenant {
		return nil, &NotFoundError{What: "question", ID: id, Thread: thread}
	}
	q, err := box.ReadQuestion(row)
	if err != nil {
		return nil, err
	}
	if thread != "" && q.Thread != thread {
		return nil, &NotFoundError{What: "question", ID: id, Thread: thread}
	}
	return q, nil
}

// judge says what an answer given now, by the database's clock, would make of a question: the next row, nil for the same
// answer again, or why not.
func (e *Engine) judge(ctx context.Context, q *core.Question, g givenAnswer, now time.Time) (*core.Question, error) {
	refuse := &AnswerError{Question: q.ID, Name: q.Name, Thread: q.Thread, By: q.AnsweredBy, At: q.AnsweredAt}
	if g.err != nil {
		return nil, g.err
	}
	if err := core.CheckSize("the answer", g.value); err != nil {
		return nil, err
	}
	value, err := core.Canonical(g.value)
	if err != nil {
		refuse.Reason, refuse.Faults = ReasonRefused, []string{err.Error()}
		return nil, refuse
	}
	if g.name != "" && g.name != q.Name {
		refuse.Reason, refuse.Faults = ReasonKind, []string{fmt.Sprintf("it was made for %q", g.name)}
		return nil, refuse
	}
	if q.Kind != "" {
		refuse.Reason, refuse.Faults = ReasonKind, []string{"it is a wait of kind " + q.Kind + ", which is decided by its own door"}
		return nil, refuse
	}
	if q.State == core.QuestionAnswered || q.State == core.QuestionSubmitted {
		if stands, err := core.Canonical(q.Answer); err == nil && bytes.Equal(value, stands) { // a row escapes what it holds
			return nil, nil
		}
	}
	if over := closed(q, now); over != nil {
		if over.Reason == ReasonSuperseded {
			over.Newest = e.newest(ctx, q)
		}
		return nil, over
	}
	next := *q
	next.Answer, next.AnsweredBy, next.AnsweredAt, next.State = value, ActorFrom(ctx).ID, now.UTC(), core.QuestionAnswered
	next.Reason = g.reason
	rules, known := e.rulesOf(q)
	switch {
	case known:
		err = rules.Refuse(q.Body, value)
	default:
		if err = refuseShape(q.Schema, value); q.Rule {
			next.State = core.QuestionSubmitted
		}
	}
	if faults := (*answerFaults)(nil); errors.As(err, &faults) {
		refuse.Reason, refuse.Faults = ReasonRefused, faults.faults
		return nil, refuse
	}
	return &next, err
}

// ReplaceTx opens a wait in the place of one that is open, in the caller's Update: for deciders who change what a task
// waits for. Kind, name and key stay; the old wait is superseded. It returns the new one's id. A wait that is not open, or
// is due, is an *AnswerError, and the caller's Update is to be given up with it.
func (e *Engine) ReplaceTx(tx storage.Tx, id string, w Wait) (string, error) {
	if e.store == nil {
		return "", &NoStorageError{Question: id}
	}
	old, err := readQuestion(tx, e.store.Box, e.tenant, id, "")
	if err != nil {
		return "", err
	}
	if over := closed(old, tx.Now()); over != nil {
		return "", over
	}
	q := *old
	q.Revision++
	q.ID, q.Body, q.Digest, q.Schema = core.ID("question", q.Address, fmt.Sprint(q.Revision)), w.Body, w.Digest, w.Schema
	q.Asked, q.Due = tx.Now(), w.Due
	old.State = core.QuestionSuperseded
	if held, err := moveQuestion(tx, e.store.Box, old); err != nil || !held {
		return "", errors.Join(err, fmt.Errorf("pawl: wait %s is not as it was read any more; nothing was opened", id))
	}
	if q.AskedSeq, _, err = tx.Seq(q.ThreadN, storage.AnyEpoch, 1); err != nil {
		return "", err
	}
	q.Seq = q.AskedSeq
	row, err := e.store.Box.QuestionRow(&q)
	if err != nil {
		return "", err
	}
	held, err := tx.Put(records.Question, row, storage.Absent())
	if err == nil && !held {
		err = fmt.Errorf("pawl: wait %s is there already; nothing was opened", q.ID)
	}
	return q.ID, err
}

// closed says why a question takes no answer any more; nil: it is open.
func closed(q *core.Question, now time.Time) *AnswerError {
	e := &AnswerError{Question: q.ID, Name: q.Name, Thread: q.Thread, By: q.AnsweredBy, At: q.AnsweredAt}
	switch {
	case q.State == core.QuestionAnswered, q.State == core.QuestionSubmitted:
		e.Reason = ReasonAnswered
	case q.State == core.QuestionSuperseded:
		e.Reason = ReasonSuperseded
	case q.State == core.QuestionWithdrawn:
		e.Reason = ReasonWithdrawn
	case q.State == core.QuestionExpired, expired(q, now):
		e.Reason, e.At = ReasonExpired, q.Due
	default:
		return nil
	}
	return e
}

func expired(q *core.Question, now time.Time) bool { return !q.Due.IsZero() && !now.Before(q.Due) }

// newest finds the open question that took a superseded one's place.
func (e *Engine) newest(ctx context.Context, old *core.Question) string {
	id := ""
	_ = e.store.View(ctx, func(tx storage.Tx) error {
		for rev := old.Revision + 1; ; rev++ {
			row, ok, err := tx.Get(records.Question, core.ID("question", old.Address, fmt.Sprint(rev)))
			if err != nil || !ok {
				return err
			}
			if row.Fields[3].(string) == string(core.QuestionOpen) {
				id = row.Key[0].(string)
			}
		}
	})
	return id
}

// rulesOf finds the declared rules of a question, where the graph's code is loaded.
func (e *Engine) rulesOf(q *core.Question) (core.Interrupt, bool) {
	d, ok := e.graph(q.Graph)
	if !ok {
		return nil, false
	}
	return rulesIn(d, q)
}

// rulesIn finds the rules of a question that a graph, or a child in it, declares.
func rulesIn(d core.Def, q *core.Question) (core.Interrupt, bool) {
	d, ok := core.Inside(d, q.Under)
	if !ok {
		return nil, false
	}
	return d.Interrupt(q.Name)
}

// take stores an answer, if the question is still as it was judged and not expired by the database's clock.
func (e *Engine) take(ctx context.Context, q *core.Question) error {
	row, err := e.store.Box.QuestionRow(q)
	if err != nil {
		return err
	}
	return e.store.Update(ctx, func(tx storage.Tx) error {
		if expired(q, tx.Now()) {
			return &AnswerError{Question: q.ID, Name: q.Name, Thread: q.Thread, Reason: ReasonExpired, At: q.Due}
		}
		seq, _, err := tx.Seq(q.ThreadN, storage.AnyEpoch, 1)
		if err != nil {
			return err
		}
		row.Fields[5] = seq
		ok, err := tx.Put(records.Question, row, storage.AtRev(q.Rev))
		if err == nil && !ok {
			err = local.ErrMoved
		}
		if err == nil {
			err = decidedNow(tx, q.Tenant, q.Thread)
		}
		if err != nil || len(e.opts.Parts) == 0 {
			return err
		}
		_, err = e.consent(ctx, tx, answered(VerbInfo{Actor: ActorFrom(ctx), Tenant: e.tenant}, q))
		return err
	})
}

// takeAll judges the answers that come with a resume, and returns the rows to be taken in the claiming Update.
func (t *Thread) takeAll(ctx context.Context, v *view, cfg *runConfig) ([]*core.Question, error) {
	var out []*core.Question
	seen := map[string]json.RawMessage{}
	for _, g := range cfg.answers {
		if g.id == "" {
			id, err := onlyOne(t.id, questionsOf(v.Open))
			if err != nil {
				return nil, err
			}
			g.id = id
		}
		q, now, err := t.eng.asked(ctx, g.id, t.id)
		if err != nil {
			return nil, err
		}
		next, err := t.eng.judge(ctx, q, g, now)
		if err != nil {
			return nil, err
		}
		if next == nil { // the same answer is stored already
			seen[q.ID] = q.Answer
			continue
		}
		if other, twice := seen[q.ID]; twice {
			if !bytes.Equal(other, next.Answer) {
				return nil, &AnswerError{Question: q.ID, Name: q.Name, Thread: t.id, Reason: ReasonAmbiguous, Open: []string{q.ID}}
			}
			continue
		}
		seen[q.ID] = next.Answer
		out = append(out, next)
	}
	if cfg.all {
		if err := v.leftOpen(t.id, seen); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// checkSubmitted checks answers that were taken without the graph's code, before any node is entered. A refused one
// reopens its question.
func (l *loop) checkSubmitted(ctx context.Context, p *core.Position) error {
	for _, children := range p.Children {
		for _, c := range children {
			if err := l.checkSubmitted(ctx, c); err != nil {
				return err
			}
		}
	}
	for task := range p.Questions {
		for i := range p.Questions[task] {
			q := &p.Questions[task][i]
			if q.State != core.QuestionSubmitted {
				continue
			}
			to := core.QuestionAnswered
			if rules, ok := rulesIn(l.def, q); !ok || rules.Refuse(q.Body, q.Answer) != nil {
				to = core.QuestionOpen
			}
			if _, err := l.host.Settle(context.WithoutCancel(ctx), q, to); err != nil {
				return err
			}
		}
	}
	return nil
}

// Questions lists the open questions of the tenant, those that expire first before the others, at most limit
// (0: all).
func (e *Engine) Questions(ctx context.Context, limit int) ([]Question, error) {
	if err := e.allowed(ctx, VerbInfo{Verb: VerbRead}); err != nil {
		return nil, err
	}
	if e.store == nil {
		return nil, nil
	}
	var out []Question
	err := e.store.View(ctx, func(tx storage.Tx) error {
		mine := []any{e.tenant, string(core.QuestionOpen)} // in the order of their due times, 0 for none
		rows, err := tx.List(records.Question, storage.Query{Index: "by_state", Range: storage.Range{Prefix: mine, From: int64(1)}, Limit: limit})
		if err != nil {
			return err
		}
		if left := limit - len(rows); limit <= 0 || left > 0 {
			lasting, err := tx.List(records.Question, storage.Query{Index: "by_state", Range: storage.Range{Prefix: mine, To: int64(1)}, Limit: max(left, 0)})
			if err != nil {
				return err
			}
			rows = append(rows, lasting...)
		}
		list := make([]Question, 0, len(rows))
		for _, row := range rows {
			q, err := e.store.Box.ReadQuestion(row)
			if err != nil {
				return err
			}
			list = append(list, questionOf(q))
		}
		out = list
		return nil
	})
	return out, err
}

// FindQuestions lists the tenant's questions in any state whose ids begin with a prefix, by id, at most limit (0: all).
// Ids are hashes, so a few characters name one.
func (e *Engine) FindQuestions(ctx context.Context, prefix string, limit int) ([]Question, error) {
	if err := e.allowed(ctx, VerbInfo{Verb: VerbRead, Question: prefix}); err != nil {
		return nil, err
	}
	if e.store == nil {
		return nil, nil
	}
	var out []Question
	err := e.store.View(ctx, func(tx storage.Tx) error {
		rows, err := tx.List(records.Question, storage.Query{Range: storage.Range{From: prefix, To: prefix + "\U0010ffff"}})
		if err != nil {
			return err
		}
		list := []Question{}
		for _, row := range rows {
			if row.Fields[0].(string) != e.tenant || limit > 0 && len(list) == limit {
				continue
			}
			q, err := e.store.Box.ReadQuestion(row)
			if err != nil {
				return err
			}
			list = append(list, questionOf(q))
		}
		out = list
		return nil
	})
	return out, err
}
