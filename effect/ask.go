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
		Asked: s.now, params: params, schema: w.d.schema,
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
		why += ", first different at " + path
	}
	if s.request != nil {
		if err := approval.Withdraw(tx, w.info.Tenant, s.request.ID, why); err != nil {
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

// ask asks for approval, and reserves the operation first where there is none.
func (w *doing) ask(ctx context.Context, what step) error {
	view, err := w.view()
	if err != nil {
		return pawl.NoRetry(err)
	}
	params := w.led.ring.seal(w.info.Tenant, w.d.name, w.ref, w.print, paramsOf, w.doc)
	return w.update(ctx, what, func(ctx context.Context, tx storage.Tx, s *seen) error {
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
			if err := approval.Lapse(tx, w.info.Tenant, s.request.ID, "the rules in force changed before it was used"); err != nil {
				return err
			}
		}
		r := approval.Request{
			Effect: w.d.name, Ref: w.ref.String(), Operation: s.op.Key, Call: w.call, View: view, Redaction: w.led.redactor.Revision(),
			Levels: w.d.levels,
		}
		_, err := approval.Open(ctx, tx, w.task, r)
		return err
	})
}

// view is what approvers see: the call without its secrets, and with everything that is material.
func (w *doing) view() (json.RawMessage, error) {
	red := w.led.redactor
	if red == nil {
		return nil, &InputError{Effect: w.d.name, Ref: w.ref, Err: errors.New("it needs approval, and the ledger has no Redactor, so nobody " +
			"can be shown what to approve; set effect.Options.Redactor")}
	}
	e := &HiddenError{Effect: w.d.name, Ref: w.ref}
	for _, name := range w.d.material {
		if red.Hides(w.doc, "$."+name) {
			e.Fields = append(e.Fields, name)
		}
	}
	if len(e.Fields) > 0 {
		return nil, e
	}
	view, hidden := red.JSON(w.doc)
	doc, err := json.Marshal(shown{w.d.name, w.ref, view, hidden})
	if err != nil {
		return nil, fmt.Errorf("effect %q %s: the view of the call is no JSON: %w; nobody was asked and nothing was sent", w.d.name, w.ref, err)
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
