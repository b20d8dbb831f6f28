package core

import (
	"context"
	"slices"
	"time"
)

// CacheKey says what a kept result is of: a node of a graph, by its path from the thread's graph on, and a digest of
// all that it depends on.
type CacheKey struct {
	Graph string
	Node  string
	ID    string
}

// Cached is a result that is kept for other tasks with the same key: of a node, or of one step in it.
type Cached struct {
	Key    CacheKey
	TTL    time.Duration // by the home's clock, from when it is stored
	Writes []Write       // of a node, without versions
	Gotos  []Due         // where the node led itself, beside its edges and routes
	Step   []byte        // the result of a step; nil: it is of a node
}

// Cache is a host that keeps results for other tasks. What it does not keep runs again, and nothing else depends on it.
type Cache interface {
	// Reuse reads the result that is durably kept under a key and not too old by the home's clock; nil: there is none.
	Reuse(ctx context.Context, key CacheKey) (*Cached, error)
	// RecordFor is Host.Record of a step whose result is kept for others with it.
	RecordFor(ctx context.Context, s *Step, keep *Cached) error
}

// Shown are the values as the routes of a task see them that writes ws on values and ran no function. It changes
// nothing that other tasks of the super-step read.
func Shown(values []*Value, t *Topology, fold Folder, ws []Write) ([]*Value, error) {
	cp := &Checkpoint{Values: make([]*Value, len(t.Channels))}
	for i, v := range values {
		if v != nil { // without the cache of sizes, which belongs to who merges, and the number, which belongs to the host
			cp.Values[i] = &Value{Base: v.Base, Op: v.Op, Data: v.Data, Parts: v.Parts, Size: v.Size, Cost: v.Cost}
		}
	}
	merged, err := mergeAll(nil, cp, t, fold, []Result{{Writes: slices.Clone(ws)}})
	if err != nil {
		return nil, err
	}
	out := slices.Grow(slices.Clone(values), len(t.Channels))[:len(t.Channels)]
	for _, w := range ws {
		i := t.Channel(w.Channel)
		out[i] = merged[i]
	}
	return out, nil
}
