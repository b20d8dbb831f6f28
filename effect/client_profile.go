package effect

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
)

// KeyForm is how a key looks on the wire.
type KeyForm string

// The forms. All are derived from Op.Key alone, so they are the same in every attempt.
const (
	KeyRaw   KeyForm = ""      // Op.Key: 64 hexadecimal digits
	KeyUUID  KeyForm = "uuid"  // Op.UUID: 36 characters, version 8
	KeyUUID4 KeyForm = "uuid4" // in the shape of a random UUID, for targets that look at the version
)

// Profile is what a target says about keys and statuses: data, to be written down from its documentation. The zero
// Profile sends the raw key as Idempotency-Key, and takes no status but those from 200 to 299 for an outcome.
type Profile struct {
	Header  string  // that carries the key; empty: Idempotency-Key
	Form    KeyForm // of the key
	Quote   bool    // the key stands in quotes, as a structured field
	Max     int     // most characters that the target takes, quotes not counted; 0: no limit
	Keyless bool    // no header is set: the target has no keys, or takes them in the body

	// Rejected are the statuses that prove that the target refused the operation for good, did nothing, and keeps to it.
	// A status that says "this key came with other parameters" is none: the first request may have been applied.
	Rejected []int
	// Unsent are the statuses that prove that nothing was done yet and that the same key may be sent again: a limiter in
	// front of the target, a key that is not checked yet.
	Unsent []int
	// Replayed is the header by which an answer says that it is the first outcome again; empty: it does not say so.
	Replayed string
}

// Key is the operation's key as the target wants it, without quotes.
func (p Profile) Key(op Op) string {
	switch p.Form {
	case KeyUUID:
		return op.UUID()
	case KeyUUID4:
		return uuidOf("pawl.uuid4.1:"+op.Key, 4)
	}
	return op.Key
}

// uuidOf arranges the digest of a text as a UUID of a version.
func uuidOf(text string, version byte) string {
	sum := sha256.Sum256([]byte(text))
	sum[6], sum[8] = sum[6]&0x0f|version<<4, sum[8]&0x3f|0x80
	h := hex.EncodeToString(sum[:16])
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

// sign puts the key into a request's header. What the caller had put there must be the same.
func (p Profile) sign(h http.Header, op Op) error {
	name, key := p.Header, p.Key(op)
	if name == "" {
		name = "Idempotency-Key"
	}
	switch {
	case op.Key == "":
		return errors.New("effect: the operation has no key; nothing was sent")
	case p.Max > 0 && len(key) > p.Max:
		return fmt.Errorf("effect: the key has %d characters and the target takes %d; nothing was sent; set Profile.Form", len(key), p.Max)
	}
	if p.Quote {
		key = `"` + key + `"`
	}
	if had := h.Values(name); len(had) > 0 && !slices.Equal(had, []string{key}) {
		return fmt.Errorf("effect: the request has a %s of its own; nothing was sent; leave it to the client", name)
	}
	h.Set(name, key)
	return nil
}

// StatusError is an answer that is no success. Its text does not quote the answer, which may hold secrets.
type StatusError struct {
	Status   int
	Header   http.Header
	Replayed bool // the target says that it answered so before
}

// Error says the status and what it proves.
func (e *StatusError) Error() string {
	s := fmt.Sprintf("the target answers %d %s", e.Status, http.StatusText(e.Status))
	if e.Replayed {
		s += ", as it did before"
	}
	return strings.TrimSpace(s)
}

// Check says what the status of an answer means: nil for 200 to 299, otherwise a [*StatusError], marked [Rejected] or
// [NotSent] where the profile says that the status proves that. Unmarked, the outcome is unknown.
func (p Profile) Check(res *http.Response) error {
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		return nil
	}
	err := &StatusError{Status: res.StatusCode, Header: res.Header, Replayed: p.IsReplay(res)}
	switch {
	case slices.Contains(p.Rejected, res.StatusCode):
		return Rejected(err)
	case slices.Contains(p.Unsent, res.StatusCode) && !err.Replayed:
		return NotSent(err)
	}
	return err
}

// IsReplay says that the target marked an answer as the first outcome, given again.
func (p Profile) IsReplay(res *http.Response) bool {
	if p.Replayed == "" {
		return false
	}
	v := res.Header.Get(p.Replayed)
	return v != "" && !strings.EqualFold(v, "false")
}

type opKey struct{}

// WithOp puts an operation into a context, as the engine does for an effect's function: for tests of a function that
// uses [NewClient].
func WithOp(ctx context.Context, op Op) context.Context { return context.WithValue(ctx, opKey{}, op) }

// recorded is the context of an effect's function, or of its look-up, in a task.
func recorded(ctx context.Context, op Op) context.Context {
	if t, ok := pawl.TaskFrom(ctx); ok {
		ctx = t.Recorded(ctx, "effect")
	}
	return WithOp(ctx, op)
}

// OpFrom returns the operation that the function of an effect, or its look-up, works for.
func OpFrom(ctx context.Context) (Op, bool) {
	op, ok := ctx.Value(opKey{}).(Op)
	return op, ok
}

// IsNotSent says that an error is marked by [NotSent].
func IsNotSent(err error) bool {
	e := (*notSent)(nil)
	return errors.As(err, &e)
}

// IsRejected says that an error is marked by [Rejected].
func IsRejected(err error) bool {
	e := (*rejected)(nil)
	return errors.As(err, &e)
}
