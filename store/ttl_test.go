package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/store"
)

func putFor(t *testing.T, s *store.Store, key string, ttl time.Duration) {
	t.Helper()
	if _, err := s.Batch(t.Context(), store.Put{Namespace: ns("t"), Key: key, Value: map[string]any{"likes": "tea"}, TTL: ttl}); err != nil {
		t.Fatal(err)
	}
}

// An item ends at its instant by the database's clock, whether or not anybody swept.
func TestTTL(t *testing.T) {
	onEach(t, func(t *testing.T, db *clocked) {
		s := open(t, db, store.Options{TTL: time.Minute, Embedder: drinks()})
		putFor(t, s, "standard", 0)
		putFor(t, s, "short", time.Second)
		putFor(t, s, "ever", store.Forever)
		putFor(t, s, "instant", time.Nanosecond) // at least a millisecond
		all := store.Search{Prefix: ns("t"), Text: "tea"}
		same(t, "at first", found(t, s, all), "ever=1.00 instant=1.00 short=1.00 standard=1.00")
		db.pass(time.Second - time.Millisecond)
		same(t, "just before", found(t, s, all), "ever=1.00 short=1.00 standard=1.00")
		db.pass(time.Millisecond)
		same(t, "at its instant", value(t, s, "t", "short"), "none")
		same(t, "search", found(t, s, store.Search{Prefix: ns("t")}), "ever standard")
		db.pass(time.Minute)
		same(t, "after all", found(t, s, all), "ever=1.00")
		putFor(t, s, "standard", 0)
		same(t, "again", found(t, s, all), "ever=1.00 standard=1.00")
	})
}

func TestRefresh(t *testing.T) {
	onEach(t, func(t *testing.T, db *clocked) {
		s := open(t, db, store.Options{TTL: time.Minute, Refresh: true})
		still := open(t, db, store.Options{TTL: time.Minute})
		yes, no := new(true), new(false)
		get := func(s *store.Store, refresh *bool) func() (store.Result, error) {
			return func() (store.Result, error) {
				out, err := s.Batch(t.Context(), store.Get{Namespace: ns("t"), Key: "k", Refresh: refresh})
				return out[0], err
			}
		}
		search := func(s *store.Store, refresh *bool) func() (store.Result, error) {
			return func() (store.Result, error) {
				out, err := s.Batch(t.Context(), store.Search{Prefix: ns("t"), Refresh: refresh}, store.Put{Namespace: ns("u"), Key: "k", Value: struct{}{}})
				if err == nil && len(out[0].Hits) == 1 {
					out[0].Item = &out[0].Hits[0].Item
				}
				return out[0], err
			}
		}
		for name, c := range map[string]struct {
			read    func() (store.Result, error)
			renewed bool
		}{
			"get": {get(s, nil), true}, "get, not now": {get(s, no), false}, "still": {get(still, nil), false}, "still, but now": {get(still, yes), true},
			"search": {search(s, nil), true}, "search, not now": {search(s, no), false}, "search, still": {search(still, nil), false},
			"search, but now": {search(still, yes), true},
		} {
			putFor(t, s, "k", 0)
			db.pass(40 * time.Second)
			r, err := c.read()
			if err != nil || r.Item == nil {
				t.Fatal(name, r, err)
			}
			left := 20 * time.Second
			if c.renewed {
				left = time.Minute
			}
			same(t, name+": ends", r.Item.Ends.Sub(noon.Add(time.Duration(db.now.Load()))), left)
			db.pass(40 * time.Second)
			same(t, name+": there", value(t, still, "t", "k") != "none", c.renewed)
		}
		putFor(t, s, "k", store.Forever)
		r, err := get(s, yes)()
		if err != nil || !r.Item.Ends.IsZero() {
			t.Errorf("what does not end got an end: %+v, %v", r.Item, err)
		}
		putFor(t, s, "k", time.Second)
		db.pass(time.Second)
		same(t, "too late to refresh", value(t, s, "t", "k"), "none")
	})
}

func TestSweep(t *testing.T) {
	onEach(t, func(t *testing.T, db *clocked) {
		mem, eng := engine(t, db, store.Options{Embedder: drinks()})
		s, other := mem.Of(eng, db), mem.Of(eng.Tenant("other"), db)
		sweeper := store.Sweeper{DB: db}
		sweep := func(limit int) string {
			t.Helper()
			done, next, err := sweeper.Due(t.Context(), limit)
			if err != nil {
				t.Fatal(err)
			}
			when := "never"
			if !next.IsZero() {
				when = next.Sub(noon).String()
			}
			return fmt.Sprint(done, " ", when)
		}
		same(t, "empty", sweep(10), "0 never")
		for i := range 5 {
			putFor(t, s, fmt.Sprint("k", i), time.Duration(i+1)*time.Second)
		}
		putFor(t, other, "k", 90*time.Second)
		putFor(t, s, "ever", store.Forever)
		same(t, "nothing yet", sweep(10), "0 1s")
		db.pass(3 * time.Second)
		same(t, "a part", sweep(2), "2 3s")
		same(t, "the rest", sweep(2), "1 4s")
		db.pass(time.Hour)
		same(t, "of all tenants", sweep(10), "3 never")
		same(t, "left", found(t, s, store.Search{Text: "tea"}), "ever=1.00")
		if _, _, err := sweeper.Due(t.Context(), 0); err == nil {
			t.Error("a limit of 0 was accepted")
		}
	})
}
