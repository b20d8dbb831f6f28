package effect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/storage"
)

// reserve makes the next revision of what is done for the reference, in place of the one that s shows: T1, and T2 for
// the one before.
func (w *doing) reserve(tx storage.Tx, s *seen, params []byte) error {
	revision := int64(1)
	if old := s.op; old != nil {
		revision = old.Revision + 1
		if old.State == StateReserved {
			if err := w.supersede(tx, s); err != nil {
				return err
			}
		}
	}
	op := &Operation{
		Tenant: w.info.Tenant, Effect: w.d.name, Ref: w.ref, Revision: revision, Proposed: w.print, Authorised: w.print, Call: w.call,
		Key: mint(w.info.Tenant, w.d.name, w.ref, revision, w.print, w.led.policy), Policy: w.led.policy, Target: w.d.target(),
		Asked: s.now, params: params, schema: w.d.schema, input: w.d.input, fields: w.d.material,
	}
	op.at(w.info)
	s.op, s.request, s.last = op, nil, nil
	if err := errors.Join(w.bind(tx, op), op.to(StateReserved, s.now, "", grounds{})); err != nil {
		return err
	}
	return errors.Join(used(tx, w.info, op.Key), op.note(tx, w.info, pawl.Actor{}, "reserved", absent, ""))
}

// supersede gives up the revision before: its task wants another call now.
func (w *doing) supersede(tx storage.Tx, s *seen) error {
	why := "the task wants to make another call"
	if was, err := w.led.ring.open(s.op, paramsOf); err == nil {
		path, _, _ := core.DocumentDifference(was, w.doc)
		why += ", first different at " + w.led.text(path)
	}
	if s.request != nil {
		if err := approval.Supersede(tx, w.info.Tenant, s.request.ID, why); err != nil {
			return err
		}
	}
	if err := s.op.to(StateVoided, s.now, why, grounds{}); err != nil {
		return err
	}
	return errors.Join(s.op.put(tx), s.op.note(tx, w.info, pawl.Actor{}, "voided", StateReserved, why))
}

// at binds the operation to where it is wanted, or sent from.
func (o *Operation) at(i pawl.TaskInfo) {
	o.Lineage, o.Thread, o.Graph, o.Run, o.RunAttempt = i.Lineage, i.Thread, i.Graph, i.Run, i.Attempt
	o.Checkpoint, o.Node, o.Task = i.Checkpoint, i.Node, i.Task
}

// ask asks for approval, and reserves the operation first where there is none. What was asked before is told from it.
func (w *doing) ask(ctx context.Context, was *seen, what step) error {
	doc := w.doc
	if edited(was.op, w.print) {
		var err error
		if doc, err = w.led.ring.open(was.op, paramsOf); err != nil {
			return err
		}
	}
	view, err := w.led.view(w.d.name, w.ref, w.d.material, doc)
	if err != nil {
		return pawl.NoRetry(err)
	}
	again := w.instead(was, what, doc)
	params := w.led.ring.seal(w.info.Tenant, w.d.name, w.ref, w.print, paramsOf, w.doc)
	levels := w.d.levels
	if len(levels) == 0 && was.request != nil {
		levels = was.request.Levels
	}
	return w.update(ctx, what, func(ctx context.Context, tx storage.Tx, s *seen) error {
		if err := w.room(tx); err != nil {
			return err
		}
		if what == toMint {
			if err := w.reserve(tx, s, params); err != nil {
				return err
			}
			if err := s.op.put(tx); err != nil {
				return err
			}
		} else if err := used(tx, w.info, s.op.Key); err != nil {
			return err
		}
		if s.request != nil && s.request.State == approval.Granted { // for another call: a rule changed since
			if err := approval.Supersede(tx, w.info.Tenant, s.request.ID, again.Why); err != nil {
				return err
			}
		}
		r := again
		r.Effect, r.Ref, r.Operation, r.Call, r.View = w.d.name, w.ref.String(), s.op.Key, w.callOf(s.op), view
		r.Redaction, r.Policy, r.Levels, r.Editor, r.Editors = w.led.redactor.Revision(), w.led.policy, levels, s.op.Editor, s.op.Editors
		_, err := approval.Open(ctx, tx, w.task, r)
		return err
	})
}

// room refuses a request too many of an agent, or for a call that no limit will ever let through.
func (w *doing) room(tx storage.Tx) error {
	if err := w.fits(tx, true); err != nil {
		return err
	}
	return approval.Room(tx, w.info, w.d.name, w.ref.String(), w.led.open)
}

// instead says in whose place a request is made, why, and what differs.
func (w *doing) instead(was *seen, what step, doc []byte) (r approval.Request) {
	if was.op == nil || was.request == nil || was.op.State != StateReserved {
		return r
	}
	if r.Instead, r.Why = was.request.ID, was.request.Outdated(w.led.policy, w.info.Version); what != toMint {
		return r
	}
	r.Why = "the task wants to make another call"
	if before, err := w.led.ring.open(was.op, paramsOf); err == nil {
		r.Diff, _ = w.led.diff(before, doc)
	}
	return r
}

// diff is what approvers see of a change: of what redaction hides, that it differs and no more.
func (l *Ledger) diff(old, doc []byte) ([]approval.Change, error) {
	all, err := approval.Diff(old, doc)
	for i, c := range all {
		if path := dollar(c.Path, old); l.redactor.Hides(old, path) || l.redactor.Hides(doc, path) {
			all[i] = approval.Change{Path: c.Path, Hidden: true}
		}
		if all[i].Path = l.text(c.Path); all[i].Path != c.Path { // a name is text, and may hold a secret itself
			all[i] = approval.Change{Path: all[i].Path, Hidden: true}
		}
	}
	return all, err
}

// view is what approvers see: the call without its secrets, and with everything that is material.
func (l *Ledger) view(name string, ref Reference, material []string, params []byte) (json.RawMessage, error) {
	red := l.redactor
	if red == nil {
		return nil, &InputError{Effect: name, Ref: ref, Err: errors.New("it needs approval, and the ledger has no Redactor, so nobody " +
			"can be shown what to approve; set effect.Options.Redactor")}
	}
	e := &HiddenError{Effect: name, Ref: ref}
	for _, field := range material {
		if red.Hides(params, "$"+named(field)) {
			e.Fields = append(e.Fields, field)
		}
	}
	if len(e.Fields) > 0 {
		return nil, e
	}
	view, hidden := red.JSON(params)
	doc, err := json.Marshal(shown{name, ref, view, hidden})
	if err != nil {
		return nil, fmt.Errorf("effect %q %s: the view of the call is no JSON: %w; nobody was asked and nothing was sent", name, ref, err)
	}
	return doc, nil
}

// shown is what a person sees of a call.
type shown struct {
	Effect string          `json:"effect"`
	Ref    Reference       `json:"ref"`
	Params json.RawMessage `json:"params"`
	Hidden []string        `json:"hidden,omitempty"`
}
