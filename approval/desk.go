package approval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/storage"
)

// Desk is where people look at requests and decide them. It sees the tenant of its engine. It runs nothing: a decision is
// stored together with the answer to the thread's wait, and whoever resumes the thread goes on. It is safe for concurrent
// use; of two decisions on one request the first stands.
//
// Who decides is the actor of the context. A request that is for a group or a person can be decided by an actor who has
// that group, or that id; services decide nothing, nor does an actor without an id. Every attempt, also a refused one, is
// a line in the trail.
type Desk struct {
	eng *pawl.Engine
	db  storage.DB
}

// NewDesk makes a desk for the tenant of eng over the engine's database.
func NewDesk(eng *pawl.Engine, db storage.DB) *Desk { return &Desk{eng: eng, db: db} }

// Decision is what a person decided.
type Decision struct {
	Digest string // Request.Call, as it was shown: what is approved. Approve needs it
	Reason string // in their words, at most MaxReason bytes; a denial's reason reaches the graph
}

// MaxReason bounds a reason, in bytes.
const MaxReason = 4096

// Approve grants a request. A nil error means that the grant is stored and that the thread can be resumed. Refusals:
// [pawl.ErrNotFound] (also for another tenant's), [*ForbiddenError], [*DecidedError], [*ExpiredError], [*DigestError].
// The same actor granting the same call again is told the same.
func (d *Desk) Approve(ctx context.Context, id string, by Decision) (*Request, error) {
	return d.decide(ctx, id, VerbApprove, Granted, by)
}

// Reject denies a request. The denial is remembered: the same call under the same reference is not asked about again,
// whichever thread wants it. The refusals are those of Approve, but that no digest is needed; one that is given must fit.
func (d *Desk) Reject(ctx context.Context, id string, by Decision) (*Request, error) {
	return d.decide(ctx, id, VerbReject, Denied, by)
}

func (d *Desk) decide(ctx context.Context, id string, verb pawl.Verb, to State, by Decision) (*Request, error) {
	tenant, actor := d.eng.TenantName(), pawl.ActorFrom(ctx)
	if len(by.Reason) > MaxReason || !utf8.ValidString(by.Reason) {
		return nil, fmt.Errorf("approval: the reason for %s has %d bytes; at most %d of valid UTF-8 are kept; nothing was decided",
			id, len(by.Reason), MaxReason)
	}
	if err := d.eng.Allowed(ctx, pawl.VerbInfo{Verb: verb, Question: id}); err != nil {
		return nil, errors.Join(err, d.db.Update(ctx, func(_ context.Context, tx storage.Tx) error {
			return stray(tx, tenant, id, verb, actor, "not allowed")
		}))
	}
	var out *Request
	var refusal error
	err := d.db.Update(ctx, func(_ context.Context, tx storage.Tx) error {
		r, refused, err := d.settle(tx, tenant, id, verb, to, actor, by)
		out, refusal = r, refused
		return err
	})
	if unknown := (*storage.UnknownError)(nil); errors.As(err, &unknown) && refusal == nil {
		err = d.confirm(ctx, out, err)
	}
	if err = errors.Join(refusal, err); err != nil {
		return nil, err
	}
	return out, nil
}

// settle decides inside an Update. A refusal is a result: what it writes is kept.
func (d *Desk) settle(tx storage.Tx, tenant, id string, verb pawl.Verb, to State, actor pawl.Actor, by Decision) (_ *Request, refusal, err error) {
	r, err := get(tx, tenant, id)
	if errors.Is(err, pawl.ErrNotFound) {
		return nil, err, stray(tx, tenant, id, verb, actor, "there is no such request")
	}
	if err != nil {
		return nil, nil, err
	}
	action := "approval." + string(verb)
	if r.stands(to, actor, by) {
		return r, nil, note(tx, r, actor, action+".repeated", r.State, by.Reason)
	}
	refused := r.judge(tx.Now(), to, actor, by)
	if refused == nil {
		next := *r
		next.State = to
		_, err := d.eng.AnswerTx(tx, r.Wait, pawl.Answer{Value: verdict(&next), By: actor.ID, Reason: by.Reason})
		if refused = left(r, err); refused == nil && err != nil {
			return nil, nil, err
		}
	}
	if refused != nil {
		if err := note(tx, r, actor, action+".refused", r.State, refused.Error()); err != nil {
			return nil, nil, err
		}
		return nil, refused, r.over(tx, refused)
	}
	now := tx.Now().UTC()
	next, err := change(tx, r, to, actor, func(r *Request) {
		r.Decided, r.By, r.Reason = now, actor.ID, by.Reason
		if to == Granted && !r.Due.IsZero() {
			r.Until = now.Add(r.Due.Sub(r.Requested))
		}
	})
	return next, nil, err
}

// over writes what a refusal brought to light: that the request expired, or that its thread does not wait any more.
func (r *Request) over(tx storage.Tx, refused error) error {
	to, why := State(""), ""
	if now := r.seen(tx.Now()); now.State == Expired && r.State == Requested {
		to, why = Expired, now.Unused
	}
	if gone := (*DecidedError)(nil); errors.As(refused, &gone) && gone.State == Withdrawn && r.State == Requested {
		to, why = Withdrawn, gone.Reason
	}
	if to == "" {
		return nil
	}
	_, err := change(tx, r, to, pawl.Actor{}, func(r *Request) { r.Unused = why })
	return err
}

// left says that the wait of a request ended without it: its branch or its thread is gone.
func left(r *Request, err error) error {
	refused := (*pawl.AnswerError)(nil)
	switch {
	case errors.Is(err, pawl.ErrNotFound):
		return &DecidedError{ID: r.ID, State: Withdrawn, Reason: fmt.Sprintf("thread %q is not there any more", r.Thread)}
	case errors.As(err, &refused) && refused.Reason == pawl.ReasonExpired:
		return &ExpiredError{ID: r.ID, At: refused.At}
	case errors.As(err, &refused):
		return &DecidedError{ID: r.ID, State: Withdrawn, Reason: fmt.Sprintf("thread %q does not wait for it any more: %s", r.Thread, refused.Reason)}
	}
	return nil
}

// stands says whether this very decision of this actor was taken before.
func (r *Request) stands(to State, actor pawl.Actor, by Decision) bool {
	same := r.State == to || to == Granted && r.State == Consumed
	return same && actor.ID != "" && r.By == actor.ID && (r.Call == by.Digest || to == Denied && by.Digest == "")
}

func (r *Request) judge(now time.Time, to State, actor pawl.Actor, by Decision) error {
	forbid := func(why string) error { return &ForbiddenError{ID: r.ID, To: r.To, Actor: actor, Why: why} }
	switch seen := r.seen(now); {
	case actor.ID == "":
		return forbid("nobody is named as the one who decides; use pawl.WithActor")
	case actor.Kind == "service":
		return forbid("services decide nothing")
	case r.To != "" && r.To != actor.ID && !slices.Contains(actor.Groups, r.To):
		return forbid("this is neither their id nor one of their groups")
	case seen.State == Expired:
		return &ExpiredError{ID: r.ID, At: r.Due}
	case seen.State != Requested:
		e := &DecidedError{ID: r.ID, State: seen.State, By: r.By, At: r.Decided, Reason: seen.Unused}
		if e.Reason == "" {
			e.Reason = r.Reason
		}
		return e
	case by.Digest != r.Call && (to == Granted || by.Digest != ""):
		return &DigestError{ID: r.ID, Given: brief(by.Digest), Call: r.Call}
	}
	return nil
}

// stray is an attempt on something that was not read or is not there.
func stray(tx storage.Tx, tenant, id string, verb pawl.Verb, actor pawl.Actor, why string) error {
	return audit.Write(tx, audit.Row{
		Tenant: tenant, Approval: brief(id), Actor: actor, Action: "approval." + string(verb) + ".refused", Reason: why,
	})
}

// brief keeps what somebody gave for an id or a digest, both of 64 digits, short enough for the trail.
func brief(s string) string {
	if len(s) > 64 {
		s = strings.ToValidUTF8(s[:64], "") + "..."
	}
	return s
}

// confirm reads a decision back whose Update may or may not be durable.
func (d *Desk) confirm(ctx context.Context, out *Request, unknown error) error {
	err := d.db.View(context.WithoutCancel(ctx), func(_ context.Context, tx storage.Tx) error {
		r, err := get(tx, out.Tenant, out.ID)
		if err == nil && (r.By != out.By || !r.Decided.Equal(out.Decided)) {
			err = errors.New("it is not there now")
		}
		return err
	})
	if err == nil {
		return nil
	}
	return fmt.Errorf("approval: whether %s was decided is not known; look at it again before deciding: %w", out.ID, errors.Join(unknown, err))
}
