package approval

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/tally"
	"github.com/pawl-dev/pawl/storage"
)

// Desk is where people look at requests and decide them. It sees the tenant of its engine. It runs nothing: a decision is
// stored together with the answer to the thread's wait, and whoever resumes the thread goes on. It is safe for concurrent
// use; of two decisions on one request the first stands.
//
// Who decides is the actor of the context. A request can be decided by an actor who has the group, or the id, of a level
// that was reached. Services decide nothing, nor does an actor without an id. Who started the run may say no, and yes only
// where the level allows it. Every attempt, also a refused one, is a line in the trail. No worker need be running, nor the
// graph's code be there.
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
// [pawl.ErrNotFound] (also for another tenant's), [*ForbiddenError], [*DecidedError], [*ExpiredError], [*DigestError],
// [*RateError].
// The same actor granting the same call again is told the same.
func (d *Desk) Approve(ctx context.Context, id string, by Decision) (*Request, error) {
	return d.decide(ctx, Choice{ID: id, Verb: VerbApprove, Decision: by})
}

// Reject denies a request. The denial is remembered: the same call under the same reference is not asked about again,
// whichever thread wants it. The refusals are those of Approve, but that no digest is needed; one that is given must fit. A
// no that comes too late is a no all the same, while the call was not asked about anew: it is no yes that was slow.
func (d *Desk) Reject(ctx context.Context, id string, by Decision) (*Request, error) {
	return d.decide(ctx, Choice{ID: id, Verb: VerbReject, Decision: by})
}

// Revoke takes a grant back that was not used yet: the call is asked about anew. Whoever may decide the request may do it,
// with a reason. Revoked, it is told so again. A grant that was used is a [*UsedError]: what was dispatched is not taken back.
func (d *Desk) Revoke(ctx context.Context, id, reason string) (*Request, error) {
	return d.decide(ctx, Choice{ID: id, Verb: VerbRevoke, Decision: Decision{Reason: reason}})
}

// Choice is a decision on one of several requests.
type Choice struct {
	ID   string
	Verb pawl.Verb // VerbApprove, VerbReject, VerbRevoke; VerbEdit at the effect's desk
	Decision
	Changes []Change // of the parameters, for VerbEdit: Path and New
}

// Decided is what became of one choice.
type Decided struct {
	ID      string
	Request *Request // nil with an error
	Err     error
}

// Decide takes several decisions, each by the id of its request and for itself: one that is refused holds up no other. The
// results are in the order of the choices.
func (d *Desk) Decide(ctx context.Context, choices []Choice) []Decided {
	out := make([]Decided, len(choices))
	for i, c := range choices {
		out[i].ID = c.ID
		out[i].Request, out[i].Err = d.decide(ctx, c)
	}
	return out
}

// outcome is the state that a verb leads to.
func outcome(verb pawl.Verb) State {
	return map[pawl.Verb]State{VerbApprove: Granted, VerbReject: Denied, VerbRevoke: Revoked}[verb]
}

func (d *Desk) decide(ctx context.Context, c Choice) (*Request, error) {
	tenant, actor := d.eng.TenantName(), pawl.ActorFrom(ctx)
	switch {
	case outcome(c.Verb) == "":
		return nil, fmt.Errorf("approval: %s: this desk does not %q a request (a call is changed at the effect's desk); nothing was decided", c.ID, c.Verb)
	case len(c.Reason) > MaxReason || !utf8.ValidString(c.Reason):
		return nil, fmt.Errorf("approval: the reason for %s has %d bytes; at most %d of valid UTF-8 are kept; nothing was decided",
			c.ID, len(c.Reason), MaxReason)
	}
	if err := d.eng.Allowed(ctx, pawl.VerbInfo{Verb: c.Verb, Question: c.ID}); err != nil && d.db == nil {
		return nil, err
	} else if err != nil {
		return nil, errors.Join(err, d.db.Update(ctx, func(_ context.Context, tx storage.Tx) error {
			return stray(tx, tenant, c.ID, c.Verb, actor, "not allowed")
		}))
	}
	var out *Request
	var refusal error
	err := d.db.Update(ctx, func(_ context.Context, tx storage.Tx) error {
		r, refused, err := d.settle(tx, tenant, actor, c)
		if refusal = refused; err == nil && refused == nil {
			seen := r.seen(tx.Now())
			out = &seen
		}
		return err
	})
	if unknown := (*storage.UnknownError)(nil); errors.As(err, &unknown) && refusal == nil && out != nil {
		err = d.confirm(ctx, out, err)
	}
	if err = errors.Join(refusal, err); err != nil {
		return nil, err
	}
	return out, nil
}

// settle decides inside an Update. A refusal is a result: what it writes is kept.
func (d *Desk) settle(tx storage.Tx, tenant string, actor pawl.Actor, c Choice) (_ *Request, refusal, err error) {
	r, err := get(tx, tenant, c.ID)
	if errors.Is(err, pawl.ErrNotFound) {
		return nil, err, stray(tx, tenant, c.ID, c.Verb, actor, "there is no such request")
	}
	if err != nil {
		return nil, nil, err
	}
	if r, err = notice(tx, r); err != nil {
		return nil, nil, err
	}
	to, action := outcome(c.Verb), "approval."+string(c.Verb)
	if r.stands(to, actor, c.Decision) {
		return r, nil, note(tx, r, actor, action+".repeated", r.State, c.Reason)
	}
	level, refused := r.judge(tx.Now(), to, actor, c.Decision)
	if refused == nil && to == Granted {
		if refused, err = r.paced(tx, level, actor); err != nil {
			return nil, nil, err
		}
	}
	late := refused == nil && r.State == Expired
	if late {
		if last, _, err := Of(tx, tenant, r.Operation); err != nil {
			return nil, nil, err
		} else if last.ID != r.ID {
			refused = &ExpiredError{ID: r.ID, At: r.Due}
		}
	}
	if refused == nil && to != Revoked && !late {
		next := *r
		next.State = to
		_, err := d.eng.AnswerTx(tx, r.Wait, pawl.Answer{Value: verdict(&next), By: actor.ID, Reason: c.Reason})
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
	r, err = r.become(tx, to, level, actor, c.Reason)
	return r, nil, err
}

// become writes a decision.
func (r *Request) become(tx storage.Tx, to State, level Level, actor pawl.Actor, reason string) (*Request, error) {
	now := tx.Now().UTC()
	if to == Granted && level.Rate != (Rate{}) {
		if _, err := tally.Add(tx, r.Tenant, grants(actor), 1, level.Rate.limit()); err != nil {
			return nil, err
		}
	}
	return change(tx, r, to, actor, func(r *Request) {
		if to == Revoked {
			r.Unused = fmt.Sprintf("revoked by %q at %s", actor.ID, stamp(now))
			if reason != "" {
				r.Unused += ": " + reason
			}
			return
		}
		r.Decided, r.By, r.Reason, r.Unused = now, actor.ID, reason, ""
		if valid := level.valid(); to == Granted && valid > 0 {
			r.Until = now.Add(valid)
		}
	})
}

// grants is the name under which an actor's grants are counted.
func grants(actor pawl.Actor) string { return "grants of " + actor.ID }

// paced refuses an actor who grants too much in too short a time.
func (r *Request) paced(tx storage.Tx, level Level, actor pawl.Actor) (refused, err error) {
	if level.Rate == (Rate{}) {
		return nil, nil
	}
	c, err := tally.Look(tx, r.Tenant, grants(actor), 1, level.Rate.limit())
	if err != nil || c.Fits {
		return nil, err
	}
	return &RateError{ID: r.ID, Actor: actor.ID, Rate: level.Rate, Frees: c.Frees}, nil
}

// over writes what a refusal brought to light: that the request's thread does not wait any more.
func (r *Request) over(tx storage.Tx, refused error) error {
	gone := (*DecidedError)(nil)
	if !errors.As(refused, &gone) || gone.State != Withdrawn || r.State != Requested {
		return nil
	}
	_, err := change(tx, r, Withdrawn, pawl.Actor{}, func(r *Request) { r.Unused = gone.Reason })
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
	if to == Revoked {
		return r.State == Revoked && strings.HasPrefix(r.Unused, fmt.Sprintf("revoked by %q ", actor.ID))
	}
	same := r.State == to || to == Granted && r.State == Consumed
	return same && actor.ID != "" && r.By == actor.ID && (r.Call == by.Digest || to == Denied && by.Digest == "")
}

// judge finds the level by which an actor may decide what the clock shows.
func (r *Request) judge(now time.Time, to State, actor pawl.Actor, by Decision) (Level, error) {
	level, why := r.entitled(now, to, actor)
	switch {
	case why != "":
		return level, &ForbiddenError{ID: r.ID, To: r.To, Actor: actor, Why: why}
	case to == Revoked && r.State == Consumed:
		return level, &UsedError{ID: r.ID, Effect: r.Effect, Ref: r.Ref, Operation: r.UsedBy}
	case to == Revoked && r.State == Granted:
		return level, nil
	case to == Revoked && r.State == Requested:
		return level, &GrantError{ID: r.ID, State: r.State, Why: "there is no grant to take back; reject the request instead"}
	case r.State == Expired && to != Denied:
		return level, &ExpiredError{ID: r.ID, At: r.Due}
	case r.State != Requested && r.State != Expired:
		e := &DecidedError{ID: r.ID, State: r.State, By: r.By, At: r.Decided, Reason: r.Unused}
		if e.Reason == "" {
			e.Reason = r.Reason
		}
		return level, e
	case by.Digest != r.Call && (to != Denied || by.Digest != ""):
		return level, &DigestError{ID: r.ID, Given: brief(by.Digest), Call: r.Call}
	}
	return level, nil
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
		if err == nil && (r.State != out.State || r.By != out.By || !r.Decided.Equal(out.Decided)) {
			err = errors.New("it is not there now")
		}
		return err
	})
	if err == nil {
		return nil
	}
	return fmt.Errorf("approval: whether %s was decided is not known; look at it again before deciding: %w", out.ID, errors.Join(unknown, err))
}
