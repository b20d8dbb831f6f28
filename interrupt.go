package pawl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/local"
	"github.com/pawl-dev/pawl/internal/schema"
)

// Interrupt declares a question: its types and rules. It is a value that the node, which asks, and the caller, who
// answers, share. Declare it to the graph with Uses or AskNode.
type Interrupt[Q, A any] struct {
	// Name is unique among the graph's interrupts.
	Name string
	// Check refuses an answer by a rule beyond its type. It is pure, sees the stored question, and runs before the
	// answer is taken: a bad one goes back to the person, never to the node.
	Check func(Q, A) error
	// Expires is how long an asking stays open; zero: for ever. Afterwards Ask returns ErrExpired, or Default.
	Expires time.Duration
	// Default answers an expired question.
	Default func(Q) A
}

// UseName is the name by which Uses declares it.
func (in Interrupt[Q, A]) UseName() string { return in.Name }

// Ask puts the question and returns its answer. While there is none it returns ErrWaiting, which the node must return;
// when the answer is there the node runs again from its first line and Ask returns it. The question is on disk before
// Ask returns. An answer belongs to the question it was given for: if the node asks something else when it runs again,
// the earlier answer is kept as superseded and the new question is open.
//
// One name may be asked once a node entry; further ones need a Key.
func (in Interrupt[Q, A]) Ask(ctx context.Context, q Q, options ...Opt) (A, error) {
	return in.ask(ctx, func() (Q, error) { return q, nil }, false, options)
}

// askOnce does not make the question again once it was asked.
func (in Interrupt[Q, A]) askOnce(ctx context.Context, question func() (Q, error)) (A, error) {
	return in.ask(ctx, question, true, nil)
}

func (in Interrupt[Q, A]) ask(ctx context.Context, question func() (Q, error), once bool, options []Opt) (A, error) {
	var answer A
	s := scopeFrom(ctx)
	if s == nil {
		return answer, fmt.Errorf("pawl: question %q asked outside a run; nothing was asked; run the node in a graph, "+
			"for instance on pawltest.New", in.Name)
	}
	doc, err := s.ask(ctx, asking{
		name: in.Name, key: collect(options).key, once: once, expires: in.Expires, rules: in.rules(), rule: in.Check != nil,
		body: func() ([]byte, error) {
			q, err := question()
			if err != nil {
				return nil, err
			}
			return schema.Marshal(q)
		},
	})
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(doc, &answer); err != nil {
		return answer, s.task.fail(fmt.Errorf("node %q: the stored answer to %q does not fit %T: %w", s.task.spec.Node, in.Name, answer, err))
	}
	return answer, nil
}

func (in Interrupt[Q, A]) rules() core.Interrupt { return interruptRules[Q, A]{in} }

type interruptRules[Q, A any] struct{ in Interrupt[Q, A] }

// refusal is an answer that breaks the question's type or rule.
type answerFaults struct{ faults []string }

func (e *answerFaults) Error() string { return strings.Join(e.faults, "; ") }

func (r interruptRules[Q, A]) Refuse(question, answer []byte) error {
	if err := refuseShape(r.Schema(), answer); err != nil {
		return err
	}
	var a A
	if err := json.Unmarshal(answer, &a); err != nil {
		return &answerFaults{[]string{err.Error()}}
	}
	if r.in.Check == nil {
		return nil
	}
	var q Q
	if err := json.Unmarshal(question, &q); err != nil {
		return fmt.Errorf("the stored question does not fit %T: %w", q, err)
	}
	if err := r.check(q, a); err != nil {
		return &answerFaults{[]string{err.Error()}}
	}
	return nil
}

func (r interruptRules[Q, A]) check(q Q, a A) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the rule of %q panicked: %v", r.in.Name, p)
		}
	}()
	return r.in.Check(q, a)
}

func (r interruptRules[Q, A]) Readable(question []byte) error {
	var q Q
	return json.Unmarshal(question, &q)
}

func (r interruptRules[Q, A]) Default(question []byte) (doc []byte, ok bool, err error) {
	if r.in.Default == nil {
		return nil, false, nil
	}
	var q Q
	if err := json.Unmarshal(question, &q); err != nil {
		return nil, false, fmt.Errorf("the stored question does not fit %T: %w", q, err)
	}
	doc, err = json.Marshal(r.in.Default(q))
	return doc, err == nil, err
}

func (r interruptRules[Q, A]) Schema() []byte {
	doc, err := schema.For[A]()
	if err != nil {
		return []byte("true")
	}
	return doc
}

func refuseShape(schemaDoc, answer []byte) error {
	faults := schema.Validate(schemaDoc, answer)
	if len(faults) == 0 {
		return nil
	}
	e := &answerFaults{}
	for _, f := range faults {
		e.faults = append(e.faults, f.String())
	}
	return e
}

// asking is one call of Ask without its types.
type asking struct {
	name, key string
	once      bool
	expires   time.Duration
	rules     core.Interrupt
	rule      bool
	body      func() ([]byte, error)
}

func (s *scope) ask(ctx context.Context, in asking) ([]byte, error) {
	t := s.task
	switch {
	case !t.policy.Uses[in.name]:
		return nil, t.fail(&UndeclaredError{Node: t.spec.Node, Name: in.name})
	case t.loop.askedTooDeep() != "":
		return nil, t.fail(&TopLevelError{Graph: t.loop.askedTooDeep(), Question: in.name, Path: t.spec.Path()})
	case t.loop.host == nil:
		return nil, t.fail(&NoStorageError{Graph: t.loop.topology.Graph, Node: t.spec.Node, Question: in.name})
	}
	addr := core.Address{Task: t.spec.ID, Path: s.path, Kind: "ask", Name: in.name, Key: in.key}
	id, err := t.book(s, addr)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	old := t.asked[id]
	t.mu.Unlock()
	if old != nil && in.once && old.State != core.QuestionWithdrawn {
		return s.settled(ctx, old, in)
	}
	body, err := in.body()
	if err != nil {
		return nil, err
	}
	digest, err := core.Digest(body)
	if err == nil {
		err = core.CheckSize("the body", body)
	}
	if err != nil {
		return nil, t.fail(fmt.Errorf("node %q: question %q: %w; nothing was asked", t.spec.Node, in.name, err))
	}
	if old != nil && old.Digest == digest && old.State != core.QuestionWithdrawn {
		return s.settled(ctx, old, in)
	}
	return nil, s.put(ctx, id, old, in, body, digest)
}

// settled is a question that was asked before with this body.
func (s *scope) settled(ctx context.Context, q *core.Question, in asking) ([]byte, error) {
	t := s.task
	if q.State == core.QuestionOpen && !q.Due.IsZero() && !t.loop.host.Now().Before(q.Due) {
		over := t.saving()
		_, err := t.loop.host.Settle(context.WithoutCancel(ctx), q, core.QuestionExpired)
		if over(); err != nil {
			return nil, t.fail(err)
		}
	}
	switch q.State {
	case core.QuestionAnswered:
		return q.Answer, nil
	case core.QuestionExpired:
		doc, ok, err := in.rules.Default(q.Body)
		if err != nil {
			return nil, t.fail(err)
		}
		if ok {
			return doc, nil
		}
		return nil, fmt.Errorf("node %q: question %q (%s), due %s: %w", t.spec.Node, q.Name, q.ID, q.Due.UTC().Format(time.RFC3339), ErrExpired)
	}
	s.wait(q)
	return nil, ErrWaiting
}

func (s *scope) wait(q *core.Question) {
	t := s.task
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open = map[string]*core.Question{}
	}
	t.open[q.ID] = q
	s.branch.waiting.Store(true)
}

// put asks anew: for the first time, or because the body changed, or because the earlier asking was withdrawn.
func (s *scope) put(ctx context.Context, address string, old *core.Question, in asking, body []byte, digest string) error {
	t := s.task
	l, root := t.loop, t.loop.root
	body, err := l.storable(in, body)
	if err != nil {
		return t.fail(fmt.Errorf("node %q: question %q was not asked: %w", t.spec.Node, in.name, err))
	}
	q := &core.Question{
		Address: address, Checkpoint: t.place(), Task: t.spec.ID, Path: t.spec.Path(), Under: l.levels,
		Node: t.spec.Node, Name: in.name, Key: in.key,
		Body: body, Digest: digest, Schema: in.rules.Schema(), Rule: in.rule, State: core.QuestionOpen, Asked: l.host.Now(),
		Revision: 1,
	}
	if in.expires > 0 {
		q.Due = q.Asked.Add(in.expires)
	}
	answered := false
	if old != nil {
		q.Revision = old.Revision + 1
		answered = old.State == core.QuestionAnswered || old.State == core.QuestionSubmitted
		if q.Drift = old.Drift; answered {
			q.Drift++
		}
	}
	q.ID = core.ID("question", address, fmt.Sprint(q.Revision))
	if answered && (l.strict || q.Drift > 1 && !root.afterDrift) {
		path, was, is := core.DocumentDifference(old.Body, body)
		return t.fail(&DriftError{Node: t.spec.Node, Name: in.name, Path: path, Old: was, New: is})
	}
	if answered && root.afterDrift {
		q.Drift = 0
	}
	over := t.saving()
	err = l.ask(context.WithoutCancel(ctx), q, old)
	if over(); err != nil {
		if errors.Is(err, local.ErrTooMany) {
			err = &LimitError{Limit: "open questions a thread", Max: l.limits.Questions, Have: l.limits.Questions + 1}
		}
		return t.fail(fmt.Errorf("node %q: question %q was not asked: %w", t.spec.Node, in.name, err))
	}
	if answered {
		l.changed(t, old, q)
	}
	t.mu.Lock()
	if t.asked == nil {
		t.asked = map[string]*core.Question{}
	}
	t.asked[address] = q
	t.mu.Unlock()
	s.wait(q)
	return ErrWaiting
}
