package suite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/house"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/store"
)

// memoryOf is a store with options beside an engine on a home.
func memoryOf(t *testing.T, db storage.DB, o store.Options) (*store.Store, *pawl.Engine) {
	t.Helper()
	m, err := store.New(o)
	if err != nil {
		t.Fatal(err)
	}
	eng := engine(t, db, &pawl.Options{Parts: []pawl.Part{m}})
	return m.Of(eng, db), eng
}

// rowOneItem: 51 nodes at once write one item, and again; the last of them is what is found.
func rowOneItem(t *testing.T, h *home) {
	items, eng := memoryOf(t, h.open(t), store.Options{})
	space := []string{"shared"}
	var mu sync.Mutex
	last := ""
	b := pawl.New[rowState]("row")
	for i := range 51 {
		name := fmt.Sprint("n", i)
		b.Node(name, func(ctx context.Context, s *rowState) error {
			mu.Lock()
			defer mu.Unlock()
			last = fmt.Sprint(name, " after ", s.N.Get())
			s.N.Add(1)
			return store.From(ctx).Put(ctx, space, "item", map[string]string{"from": last})
		}).Edge(pawl.Start, name)
	}
	th := build(t, b).Thread(eng, "t")
	for _, want := range []int{51, 102} {
		out, _ := ran(t, th, pawl.Done)
		same(t, "count", out.State.N.Get(), want)
		hits, err := items.Search(t.Context(), store.Search{Prefix: space})
		if err != nil || len(hits) != 1 {
			t.Fatal(hits, err)
		}
		var found struct{ From string }
		if err := hits[0].Decode(&found); err != nil || found.From != last {
			t.Errorf("the item is of %q, %v, want %q", found.From, err, last)
		}
	}
}

// drinks embeds a text as how often it names each of two drinks.
type drinks struct{}

func (drinks) Embed(_ context.Context, texts []string) (out [][]float32, err error) {
	for _, text := range texts {
		out = append(out, []float32{float32(strings.Count(text, "tea")), float32(strings.Count(text, "coffee"))})
	}
	return out, nil
}

func rowByMeaning(t *testing.T, h *home) {
	items, _ := memoryOf(t, h.open(t), store.Options{Embedder: drinks{}, Index: []string{"likes", "more[*].text"}})
	space := []string{"people"}
	put := func(key string, value map[string]any, p store.Put) store.Op {
		p.Namespace, p.Key, p.Value = space, key, value
		return p
	}
	_, err := items.Batch(t.Context(),
		put("tea", map[string]any{"likes": "tea", "kind": "hot"}, store.Put{}),
		put("both", map[string]any{"likes": "tea and coffee", "kind": "hot"}, store.Put{}),
		put("inside", map[string]any{"likes": 1, "more": []any{map[string]string{"text": "coffee"}}}, store.Put{}),
		put("own path", map[string]any{"likes": "coffee", "deep": map[string]string{"a": "tea"}}, store.Put{Index: []string{"deep.a"}}),
		put("hidden", map[string]any{"likes": "tea", "kind": "hot"}, store.Put{NoIndex: true}))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		search store.Search
		want   string
	}{
		"scored first": {store.Search{Text: "tea"}, "own path=1.00 tea=1.00 both=0.71 inside=0.00 hidden"},
		"paths":        {store.Search{Text: "coffee", Limit: 2}, "inside=1.00 both=0.71"},
		"filter":       {store.Search{Text: "tea", Filter: store.Filter{"kind": "hot"}}, "tea=1.00 both=0.71 hidden"},
		"pages":        {store.Search{Text: "tea", Limit: 2, Offset: 2}, "both=0.71 inside=0.00"},
		"last page":    {store.Search{Text: "tea", Limit: 2, Offset: 4}, "hidden"},
	} {
		c.search.Prefix = space
		hits, err := items.Search(t.Context(), c.search)
		var got []string
		for _, hit := range hits {
			if text := hit.Key; hit.Score != nil {
				got = append(got, fmt.Sprintf("%s=%.2f", text, *hit.Score))
			} else {
				got = append(got, text)
			}
		}
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, %v, want %s", name, got, err, c.want)
		}
	}
}

// ahead is a database whose clock is fast.
type ahead struct {
	storage.DB
	by time.Duration
}

func (l *ahead) View(ctx context.Context, fn func(context.Context, storage.Tx) error) error {
	return l.DB.View(ctx, func(ctx context.Context, tx storage.Tx) error { return fn(ctx, aheadTx{tx, l.by}) })
}

type aheadTx struct {
	storage.Tx
	by time.Duration
}

func (t aheadTx) Now() time.Time { return t.Tx.Now().Add(t.by) }

func rowItemsEnd(t *testing.T, h *home) {
	clock := &ahead{DB: h.open(t)}
	items, _ := memoryOf(t, clock, store.Options{TTL: time.Hour})
	space := []string{"ends"}
	for key, ttl := range map[string]time.Duration{"standard": 0, "day": 24 * time.Hour, "ever": store.Forever} {
		if _, err := items.Batch(t.Context(), store.Put{Namespace: space, Key: key, Value: struct{}{}, TTL: ttl}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		by   time.Duration
		want int
	}{{0, 3}, {59 * time.Minute, 3}, {61 * time.Minute, 2}, {25 * time.Hour, 1}, {10000 * time.Hour, 1}} {
		clock.by = c.by
		hits, err := items.Search(t.Context(), store.Search{Prefix: space})
		_, there, errGet := items.Get(t.Context(), space, "standard")
		if err != nil || errGet != nil || len(hits) != c.want || there != (c.want == 3) {
			t.Errorf("after %v: %d items, %v, %v, %v", c.by, len(hits), there, err, errGet)
		}
	}
}

// rowEncrypted: what is written under a key can be read under it alone; what was written before stays readable.
func rowEncrypted(t *testing.T, h *home) {
	const plain, secret = "written in the clear", "the secret of somebody"
	db := h.open(t)
	keyed := func(key byte) *pawl.Options {
		codec, err := storage.AES("key-1", map[string][]byte{"key-1": bytes.Repeat([]byte{key}, 32)})
		if err != nil {
			t.Fatal(err)
		}
		return &pawl.Options{Codec: codec}
	}
	g := build(t, single(func(ctx context.Context, s *rowState) error {
		if s.Log.Len() == 1 {
			s.Log.Add("said")
			return nil
		}
		said, err := pawl.Step(ctx, "says", func(context.Context) (string, error) { return secret + " in a step", nil })
		if err != nil {
			return err
		}
		answer, err := vote.Ask(ctx, secret+" in a question")
		s.Log.Add(said, answer)
		return err
	}, pawl.Uses(vote)))
	if _, err := g.Thread(engine(t, db, nil), "t").Run(t.Context(), &rowState{Log: pawl.List(plain)}); err != nil {
		t.Fatal(err)
	}
	th := g.Thread(engine(t, db, keyed(1)), "t")
	out, err := th.Run(t.Context(), &rowState{Log: pawl.List(secret)})
	if err != nil || out.Status != pawl.Waiting {
		t.Fatal(out, err)
	}
	if out, err = th.Resume(t.Context(), vote.Answer("", secret+" in an answer")); err != nil {
		t.Fatal(err)
	}
	want := []string{plain, "said", secret, secret + " in a step", secret + " in an answer"}
	same(t, "log", logOf(out.State), want)

	before := allRows(t, db)
	if strings.Contains(before, secret) || !strings.Contains(before, plain) || !strings.Contains(before, "key-1") {
		t.Errorf("stored:\n%s", before)
	}
	for name, o := range map[string]*pawl.Options{"another key": keyed(2), "no key": nil} {
		wrong := g.Thread(engine(t, db, o), "t")
		var damaged *records.DamagedError
		if _, err := wrong.Run(t.Context(), &rowState{}); !errors.As(err, &damaged) {
			t.Errorf("%s: run: %v", name, err)
		}
		if s, err := wrong.State(t.Context()); !errors.As(err, &damaged) {
			t.Errorf("%s: state: %v, %v", name, s, err)
		}
	}
	if after := allRows(t, db); after != before {
		t.Error("who has not the key changed something")
	}
	s, err := g.Thread(engine(t, h.open(t), keyed(1)), "t").Read(statusOf(t, th).Head)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "log under the key again", logOf(s), want)
}

// allRows is everything that a home holds, in the clear.
func allRows(t *testing.T, db storage.DB) (text string) {
	t.Helper()
	err := db.View(t.Context(), func(_ context.Context, tx storage.Tx) error {
		var b strings.Builder
		for _, kind := range house.Kinds() {
			rows, err := tx.List(kind.Name, storage.Query{})
			if err != nil {
				return err
			}
			for _, row := range rows {
				fmt.Fprintf(&b, "%s %q %q %d %s\n", kind.Name, row.Key, row.Fields, row.Rev, row.Body)
			}
		}
		text = b.String()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}
