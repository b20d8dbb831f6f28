package cli

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/storage"
)

// The exit codes, the same for every command.
const (
	OK          = 0
	Failed      = 1
	Usage       = 2
	NotFound    = 3
	Denied      = 4
	Conflict    = 5
	Stopped     = 6
	Unverified  = 7
	InDoubt     = 8
	Unreachable = 9
	TimedOut    = 124
	Interrupted = 130
)

const exitHelp = `Exit codes:
    0 done                              6 stopped for a person (with --wait), or for a second one
    1 failed, refused, or damaged       7 audit verification failed
    2 usage                             8 effects in unknown state, or unexplained
    3 not found                         9 the database cannot be reached or opened
    4 not allowed                     124 timeout
    5 conflict: answered, expired,    130 interrupted
      another digest or version
`

// Error is an error with the exit code that it leads to.
type Error struct {
	Code int
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// CodeOf is the exit code of an error.
func CodeOf(err error) int {
	var (
		coded   *Error
		opening *storage.OpenError
		answer  *pawl.AnswerError
		verb    *pawl.VerbError
		version *pawl.VersionError
		decided *approval.DecidedError
		digest  *approval.DigestError
		settled *effect.SettledError
		open    *effect.UnsettledError
		doubt   *effect.InDoubtError
		law     *effect.LawError
		redo    *effect.RedoError
		held    *effect.RestoredError
		second  *effect.SecondVoteError
		used    *approval.UsedError
		grant   *approval.GrantError
		rate    *approval.RateError
		migrate *pawl.MigrationError
		drains  *pawl.DrainingError
		run     *pawl.RunError
		input   *pawl.InputError
	)
	switch {
	case err == nil:
		return OK
	case errors.As(err, &coded):
		return coded.Code
	case errors.As(err, &run): // what its node met is not what this command met
		return Failed
	case errors.As(err, &input):
		return Usage
	case errors.Is(err, context.Canceled):
		return Interrupted
	case errors.Is(err, context.DeadlineExceeded):
		return TimedOut
	case errors.Is(err, pawl.ErrNotFound):
		return NotFound
	case errors.Is(err, pawl.ErrDenied), errors.As(err, &rate):
		return Denied
	case errors.As(err, &answer):
		return answerCode(answer.Reason)
	case errors.As(err, &verb), errors.As(err, &version), errors.Is(err, pawl.ErrBusy), errors.Is(err, pawl.ErrExpired),
		errors.As(err, &decided), errors.As(err, &digest), errors.As(err, &settled), errors.As(err, &open),
		errors.As(err, &migrate), errors.As(err, &drains), errors.As(err, &law), errors.As(err, &redo), errors.As(err, &held),
		errors.As(err, &used), errors.As(err, &grant):
		return Conflict
	case errors.As(err, &second):
		return Stopped
	case errors.As(err, &doubt):
		return InDoubt
	case errors.As(err, &opening):
		return openCode(opening.Reason)
	}
	return Failed
}

// answerCode tells a bad answer (send another) from a question that is over (look again).
func answerCode(r pawl.AnswerReason) int {
	switch r {
	case pawl.ReasonRefused, pawl.ReasonKind:
		return Failed
	case pawl.ReasonAmbiguous:
		return Usage
	case pawl.ReasonElsewhere:
		return NotFound
	}
	return Conflict
}

// openCode tells a file that is wrong from one that could not be got at.
func openCode(r storage.OpenReason) int {
	switch r {
	case storage.Damaged, storage.NewerVersion, storage.NotPawl, storage.ChangedKind:
		return Failed
	}
	return Unreachable
}
