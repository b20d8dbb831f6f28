package effect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/schema"
	"github.com/pawl-dev/pawl/storage"
)

// Edit is a change of a call that waits for approval.
type Edit struct {
	Digest  string            // Request.Call, as it was shown: what is changed
	Effect  string            // where given, must be the request's: no call is made one of another effect
	Changes []approval.Change // of the parameters: New at Path, or removed where New is absent; approval.Diff makes them
	Reason  string
}

// EditError: a change of a call is refused. The request stays open and as it is; nothing was sent.
type EditError struct {
	Approval string
	Effect   string
	Faults   []EditFault
}

// EditFault is one thing that is wrong with a change.
type EditFault struct {
	Path    string // a JSON pointer; empty: the call
	Problem string
}

// Error says what is wrong, each with its place.
func (e *EditError) Error() string {
	var all []string
	for _, f := range e.Faults {
		if f.Path != "" {
			f.Problem = f.Path + ": " + f.Problem
		}
		all = append(all, f.Problem)
	}
	return fmt.Sprintf("effect %q: the change of %s is refused: %s; the request is open as it was", e.Effect, e.Approval, strings.Join(all, "; "))
}

// Edit changes the parameters of a call that waits for approval. The operation is given up and its next revision is reserved
// with what is authorised now, the request is superseded by one that shows the difference, and the thread waits for that one:
// one Update. What the node proposed stays on record, so that the node, entered again, still finds its operation; it gets the
// receipt of what ran, and [Effect.Result] tells it what that was.
//
// Whoever may decide the request may change it, and somebody must approve it who has changed nothing of it. The parameters keep their types
// and are checked against the effect's type, and by its rules where the effect's code is known here; else before the
// dispatch. What redaction hides is not changed. Refusals: [pawl.ErrNotFound], [*approval.ForbiddenError],
// [*approval.DecidedError], [*approval.ExpiredError], [*approval.DigestError], [*approval.DeniedError], [*EditError],
// [*HiddenError].
func (d *Desk) Edit(ctx context.Context, id string, e Edit) (*approval.Request, error) {
	if err := d.eng.Allowed(ctx, pawl.VerbInfo{Verb: approval.VerbEdit, Question: id}); err != nil {
		return nil, err
	}
	if len(e.Reason) > approval.MaxReason {
		return nil, fmt.Errorf("effect: the reason has %d bytes; at most %d are kept; nothing was changed", len(e.Reason), approval.MaxReason)
	}
	for range rounds {
		r, err := d.edit(ctx, id, e)
		if !errors.Is(err, errMoved) {
			return r, err
		}
	}
	return nil, fmt.Errorf("effect: the operation of %s changes all the time; nothing was changed; try again: %w", id, pawl.ErrBusy)
}

// Decide takes several decisions, changes among them, each by the id of its request and for itself. The results are in the
// order of the choices.
func (d *Desk) Decide(ctx context.Context, choices []approval.Choice) []approval.Decided {
	out := make([]approval.Decided, len(choices))
	plain := approval.NewDesk(d.eng, d.db)
	for i, c := range choices {
		if c.Verb != approval.VerbEdit {
			out[i] = plain.Decide(ctx, choices[i:i+1])[0]
			continue
		}
		out[i].ID = c.ID
		out[i].Request, out[i].Err = d.Edit(ctx, c.ID, Edit{Digest: c.Digest, Changes: c.Changes, Reason: c.Reason})
	}
	return out
}

// edit is one try: it looks, makes the new call outside, and writes it if nothing moved.
func (d *Desk) edit(ctx context.Context, id string, e Edit) (*approval.Request, error) {
	actor, tenant := pawl.ActorFrom(ctx), d.eng.TenantName()
	var op *Operation
	var was *approval.Request
	err := d.db.View(ctx, func(_ context.Context, tx storage.Tx) (err error) {
		if was, err = approval.Get(tx, tenant, id); err == nil {
			op, err = operationOf(tx, tenant, was.Operation)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if op == nil {
		return nil, &pawl.NotFoundError{What: "operation", ID: was.Operation}
	}
	next, made, wrong := d.revised(was, op, e, actor)
	var out *approval.Request
	var refusal error
	err = d.db.Update(ctx, func(_ context.Context, tx storage.Tx) error {
		r, refused, err := approval.Editable(tx, tenant, id, actor, e.Digest)
		if err != nil {
			return err
		}
		if refused == nil {
			refused = wrong
		}
		if refused == nil {
			out, refused, err = d.replace(tx, r, op, next, made, actor, e.Reason)
		}
		if refusal = refused; err == nil && refused != nil {
			err = approval.RefuseEdit(tx, r, actor, d.led.text(refused.Error()))
		}
		return err
	})
	if unknown := (*storage.UnknownError)(nil); errors.As(err, &unknown) && refusal == nil {
		return d.edited(ctx, next, actor, err)
	}
	if err = errors.Join(refusal, err); err != nil {
		return nil, err
	}
	return out, nil
}

// revised is the next revision of an operation and what its request shows, or what is wrong with the change.
func (d *Desk) revised(was *approval.Request, op *Operation, e Edit, actor pawl.Actor) (*Operation, approval.Request, error) {
	var made approval.Request
	wrong := &EditError{Approval: was.ID, Effect: op.Effect}
	refuse := func(path, format string, a ...any) (*Operation, approval.Request, error) {
		wrong.Faults = append(wrong.Faults, EditFault{path, fmt.Sprintf(format, a...)})
		return nil, made, wrong
	}
	switch {
	case e.Effect != "" && e.Effect != op.Effect:
		return refuse("", "it would make a call of %q of one of %q, which has rules of its own", e.Effect, op.Effect)
	case d.led.redactor == nil:
		return refuse("", "the ledger has no Redactor, so nobody could be shown it")
	case len(e.Changes) == 0:
		return refuse("", "it changes nothing")
	}
	old, err := d.led.ring.open(op, paramsOf)
	if err != nil {
		return nil, made, err
	}
	doc, err := approval.Apply(old, e.Changes)
	if err != nil {
		return refuse("", "%v", err)
	}
	for _, c := range e.Changes {
		if path := dollar(c.Path, old); d.led.redactor.Hides(old, path) || d.led.redactor.Hides(doc, path) {
			wrong.Faults = append(wrong.Faults, EditFault{c.Path, "it is hidden from whoever approves, so it cannot be changed here"})
		}
	}
	wrong.Faults = append(wrong.Faults, d.faults(op, doc)...)
	print, err := printOf(doc, op.fields)
	if len(wrong.Faults) > 0 {
		return nil, made, wrong
	}
	switch {
	case err != nil:
		return refuse("", "%v", err)
	case print == op.Authorised:
		return refuse("", "it changes nothing")
	}
	next := *op
	next.Key, next.Revision, next.State, next.Reason, next.rev = "", op.Revision+1, absent, "", 0
	next.Attempts, next.Grant, next.Spent, next.Authorised = 0, "", nil, print
	if next.Editor = actor.ID; !slices.Contains(op.Editors, actor.ID) {
		next.Editors = append(slices.Clip(op.Editors), actor.ID)
	}
	next.Key = mint(op.Tenant, op.Effect, op.Ref, next.Revision, print, op.Policy)
	next.Call = callDigest(op.Tenant, op.Effect, op.Ref, print, op.Target, was.Policy, op.Graph, was.Version)
	next.params, next.outcome = d.led.ring.seal(op.Tenant, op.Effect, op.Ref, print, paramsOf, doc), nil
	made.Operation, made.Call, made.Redaction, made.Editors = next.Key, next.Call, d.led.redactor.Revision(), next.Editors
	if made.View, err = d.led.view(op.Effect, op.Ref, op.fields, doc); err == nil {
		made.Diff, err = d.led.diff(old, doc)
	}
	return &next, made, err
}

// faults are what the effect's type and its rules say of parameters. Values are not told.
func (d *Desk) faults(op *Operation, doc []byte) (out []EditFault) {
	if err := core.CheckSize("the parameters", doc); err != nil {
		return []EditFault{{"", err.Error()}}
	}
	for _, f := range schema.Validate(op.input, doc) {
		out = append(out, EditFault{pointer(f.Path), f.Problem})
	}
	if decl := d.declared(op); decl != nil && len(out) == 0 {
		if err := decl.checked(doc); err != nil {
			out = append(out, EditFault{"", d.led.words(err, doc).Error()})
		}
	}
	return out
}

// declared finds the effect's code; nil: it is not here.
func (d *Desk) declared(op *Operation) *declaration {
	if decl := d.led.effects[op.Effect]; decl != nil {
		return decl
	}
	if d.eng == nil {
		return nil
	}
	if e, ok := d.eng.Used(op.Graph, op.Effect).(Declared); ok {
		if decl, err := e.declared(); err == nil {
			return decl
		}
	}
	return nil
}

// replace writes a change: T2 of the operation, T1 of the next, the requests and the wait.
func (d *Desk) replace(tx storage.Tx, r *approval.Request, op, next *Operation, made approval.Request, actor pawl.Actor, reason string) (out *approval.Request, refused, err error) {
	now, err := newestOf(tx, op.Tenant, op.Effect, op.Ref)
	if err != nil {
		return nil, nil, err
	}
	if now == nil || now.Key != op.Key || now.rev != op.rev || r.Operation != op.Key {
		return nil, nil, errMoved
	}
	at := tx.Now().UTC()
	why := fmt.Sprintf("changed by %q", actor.ID)
	fresh := *next
	fresh.Asked = at
	if err := errors.Join(now.to(StateVoided, at, why, grounds{}), fresh.to(StateReserved, at, "", grounds{})); err != nil {
		return nil, &EditError{Approval: r.ID, Effect: op.Effect, Faults: []EditFault{{"", err.Error()}}}, nil
	}
	if out, refused, err = approval.Replace(tx, d.eng, r, made, actor, reason); refused != nil || err != nil {
		return nil, refused, err
	}
	info := pawl.TaskInfo{Tenant: op.Tenant, Thread: op.Thread, Lineage: op.Lineage, Run: op.Run, Attempt: op.RunAttempt, Task: r.Task}
	err = errors.Join(now.put(tx), now.note(tx, info, actor, "voided", StateReserved, why), fresh.put(tx), used(tx, info, fresh.Key),
		fresh.note(tx, info, actor, "reserved", absent, why))
	if err == nil {
		_, err = approval.EndOthers(tx, d.eng.AnswerTx, op.Tenant, op.Key, r.ID, "the call was "+why)
	}
	return out, nil, err
}

// edited reads back a change of unknown outcome.
func (d *Desk) edited(ctx context.Context, next *Operation, actor pawl.Actor, unknown error) (out *approval.Request, err error) {
	err = d.db.View(context.WithoutCancel(ctx), func(_ context.Context, tx storage.Tx) error {
		r, found, err := approval.Of(tx, next.Tenant, next.Key)
		if err == nil && (!found || r.Editor != actor.ID) {
			err = unknown
		}
		out = r
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// dollar writes a JSON pointer as the path that a Redactor knows: $.lines[0].amount.
func dollar(path string, doc []byte) string {
	var b strings.Builder
	b.WriteByte('$')
	at := json.RawMessage(doc)
	for _, step := range strings.Split(path, "/")[min(1, strings.Count(path, "/")):] {
		if path == "" {
			break
		}
		step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
		var list []json.RawMessage
		if i, err := strconv.Atoi(step); err == nil && json.Unmarshal(at, &list) == nil {
			fmt.Fprintf(&b, "[%d]", i)
			if at = nil; i < len(list) {
				at = list[i]
			}
			continue
		}
		b.WriteString(named(step))
		var object map[string]json.RawMessage
		_ = json.Unmarshal(at, &object)
		at = object[step]
	}
	return b.String()
}

// named is a member's part of such a path.
func named(member string) string {
	if member != "" && !strings.ContainsAny(member, ".[") {
		return "." + member
	}
	doc, _ := json.Marshal(member) // a string has a JSON form
	return "[" + string(doc) + "]"
}

// pointer writes a path as a schema tells it (lines[0].amount) as a JSON pointer.
func pointer(path string) string {
	if path == "" {
		return ""
	}
	return "/" + strings.NewReplacer("[", "/", "]", "", ".", "/").Replace(path)
}
