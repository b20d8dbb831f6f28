package pawl

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"runtime"
	"strconv"
)

// Retryable is what a node with Tries is tried again for where no RetryOn says otherwise: every error but those that the
// same input makes again. In this order:
//
//   - NoRetry and Conclude are final.
//   - An error with the method TryAgain() bool says it itself; errors of effects do, by what their ledger knows.
//   - An error with the method StatusCode() int is tried again at 500 and above, at 408 (timeout) and 429 (too many), and
//     at 0, which is no status; any other status is final.
//   - Timeouts and errors of the network are tried again.
//   - Final are: a panic with a [runtime.Error]; text that is no JSON, no number, or does not fit its type; a value that JSON
//     cannot hold; files that are not there, or not allowed ([fs.ErrNotExist], [fs.ErrPermission], [fs.ErrInvalid]);
//     [context.Canceled]; and a wrong use of this package, such as an undeclared question or target, a name used twice, a
//     write that was refused, or a value that is too large.
//   - All else is tried again.
//
// It judges entries of nodes. An effect that a node dispatches is judged by its ledger alone, however often the node is
// entered. Combine it with what only the program knows:
//
//	pawl.RetryOn(func(err error) bool { return errors.Is(err, errFlaky) || pawl.Retryable(err) }, pawl.Tries(5))
func Retryable(err error) bool {
	if err == nil || final(err) {
		return false
	}
	if own := (retryError)(nil); errors.As(err, &own) {
		return own.TryAgain()
	}
	if answer := (statusError)(nil); errors.As(err, &answer) {
		code := answer.StatusCode()
		return code == 0 || code == 408 || code == 429 || code >= 500
	}
	return unreached(err) || !repeats(err) && !misused(err)
}

type retryError interface {
	error
	TryAgain() bool
}

type statusError interface {
	error
	StatusCode() int
}

// final says that an error is the last one, whatever a policy says.
func final(err error) bool { return isOne[*noRetry](err) || isOne[*concluded](err) }

// unreached: nothing answered, or not in time. What the network wraps may look like a file that is not there.
func unreached(err error) bool {
	if late := (interface {
		error
		Timeout() bool
	})(nil); errors.As(err, &late) && late.Timeout() {
		return true
	}
	return isOne[*TimeoutError](err) || isOne[*net.OpError](err) || isOne[*net.DNSError](err)
}

// repeats: the same input makes the same error.
func repeats(err error) bool {
	if p, ok := errors.AsType[*PanicError](err); ok {
		_, mistake := p.Value.(runtime.Error)
		return mistake
	}
	for _, same := range []error{strconv.ErrSyntax, strconv.ErrRange, fs.ErrNotExist, fs.ErrPermission, fs.ErrInvalid, context.Canceled} {
		if errors.Is(err, same) {
			return true
		}
	}
	return isOne[*json.SyntaxError](err) || isOne[*json.UnmarshalTypeError](err) || isOne[*json.InvalidUnmarshalError](err) ||
		isOne[*json.UnsupportedTypeError](err) || isOne[*json.UnsupportedValueError](err)
}

// misused: the program uses the engine in a way that is refused each time.
func misused(err error) bool {
	for _, refused := range []error{ErrNameReused, ErrNotFound, ErrDenied} {
		if errors.Is(err, refused) {
			return true
		}
	}
	return isOne[*UndeclaredError](err) || isOne[*UndeclaredTargetError](err) || isOne[*TopLevelError](err) || isOne[*NoStorageError](err) ||
		isOne[*InputError](err) || isOne[*StateError](err) || isOne[*SizeError](err) || isOne[*LimitError](err)
}

func isOne[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}
