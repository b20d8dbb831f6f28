package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/store"
)

// onEach runs a case on a database in memory and on one in a file.
func onEach(t *testing.T, run func(t *testing.T, db *clocked)) {
	t.Parallel()
	kinds := slices.Concat(pawl.Kinds(), store.Kinds())
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		db, err := memdb.Open(kinds...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		run(t, &clocked{DB: db})
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		db, err := sqlite.Open(filepath.Join(t.TempDir(), "pawl.db"), kinds...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		run(t, &clocked{DB: db})
	})
}

// clocked is a database whose clock stands still until it is moved.
type clocked struct {
	storage.DB
	now atomic.Int64
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func (c *clocked) pass(d time.Duration) { c.now.Add(int64(d)) }

func (c *clocked) View(ctx context.Context, fn func(context.Context, storage.Tx) error) error {
	return c.DB.View(ctx, func(ctx context.Context, tx storage.Tx) error { return fn(ctx, clockedTx{tx, c}) })
}

func (c *clocked) Update(ctx context.Context, fn func(context.Context, storage.Tx) error) error {
	return c.DB.Update(ctx, func(ctx context.Context, tx storage.Tx) error { return fn(ctx, clockedTx{tx, c}) })
}

type clockedTx struct {
	storage.Tx
	c *clocked
}

func (t clockedTx) Now() time.Time { return noon.Add(time.Duration(t.c.now.Load())) }

// open makes a memory and reaches it from outside.
func open(t *testing.T, db storage.DB, o store.Options) *store.Store {
	t.Helper()
	mem, eng := engine(t, db, o)
	return mem.Of(eng, db)
}

func engine(t *testing.T, db storage.DB, o store.Options) (*store.Memory, *pawl.Engine) {
	t.Helper()
	mem, err := store.New(o)
	if err != nil {
		t.Fatal(err)
	}
	eng, err := pawl.NewEngine(db, &pawl.Options{Parts: []pawl.Part{mem}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close() })
	return mem, eng
}

// words embeds a text as the counts of the words it knows: texts that share words are near each other.
type words struct {
	known []string
	calls [][]string
	err   error
}

func (w *words) Embed(_ context.Context, texts []string) ([][]float32, error) {
	w.calls = append(w.calls, texts)
	out := make([][]float32, len(texts))
	for i, text := range texts {
		out[i] = make([]float32, len(w.known))
		for j, word := range w.known {
			out[i][j] = float32(strings.Count(text, word))
		}
	}
	return out, w.err
}

func drinks() *words { return &words{known: []string{"tea", "coffee", "water"}} }

func ns(labels string) []string { return strings.Split(labels, "/") }

func put(t *testing.T, s *store.Store, namespace, key, value string) {
	t.Helper()
	if err := s.Put(t.Context(), ns(namespace), key, json.RawMessage(value)); err != nil {
		t.Fatal(err)
	}
}

// value reads an item, or "none".
func value(t *testing.T, s *store.Store, namespace, key string) string {
	t.Helper()
	item, ok, err := s.Get(t.Context(), ns(namespace), key)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		return "none"
	}
	return string(item.Value)
}

// found searches, and tells the keys with their scores.
func found(t *testing.T, s *store.Store, q store.Search) string {
	t.Helper()
	hits, err := s.Search(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return told(hits)
}

func told(hits []store.Hit) string {
	var out []string
	for _, h := range hits {
		line := h.Key
		if h.Score != nil {
			line += fmt.Sprintf("=%.2f", *h.Score)
		}
		out = append(out, line)
	}
	return strings.Join(out, " ")
}

func same[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func refused[E error](t *testing.T, what string, err error, says string) {
	t.Helper()
	var want E
	if !errors.As(err, &want) || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: %v, should be a %T that says %q", what, err, want, says)
	}
}

type embedder func(texts []string) [][]float32

func (e embedder) Embed(_ context.Context, texts []string) ([][]float32, error) { return e(texts), nil }

// takeOver takes every thread's lease for another member, as if its owner had died.
func takeOver(t *testing.T, db *clocked) {
	t.Helper()
	err := db.Update(t.Context(), func(_ context.Context, tx storage.Tx) error {
		if _, ok, err := tx.Lease(1, storage.Look, ""); err != nil || !ok {
			return fmt.Errorf("thread 1 has no lease: %w", err)
		}
		_, _, err := tx.Lease(1, storage.Forget, "")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
