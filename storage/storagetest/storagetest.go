// Package storagetest is the one suite that every driver of package storage passes. It uses the contract only.
//
//	func TestContract(t *testing.T) {
//		storagetest.Run(t, func(t *testing.T, kinds ...storage.Kind) storage.DB { ... })
//	}
//
// Drivers that outlive a process also pass [RunDurable], and those whose commits can end in doubt pass [RunUnknown].
package storagetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/storage"
)

// Open makes a new empty home for kinds, or fails the test. The suite closes it.
type Open func(t *testing.T, kinds ...storage.Kind) storage.DB

// Run runs the suite. Every subtest is parallel and opens a home of its own.
func Run(t *testing.T, open func(t *testing.T, kinds ...storage.Kind) storage.DB) {
	for _, group := range []struct {
		name  string
		tests []test
	}{
		{"update", updateTests},
		{"neighbours", neighbourTests},
		{"view", viewTests},
		{"lease", leaseTests},
		{"put", putTests},
		{"delete", deleteTests},
		{"list", listTests},
		{"values", valueTests},
		{"walk", walkTests},
		{"model", modelTests()},
	} {
		for _, c := range group.tests {
			t.Run(group.name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				c.run(t, newHome(t, open(t, c.kinds...)))
			})
		}
	}
}

// test is one subtest: its name says what must hold.
type test struct {
	name  string
	kinds []storage.Kind
	run   func(t *testing.T, h home)
}

// home is a DB with helpers that fail the test.
type home struct{ storage.DB }

func newHome(t *testing.T, db storage.DB) home {
	t.Helper()
	t.Cleanup(func() {
		if err := db.Close(); err != nil && !errors.Is(err, storage.ErrClosed) {
			t.Errorf("Close: %v", err)
		}
	})
	return home{db}
}

// try is Update without its context.
func (h home) try(fn func(tx storage.Tx) error) error {
	return h.Update(context.Background(), func(_ context.Context, tx storage.Tx) error { return fn(tx) })
}

func (h home) update(t *testing.T, fn func(tx storage.Tx) error) {
	t.Helper()
	if err := h.try(fn); err != nil {
		t.Fatalf("Update: %v", err)
	}
}

func (h home) view(t *testing.T, fn func(tx storage.Tx) error) {
	t.Helper()
	err := h.View(context.Background(), func(_ context.Context, tx storage.Tx) error { return fn(tx) })
	if err != nil {
		t.Fatalf("View: %v", err)
	}
}

// put stores rows that are new.
func (h home) put(t *testing.T, kind string, rows ...storage.Row) {
	t.Helper()
	h.update(t, func(tx storage.Tx) error { return putAll(tx, kind, rows...) })
}

func putAll(tx storage.Tx, kind string, rows ...storage.Row) error {
	for _, r := range rows {
		if ok, err := tx.Put(kind, r, storage.Absent()); err != nil {
			return err
		} else if !ok {
			return fmt.Errorf("Put(%s %v, Absent) says that a row is there; none is", kind, r.Key)
		}
	}
	return nil
}

// putIf is one Put in an Update of its own.
func (h home) putIf(t *testing.T, kind string, row storage.Row, cond storage.If) bool {
	t.Helper()
	var ok bool
	h.update(t, func(tx storage.Tx) (err error) {
		ok, err = tx.Put(kind, row, cond)
		return err
	})
	return ok
}

func (h home) get(t *testing.T, kind string, key ...any) (storage.Row, bool) {
	t.Helper()
	var row storage.Row
	var ok bool
	h.view(t, func(tx storage.Tx) (err error) {
		row, ok, err = tx.Get(kind, key...)
		return err
	})
	return row, ok
}

func (h home) list(t *testing.T, kind string, q storage.Query) []storage.Row {
	t.Helper()
	var rows []storage.Row
	h.view(t, func(tx storage.Tx) (err error) {
		rows, err = tx.List(kind, q)
		return err
	})
	return rows
}

// want fails the test unless the home holds these rows of the kind, in key order, and no others.
func (h home) want(t *testing.T, k storage.Kind, why string, want ...storage.Row) {
	t.Helper()
	if d := diff(k, h.list(t, k.Name, storage.Query{}), want, false); d != "" {
		t.Errorf("%s: %s: %s", why, k.Name, d)
	}
}

func (h home) join(t *testing.T) storage.Member {
	t.Helper()
	m, err := h.Join(context.Background())
	if err != nil {
		t.Fatalf("Join: %v", err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// lease is one Lease call in an Update of its own.
func (h home) lease(t *testing.T, thread int64, op storage.LeaseOp, member string) (storage.Lease, bool) {
	t.Helper()
	var l storage.Lease
	var ok bool
	h.update(t, func(tx storage.Tx) (err error) {
		l, ok, err = tx.Lease(thread, op, member)
		return err
	})
	return l, ok
}

// seq is one Seq call in an Update of its own.
func (h home) seq(t *testing.T, thread, epoch int64, n int) (int64, bool) {
	t.Helper()
	var first int64
	var ok bool
	h.update(t, func(tx storage.Tx) (err error) {
		first, ok, err = tx.Seq(thread, epoch, n)
		return err
	})
	return first, ok
}

// patience is how long a wait may take before the test says what it waits for instead of hanging.
const patience = time.Minute

func await(t *testing.T, done <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("still waiting for %s", what)
	}
}

// outcome of a call that may end its goroutine.
type outcome struct {
	returned bool
	err      error
}

// apart runs call in a goroutine, waits for its end and says how it ended.
func apart(t *testing.T, call func() error) outcome {
	t.Helper()
	var o outcome
	done := make(chan struct{})
	go func() {
		defer close(done)
		o.err = call()
		o.returned = true
	}()
	await(t, done, "a call to return")
	return o
}

// together starts n goroutines at once and waits for all.
func together(t *testing.T, n int, run func(i int)) {
	t.Helper()
	var ready, done sync.WaitGroup
	start, end := make(chan struct{}), make(chan struct{})
	for i := range n {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-start
			run(i)
		})
	}
	ready.Wait()
	close(start)
	go func() {
		done.Wait()
		close(end)
	}()
	await(t, end, fmt.Sprintf("%d concurrent calls", n))
}

// leave ends the calling goroutine, as t.FailNow does.
func leave() { runtime.Goexit() }
