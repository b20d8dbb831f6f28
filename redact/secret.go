package redact

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// ErrMasked says that a document holds a mask where a secret belongs.
var ErrMasked = errors.New("redact: the value is masked; read the secret where it is kept, a view does not have it")

// Secret holds a value that does not get out by accident. Through fmt (with any verb, also as a part of another
// value), encoding/json, encoding.TextMarshaler, slog and the errors made of them it is [Mask]; dumpers that follow
// pointers find a function. [Secret.Reveal] is the one way to the value, and easy to search for.
//
// Reading JSON gives the secret its real value, because that is how configuration and arguments come in. Writing is
// asymmetric on purpose: json.Marshal is what every log, API and store calls without thinking, so it masks, and who
// must have the value says so with [Exact]. A Secret in a thread's state is therefore stored as a mask, and reading
// that mask back fails with [ErrMasked] instead of handing out the text "[hidden]" as a password. Keep in state where a
// secret is found; pass it as an argument of an effect.
//
// The zero Secret holds the zero T. Secrets cannot be compared with ==. A copy holds the same value; copying and
// reading are safe for concurrent use as far as T is.
type Secret[T any] struct {
	get  func() T // a function, because printers that ignore methods follow anything else
	open bool     // only in copies that Exact makes and drops
}

// NewSecret makes a secret of a value.
func NewSecret[T any](v T) Secret[T] { return Secret[T]{get: func() T { return v }} }

// Reveal returns the value.
func (s Secret[T]) Reveal() (v T) {
	if s.get != nil {
		v = s.get()
	}
	return v
}

// Format prints the mask for every verb.
func (s Secret[T]) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, Mask) }

// String returns the mask.
func (s Secret[T]) String() string { return Mask }

// IsZero says that no value was ever given, for omitzero.
func (s Secret[T]) IsZero() bool { return s.get == nil }

// LogValue is the mask.
func (s Secret[T]) LogValue() slog.Value { return slog.StringValue(Mask) }

// MarshalText returns the mask, for other encodings and as a key of a map.
func (s Secret[T]) MarshalText() ([]byte, error) { return []byte(Mask), nil }

// MarshalJSON returns the mask. See [Exact].
func (s Secret[T]) MarshalJSON() ([]byte, error) {
	if s.open {
		return Exact(s.Reveal())
	}
	return quoted(Mask), nil
}

// UnmarshalJSON reads the real value. Its errors do not quote what was read.
func (s *Secret[T]) UnmarshalJSON(doc []byte) error {
	var text string
	if json.Unmarshal(doc, &text) == nil && masked(text) {
		return ErrMasked
	}
	var v T
	if err := json.Unmarshal(doc, &v); err != nil {
		return fmt.Errorf("redact: a secret does not decode into %T; nothing was read, and what was there is not shown", v)
	}
	*s = NewSecret(v)
	return nil
}

func (s Secret[T]) opened() any {
	s.open = true
	return s
}
