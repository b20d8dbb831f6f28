package store

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrNoStore: the context is not that of a node whose engine has a memory. Nothing was read or written.
	ErrNoStore = errors.New("store: no memory in this context; put store.New into pawl.Options.Parts, or store.With into a test's context; nothing was done")
	// ErrNoEmbedder: a search by meaning, and no model to embed it with. Nothing was read.
	ErrNoEmbedder = errors.New("store: a Text needs an Embedder in store.Options; leave the Text out to search by filter; nothing was read")
)

// NamespaceError refuses a namespace. Nothing was written.
type NamespaceError struct {
	Namespace []string
	Reason    string
}

// Error says what is wrong with it.
func (e *NamespaceError) Error() string {
	return fmt.Sprintf("store: namespace [%s]: %s; nothing was done", strings.Join(e.Namespace, ", "), e.Reason)
}

// TryAgain tells pawl.Retryable that it would be refused again.
func (e *NamespaceError) TryAgain() bool { return false }

// InputError refuses another part of an operation. Nothing of the batch was done.
type InputError struct {
	What   string // key, value, filter, index, limit, ttl
	Reason string
}

// Error says what is wrong, and where.
func (e *InputError) Error() string {
	return fmt.Sprintf("store: %s: %s; nothing was done", e.What, e.Reason)
}

// TryAgain tells pawl.Retryable that it would be refused again.
func (e *InputError) TryAgain() bool { return false }

// EmbeddingError: the model's answer cannot be used, or a stored vector was made by another model. Nothing was written.
type EmbeddingError struct {
	Namespace []string // of the stored item; nil: the answer of the model at hand
	Key       string
	Reason    string
}

// Error says which vector, and what to do.
func (e *EmbeddingError) Error() string {
	if e.Namespace == nil {
		return fmt.Sprintf("store: the embedder's answer: %s; nothing was done", e.Reason)
	}
	return fmt.Sprintf("store: the vector of %q in [%s]: %s; put the item again under the model in use", e.Key, strings.Join(e.Namespace, ", "), e.Reason)
}
