package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl/storage"
)

var viewTests = []test{
	{"is a snapshot", kinds(item, event), snapshot},
	{"sees no half of an Update", kinds(item), noHalves},
	{"refuses writes", kinds(item), readOnly},
	{"returns its function's error", kinds(item), viewError},
	{"Changed wakes, and its numbers grow", kinds(item), changed},
	{"Close waits for running calls", kinds(item), closeBusy},
	{"calls after Close fail with ErrClosed", kinds(item), closedCalls},
	{"rows handed in and out are not shared", kinds(item), notAliased},
	{"Info names the driver", nil, info},
}

func snapshot(t *testing.T, h home) {
	h.put(t, "item", itemRow(1, 1, "old", "old"))
	m := h.join(t)
	var rows []storage.Row
	var lease storage.Lease
	h.view(t, func(tx storage.Tx) error {
		if _, _, err := tx.Get("item", int64(1)); err != nil {
			return err
		}
		done := make(chan struct{})
		var err error
		go func() {
			defer close(done)
			err = h.try(func(tx storage.Tx) error {
				_, err := tx.Put("item", itemRow(1, 2, "new", "new"), storage.Always())
				if err != nil {
					return err
				}
				if _, _, err := tx.Lease(9, storage.Take, m.ID()); err != nil {
					return err
				}
				return putAll(tx, "item", plain(2))
			})
		}()
		await(t, done, "an Update beside a View that has read: neither waits for the other")
		if err != nil {
			return err
		}
		if rows, err = tx.List("item", storage.Query{Index: "by_label"}); err != nil {
			return err
		}
		lease, _, err = tx.Lease(9, storage.Look, "")
		return err
	})
	if d := diff(item, rows, []storage.Row{itemRow(1, 1, "old", "old")}, false); d != "" {
		t.Errorf("a View sees a commit made after its first read: %s", d)
	}
	if lease.Epoch != 0 {
		t.Errorf("a View sees a lease taken after its first read: %+v", lease)
	}
	h.want(t, item, "the next View sees the commit", itemRow(1, 2, "new", "new"), plain(2))
}

func noHalves(t *testing.T, h home) {
	h.put(t, "item", plain(1), plain(2))
	together(t, 4, func(i int) {
		for n := range int64(20) {
			var err error
			if i%2 == 0 {
				err = h.try(func(tx storage.Tx) error {
					for id := int64(1); id <= 2; id++ {
						if _, err := tx.Put("item", itemRow(id, n, "", ""), storage.Always()); err != nil {
							return err
						}
					}
					return nil
				})
			} else {
				err = h.View(context.Background(), func(_ context.Context, tx storage.Tx) error {
					a, _, err := tx.Get("item", int64(1))
					if err != nil {
						return err
					}
					b, _, err := tx.Get("item", int64(2))
					if err == nil && a.Fields[0] != b.Fields[0] {
						err = fmt.Errorf("two rows that change together are %v and %v", a.Fields[0], b.Fields[0])
					}
					return err
				})
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
}

func readOnly(t *testing.T, h home) {
	h.put(t, "item", plain(1))
	for name, write := range map[string]func(tx storage.Tx) error{
		"Put": func(tx storage.Tx) error { _, err := tx.Put("item", plain(2), storage.Always()); return err },
		"Delete": func(tx storage.Tx) error {
			_, err := tx.Delete("item", storage.Range{Prefix: []any{int64(1)}})
			return err
		},
		"Seq":    func(tx storage.Tx) error { _, _, err := tx.Seq(1, storage.AnyEpoch, 1); return err },
		"Take":   func(tx storage.Tx) error { _, _, err := tx.Lease(1, storage.Take, "m"); return err },
		"Drop":   func(tx storage.Tx) error { _, _, err := tx.Lease(1, storage.Drop, "m"); return err },
		"Forget": func(tx storage.Tx) error { _, _, err := tx.Lease(1, storage.Forget, ""); return err },
	} {
		err := h.View(context.Background(), func(_ context.Context, tx storage.Tx) error { return write(tx) })
		if !errors.Is(err, storage.ErrReadOnly) {
			t.Errorf("%s in a View returned %v, want ErrReadOnly", name, err)
		}
	}
	h.want(t, item, "a View writes nothing", plain(1))
	if first, _ := h.seq(t, 1, storage.AnyEpoch, 1); first != 1 {
		t.Errorf("a View took numbers: the next is %d, want 1", first)
	}
}

func viewError(t *testing.T, h home) {
	boom := errors.New("boom")
	err := h.View(context.Background(), func(context.Context, storage.Tx) error { return boom })
	if !errors.Is(err, boom) {
		t.Errorf("View returned %v, want its function's error", err)
	}
	err = h.View(context.Background(), func(_ context.Context, tx storage.Tx) error {
		_, _, err := tx.Get("nothing", int64(1))
		return err
	})
	if err == nil {
		t.Error("View with an unknown kind returned nil")
	}
}

func changed(t *testing.T, h home) {
	last, _ := h.Changed(0)
	for i := range int64(5) {
		now, wake := h.Changed(last)
		if now < last {
			t.Fatalf("change number fell from %d to %d", last, now)
		}
		woken := make(chan struct{})
		go func() {
			<-wake
			close(woken)
		}()
		h.put(t, "item", plain(i))
		await(t, woken, "a commit of this process to wake a waiter")
		after, _ := h.Changed(now)
		if after <= now {
			t.Fatalf("change number is %d after a commit, want more than %d", after, now)
		}
		_, past := h.Changed(now)
		await(t, past, "the channel for a number that is past already")
		last = after
	}
}

func closeBusy(t *testing.T, h home) {
	started, closing, closed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	updated, start := make(chan error, 1), sync.OnceFunc(func() { close(started) }) // it may run more than once
	var finished, early atomic.Bool
	go func() {
		updated <- h.Update(context.Background(), func(_ context.Context, tx storage.Tx) error {
			start()
			<-closing
			for i := range int64(2000) { // gives a Close that does not wait the time to return
				if err := putAll(tx, "item", plain(i)); err != nil {
					return err
				}
			}
			finished.Store(true)
			return nil
		})
	}()
	await(t, started, "an Update to start")
	go func() {
		close(closing)
		if err := h.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		early.Store(!finished.Load())
		close(closed)
	}()
	if err := <-updated; err != nil {
		t.Errorf("an Update that was running at Close returned %v; Close waits for it", err)
	}
	await(t, closed, "Close")
	if early.Load() {
		t.Error("Close returned before the running Update had")
	}
}

func closedCalls(t *testing.T, h home) {
	m := h.join(t)
	h.put(t, "item", plain(1))
	if err := h.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	ran := false
	fn := func(context.Context, storage.Tx) error { ran = true; return nil }
	_, joinErr := h.Join(context.Background())
	for name, err := range map[string]error{
		"View": h.View(context.Background(), fn), "Update": h.Update(context.Background(), fn), "Join": joinErr,
	} {
		if !errors.Is(err, storage.ErrClosed) {
			t.Errorf("%s after Close returned %v, want ErrClosed", name, err)
		}
	}
	if ran {
		t.Error("a function ran after Close")
	}
	h.Changed(0)
	h.Info()
	_ = m.Close() // members are left to their owners; this must not panic
}

func notAliased(t *testing.T, h home) {
	raw, body := []byte("raw"), []byte("body")
	key, fields := []any{int64(1)}, []any{int64(5), "label", raw}
	spoil := func() {
		raw[0], body[0] = 'X', 'X'
		key[0], fields[1] = int64(9), "spoiled"
	}
	h.update(t, func(tx storage.Tx) error {
		// fn may run more than once
		copy(raw, "raw")
		copy(body, "body")
		key[0], fields[1] = int64(1), "label"
		_, err := tx.Put("item", storage.Row{Key: key, Fields: fields, Body: body}, storage.Always())
		spoil()
		return err
	})
	want := storage.Row{Key: []any{int64(1)}, Fields: []any{int64(5), "label", []byte("raw")}, Body: []byte("body")}
	check := func(rows []storage.Row, what string) error {
		if d := diff(item, rows, []storage.Row{want}, false); d != "" {
			return fmt.Errorf("%s: %s", what, d)
		}
		for _, r := range rows {
			copy(r.Body, "YYYY")
			copy(r.Fields[2].([]byte), "YYY")
			r.Key[0], r.Fields[1] = int64(8), "spoiled"
			_, _ = append(r.Key, "spoiled"), append(r.Body, bytes.Repeat([]byte("Z"), 8)...)
		}
		return nil
	}
	for range 2 {
		h.view(t, func(tx storage.Tx) error {
			for _, what := range []string{"a row changed by its writer after Put", "a row changed by its reader after Get"} {
				row, _, err := tx.Get("item", int64(1))
				if err := errors.Join(err, check([]storage.Row{row}, what)); err != nil {
					return err
				}
			}
			for range 2 {
				rows, err := tx.List("item", storage.Query{Index: "by_label"})
				if err := errors.Join(err, check(rows, "a row changed by its reader after List")); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

func info(t *testing.T, h home) {
	if i := h.Info(); i.Driver == "" {
		t.Errorf("Info is %+v, want the name of a driver", i)
	}
}
