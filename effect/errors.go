package effect

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
)

// ErrIntentChanged is what [*ChangedError] matches: the reference stands for another call already.
var ErrIntentChanged = errors.New("effect: the reference stands for another call")

// notSent and rejected are what a function says of its failure.
type notSent struct{ err error }

func (e *notSent) Error() string { return e.err.Error() }
func (e *notSent) Unwrap() error { return e.err }

type rejected struct{ err error }

func (e *rejected) Error() string { return e.err.Error() }
func (e *rejected) Unwrap() error { return e.err }

// NotSent marks an error of an effect's function: it is proven that the target did nothing and will not, for instance
// because no byte was written to it. The operation may be sent again, and keeps its approval.
func NotSent(err error) error {
	if err == nil {
		return nil
	}
	return &notSent{err}
}

// Rejected marks an error of an effect's function: the target refused the operation for good and did nothing. It is not
// sent again; a corrected call under the same reference is a new revision, with another key.
func Rejected(err error) error {
	if err == nil {
		return nil
	}
	return &rejected{err}
}

// conflict is what a look-up says when it found something else.
type conflict struct{ err error }

func (e *conflict) Error() string { return e.err.Error() }
func (e *conflict) Unwrap() error { return e.err }

// Conflict marks an error of a look-up: under the operation's key or reference the target has something that is not this
// operation. The operation is quarantined, and a person decides.
func Conflict(err error) error {
	if err == nil {
		return nil
	}
	return &conflict{err}
}

// AbandonedError: a person gave the operation up; it may have happened, and it is not sent again.
type AbandonedError struct {
	Effect    string
	Ref       Reference
	Operation string
	Reason    string
	At        time.Time
}

// Error says that it was given up, and what is left.
func (e *AbandonedError) Error() string {
	return fmt.Sprintf("effect %q %s: operation %.12s was abandoned at %s: it may have happened, and is not sent again; nothing was sent; a second "+
		"time on purpose is a redo at the effect desk", e.Effect, e.Ref, e.Operation, e.At.UTC().Format(time.RFC3339))
}

// ExpiredError: the operation is over and past the ledger's retention, so that its receipt is gone. The checkpoint from
// which it was reached can be looked at, and not run from. Nothing was sent.
type ExpiredError struct {
	Effect    string
	Ref       Reference
	Operation string
	Final     State  // what it was
	Receipt   string // its id or digest
	At        time.Time
}

// Error says what is left of it.
func (e *ExpiredError) Error() string {
	return fmt.Sprintf("effect %q %s: operation %.12s was %s and is past its retention since %s; it is not sent again, and its receipt (%s) is not "+
		"kept; the checkpoint that leads here can only be looked at", e.Effect, e.Ref, e.Operation, e.Final, e.At.UTC().Format(time.RFC3339), e.Receipt)
}

// InputError: the parameters, the reference or the declaration cannot be used. Nothing was reserved or sent.
type InputError struct {
	Effect string
	Ref    Reference
	Err    error
}

// Error says what was refused, and what to do.
func (e *InputError) Error() string {
	return fmt.Sprintf("effect %q %s: refused: %v; nothing was reserved and nothing was sent", e.Effect, e.Ref, e.Err)
}

// Unwrap returns the cause.
func (e *InputError) Unwrap() error { return e.Err }

// ChangedError: the reference stands for a call with other parameters, which is too far on, or not this task's, to be
// changed. Nothing was changed and nothing was sent. It matches [ErrIntentChanged].
type ChangedError struct {
	Effect    string
	Ref       Reference
	Operation string
	State     State
	Thread    string // where the operation comes from
	Path      string // first place where the parameters differ; values are not told
	Drift     bool   // no material field differs
}

// Error says what was refused, and what to do.
func (e *ChangedError) Error() string {
	what := "has other parameters"
	if e.Drift {
		what = "has other parameters, none of them material"
	}
	return fmt.Sprintf("effect %q %s: the call %s than operation %.12s, which is %s (thread %q), first at %s; nothing was changed and "+
		"nothing was sent; a second action on purpose needs a reference of its own", e.Effect, e.Ref, what, e.Operation, e.State, e.Thread, e.Path)
}

// Is makes errors.Is(err, ErrIntentChanged) true.
func (e *ChangedError) Is(target error) bool { return target == ErrIntentChanged }

// DeniedError: a person said no to this call, or nobody answered in time. Nothing was sent. A denial is remembered: the
// same call is not asked about again.
type DeniedError struct {
	Effect    string
	Ref       Reference
	Operation string
	Approval  string
	By        string
	Reason    string
	At        time.Time
	Expired   bool // nobody decided in time; the next Do asks anew. It matches pawl.ErrExpired.
}

// Error says who said no, and why.
func (e *DeniedError) Error() string {
	if e.Expired {
		return fmt.Sprintf("effect %q %s: nobody decided %s by %s; nothing was sent", e.Effect, e.Ref, e.Approval, e.At.UTC().Format(time.RFC3339))
	}
	s := fmt.Sprintf("effect %q %s: denied by %q at %s", e.Effect, e.Ref, e.By, e.At.UTC().Format(time.RFC3339))
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	return s + "; nothing was sent, and the same call is not asked about again"
}

// Is makes errors.Is(err, pawl.ErrExpired) true for a request that expired.
func (e *DeniedError) Is(target error) bool { return e.Expired && target == pawl.ErrExpired }

// RejectedError: the target refused the operation for good. It is not sent again.
type RejectedError struct {
	Effect    string
	Ref       Reference
	Operation string
	Reason    string // in the words of the function's error
	Err       error  // that error, in the process that got it
}

// Error says what the target said.
func (e *RejectedError) Error() string {
	return fmt.Sprintf("effect %q %s: the target refused it for good: %s; it did nothing and is not asked again", e.Effect, e.Ref, e.Reason)
}

// Unwrap returns the cause.
func (e *RejectedError) Unwrap() error { return e.Err }

// NotSentError: it is proven that nothing happened. Entering the node again sends it.
type NotSentError struct {
	Effect    string
	Ref       Reference
	Operation string
	Err       error
}

// Error says what was not done.
func (e *NotSentError) Error() string {
	return fmt.Sprintf("effect %q %s: nothing was sent: %v; it may be tried again", e.Effect, e.Ref, e.Err)
}

// TryAgain tells [pawl.Retryable] that the ledger, not the cause, decides what another entry of the node sends.
func (e *NotSentError) TryAgain() bool { return true }

// Unwrap returns the cause.
func (e *NotSentError) Unwrap() error { return e.Err }

// InDoubtError: nobody knows yet whether it happened. It is not taken for done nor for failed; entering the node again
// settles it, and so does a person at the desk.
type InDoubtError struct {
	Effect    string
	Ref       Reference
	Operation string
	Attempt   int64
	Since     time.Time // when it was dispatched
	Due       time.Time // from when on a look-up's "absent" is trusted; zero, or past: now
	Err       error
}

// Error says what is unknown, and what to do.
func (e *InDoubtError) Error() string {
	s := fmt.Sprintf("effect %q %s: outcome unknown since %s (operation %.12s, attempt %d)", e.Effect, e.Ref,
		e.Since.UTC().Format(time.RFC3339), e.Operation, e.Attempt)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	when := ""
	if e.Due.After(e.Since) {
		when = " from " + e.Due.UTC().Format(time.RFC3339) + " on"
	}
	return s + "; resume the thread" + when + " to settle it, or say at the effect desk what happened"
}

// TryAgain tells [pawl.Retryable] that the ledger, not the cause, decides what another entry of the node sends.
func (e *InDoubtError) TryAgain() bool { return true }

// Unwrap returns the cause.
func (e *InDoubtError) Unwrap() error { return e.Err }

// BusyError: the operation is on its way in another living process. Nothing was sent here; try again. It matches
// [pawl.ErrBusy].
type BusyError struct {
	Effect    string
	Ref       Reference
	Operation string
	Thread    string // that dispatched it
	Since     time.Time
}

// Error says who has it, and what to do.
func (e *BusyError) Error() string {
	return fmt.Sprintf("effect %q %s: operation %.12s is on its way from thread %q; nothing was sent here; try again to get its receipt",
		e.Effect, e.Ref, e.Operation, e.Thread)
}

// TryAgain tells [pawl.Retryable] that the ledger, not the cause, decides what another entry of the node sends.
func (e *BusyError) TryAgain() bool { return true }

// Is makes errors.Is(err, pawl.ErrBusy) true.
func (e *BusyError) Is(target error) bool { return target == pawl.ErrBusy }

// LostKeyError: what is encrypted cannot be read. Nothing was sent.
type LostKeyError struct {
	Operation string
	Effect    string
	Ref       Reference
	What      string // "params", "outcome"
	Key       string // id of the key that it is under, in hexadecimal
	Err       error
}

// Error says what cannot be read, and what to do.
func (e *LostKeyError) Error() string {
	return fmt.Sprintf("effect %q %s: the %s of operation %.12s cannot be decrypted (key %s): %v; nothing was sent; give the ledger the key "+
		"file of this database, or the key as one of Options.OldKeys", e.Effect, e.Ref, e.What, e.Operation, e.Key, e.Err)
}

// Unwrap returns the cause.
func (e *LostKeyError) Unwrap() error { return e.Err }

// HiddenError: a material field would be hidden from whoever approves, so nobody was asked. Nothing was sent.
type HiddenError struct {
	Effect string
	Ref    Reference
	Fields []string
}

// Error says what would be hidden, and what to do.
func (e *HiddenError) Error() string {
	return fmt.Sprintf("effect %q %s: redaction would hide material fields from the approver (%s); nobody was asked and nothing was sent; "+
		"rename the field, or leave it out of Material", e.Effect, e.Ref, strings.Join(e.Fields, ", "))
}

// UnsettledError refuses a verb on a thread while operations of it may have happened. Nothing was changed.
type UnsettledError struct {
	Verb       pawl.Verb
	Thread     string
	Operations []string // "effect ref (state)"
}

// Error says what is open, and what to do.
func (e *UnsettledError) Error() string {
	return fmt.Sprintf("effect: thread %q: %s is refused and nothing was changed, because the outcome is not known of: %s; resume the "+
		"thread to settle them, or say at the effect desk what happened", e.Thread, e.Verb, strings.Join(e.Operations, ", "))
}
