package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl"
)

// httpError is what clients of APIs return.
type httpError int

func (e httpError) Error() string   { return fmt.Sprint("status ", int(e)) }
func (e httpError) StatusCode() int { return int(e) }

// opinion knows itself whether to try again.
type opinion bool

func (o opinion) Error() string  { return fmt.Sprint("try again: ", bool(o)) }
func (o opinion) TryAgain() bool { return bool(o) }

func panicking(v any) error { return &pawl.PanicError{Node: "a", Value: v} }

func index(list []int) (err error) {
	defer func() { err = panicking(recover()) }()
	return fmt.Errorf("there is %d", list[len(list)])
}

func unread(doc string) error {
	var n struct{ N int }
	return json.Unmarshal([]byte(doc), &n)
}

func refused(of error) error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", of)}
}

// The table of kinds: what the same input makes again is final, what the world made is tried again, and so is the unknown.
func TestRetryable(t *testing.T) {
	t.Parallel()
	_, noNumber := strconv.Atoi("seven")
	_, tooLarge := strconv.ParseInt("1", 10, 100*len(t.Name()))
	_, outOfRange := strconv.ParseInt("99999999999999999999", 10, 64)
	_, noFile := os.Open(filepath.Join(t.TempDir(), "none"))
	_, noJSON := json.Marshal([]any{make(chan int)})
	for _, c := range []struct {
		name string
		err  error
		want bool
	}{
		{"nothing", nil, false},
		{"unknown", errBroken, true},
		{"an end of file", io.EOF, true},
		{"cut off", io.ErrUnexpectedEOF, true},
		{"a panic with words", panicking("no"), true},
		{"an ended goroutine", panicking(nil), true},

		{"no connection", refused(syscall.ECONNREFUSED), true},
		{"a connection that broke", fmt.Errorf("ask: %w", &url.Error{Op: "Get", URL: "x", Err: refused(syscall.ECONNRESET)}), true},
		{"a socket that is not there yet", refused(syscall.ENOENT), true},
		{"no name", &net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}, true},
		{"too late", context.DeadlineExceeded, true},
		{"a file too late", &fs.PathError{Op: "read", Path: "x", Err: os.ErrDeadlineExceeded}, true},
		{"the node's own timeout", fmt.Errorf("%w: %w", &pawl.TimeoutError{Node: "a", Idle: true}, context.Canceled), true},

		{"500", httpError(500), true}, {"503", fmt.Errorf("ask: %w", httpError(503)), true}, {"408", httpError(408), true}, {"429", httpError(429), true},
		{"no status", httpError(0), true}, {"400", httpError(400), false}, {"404", fmt.Errorf("ask: %w", httpError(404)), false}, {"302", httpError(302), false},

		{"an index out of range", index(nil), false},
		{"no JSON", unread("{"), false},
		{"JSON of another type", unread(`{"N":"x"}`), false},
		{"JSON into nothing", &json.InvalidUnmarshalError{}, false},
		{"a value without JSON", noJSON, false},
		{"no number", fmt.Errorf("read: %w", noNumber), false},
		{"a number out of range", outOfRange, false},
		{"a wrong size", tooLarge, true},
		{"no file", noFile, false},
		{"no permission", &fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, false},
		{"an invalid argument", fs.ErrInvalid, false},
		{"cancelled", fmt.Errorf("ask: %w", context.Canceled), false},

		{"final", pawl.NoRetry(errBroken), false},
		{"final, though it knows better", pawl.NoRetry(opinion(true)), false},
		{"concluded", pawl.Conclude("no"), false},
		{"it says yes", fmt.Errorf("%w: %w", opinion(true), httpError(404)), true},
		{"it says no", fmt.Errorf("%w: %w", opinion(false), httpError(503)), false},

		{"undeclared", &pawl.UndeclaredError{}, false}, {"an undeclared target", &pawl.UndeclaredTargetError{}, false},
		{"no storage", &pawl.NoStorageError{}, false}, {"a wrong input", &pawl.InputError{Err: errBroken}, false},
		{"a refused write", &pawl.StateError{}, false}, {"too large", &pawl.SizeError{}, false}, {"a limit", &pawl.LimitError{}, false},
		{"a question below the top", &pawl.TopLevelError{}, false}, {"not found", &pawl.NotFoundError{}, false},
		{"a name used twice", fmt.Errorf("step: %w", pawl.ErrNameReused), false}, {"not allowed", pawl.ErrDenied, false},
		{"busy", pawl.ErrBusy, true}, {"of a child", &pawl.ChildError{Err: httpError(404)}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := pawl.Retryable(c.err); got != c.want {
				t.Errorf("%v: %v", c.err, got)
			}
		})
	}
}

// A node with Tries is entered again by the table, and by RetryOn where it has one.
func TestRetryableIsTheDefault(t *testing.T) {
	t.Parallel()
	all := func(error) bool { return true }
	for _, c := range []struct {
		name    string
		fails   error
		options []pawl.NodeOption
		entered int
	}{
		{"the world", httpError(503), nil, 3},
		{"unknown", errBroken, nil, 3},
		{"the input", httpError(404), nil, 1},
		{"a policy for it", httpError(404), []pawl.NodeOption{pawl.RetryOn(all)}, 3},
		{"a policy for others", httpError(503), []pawl.NodeOption{pawl.RetryOn(is(errBroken))}, 1},
		{"both", httpError(503), []pawl.NodeOption{pawl.RetryOn(func(err error) bool { return errors.Is(err, errBroken) || pawl.Retryable(err) })}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			entered := 0
			g := single(t, func(context.Context, *note) error { entered++; return c.fails }, append(c.options, pawl.Tries(3), pawl.Backoff(0, 0))...)
			eng, err := pawl.NewEngine(nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer eng.Close()
			if _, err := g.Thread(eng, "t").Run(t.Context(), nil); !errors.Is(err, c.fails) || entered != c.entered {
				t.Errorf("entered %d times, want %d: %v", entered, c.entered, err)
			}
		})
	}
	t.Run("a mistake", func(t *testing.T) {
		t.Parallel()
		entered := 0
		g := single(t, func(context.Context, *note) error {
			var list []int
			entered++
			return fmt.Errorf("there is %d", list[entered])
		}, pawl.Tries(3), pawl.Backoff(0, 0))
		eng, err := pawl.NewEngine(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer eng.Close()
		if _, err := g.Thread(eng, "t").Run(t.Context(), nil); !errors.As(err, new(*pawl.PanicError)) || entered != 1 {
			t.Errorf("entered %d times: %v", entered, err)
		}
	})
}
