package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/store"
)

func TestItems(t *testing.T) {
	onEach(t, func(t *testing.T, db *clocked) {
		s := open(t, db, store.Options{})
		same(t, "before", value(t, s, "users/u1", "tea"), "none")
		put(t, s, "users/u1", "tea", `{"likes":"green"}`)
		db.pass(time.Minute)
		put(t, s, "users/u1", "tea", `{"likes":"black","cups":12345678901234567890}`)
		item, ok, err := s.Get(t.Context(), ns("users/u1"), "tea")
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		same(t, "value", string(item.Value), `{"likes":"black","cups":12345678901234567890}`)
		same(t, "place", strings.Join(item.Namespace, "/")+" "+item.Key, "users/u1 tea")
		same(t, "created", item.Created, noon)
		same(t, "updated", item.Updated, noon.Add(time.Minute))
		same(t, "ends", item.Ends, time.Time{})
		var v struct{ Likes string }
		if err := item.Decode(&v); err != nil || v.Likes != "black" {
			t.Error(v, err)
		}
		var wrong struct{ Likes int }
		if err := item.Decode(&wrong); err == nil || !strings.Contains(err.Error(), `"tea"`) {
			t.Errorf("decoding into another type: %v", err)
		}
		same(t, "the namespace above", value(t, s, "users", "tea"), "none")
		same(t, "a longer key", value(t, s, "users/u1", "tea2"), "none")
		for range 2 {
			if err := s.Delete(t.Context(), ns("users/u1"), "tea"); err != nil {
				t.Fatal(err)
			}
			same(t, "after delete", value(t, s, "users/u1", "tea"), "none")
		}
		db.pass(time.Minute)
		put(t, s, "users/u1", "tea", `{}`)
		item, _, _ = s.Get(t.Context(), ns("users/u1"), "tea")
		same(t, "created anew", item.Created, noon.Add(2*time.Minute))
	})
}

// Keys may hold anything; namespaces that share letters do not share items.
func TestNamesDoNotMeet(t *testing.T) {
	onEach(t, func(t *testing.T, db *clocked) {
		s := open(t, db, store.Options{})
		places := []struct{ namespace, key string }{
			{"a", "k"}, {"a/b", "k"}, {"ab", "k"}, {"a-", "k"}, {"a\x01", "k"}, {"a/\x01", "k"}, {"a", "\x00"}, {"a", "b\x00\x00k"}, {"a", "b"}, {"А", "k"},
		}
		for _, p := range places {
			put(t, s, p.namespace, p.key, `{"in":"`+strings.ReplaceAll(strings.ReplaceAll(p.namespace+" "+p.key, "\x00", "0"), "\x01", "1")+`"}`)
		}
		for _, p := range places {
			want := `{"in":"` + strings.ReplaceAll(strings.ReplaceAll(p.namespace+" "+p.key, "\x00", "0"), "\x01", "1") + `"}`
			same(t, p.namespace+" "+p.key, value(t, s, p.namespace, p.key), want)
		}
		hits, err := s.Search(t.Context(), store.Search{Prefix: []string{"a"}, Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		same(t, "below a", len(hits), 6)
		for _, h := range hits {
			same(t, "first label", h.Namespace[0], "a")
		}
	})
}

func TestRefusals(t *testing.T) {
	onEach(t, func(t *testing.T, db *clocked) {
		s := open(t, db, store.Options{})
		object := map[string]int{"n": 1}
		for name, labels := range map[string][]string{
			"it is empty": {}, "a label is empty": {"a", ""}, `no "."`: {"a.b"}, "reserved": {"langgraph", "a"}, "without NUL": {"a", "b\x00"}, "UTF-8": {"\xff"},
		} {
			refused[*store.NamespaceError](t, name, s.Put(t.Context(), labels, "k", object), name)
			_, _, err := s.Get(t.Context(), labels, "k")
			refused[*store.NamespaceError](t, name, err, name)
			hits, err := s.Search(t.Context(), store.Search{Prefix: labels})
			if err != nil || len(hits) > 0 {
				t.Errorf("searching below %q: %v, %v", labels, hits, err)
			}
		}
		if err := s.Put(t.Context(), []string{"a", "langgraph"}, "k", object); err != nil {
			t.Error(err)
		}
		for what, op := range map[string]store.Op{
			"key: it is empty":   store.Put{Namespace: ns("a"), Value: object},
			"key: it is no UTF":  store.Get{Namespace: ns("a"), Key: "\xff"},
			"2,048 bytes":        store.Put{Namespace: ns("a"), Key: strings.Repeat("k", 2048), Value: object},
			"value: []int is no": store.Put{Namespace: ns("a"), Key: "k", Value: []int{1}},
			"value: json":        store.Put{Namespace: ns("a"), Key: "k", Value: map[string]any{"f": func() {}}},
			"nil> is no object":  store.Put{Namespace: ns("a"), Key: "k"},
			"ttl: -2s is below":  store.Put{Namespace: ns("a"), Key: "k", Value: object, TTL: -2 * time.Second},
			"a name is empty":    store.Put{Namespace: ns("a"), Key: "k", Value: object, Index: []string{"a..b"}},
			"no place in a list": store.Put{Namespace: ns("a"), Key: "k", Value: object, Index: []string{"a[x]"}},
			"put a dot before":   store.Put{Namespace: ns("a"), Key: "k", Value: object, Index: []string{"a[0]b"}},
			"limit":              store.Search{Limit: -1},
			"offset":             store.List{Offset: -1},
			"max depth":          store.List{MaxDepth: -1},
			"operation 1 is nil": nil,
		} {
			_, err := s.Batch(t.Context(), store.Put{Namespace: ns("all"), Key: "or nothing", Value: object}, op)
			refused[*store.InputError](t, what, err, what)
		}
		same(t, "written beside a refused operation", value(t, s, "all", "or nothing"), "none")
		if _, err := s.Search(t.Context(), store.Search{Text: "tea"}); !errors.Is(err, store.ErrNoEmbedder) {
			t.Errorf("by meaning without a model: %v", err)
		}
		if err := store.From(t.Context()).Put(t.Context(), ns("a"), "k", object); !errors.Is(err, store.ErrNoStore) {
			t.Errorf("without a memory: %v", err)
		}
	})
	for says, o := range map[string]store.Options{"TTL": {TTL: -1}, "index": {Index: []string{""}}} {
		if _, err := store.New(o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

func TestBatch(t *testing.T) {
	onEach(t, func(t *testing.T, db *clocked) {
		s := open(t, db, store.Options{})
		put(t, s, "a", "old", `{"n":1}`)
		put(t, s, "a", "gone", `{"n":1}`)
		at := func(key string, n int) store.Put {
			return store.Put{Namespace: ns("a"), Key: key, Value: map[string]int{"n": n}}
		}
		out, err := s.Batch(t.Context(),
			at("new", 1), store.Get{Namespace: ns("a"), Key: "new"}, at("new", 2), at("new", 3),
			store.Delete{Namespace: ns("a"), Key: "gone"}, store.Get{Namespace: ns("a"), Key: "gone"},
			store.Delete{Namespace: ns("a"), Key: "old"}, at("old", 5), store.Search{Prefix: ns("a")}, store.List{},
		)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "results", len(out), 10)
		if out[1].Item != nil || out[5].Item == nil {
			t.Errorf("reads must see what was before: %+v %+v", out[1].Item, out[5].Item)
		}
		same(t, "search before the writes", told(out[8].Hits), "gone old")
		same(t, "namespaces", len(out[9].Namespaces), 1)
		same(t, "the last put counts", value(t, s, "a", "new"), `{"n":3}`)
		same(t, "deleted", value(t, s, "a", "gone"), "none")
		same(t, "deleted, then put", value(t, s, "a", "old"), `{"n":5}`)
		if out, err := s.Batch(t.Context()); err != nil || len(out) != 0 {
			t.Errorf("an empty batch: %v, %v", out, err)
		}
	})
}

func TestNamespaces(t *testing.T) {
	onEach(t, func(t *testing.T, db *clocked) {
		s := open(t, db, store.Options{})
		for _, place := range []string{"users/u2/likes", "users/u1/likes", "users/u1", "users/u1/visits/2026", "docs/u1/likes", "users-old/u1", "docs"} {
			for _, key := range []string{"a", "b", "c"} {
				put(t, s, place, key, `{}`)
			}
		}
		_, err := s.Batch(t.Context(), store.Put{Namespace: ns("users/ended"), Key: "k", Value: struct{}{}, TTL: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		db.pass(time.Second)
		for name, c := range map[string]struct {
			q    store.List
			want string
		}{
			"all":              {store.List{}, "docs docs/u1/likes users/u1 users/u1/likes users/u1/visits/2026 users/u2/likes users-old/u1"},
			"prefix":           {store.List{Prefix: ns("users")}, "users/u1 users/u1/likes users/u1/visits/2026 users/u2/likes"},
			"longer prefix":    {store.List{Prefix: ns("users/u1/likes/x")}, ""},
			"any in a prefix":  {store.List{Prefix: ns("*/u1")}, "docs/u1/likes users/u1 users/u1/likes users/u1/visits/2026 users-old/u1"},
			"suffix":           {store.List{Suffix: ns("likes")}, "docs/u1/likes users/u1/likes users/u2/likes"},
			"any in a suffix":  {store.List{Suffix: ns("u1/*")}, "docs/u1/likes users/u1/likes"},
			"both":             {store.List{Prefix: ns("users"), Suffix: ns("likes")}, "users/u1/likes users/u2/likes"},
			"depth":            {store.List{MaxDepth: 1}, "docs users users-old"},
			"depth 2":          {store.List{MaxDepth: 2, Prefix: ns("users")}, "users/u1 users/u2"},
			"suffix and depth": {store.List{MaxDepth: 1, Suffix: ns("likes")}, "docs users"},
			"page":             {store.List{MaxDepth: 2, Offset: 1, Limit: 2}, "docs/u1 users/u1"},
			"offset too far":   {store.List{Offset: 7}, ""},
			"no such":          {store.List{Prefix: []string{"a.b"}}, ""},
		} {
			list, err := s.Namespaces(t.Context(), c.q)
			if err != nil || list == nil {
				t.Fatal(name, list, err)
			}
			var got []string
			for _, labels := range list {
				got = append(got, strings.Join(labels, "/"))
			}
			same(t, name, strings.Join(got, " "), c.want)
		}
	})
}

func TestTenants(t *testing.T) {
	onEach(t, func(t *testing.T, db *clocked) {
		mem, eng := engine(t, db, store.Options{})
		ours, theirs := mem.Of(eng.Tenant("a"), db), mem.Of(eng.Tenant("b"), db)
		put(t, ours, "users/u1", "tea", `{"of":"a"}`)
		same(t, "another tenant", value(t, theirs, "users/u1", "tea"), "none")
		same(t, "no tenant", value(t, mem.Of(eng, db), "users/u1", "tea"), "none")
		same(t, "search of another", found(t, theirs, store.Search{}), "")
		put(t, theirs, "users/u1", "tea", `{"of":"b"}`)
		if err := theirs.Delete(t.Context(), ns("users/u1"), "tea"); err != nil {
			t.Fatal(err)
		}
		same(t, "after the other's delete", value(t, ours, "users/u1", "tea"), `{"of":"a"}`)
	})
}

// Options.Allow is asked about reading and writing, before anything is done.
func TestPermission(t *testing.T) {
	onEach(t, func(t *testing.T, db *clocked) {
		mem, _ := store.New(store.Options{})
		var asked []string
		eng, err := pawl.NewEngine(db, &pawl.Options{Parts: []pawl.Part{mem}, Allow: func(_ context.Context, v pawl.VerbInfo) error {
			asked = append(asked, string(v.Verb)+" "+v.Actor.ID+" "+v.Tenant)
			if v.Verb == store.VerbWrite && v.Actor.ID != "ann" {
				return errors.New("readers do not write")
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer eng.Close()
		s := mem.Of(eng.Tenant("acme"), db)
		bob := pawl.WithActor(t.Context(), pawl.Actor{ID: "bob"})
		if err := s.Put(bob, ns("a"), "k", struct{}{}); !errors.Is(err, pawl.ErrDenied) {
			t.Errorf("bob wrote: %v", err)
		}
		if _, ok, err := s.Get(bob, ns("a"), "k"); ok || err != nil {
			t.Errorf("bob read: %v, %v", ok, err)
		}
		ann := pawl.WithActor(t.Context(), pawl.Actor{ID: "ann"})
		if _, err := s.Batch(ann, store.Put{Namespace: ns("a"), Key: "k", Value: struct{}{}}, store.List{}); err != nil {
			t.Error(err)
		}
		same(t, "asked", strings.Join(asked, ", "), "store.write bob acme, store.read bob acme, store.read ann acme, store.write ann acme")
	})
}

// masked is a codec that hides what is stored.
type masked struct{}

func (masked) KeyID() string { return "k1" }
func (masked) Encode(_ string, b []byte) ([]byte, error) {
	out := make([]byte, len(b))
	for i, c := range b {
		out[i] = c ^ 0x5a
	}
	return out, nil
}
func (m masked) Decode(kind, _ string, b []byte) ([]byte, error) { return m.Encode(kind, b) }

// Under a codec neither values nor vectors are in the clear, and a body that was altered is refused by name.
func TestBodies(t *testing.T) {
	onEach(t, func(t *testing.T, db *clocked) {
		s := open(t, db, store.Options{Codec: masked{}, Embedder: drinks()})
		put(t, s, "users/u1", "tea", `{"likes":"green tea"}`)
		same(t, "read back", value(t, s, "users/u1", "tea"), `{"likes":"green tea"}`)
		same(t, "ranked", found(t, s, store.Search{Text: "tea"}), "tea=1.00")
		err := db.Update(t.Context(), func(_ context.Context, tx storage.Tx) error {
			rows, err := tx.List("memory", storage.Query{Range: storage.Range{Prefix: []any{""}}})
			if err != nil || len(rows) != 1 || strings.Contains(string(rows[0].Body), "green") {
				t.Errorf("stored: %+v, %v", rows, err)
			}
			rows[0].Body[12] ^= 1
			_, err = tx.Put("memory", rows[0], storage.Always())
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Get(t.Context(), ns("users/u1"), "tea"); err == nil || !strings.Contains(err.Error(), `"tea" in ["users" "u1"]`) {
			t.Errorf("an altered body: %v", err)
		}
	})
}

// doubtful is a database that cannot tell whether what it wrote is durable.
type doubtful struct {
	*clocked
	lose bool
}

func (d doubtful) Update(ctx context.Context, fn func(context.Context, storage.Tx) error) error {
	err := d.clocked.Update(ctx, func(ctx context.Context, tx storage.Tx) error {
		if err := fn(ctx, tx); err != nil || !d.lose {
			return err
		}
		return errors.New("lost")
	})
	return &storage.UnknownError{Err: err}
}

// A write of unknown outcome is read back: it is reported done only when it is there.
func TestDoubt(t *testing.T) {
	onEach(t, func(t *testing.T, db *clocked) {
		mem, eng := engine(t, db, store.Options{})
		value := json.RawMessage(`{"n":1}`)
		for _, lose := range []bool{true, false, true} {
			s := mem.Of(eng, doubtful{db, lose})
			err := s.Put(t.Context(), ns("a"), "k", value)
			if unknown := errors.As(err, new(*storage.UnknownError)); unknown != lose {
				t.Errorf("put, lost %v: %v", lose, err)
			}
			db.pass(time.Second)
		}
		for _, lose := range []bool{true, false} {
			err := mem.Of(eng, doubtful{db, lose}).Delete(t.Context(), ns("a"), "k")
			if unknown := errors.As(err, new(*storage.UnknownError)); unknown != lose {
				t.Errorf("delete, lost %v: %v", lose, err)
			}
		}
	})
}
