package pawl

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/storage"
)

// What parts say to verbs, and are told of them.

// Stages of a verb that is done in two Updates, see VerbInfo.Stage.
const (
	StageAsked   = "asked"
	StageStopped = "stopped"
)

// consenting is consent for the Update of a verb, and of the answers that come with it; nil when no part cares.
func (e *Engine) consenting(v VerbInfo, answers ...*core.Question) func(context.Context, storage.Tx) error {
	if len(e.opts.Parts) == 0 {
		return nil
	}
	return func(ctx context.Context, tx storage.Tx) error {
		for _, q := range answers {
			if _, err := e.consent(ctx, tx, answered(v, q)); err != nil {
				return err
			}
		}
		_, err := e.consent(ctx, tx, v)
		return err
	}
}

func (t *Thread) info(ctx context.Context, verb Verb) VerbInfo {
	return VerbInfo{Verb: verb, Actor: ActorFrom(ctx), Tenant: t.eng.tenant, Graph: t.graph, Thread: t.id}
}

// of is info about a verb on a run.
func (t *Thread) of(ctx context.Context, verb Verb, run *core.Run, reason string) VerbInfo {
	v := t.info(ctx, verb)
	if v.Reason = reason; run != nil {
		v.Run, v.Attempt = run.ID, run.Attempt
	}
	return v
}

// answered is the answering of a question by who does v.
func answered(v VerbInfo, q *core.Question) VerbInfo {
	v.Verb, v.Graph, v.Thread, v.Run, v.Attempt = VerbAnswer, q.Graph, q.Thread, q.Run, ""
	v.Question, v.Name, v.Digest, v.Reason = q.ID, q.Name, q.Digest, q.Reason
	v.View, _ = core.Digest(q.Body) // a stored body is a JSON document
	return v
}

// noted lets the parts know of a verb that had nothing to do.
func (t *Thread) noted(ctx context.Context, v VerbInfo) error {
	consent := t.eng.consenting(v)
	if consent == nil {
		return nil
	}
	return t.eng.store.Update(ctx, func(tx storage.Tx) error { return consent(ctx, tx) })
}

// dropTx is a Tx for a View that takes writes and drops them: a part is asked what a verb means with the same code that
// does it.
type dropTx struct{ storage.Tx }

func (dropTx) Put(string, storage.Row, storage.If) (bool, error)       { return true, nil }
func (dropTx) Delete(string, storage.Range) (int, error)               { return 0, nil }
func (dropTx) Seq(int64, int64, int) (first int64, ok bool, err error) { return 1, true, nil }

// partError is the refusal of a part.
type partError struct{ error }

func (e *partError) Unwrap() error { return e.error }

// consent asks the parts, inside a Tx, whether a verb may be done and what it means.
func (e *Engine) consent(ctx context.Context, tx storage.Tx, v VerbInfo) ([]Note, error) {
	return consent(ctx, tx, e.opts.Parts, v)
}

func consent(ctx context.Context, tx storage.Tx, parts []Part, v VerbInfo) ([]Note, error) {
	var notes []Note
	for _, p := range parts {
		if vp, ok := p.(VerbPart); ok {
			n, err := vp.Verb(ctx, tx, v)
			if err != nil {
				return nil, &partError{err}
			}
			notes = append(notes, n...)
		}
	}
	return notes, nil
}

// cancelled lets the parts end, before the run ends as cancelled, what its tasks opened after somebody asked for it. No
// part has a say in it any more.
func (l *loop) cancelled(ctx context.Context, stop *core.Stop) error {
	h, ok := l.host.(homed)
	if !ok || len(l.parts) == 0 {
		return nil
	}
	v := VerbInfo{Verb: VerbCancel, Graph: l.topology.Graph, Reason: stop.Error, Stage: StageStopped}
	v.Tenant, _, v.Thread = h.Whose()
	err := h.With(ctx, func(ctx context.Context, tx storage.Tx) error {
		_, err := consent(ctx, tx, l.parts, v)
		return err
	}, nil)
	if no := (*partError)(nil); errors.As(err, &no) {
		return nil
	}
	return err
}

// refused tells the parts of a call that was refused, by its error. Deferred by every door.
func (e *Engine) refused(ctx context.Context, v VerbInfo, err *error) {
	if *err == nil || e.store == nil || !isRefusal(*err) {
		return
	}
	var parts []RefusalPart
	for _, p := range e.opts.Parts {
		if rp, ok := p.(RefusalPart); ok {
			parts = append(parts, rp)
		}
	}
	if parts == nil {
		return
	}
	v.Actor, v.Tenant = ActorFrom(ctx), e.tenant
	why := *err
	failed := e.store.Update(context.WithoutCancel(ctx), func(tx storage.Tx) error {
		for _, p := range parts {
			if err := p.Refused(ctx, tx, v, why); err != nil {
				return err
			}
		}
		return nil
	})
	if failed != nil {
		*err = errors.Join(why, fmt.Errorf("pawl: that it was refused could not be noted: %w", failed))
	}
}

// isRefusal tells a call that was turned away from one that was done and ended badly, and from a failure.
func isRefusal(err error) bool {
	if is[*RunError](err) {
		return false
	}
	return errors.Is(err, ErrDenied) || errors.Is(err, ErrNotFound) ||
		is[*VerbError](err) || is[*AnswerError](err) || is[*VersionError](err) || is[*MigrationError](err) || is[*DrainingError](err) || is[*partError](err)
}

func is[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}
