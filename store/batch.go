package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
)

// Op is one operation of a batch: a [Get], [Put], [Delete], [Search] or [List].
type Op interface {
	prepare(m *Memory) (*act, error)
}

// Result is what one operation of a batch found: an Item (nil: there is none), Hits or Namespaces.
type Result struct {
	Item       *Item
	Hits       []Hit
	Namespaces [][]string
}

// act is an operation that was checked. What needs the model or user code is done before the database is asked.
type act struct {
	at     string   // of the item that is written; empty: nothing is
	texts  []string // to be embedded
	embed  func(vectors [][]float32)
	read   func(*reader) (Result, error)
	write  func(tx storage.Tx, tenant string) error
	proven func(tx storage.Tx, tenant string) (bool, error)
}

// reader is one reading of the database.
type reader struct {
	*Memory
	tx      storage.Tx
	tenant  string
	refresh []string // addresses of items whose time begins anew
}

// Batch does several operations at once: all of them, or none. What is read is as it was before the batch's own writes.
// Of several writes to one item the last counts. The results are in the order of the operations.
func (s *Store) Batch(ctx context.Context, ops ...Op) ([]Result, error) {
	if s.mem == nil {
		return nil, ErrNoStore
	}
	acts, err := s.prepare(ops)
	if err != nil {
		return nil, err
	}
	if err := s.allowed(ctx, acts); err != nil {
		return nil, err
	}
	if err := s.mem.embed(ctx, acts); err != nil {
		return nil, err
	}
	var out []Result
	writes := slices.ContainsFunc(acts, func(a *act) bool { return a.write != nil })
	if !writes {
		var refresh []string
		if err := s.door.View(ctx, func(_ context.Context, tx storage.Tx) (err error) {
			out, refresh, err = s.read(tx, acts)
			return err
		}); err != nil || len(refresh) == 0 {
			return out, err
		}
	}
	err = s.door.Update(ctx, func(_ context.Context, tx storage.Tx) error {
		got, refresh, err := s.read(tx, acts)
		if err == nil {
			err = extend(tx, s.tenant, refresh, got)
		}
		if err != nil {
			return err
		}
		out = got
		return s.write(tx, acts)
	}, func(tx storage.Tx) (bool, error) {
		for _, a := range acts {
			if a.proven == nil {
				continue
			}
			if there, err := a.proven(tx, s.tenant); err != nil || !there {
				return false, err
			}
		}
		return writes, nil
	})
	return out, err
}

func (s *Store) prepare(ops []Op) ([]*act, error) {
	acts, last := make([]*act, len(ops)), map[string]*act{}
	for i, op := range ops {
		if op == nil {
			return nil, &InputError{"batch", fmt.Sprintf("operation %d is nil", i)}
		}
		a, err := op.prepare(s.mem)
		if err != nil {
			return nil, err
		}
		acts[i] = a
		if a.at == "" {
			continue
		}
		if older := last[a.at]; older != nil {
			*older = act{}
		}
		last[a.at] = a
	}
	return acts, nil
}

func (s *Store) allowed(ctx context.Context, acts []*act) error {
	if s.eng == nil {
		return nil
	}
	reads := slices.ContainsFunc(acts, func(a *act) bool { return a.read != nil })
	writes := slices.ContainsFunc(acts, func(a *act) bool { return a.write != nil })
	if reads {
		if err := s.eng.Allowed(ctx, pawl.VerbInfo{Verb: VerbRead}); err != nil {
			return err
		}
	}
	if writes {
		return s.eng.Allowed(ctx, pawl.VerbInfo{Verb: VerbWrite})
	}
	return nil
}

func (s *Store) read(tx storage.Tx, acts []*act) ([]Result, []string, error) {
	r := &reader{Memory: s.mem, tx: tx, tenant: s.tenant}
	out := make([]Result, len(acts))
	for i, a := range acts {
		if a.read == nil {
			continue
		}
		var err error
		if out[i], err = a.read(r); err != nil {
			return nil, nil, err
		}
	}
	return out, r.refresh, nil
}

func (s *Store) write(tx storage.Tx, acts []*act) error {
	for _, a := range acts {
		if a.write == nil {
			continue
		}
		if err := a.write(tx, s.tenant); err != nil {
			return err
		}
	}
	return nil
}
