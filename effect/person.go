package effect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/storage"
)

// doubtKind is the kind of the wait for a person who knows what happened.
const doubtKind = "doubt"

// quarantine is T11: from now on only a person decides.
func (w *doing) quarantine(tx storage.Tx, op *Operation) error {
	was := op.Reason
	why := w.d.whyPerson(op, tx.Now())
	if w.conflict != nil {
		why = "the look-up contradicts it: " + w.conflict.Error()
	}
	if err := op.to(StateQuarantined, tx.Now().UTC(), was, grounds{hopeless: w.hopeless(op, tx.Now()) || w.conflict != nil}); err != nil {
		return err
	}
	op.Clash = w.conflict != nil
	return op.note(tx, w.info, pawl.Actor{}, string(StateQuarantined), StateInDoubt, why)
}

// whyPerson says why nothing else can settle a doubt.
func (d *declaration) whyPerson(op *Operation, now time.Time) string {
	switch {
	case d.keys <= 0:
		return "its target has neither keys nor a look-up"
	case op.Attempts >= d.budget:
		return fmt.Sprintf("its key was sent %d times, as often as the effect's budget says", op.Attempts)
	case !op.sendable(d.keys, now):
		return "the target may have forgotten its key"
	}
	return "a person takes it over"
}

// person waits for somebody who decides what becomes of the operation.
func (w *doing) person(ctx context.Context, s *seen, want step) (receipt []byte, again bool, err error) {
	open, ok := w.task.Awaits(ctx, doubtKind, w.d.name, pawl.Key(w.ref.String()))
	if ok && open.State == string(core.QuestionOpen) && s.op.State == StateQuarantined {
		return nil, false, pawl.ErrWaiting
	}
	err = w.update(ctx, want, func(ctx context.Context, tx storage.Tx, s *seen) error {
		if s.op.State == StateInDoubt {
			if err := errors.Join(w.quarantine(tx, s.op), s.op.put(tx)); err != nil {
				return err
			}
		}
		if err := used(tx, w.info, s.op.Key); err != nil {
			return err
		}
		return w.askPerson(ctx, tx, s.op)
	})
	if err != nil {
		return nil, false, err
	}
	return nil, false, pawl.ErrWaiting
}

// askPerson opens the wait. The task is noted first, so that the desk finds the wait.
func (w *doing) askPerson(ctx context.Context, tx storage.Tx, op *Operation) error {
	body := struct {
		Operation string    `json:"operation"`
		Effect    string    `json:"effect"`
		Ref       Reference `json:"ref"`
		Attempt   int64     `json:"attempt"`
		Since     time.Time `json:"since"`
		Reason    string    `json:"reason"`
		Queue     string    `json:"queue,omitempty"`
		Params    any       `json:"params,omitempty"`
	}{op.Key, op.Effect, op.Ref, op.Attempts, op.Last, op.Reason, op.Queue, nil}
	if w.led.redactor != nil {
		view, _ := w.led.redactor.JSON(w.doc)
		body.Params = json.RawMessage(view)
	}
	doc, err := json.Marshal(body)
	if err != nil {
		return err
	}
	id, err := w.task.Wait(ctx, tx, pawl.Wait{
		Kind: doubtKind, Name: w.d.name, Key: w.ref.String(), Body: doc, Digest: digest("pawl.doubt.1", op.Key, fmt.Sprint(op.Attempts)),
	})
	if err != nil {
		return err
	}
	row := storage.Row{Key: []any{op.Tenant, w.info.Thread, op.Key, w.info.Task}, Body: []byte(id)}
	_, err = tx.Put(uses, row, storage.Always())
	return err
}
