package pawl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
)

// Part joins a thread's life from another package: effects, approvals, redaction. Options.Parts lists them in the order
// in which they are called. What a part does beyond its name is found by its methods: TaskPart, VerbPart, StorePart.
type Part interface {
	Name() string
	Digest() string // of its policy, for records
}

// TaskPart is asked at each entry of a node: it may put something into the node's context, and is told how the entry
// ended.
type TaskPart interface {
	Task(ctx context.Context, info TaskInfo) (context.Context, func(error))
}

// VerbPart is asked in the Update of every verb: it refuses with an error, and then nothing was changed, or notes what
// the verb means for it. A preview asks too, in a View. VerbRead asks how what the part keeps of the thread stands, for
// people who decide what to do with a run that is refused.
type VerbPart interface {
	Verb(ctx context.Context, tx storage.Tx, v VerbInfo) ([]Note, error)
}

// RefusalPart is told of a call of a verb that was refused and changed nothing, in an Update of its own, in which nothing
// of the thread is read. An error of it is added to the caller's.
type RefusalPart interface {
	Refused(ctx context.Context, tx storage.Tx, v VerbInfo, why error) error
}

// StorePart says what of a question may be stored and shown.
type StorePart interface {
	Store(kind string, doc []byte) ([]byte, error)
}

// TextPart says what of an error's words may be stored and shown. The error itself, in the process where it happened, is
// left alone.
type TextPart interface {
	Text(words string) string
}

// told is what of an error's words may be stored and shown.
func (l *loop) told(words string) string {
	for _, p := range l.parts {
		if tp, ok := p.(TextPart); ok {
			words = tp.Text(words)
		}
	}
	return words
}

// Note is what a part has to say of a verb.
type Note struct {
	Part string `json:"part"`
	Text string `json:"text"`
}

// TaskInfo says which task runs, and where.
type TaskInfo struct {
	Tenant, Lineage, Thread, Graph, Run, Attempt, Checkpoint string
	Path, Node, Task                                         string
	Try                                                      int
	Number, Epoch                                            int64 // of the thread's lease, see storage.Tx.Lease
	// Version is the graph version that the run is bound to, the same in every process: the digest of the graph that the
	// run started under, as Graph.Digest gives it. A new build that the run's past cannot tell from its own does not
	// change it; migrate and force do, and so does a new attempt. Put it into digests of what is only valid under one
	// meaning of the graph, such as what an approval covers.
	Version string

	// Actor is the id of who started this attempt, and Starters are all who started it or what it goes on from: earlier
	// attempts, and the runs that it was forked from. Empty: a program that runs without WithActor does not say.
	Actor    string
	Starters []string
}

// Info says which task this is.
func (t *Task) Info() TaskInfo {
	i := TaskInfo{Graph: t.loop.root.topology.Graph, Path: t.spec.Path(), Node: t.spec.Node, Task: t.spec.ID}
	if p := t.loop.pos; p != nil && p.Head != nil && p.Run != nil {
		i.Run, i.Attempt, i.Checkpoint, i.Version = p.Run.ID, p.Run.Attempt, p.Head.ID, p.Run.Version()
		i.Actor, i.Starters = p.Run.Actor, p.Run.Starters()
	}
	if h, ok := t.loop.host.(homed); ok {
		i.Tenant, i.Lineage, i.Thread = h.Whose()
		i.Number, i.Epoch = h.Held()
	}
	return i
}

// homed is a host that keeps threads in a database.
type homed interface {
	Whose() (tenant, lineage, thread string)
	Held() (number, epoch int64)
	View(ctx context.Context, do func(ctx context.Context, tx storage.Tx) error) error
	With(ctx context.Context, do func(ctx context.Context, tx storage.Tx) error, proof func(tx storage.Tx) (bool, error)) error
	Late(ctx context.Context, do func(ctx context.Context, tx storage.Tx) error) error
	NewQuestion(q *core.Question) (storage.Row, error)
	Box() records.Box
}

// Uses says whether the task's node declared the name; a part refuses what it did not.
func (t *Task) Uses(name string) bool { return t.policy.Uses[name] }

// Address books a name of a kind for this entry of the node, under the steps around ctx. ErrNameReused when it is taken.
func (t *Task) Address(ctx context.Context, kind, name string, options ...Opt) (string, error) {
	return t.book(scopeOr(ctx, t), t.address(ctx, kind, name, options))
}

func (t *Task) address(ctx context.Context, kind, name string, options []Opt) core.Address {
	path := ""
	if s := scopeFrom(ctx); s != nil {
		path = s.path
	}
	return core.Address{Task: t.spec.ID, Path: path, Kind: kind, Name: name, Key: collect(options).key}
}

// Update runs fn in one Update with what the thread has queued, which is written first. The Update is refused when the
// thread has another owner. An error of fn undoes it all and leaves the task as it was. The rules of storage.DB.Update
// hold for fn. Where the home cannot tell whether the Update is durable, the first proof is asked whether what fn wrote
// is there; without one the error is a *storage.UnknownError and nothing more is written for the thread.
func (t *Task) Update(ctx context.Context, fn func(ctx context.Context, tx storage.Tx) error, proof ...func(tx storage.Tx) (bool, error)) error {
	h, ok := t.loop.host.(homed)
	if !ok {
		return t.fail(&NoStorageError{Graph: t.loop.topology.Graph, Node: t.spec.Node, Question: "an outside action"})
	}
	var proven func(tx storage.Tx) (bool, error)
	if len(proof) > 0 {
		proven = proof[0]
	}
	var opening []*core.Question
	over := t.saving()
	err := h.With(context.WithoutCancel(ctx), func(ctx context.Context, tx storage.Tx) error {
		opening = nil
		return fn(context.WithValue(ctx, openingKey{}, &opening), tx)
	}, proven)
	over()
	t.mu.Lock()
	if err == nil {
		for _, q := range opening {
			if t.asked == nil {
				t.asked = map[string]*core.Question{}
			}
			q.Rev = 1
			if old := t.asked[q.Address]; old != nil {
				delete(t.open, old.ID)
			}
			t.asked[q.Address] = q
		}
	}
	t.mu.Unlock()
	if err != nil {
		return err
	}
	for _, q := range opening {
		scopeOr(ctx, t).wait(q)
		t.loop.emit(Event{
			Kind: EventQuestion, At: q.Asked, Node: q.Node, Task: q.Task, Name: q.Name, Key: q.Key, Question: q.ID, Seq: q.Seq,
			State: string(q.State), Data: q.Body,
		})
	}
	return nil
}

// openingKey holds the waits that a running Update of a task opens.
type openingKey struct{}

// View reads in one View of the task's home. The rules of storage.DB.View hold for fn.
func (t *Task) View(ctx context.Context, fn func(ctx context.Context, tx storage.Tx) error) error {
	h, ok := t.loop.host.(homed)
	if !ok {
		return t.fail(&NoStorageError{Graph: t.loop.topology.Graph, Node: t.spec.Node, Question: "an outside action"})
	}
	return h.View(context.WithoutCancel(ctx), fn)
}

// Late is an Update that does not ask who owns the thread: for evidence of what happened outside, which comes after the
// thread was taken over and would be lost. Nothing that belongs to the thread may be changed in it.
func (t *Task) Late(ctx context.Context, fn func(ctx context.Context, tx storage.Tx) error) error {
	h, ok := t.loop.host.(homed)
	if !ok {
		return &NoStorageError{Graph: t.loop.topology.Graph, Node: t.spec.Node, Question: "an outside action"}
	}
	return h.Late(context.WithoutCancel(ctx), fn)
}

func scopeOr(ctx context.Context, t *Task) *scope {
	if s := scopeFrom(ctx); s != nil {
		return s
	}
	return &scope{task: t, branch: &t.root, entry: t.entry}
}

// Wait is anything that a task waits for and that is decided elsewhere.
type Wait struct {
	Kind   string          // "approval", "doubt"; never empty
	Name   string          // of the effect
	Key    string          // its reference
	Body   json.RawMessage // as shown to people: redacted already
	Digest string          // of what was asked
	Schema json.RawMessage // of the answer
	Due    time.Time       // zero: never
}

// Wait opens a wait inside an Update of this task, whose context it is given: it is listed in Outcome.Waiting and closes the branch once the Update
// is durable. It returns the wait's id. An open wait of the same address and digest is not opened again; one of another
// digest is superseded, and one that is due has expired.
func (t *Task) Wait(ctx context.Context, tx storage.Tx, w Wait) (string, error) {
	h, ok := t.loop.host.(homed)
	opening, within := ctx.Value(openingKey{}).(*[]*core.Question)
	if !ok || !within || w.Kind == "" {
		return "", errors.New("pawl: a wait needs a kind, and the context of an Update of a task of a thread in storage; nothing was opened")
	}
	address := t.address(ctx, w.Kind, w.Name, []Opt{Key(w.Key)}).ID()
	q := &core.Question{
		Kind: w.Kind, Address: address, Revision: 1, Checkpoint: t.place(), Task: t.spec.ID, Path: t.spec.Path(), Under: t.loop.levels, Node: t.spec.Node,
		Name: w.Name, Key: w.Key, Body: w.Body, Digest: w.Digest, Schema: w.Schema, State: core.QuestionOpen, Asked: tx.Now(), Due: w.Due,
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.asked[address]; old != nil {
		due := expired(old, tx.Now())
		if old.State == core.QuestionOpen && old.Digest == w.Digest && !due {
			return old.ID, nil
		}
		q.Revision = old.Revision + 1
		if old.State == core.QuestionOpen {
			gone := *old
			if gone.State = core.QuestionSuperseded; due {
				gone.State = core.QuestionExpired
			}
			if _, err := moveQuestion(tx, h.Box(), &gone); err != nil { // not as it was: decided meanwhile, and stays so
				return "", err
			}
		}
	}
	q.ID = core.ID("question", address, fmt.Sprint(q.Revision))
	row, err := h.NewQuestion(q)
	if err != nil {
		return "", err
	}
	seq, _, err := tx.Seq(row.Fields[1].(int64), storage.AnyEpoch, 1)
	if err != nil {
		return "", err
	}
	row.Fields[5], q.Seq, q.AskedSeq = seq, seq, seq
	held, err := tx.Put(records.Question, row, storage.Absent())
	if err == nil && !held {
		err = fmt.Errorf("pawl: wait %s is there already; nothing was opened", q.ID)
	}
	*opening = append(*opening, q)
	return q.ID, err
}

// Awaits returns the newest wait of this address that the task knows. While it is open the branch of ctx waits.
func (t *Task) Awaits(ctx context.Context, kind, name string, options ...Opt) (Question, bool) {
	id := t.address(ctx, kind, name, options).ID()
	t.mu.Lock()
	q := t.asked[id]
	t.mu.Unlock()
	if q == nil {
		return Question{}, false
	}
	if q.State == core.QuestionOpen && !expired(q, t.loop.host.Now()) {
		scopeOr(ctx, t).wait(q)
	}
	return questionOf(q), true
}

// Closed is ErrWaiting while a wait of ctx's branch is open: nothing new may be dispatched below it.
func (t *Task) Closed(ctx context.Context) error {
	if scopeOr(ctx, t).branch.isWaiting() {
		return ErrWaiting
	}
	return nil
}

// Fail makes the task fail whatever the node returns, and returns the error.
func (t *Task) Fail(err error) error { return t.fail(err) }

// Answer is a decision on a wait.
type Answer struct {
	Value  json.RawMessage
	By     string
	Reason string
}

// AnswerTx answers a wait in the caller's Update: for deciders, who change their own records with it. A wait that is not
// open, or is due, is an *AnswerError, and the caller's Update is to be given up with it.
func (e *Engine) AnswerTx(tx storage.Tx, id string, a Answer) (*Question, error) {
	if e.store == nil {
		return nil, &NoStorageError{Question: id}
	}
	return answerTx(tx, e.store.Box, e.tenant, id, a)
}

// AnswerTx is [Engine.AnswerTx] from inside a task, for a wait that what the task did has settled, also one of another
// thread of the tenant. Use it in an Update of the task.
func (t *Task) AnswerTx(tx storage.Tx, id string, a Answer) (*Question, error) {
	h, ok := t.loop.host.(homed)
	if !ok {
		return nil, &NoStorageError{Graph: t.loop.topology.Graph, Node: t.spec.Node, Question: id}
	}
	tenant, _, _ := h.Whose()
	return answerTx(tx, h.Box(), tenant, id, a)
}

func answerTx(tx storage.Tx, box records.Box, tenant, id string, a Answer) (*Question, error) {
	q, err := readQuestion(tx, box, tenant, id, "")
	if err != nil {
		return nil, err
	}
	if over := closed(q, tx.Now()); over != nil {
		return nil, over
	}
	q.State, q.Answer, q.AnsweredBy, q.Reason, q.AnsweredAt = core.QuestionAnswered, a.Value, a.By, a.Reason, tx.Now()
	if held, err := moveQuestion(tx, box, q); err != nil || !held {
		return nil, errors.Join(err, closed(q, tx.Now()))
	}
	out := questionOf(q)
	return &out, nil
}

// moveQuestion writes what a question became, if it is still as it was read.
func moveQuestion(tx storage.Tx, box records.Box, q *core.Question) (bool, error) {
	row, err := box.QuestionRow(q)
	if err != nil {
		return false, err
	}
	seq, _, err := tx.Seq(q.ThreadN, storage.AnyEpoch, 1)
	if err != nil {
		return false, err
	}
	row.Fields[5] = seq
	held, err := tx.Put(records.Question, row, storage.AtRev(q.Rev))
	if err != nil || !held || q.State == core.QuestionSuperseded {
		return held, err
	}
	return true, decidedNow(tx, q.Tenant, q.Thread)
}

// TenantName is the tenant whose threads this view of the engine sees.
func (e *Engine) TenantName() string {
	if e == nil {
		return ""
	}
	return e.tenant
}

// Allowed asks Options.Allow, for doors of other packages, before they read anything. The actor and the tenant are filled
// in. A refusal matches [ErrDenied].
func (e *Engine) Allowed(ctx context.Context, v VerbInfo) error { return e.allowed(ctx, v) }

// entered lets the parts join an entry of a node.
func (t *Task) entered(ctx context.Context, try int) (context.Context, func(error)) {
	if len(t.loop.parts) == 0 {
		return ctx, func(error) {}
	}
	info := t.Info()
	info.Try = try
	var ends []func(error)
	for _, p := range t.loop.parts {
		if tp, ok := p.(TaskPart); ok {
			var end func(error)
			if ctx, end = tp.Task(ctx, info); end != nil {
				ends = append(ends, end)
			}
		}
	}
	return ctx, func(err error) {
		for _, end := range ends {
			end(err)
		}
	}
}

// stored is what of a question may be stored.
func (l *loop) stored(kind string, doc []byte) (_ []byte, err error) {
	for _, p := range l.parts {
		if sp, ok := p.(StorePart); ok {
			if doc, err = sp.Store(kind, doc); err != nil {
				return nil, fmt.Errorf("part %q: %w", p.Name(), err)
			}
		}
	}
	return doc, nil
}

// storable is what of a question is stored, which must still be enough for the question's own rule.
func (l *loop) storable(in asking, body []byte) ([]byte, error) {
	shown, err := l.stored("question", body)
	if err != nil || bytes.Equal(shown, body) || !in.rule {
		return shown, err
	}
	if err := in.rules.Readable(shown); err != nil {
		return nil, fmt.Errorf("what may be shown of it is not enough for its own rule: %w; leave out what must stay hidden", err)
	}
	return shown, nil
}
