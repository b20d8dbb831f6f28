package storagetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/storage"
)

var updateTests = []test{
	{"all of it or nothing", kinds(item, doc), allOrNothing},
	{"rule 1: reads see the writes before them", kinds(item, slot, value), readYourWrites},
	{"rule 1: nested calls are refused", kinds(item), nested},
	{"rule 2: a context that ended before the start", kinds(item), endedBefore},
	{"rule 2: a context that ends while waiting", kinds(item), endedWaiting},
	{"rule 2: a context that ends after the start", kinds(item), endedAfter},
	{"rule 3: the first error spends the Tx", kinds(item, value), spent},
	{"rule 3: a result spends nothing", kinds(item, doc), results},
	{"rule 4: an error undoes its function", kinds(item), failed},
	{"rule 4: a panic undoes its function", kinds(item), panicked},
	{"rule 4: Goexit undoes its function", kinds(item), goexit},
	{"rule 5: nil is there for everybody at once", kinds(item), durable},
	{"a Tx is dead after its function", kinds(item), leaked},
	{"Now stands still", nil, now},
}

func allOrNothing(t *testing.T, h home) {
	h.put(t, "item", itemRow(1, 1, "old", "old"))
	boom := errors.New("boom")
	err := h.try(func(tx storage.Tx) error {
		if _, err := tx.Put("item", itemRow(1, 2, "new", "new"), storage.Always()); err != nil {
			return err
		}
		if _, err := tx.Put("doc", docRow("t", "d", 1, 0), storage.Absent()); err != nil {
			return err
		}
		if _, _, err := tx.Seq(5, storage.AnyEpoch, 3); err != nil {
			return err
		}
		if _, _, err := tx.Lease(5, storage.Take, "m"); err != nil {
			return err
		}
		if _, err := tx.Delete("item", storage.Range{Prefix: []any{int64(1)}}); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Fatalf("Update returned %v, want the function's own error", err)
	}
	h.want(t, item, "a failed Update wrote nothing", itemRow(1, 1, "old", "old"))
	h.want(t, doc, "a failed Update wrote nothing")
	if rows := h.list(t, "item", storage.Query{Index: "by_grp", Range: storage.Range{Prefix: []any{int64(1)}}}); len(rows) != 1 {
		t.Errorf("a failed Update left an index with %d rows for the old value, want 1", len(rows))
	}
	if first, _ := h.seq(t, 5, storage.AnyEpoch, 1); first != 1 {
		t.Errorf("the next number after a failed Update is %d, want 1", first)
	}
	if l, ok := h.lease(t, 5, storage.Look, ""); ok {
		t.Errorf("a failed Update left the lease %+v", l)
	}
}

func readYourWrites(t *testing.T, h home) {
	var problem error
	h.update(t, func(tx storage.Tx) error {
		if err := putAll(tx, "item", itemRow(1, 7, "a", "x"), itemRow(2, 7, "b", "y")); err != nil {
			return err
		}
		if err := putAll(tx, "value", valueRow(1, 0), valueRow(2, 1)); err != nil {
			return err
		}
		got, ok, err := tx.Get("item", int64(1))
		if err != nil {
			return err
		}
		rows, err := tx.List("item", storage.Query{Index: "by_grp", Range: storage.Range{Prefix: []any{int64(7)}}})
		if err != nil {
			return err
		}
		chain, err := tx.Walk("value", 2)
		if err != nil {
			return err
		}
		n, err := tx.Delete("item", storage.Range{Prefix: []any{int64(1)}})
		if err != nil {
			return err
		}
		_, gone, err := tx.Get("item", int64(1))
		if !ok || string(got.Body) != "x" || len(rows) != 2 || len(chain) != 2 || n != 1 || gone {
			problem = fmt.Errorf("get %v %q, list %d, walk %d, deleted %d, still there %v", ok, got.Body, len(rows), len(chain), n, gone)
		} else {
			problem = nil
		}
		return err
	})
	if problem != nil {
		t.Errorf("reads in an Update do not see its writes: %v", problem)
	}
	h.want(t, item, "after the Update", itemRow(2, 7, "b", "y"))
}

func nested(t *testing.T, h home) {
	calls := map[string]func(ctx context.Context, fn func(context.Context, storage.Tx) error) error{
		"View": h.View, "Update": h.Update,
	}
	for outer, runOuter := range calls {
		for inner, runInner := range calls {
			var got error
			ran := false
			o := apart(t, func() error {
				return runOuter(context.Background(), func(ctx context.Context, _ storage.Tx) error {
					got = runInner(ctx, func(context.Context, storage.Tx) error {
						ran = true
						return nil
					})
					return nil
				})
			})
			if !errors.Is(got, storage.ErrNested) || ran {
				t.Errorf("%s inside %s returned %v (function ran: %v), want ErrNested", inner, outer, got, ran)
			}
			if o.err != nil {
				t.Errorf("%s with a refused %s inside returned %v, want nil: only the inner call is refused", outer, inner, o.err)
			}
		}
	}
	h.put(t, "item", plain(1))
}

func endedBefore(t *testing.T, h home) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	ran := false
	fn := func(_ context.Context, tx storage.Tx) error {
		ran = true
		return nil
	}
	if err := h.Update(ctx, fn); !errors.Is(err, context.Canceled) || ran {
		t.Errorf("Update under an ended context returned %v (function ran: %v), want context.Canceled and not run", err, ran)
	}
	if err := h.View(ctx, fn); !errors.Is(err, context.Canceled) || ran {
		t.Errorf("View under an ended context returned %v (function ran: %v), want context.Canceled and not run", err, ran)
	}
}

func endedWaiting(t *testing.T, h home) {
	started, release := make(chan struct{}), make(chan struct{})
	start := sync.OnceFunc(func() { close(started) }) // it may run more than once
	first, second := make(chan error, 1), make(chan error, 1)
	go func() {
		first <- h.Update(context.Background(), func(_ context.Context, tx storage.Tx) error {
			start()
			<-release
			return putAll(tx, "item", plain(1))
		})
	}()
	await(t, started, "an Update to start")
	ctx, cancel := context.WithCancel(context.Background())
	entered := make(chan struct{})
	go func() {
		close(entered)
		second <- h.Update(ctx, func(_ context.Context, tx storage.Tx) error { return putAll(tx, "item", plain(2)) })
	}()
	await(t, entered, "a second Update")
	cancel()
	close(release)
	if err := <-first; err != nil {
		t.Errorf("the Update that another's context has nothing to do with: %v", err)
	}
	// A driver that runs both at once may have started the second before its context ended: then it tells the truth.
	err := <-second
	_, there := h.get(t, "item", int64(2))
	if there != (err == nil) || err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("an Update whose context ended while it waited returned %v, and its row is there: %v", err, there)
	}
}

func endedAfter(t *testing.T, h home) {
	for i, fail := range []error{nil, errors.New("boom")} {
		ctx, cancel := context.WithCancel(context.Background())
		id := int64(10 * (i + 1))
		err := h.Update(ctx, func(_ context.Context, tx storage.Tx) error {
			if err := putAll(tx, "item", plain(id)); err != nil {
				return err
			}
			cancel()
			if err := putAll(tx, "item", plain(id+1)); err != nil {
				return err
			}
			return fail
		})
		if !errors.Is(err, fail) {
			t.Errorf("a context ended inside the function that returns %v: Update returned %v; once started, it reports the truth", fail, err)
		}
		for _, k := range []int64{id, id + 1} {
			if _, ok := h.get(t, "item", k); ok != (fail == nil) {
				t.Errorf("a context ended inside the function that returns %v: row %d is there: %v", fail, k, ok)
			}
		}
	}
	boom := errors.New("boom")
	err := h.try(func(tx storage.Tx) error {
		if err := putAll(tx, "item", plain(30)); err != nil {
			return err
		}
		return boom
	})
	if _, ok := h.get(t, "item", int64(30)); ok || !errors.Is(err, boom) {
		t.Errorf("an Update after one whose context ended is not undone (row there: %v, error %v)", ok, err)
	}
}

func spent(t *testing.T, h home) {
	one := int64(1)
	for name, bad := range map[string]func(tx storage.Tx) error{
		"Get of an unknown kind": func(tx storage.Tx) error { _, _, err := tx.Get("nothing", one); return err },
		"Get with half a key":    func(tx storage.Tx) error { _, _, err := tx.Get("item"); return err },
		"Get with a key of text": func(tx storage.Tx) error { _, _, err := tx.Get("item", "1"); return err },
		"Put without fields": func(tx storage.Tx) error {
			_, err := tx.Put("item", storage.Row{Key: []any{one}}, storage.Always())
			return err
		},
		"Put of an int for a text": func(tx storage.Tx) error {
			_, err := tx.Put("item", storage.Row{Key: []any{one}, Fields: []any{one, one, nil}}, storage.Always())
			return err
		},
		"Put at a revision of none": func(tx storage.Tx) error { _, err := tx.Put("item", plain(1), storage.AtRev(1)); return err },
		"Delete of everything":      func(tx storage.Tx) error { _, err := tx.Delete("item", storage.Range{}); return err },
		"List by an unknown index":  func(tx storage.Tx) error { _, err := tx.List("item", storage.Query{Index: "by_luck"}); return err },
		"Walk from a missing row":   func(tx storage.Tx) error { _, err := tx.Walk("value", 99); return err },
		"Seq of no numbers":         func(tx storage.Tx) error { _, _, err := tx.Seq(1, storage.AnyEpoch, 0); return err },
	} {
		var first, second error
		err := h.try(func(tx storage.Tx) error {
			if err := putAll(tx, "item", plain(1)); err != nil {
				return err
			}
			e1 := bad(tx)
			e2 := putAll(tx, "item", plain(2))
			first, second = e1, e2
			return nil // on purpose
		})
		switch {
		case first == nil:
			t.Errorf("%s is no error", name)
		case second == nil:
			t.Errorf("%s: a Put after the error was taken; the first error spends the Tx", name)
		case !errors.Is(err, first):
			t.Errorf("%s: Update returned %v, want the first error %v though the function returned nil", name, err, first)
		}
		h.want(t, item, name+": the change is undone")
	}
}

func results(t *testing.T, h home) {
	owner, other := h.join(t), h.join(t)
	h.lease(t, 3, storage.Take, owner.ID())
	h.put(t, "item", plain(1))
	h.put(t, "doc", docRow("t", "d", 1, 0))
	var said []bool
	h.update(t, func(tx storage.Tx) error {
		var oks [6]bool
		var errs [7]error
		_, oks[0], errs[0] = tx.Get("item", int64(99))
		oks[1], errs[1] = tx.Put("item", plain(1), storage.Absent())
		oks[2], errs[2] = tx.Put("doc", docRow("t", "d", 2, 0), storage.AtRev(7))
		oks[3], errs[3] = tx.Put("doc", docRow("t", "none", 2, 0), storage.AtRev(1))
		_, oks[4], errs[4] = tx.Lease(3, storage.Take, other.ID())
		_, oks[5], errs[5] = tx.Seq(3, 17, 1)
		_, errs[6] = tx.Delete("item", storage.Range{Prefix: []any{int64(98)}})
		said = oks[:]
		return errors.Join(append(errs[:], putAll(tx, "item", plain(2)))...)
	})
	for i, ok := range said {
		if ok {
			t.Errorf("result %d (missing row, Absent, AtRev, AtRev, Take, Seq) is true, want false", i)
		}
	}
	h.want(t, item, "the Update goes on after results", plain(1), plain(2))
	h.want(t, doc, "a condition that does not hold writes nothing", docRow("t", "d", 1, 1))
}

func failed(t *testing.T, h home) {
	boom := errors.New("boom")
	err := h.try(func(tx storage.Tx) error {
		return errors.Join(putAll(tx, "item", plain(1)), fmt.Errorf("wrapped: %w", boom))
	})
	if !errors.Is(err, boom) {
		t.Errorf("Update returned %v, want the function's error", err)
	}
	h.want(t, item, "an error undoes its function")
}

func panicked(t *testing.T, h home) {
	var pe *storage.PanicError
	o := apart(t, func() error {
		return h.try(func(tx storage.Tx) error {
			_ = putAll(tx, "item", plain(1))
			panic("boom")
		})
	})
	if !errors.As(o.err, &pe) || pe.Value != "boom" || len(pe.Stack) == 0 {
		t.Errorf("Update returned %v, want a *PanicError with the value and a stack", o.err)
	}
	h.want(t, item, "a panic undoes its function")
	o = apart(t, func() error {
		return h.View(context.Background(), func(context.Context, storage.Tx) error { panic("boom") })
	})
	if !errors.As(o.err, &pe) {
		t.Errorf("View returned %v for a panic, want a *PanicError", o.err)
	}
	h.put(t, "item", plain(2))
}

func goexit(t *testing.T, h home) {
	for name, run := range map[string]func(context.Context, func(context.Context, storage.Tx) error) error{
		"Update": h.Update, "View": h.View,
	} {
		o := apart(t, func() error {
			return run(context.Background(), func(_ context.Context, tx storage.Tx) error {
				if name == "Update" {
					_ = putAll(tx, "item", plain(1))
				}
				leave()
				return nil
			})
		})
		var pe *storage.PanicError
		if o.returned && !errors.As(o.err, &pe) {
			t.Errorf("%s returned %v after Goexit, want a *PanicError (or the goroutine to end)", name, o.err)
		}
	}
	h.want(t, item, "Goexit undoes its function")
	h.put(t, "item", plain(2))
}

func durable(t *testing.T, h home) {
	for i := range int64(20) {
		h.put(t, "item", plain(i))
		if _, ok := h.get(t, "item", i); !ok {
			t.Fatalf("row %d is not seen by a View that began after its Update returned", i)
		}
	}
}

func leaked(t *testing.T, h home) {
	var kept []storage.Tx
	h.update(t, func(tx storage.Tx) error { kept = append(kept, tx); return putAll(tx, "item", plain(1)) })
	h.view(t, func(tx storage.Tx) error { kept = append(kept, tx); return nil })
	for _, tx := range kept {
		if _, _, err := tx.Get("item", int64(1)); err == nil {
			t.Error("a Tx reads after its function returned, want an error")
		}
		if _, err := tx.Put("item", plain(2), storage.Always()); err == nil {
			t.Error("a Tx writes after its function returned, want an error")
		}
	}
	h.want(t, item, "a Tx is dead after its function", plain(1))
}

func now(t *testing.T, h home) {
	check := func(tx storage.Tx) error {
		a := tx.Now()
		for range 1000 {
			if b := tx.Now(); !b.Equal(a) {
				return fmt.Errorf("the clock is %v and then %v in one Tx", a, b)
			}
		}
		if a.IsZero() || a.Location().String() != "UTC" {
			return fmt.Errorf("the clock is %v, want a time in UTC", a)
		}
		return nil
	}
	h.update(t, check)
	h.view(t, check)
}
