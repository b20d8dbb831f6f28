package storage

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed: the home, or the snapshot, is closed. Nothing was written.
	ErrClosed = errors.New("storage: closed")
	// ErrNested: a View or Update was called inside another's function. Nothing was written.
	ErrNested = errors.New("storage: View or Update inside the function of another; use the Tx at hand")
	// ErrReadOnly: a write inside a View, or to a home that was opened or mounted read-only. Nothing was written.
	ErrReadOnly = errors.New("storage: read-only")
	// ErrFull: the disk, or the quota, is full. Nothing was written; free space and try again.
	ErrFull = errors.New("storage: no space left; nothing was written")
	// ErrBroken: a commit failed in a way that leaves this handle in doubt. Close it and open it again.
	ErrBroken = errors.New("storage: a commit failed; close this home and open it again")
)

// UnknownError says that an Update may or may not be durable. The caller reads back by an id that it wrote.
type UnknownError struct{ Err error }

// Error says what was refused, and what to do.
func (e *UnknownError) Error() string {
	return "storage: outcome unknown, read back before going on: " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *UnknownError) Unwrap() error { return e.Err }

// PanicError is a panic or runtime.Goexit of a function given to View or Update. Nothing of it was written.
type PanicError struct {
	Value any // nil for Goexit
	Stack []byte
}

// Error says what was refused, and what to do.
func (e *PanicError) Error() string {
	return fmt.Sprintf("storage: the function ended by panic or Goexit, its change was undone: %v", e.Value)
}

// TooLargeError refuses a body over MaxValue before anything is queued.
type TooLargeError struct {
	Kind string
	Size int
}

// Error says what was refused, and what to do.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("storage: a %s of %d bytes is over the limit of %d; nothing was written", e.Kind, e.Size, MaxValue)
}

// MissingError is a chain of values with a link that is not there: the home is damaged.
type MissingError struct {
	Kind string
	ID   int64
}

// Error says what was refused, and what to do.
func (e *MissingError) Error() string {
	return fmt.Sprintf("storage: damaged: %s %d is referred to and missing", e.Kind, e.ID)
}

// OpenError refuses to open a home, by name. It never repairs.
type OpenError struct {
	Where  string // file or address
	Reason OpenReason
	Detail string
	Err    error
}

// OpenReason says why a home was not opened.
type OpenReason string

// Why a home was not opened.
const (
	NewerVersion  OpenReason = "written by a newer Pawl"
	Damaged       OpenReason = "damaged"
	NotPawl       OpenReason = "not a Pawl database"
	NetworkFS     OpenReason = "on a network file system"
	NotWritable   OpenReason = "not writable"
	ChangedKind   OpenReason = "holds a record kind that is declared differently here"
	CannotOpen    OpenReason = "cannot be opened"
	UnsupportedOS OpenReason = "on an operating system without the locks that it needs"
)

// Error says what was refused, and what to do.
func (e *OpenError) Error() string {
	s := fmt.Sprintf("storage: %s: %s", e.Where, e.Reason)
	if e.Detail != "" {
		s += " (" + e.Detail + ")"
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s + "; nothing was changed"
}

// Unwrap returns the cause.
func (e *OpenError) Unwrap() error { return e.Err }
