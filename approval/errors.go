package approval

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
)

// DecidedError: the request does not wait for a decision any more. Nothing was changed.
type DecidedError struct {
	ID     string
	State  State
	By     string    // who decided; empty when nobody did
	At     time.Time // when
	Reason string    // of the decision, or why it ended without one
}

// Error says what was refused, and why.
func (e *DecidedError) Error() string {
	s := fmt.Sprintf("approval: %s is %s", e.ID, e.State)
	if e.By != "" {
		s += fmt.Sprintf(" by %q at %s", e.By, e.At.UTC().Format(time.RFC3339))
	}
	if e.Reason != "" {
		s += fmt.Sprintf(" (%s)", e.Reason)
	}
	return s + "; nothing was changed"
}

// ExpiredError: the time to decide, or to use the grant, is over. Nothing was dispatched. It matches [pawl.ErrExpired].
type ExpiredError struct {
	ID    string
	Grant bool // a grant that was not used in time
	At    time.Time
}

// Error says what is too late.
func (e *ExpiredError) Error() string {
	if e.Grant {
		return fmt.Sprintf("approval: the grant %s could be used until %s and lapsed; nothing was dispatched; resume the thread, and it is "+
			"asked for again", e.ID, e.At.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("approval: %s was to be decided by %s; nothing was decided; resume the thread, which asks anew or goes on without it",
		e.ID, e.At.UTC().Format(time.RFC3339))
}

// Is makes errors.Is(err, pawl.ErrExpired) true.
func (e *ExpiredError) Is(target error) bool { return target == pawl.ErrExpired }

// DigestError: the decision names another call than the request's. Nothing was changed.
type DigestError struct{ ID, Given, Call string }

// Error says what was refused, and what to do.
func (e *DigestError) Error() string {
	return fmt.Sprintf("approval: %s is for the call %s, and the decision names %q; nothing was changed; look at the request again and "+
		"approve what it shows", e.ID, e.Call, e.Given)
}

// ForbiddenError: this actor may not decide this request. Nothing was changed. It matches [pawl.ErrDenied].
type ForbiddenError struct {
	ID, To string
	Actor  pawl.Actor
	Why    string
}

// Error says what was refused, and why.
func (e *ForbiddenError) Error() string {
	return fmt.Sprintf("approval: %s, which is for %q, cannot be decided by %q: %s; nothing was changed", e.ID, e.To, e.Actor.ID, e.Why)
}

// Is makes errors.Is(err, pawl.ErrDenied) true.
func (e *ForbiddenError) Is(target error) bool { return target == pawl.ErrDenied }

// UsedError: the grant was used, so it cannot be taken back. Nothing was changed.
type UsedError struct{ ID, Effect, Ref, Operation string }

// Error says what happened, and what can still be done.
func (e *UsedError) Error() string {
	return fmt.Sprintf("approval: %s was used: %s of %q was dispatched as operation %.12s, and that is not taken back; nothing was changed; "+
		"what makes up for it is another effect, a compensation, with a reference and an approval of its own", e.ID, e.Effect, e.Ref, e.Operation)
}

// RateError: the actor granted as much as their level allows for now. Nothing was changed.
type RateError struct {
	ID    string
	Actor string
	Rate  Rate
	Frees time.Time // when they may grant again; zero: never
}

// Error says which limit it is, and when it frees.
func (e *RateError) Error() string {
	s := fmt.Sprintf("approval: %q granted %d requests within %s, which is all that the level of %s allows; nothing was changed", e.Actor, e.Rate.N, e.Rate.Per, e.ID)
	if !e.Frees.IsZero() {
		s += "; they may grant again at " + stamp(e.Frees)
	}
	return s + "; somebody else may decide now"
}

// DeniedError: this call was denied before, and is not asked about again.
type DeniedError struct{ Request Request }

// Error says who said no, and why.
func (e *DeniedError) Error() string {
	r := e.Request
	s := fmt.Sprintf("approval: %s of %q was denied by %q at %s", r.Effect, r.Ref, r.By, r.Decided.UTC().Format(time.RFC3339))
	if r.Reason != "" {
		s += fmt.Sprintf(" (%s)", r.Reason)
	}
	return s + "; it was not asked again and nothing was dispatched"
}

// GrantError: a grant does not cover what it was presented for. Nothing was dispatched and the grant is as it was.
type GrantError struct {
	ID    string
	State State
	Why   string
}

// Error says what was refused, and why.
func (e *GrantError) Error() string {
	return fmt.Sprintf("approval: %s is %s and does not cover this: %s; nothing was dispatched and it stays as it was", e.ID, e.State, e.Why)
}

func notFound(id string) error {
	return &pawl.NotFoundError{What: "approval", ID: id}
}
