// Package store is long-term memory shared by threads: what was learnt of a user in one conversation is known in the
// next. A thread's state belongs to the thread; an item here belongs to its namespace, in the same database.
//
//	mem, err := store.New(store.Options{Embedder: model})            // a part of the engine
//	eng, err := pawl.NewEngine(db, &pawl.Options{Parts: []pawl.Part{mem}})
//
//	s := store.From(ctx)                                             // inside a node
//	s := mem.Of(eng, db)                                             // outside
//	err = s.Put(ctx, []string{"users", "u1"}, "tea", Preference{Likes: "green"})
//	hits, err := s.Search(ctx, store.Search{Prefix: []string{"users"}, Text: "what do they drink?"})
//
// What a node writes is durable when the call returns, and stays: also when the node fails afterwards, when it runs again,
// and when the thread is forked or deleted. A node that runs again writes again, so write what may be written twice, or
// write inside a [pawl.Step]. A run that lost its thread to another process cannot write.
//
// Items may end by themselves (TTL). The database's clock judges: an item past its time is not seen any more, whether or
// not a [Sweeper] removed it yet.
package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
)

// Forever as a TTL: the item does not end by itself, whatever the options say.
const Forever time.Duration = -1

// The verbs as Options.Allow is asked about them, for calls from outside a node.
const (
	VerbRead  pawl.Verb = "store.read"
	VerbWrite pawl.Verb = "store.write"
)

// Options of a memory. The zero value keeps items for ever and searches by filter alone.
type Options struct {
	// Embedder makes search by meaning possible; nil: a Search with a Text is refused.
	Embedder Embedder
	// Index names what of a value is embedded: "a.b", "a[0]", "a[*]", "$" for the whole value. Default: "$".
	Index []string
	// TTL is how long items live that do not say it themselves. Zero: for ever.
	TTL time.Duration
	// Refresh lets a read begin an item's time anew, where the read does not say otherwise.
	Refresh bool
	// Codec encodes values and vectors at the storage border, as pawl.Options.Codec does. Namespaces and keys are kept in
	// the clear.
	Codec storage.Codec
}

// Memory is the part of an engine that keeps items: put it into pawl.Options.Parts, and [Kinds] into the database. It is
// safe for concurrent use.
type Memory struct {
	opts  Options
	paths []path
	box   records.Box
}

var _ pawl.TaskPart = (*Memory)(nil)

// New makes a memory. It refuses options that cannot work.
func New(o Options) (*Memory, error) {
	if o.TTL < 0 {
		return nil, fmt.Errorf("store: Options.TTL is %v; leave it out for items that do not end", o.TTL)
	}
	if len(o.Index) == 0 {
		o.Index = []string{"$"}
	}
	paths, err := parsePaths(o.Index)
	if err != nil {
		return nil, err
	}
	return &Memory{opts: o, paths: paths, box: records.Box{Codec: o.Codec}}, nil
}

// Name is "store".
func (m *Memory) Name() string { return "store" }

// Digest is empty: what is remembered binds no run.
func (m *Memory) Digest() string { return "" }

type storeKey struct{}

// Task puts the memory into a node's context; see [From].
func (m *Memory) Task(ctx context.Context, info pawl.TaskInfo) (context.Context, func(error)) {
	task, ok := pawl.TaskFrom(ctx)
	if !ok {
		return ctx, nil
	}
	return With(ctx, &Store{mem: m, door: task, tenant: info.Tenant}), nil
}

// With puts a store into a context, for plain tests of a node.
func With(ctx context.Context, s *Store) context.Context {
	return context.WithValue(ctx, storeKey{}, s)
}

// From returns the memory of the running task, for the task's tenant. Without one every call fails with [ErrNoStore].
func From(ctx context.Context) *Store {
	if s, ok := ctx.Value(storeKey{}).(*Store); ok {
		return s
	}
	return &Store{}
}

// Of returns the memory of an engine's tenant, for use outside nodes; for another tenant give it eng.Tenant(name). db is
// the engine's database.
func (m *Memory) Of(eng *pawl.Engine, db storage.DB) *Store {
	return &Store{mem: m, door: outside{db}, eng: eng, tenant: eng.TenantName()}
}

// Store is the memory of one tenant. It is safe for concurrent use.
type Store struct {
	mem    *Memory
	door   door
	eng    *pawl.Engine // asked for permission; nil inside a node
	tenant string
}

// door is how the database is reached: a *pawl.Task writes only while its process owns the thread.
type door interface {
	View(ctx context.Context, fn func(ctx context.Context, tx storage.Tx) error) error
	Update(ctx context.Context, fn func(ctx context.Context, tx storage.Tx) error, proof ...func(tx storage.Tx) (bool, error)) error
}

type outside struct{ storage.DB }

// Update reads back what a database in doubt wrote.
func (o outside) Update(ctx context.Context, fn func(ctx context.Context, tx storage.Tx) error, proof ...func(tx storage.Tx) (bool, error)) error {
	err := o.DB.Update(ctx, fn)
	var unknown *storage.UnknownError
	if !errors.As(err, &unknown) {
		return err
	}
	for _, p := range proof {
		there := false
		look := func(_ context.Context, tx storage.Tx) (err error) { there, err = p(tx); return err }
		if o.DB.View(ctx, look) == nil && there {
			return nil
		}
	}
	return err
}

// Get returns an item; false when there is none.
func (s *Store) Get(ctx context.Context, namespace []string, key string) (Item, bool, error) {
	r, err := s.one(ctx, Get{Namespace: namespace, Key: key})
	if err != nil || r.Item == nil {
		return Item{}, false, err
	}
	return *r.Item, true, nil
}

// Put writes an item, or replaces its value and what is embedded of it. The value is marshalled to a JSON object. For an
// index or a TTL of the item's own, give a [Put] to Batch.
func (s *Store) Put(ctx context.Context, namespace []string, key string, value any) error {
	_, err := s.one(ctx, Put{Namespace: namespace, Key: key, Value: value})
	return err
}

// Delete removes an item. One that is not there is no error.
func (s *Store) Delete(ctx context.Context, namespace []string, key string) error {
	_, err := s.one(ctx, Delete{Namespace: namespace, Key: key})
	return err
}

// Search returns the items that a search finds, best first; see [Search].
func (s *Store) Search(ctx context.Context, q Search) ([]Hit, error) {
	r, err := s.one(ctx, q)
	return r.Hits, err
}

// Namespaces returns the namespaces that hold items, in order; see [List].
func (s *Store) Namespaces(ctx context.Context, q List) ([][]string, error) {
	r, err := s.one(ctx, q)
	return r.Namespaces, err
}

func (s *Store) one(ctx context.Context, op Op) (Result, error) {
	out, err := s.Batch(ctx, op)
	if err != nil {
		return Result{}, err
	}
	return out[0], nil
}
