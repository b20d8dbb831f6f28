package pawltest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
)

// TargetMode is what a [Target] promises to those who send to it.
type TargetMode string

// The modes. A target with keys reserves the key with the change, returns the first outcome for it again and refuses it
// with another body. One with look-up takes every request for a new one and can be asked. An opaque one does neither.
const (
	TargetKeys   TargetMode = "keys"
	TargetLookup TargetMode = "look-up"
	TargetOpaque TargetMode = "opaque"
)

// TargetPoint is where in a request something can happen.
type TargetPoint string

// The points, in the order in which a request passes them.
const (
	TargetReceived  TargetPoint = "received"  // counted, nothing changed
	TargetCommitted TargetPoint = "committed" // changed, not yet answered
	TargetAsked     TargetPoint = "asked"     // a look-up
)

var (
	// ErrTargetDropped is what a sender sees whose connection went away: it does not know what happened.
	ErrTargetDropped = errors.New("pawltest: the target dropped the connection")
	// ErrTargetKeyReused refuses a key that came with another body before. Nothing was changed.
	ErrTargetKeyReused = errors.New("pawltest: the target knows this key with another body")
	// ErrTargetMode refuses what the target does not promise.
	ErrTargetMode = errors.New("pawltest: the target cannot be asked")
)

// TargetStatusError is an answer of a target that says that it failed. What was committed stays.
type TargetStatusError struct{ Status int }

// Error says the status.
func (e *TargetStatusError) Error() string {
	return fmt.Sprintf("pawltest: the target answers %d", e.Status)
}

// TargetRow is one change that a target made.
type TargetRow struct {
	ID   string // the receipt
	Key  string // as sent; empty for a sender that gave none
	Ref  string
	Body string
}

// TargetCount is how much a target saw.
type TargetCount struct {
	Requests int // that asked for a change
	Lookups  int
	Rows     int // changes
}

// String shows both counts.
func (c TargetCount) String() string {
	return fmt.Sprintf("%d requests, %d look-ups, %d rows", c.Requests, c.Lookups, c.Rows)
}

// Target is an outside system with a ledger of its own, in this process. It is safe for concurrent use.
type Target struct {
	mode TargetMode

	mu       sync.Mutex
	requests []string // keys
	lookups  int
	rows     []TargetRow
	forgot   int // rows whose keys are forgotten
	lags     int // look-ups that do not see what happened
	hook     func(context.Context, TargetPoint, TargetRow) error
}

// NewTarget makes a target with an empty ledger.
func NewTarget(mode TargetMode) *Target { return &Target{mode: mode} }

// Mode is what the target promises.
func (t *Target) Mode() TargetMode { return t.mode }

// At lets f see each request at its points, until the next At; nil ends that. An error of f ends the request there: the
// sender sees [ErrTargetDropped] and what was committed stays. f may stop the sender's storage, or kill its process.
func (t *Target) At(f func(p TargetPoint, row TargetRow) error) {
	if f == nil {
		t.at(nil)
		return
	}
	t.at(func(_ context.Context, p TargetPoint, row TargetRow) error { return f(p, row) })
}

func (t *Target) at(f func(context.Context, TargetPoint, TargetRow) error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hook = f
}

// DropAt makes the next n requests that come to a point end there.
func (t *Target) DropAt(p TargetPoint, n int) { t.Fault(TargetFault{At: p, Times: n}) }

// Forget makes a target with keys forget those that it knows, as one with a short retention does: a request with one of
// them is a new one.
func (t *Target) Forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forgot = len(t.rows)
}

// Fault sets what happens to requests from now on; the zero TargetFault ends that.
func (t *Target) Fault(f TargetFault) {
	if f.Forget {
		t.Forget()
		return
	}
	if f.At == TargetAsked {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.lags = f.Times
		return
	}
	var left atomic.Int64
	left.Store(int64(f.Times))
	t.at(func(ctx context.Context, at TargetPoint, row TargetRow) error {
		if at != f.At || left.Add(-1) < 0 {
			return nil
		}
		return t.strike(ctx, f, row)
	})
}

// strike does to a request what a fault says.
func (t *Target) strike(ctx context.Context, f TargetFault, row TargetRow) error {
	if f.Delay > 0 {
		slow := time.NewTimer(f.Delay)
		defer slow.Stop()
		select {
		case <-slow.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if f.Twice {
		t.mu.Lock()
		t.append(row)
		t.mu.Unlock()
	}
	switch {
	case f.Kill:
		return killSender(ctx)
	case f.Status != 0:
		return &TargetStatusError{f.Status}
	case f.Twice, f.Delay > 0:
		return nil
	}
	return ErrTargetDropped
}

// killSender kills the process that sends a request.
func killSender(ctx context.Context) error {
	sender, _ := ctx.Value(senderKey{}).(string)
	pid, err := strconv.Atoi(sender)
	if err != nil || pid <= 1 {
		return fmt.Errorf("pawltest: the sender is process %q, which cannot be killed", sender)
	}
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Kill()
	}
	return errors.Join(ErrTargetDropped, err)
}

// Send asks for one change and returns its receipt. key may be empty.
func (t *Target) Send(ctx context.Context, key, ref string, body []byte) (receipt string, err error) {
	row := TargetRow{Key: key, Ref: ref, Body: string(body)}
	pawl.CalledOut(ctx, "send "+ref)
	t.mu.Lock()
	t.requests = append(t.requests, key)
	t.mu.Unlock()
	if err := t.pass(ctx, TargetReceived, row); err != nil {
		return "", err
	}
	if row, err = t.commit(row); err != nil {
		return "", err
	}
	if err := t.pass(ctx, TargetCommitted, row); err != nil {
		return "", err
	}
	return row.ID, nil
}

func (t *Target) commit(row TargetRow) (TargetRow, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mode == TargetKeys && row.Key != "" {
		for _, r := range t.rows[t.forgot:] {
			switch {
			case r.Key != row.Key:
			case r.Body != row.Body:
				return TargetRow{}, ErrTargetKeyReused
			default:
				return r, nil
			}
		}
	}
	return t.append(row), nil
}

// append adds a row under an id of its own.
func (t *Target) append(row TargetRow) TargetRow {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s:%s", len(t.rows), row.Ref, row.Body))
	row.ID = "tx-" + hex.EncodeToString(sum[:6])
	t.rows = append(t.rows, row)
	return row
}

// Find asks a target that can be asked for the change of a reference. False: there is none.
func (t *Target) Find(ctx context.Context, ref string) (receipt string, found bool, err error) {
	pawl.CalledOut(ctx, "look up "+ref)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lookups++
	if t.mode != TargetLookup {
		return "", false, ErrTargetMode
	}
	if t.lags--; t.lags >= 0 {
		return "", false, nil
	}
	for _, r := range t.rows {
		if r.Ref == ref {
			return r.ID, true, nil
		}
	}
	return "", false, nil
}

// pass calls the hook, which may wait: other requests go on meanwhile.
func (t *Target) pass(ctx context.Context, p TargetPoint, row TargetRow) error {
	t.mu.Lock()
	hook := t.hook
	t.mu.Unlock()
	if hook == nil {
		return nil
	}
	err := hook(ctx, p, row)
	if failed := (*TargetStatusError)(nil); err == nil || errors.As(err, &failed) {
		return err
	}
	return errors.Join(ErrTargetDropped, err)
}

// Count is how much the target saw so far.
func (t *Target) Count() TargetCount {
	t.mu.Lock()
	defer t.mu.Unlock()
	return TargetCount{len(t.requests), t.lookups, len(t.rows)}
}

// Rows is the target's ledger, the oldest change first.
func (t *Target) Rows() []TargetRow {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.rows)
}

// Keys are the keys of all requests, in the order of their coming.
func (t *Target) Keys() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.requests)
}
