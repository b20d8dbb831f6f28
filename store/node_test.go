package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/store"
)

type visit struct {
	User  pawl.Last[string] `json:"user"`
	Likes pawl.Last[string] `json:"likes"`
}

var drink = pawl.Interrupt[string, string]{Name: "drink"}

// greet asks a user once what they like, and remembers.
func greet(ctx context.Context, s *visit) error {
	space := []string{"users", s.User.Get()}
	item, known, err := store.From(ctx).Get(ctx, space, "drink")
	if err != nil {
		return err
	}
	if known {
		var p struct{ Likes string }
		err := item.Decode(&p)
		s.Likes.Set(p.Likes)
		return err
	}
	likes, err := drink.Ask(ctx, "what?")
	if err != nil {
		return err
	}
	return store.From(ctx).Put(ctx, space, "drink", map[string]string{"likes": likes})
}

func graphOf(t *testing.T, node func(context.Context, *visit) error) *pawl.Graph[visit] {
	t.Helper()
	g, err := pawl.New[visit]("greet").Node("greet", node, pawl.Uses(drink)).Edge(pawl.Start, "greet").Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// What one thread learns another one knows; the tenant is the thread's.
func TestNodesRemember(t *testing.T) {
	onEach(t, func(t *testing.T, db *clocked) {
		mem, eng := engine(t, db, store.Options{})
		g := graphOf(t, greet)
		in := func(user string) *visit { return &visit{User: pawl.Of(user)} }
		for _, tenant := range []string{"a", "b"} {
			eng := eng.Tenant(tenant)
			out, err := g.Thread(eng, "1").Run(t.Context(), in("u1"))
			if err != nil || out.Status != pawl.Waiting {
				t.Fatal(out, err)
			}
			if _, err = g.Thread(eng, "1").Resume(t.Context(), drink.Answer(out.Waiting[0].ID, "tea of "+tenant)); err != nil {
				t.Fatal(err)
			}
			if err := eng.Thread("greet", "1").Delete(t.Context()); err != nil {
				t.Fatal(err)
			}
			out2, err := g.Thread(eng, "2").Run(t.Context(), in("u1"))
			if err != nil || out2.State.Likes.Get() != "tea of "+tenant {
				t.Fatal(out2, err)
			}
			same(t, "outside", value(t, mem.Of(eng, db), "users/u1", "drink"), `{"likes":"tea of `+tenant+`"}`)
		}
	})
}

// What a node wrote stays when the node fails, and when the thread goes back; a node that runs again writes again.
func TestWritesStay(t *testing.T) {
	onEach(t, func(t *testing.T, db *clocked) {
		mem, eng := engine(t, db, store.Options{})
		entries := 0
		g := graphOf(t, func(ctx context.Context, s *visit) error {
			entries++
			n := struct{ N int }{}
			item, known, err := store.From(ctx).Get(ctx, ns("count"), "n")
			if err == nil && known {
				err = item.Decode(&n)
			}
			if n.N++; err == nil {
				err = store.From(ctx).Put(ctx, ns("count"), "n", n)
			}
			if entries == 1 {
				err = errors.Join(err, errors.New("after the write"))
			}
			return err
		})
		th := g.Thread(eng, "1")
		if out, err := th.Run(t.Context(), &visit{}); err == nil || out.Status != pawl.Failed {
			t.Fatal(out, err)
		}
		same(t, "after the failure", value(t, mem.Of(eng, db), "count", "n"), `{"N":1}`)
		if _, err := th.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := th.Replay(t.Context(), pawl.Before("greet")); err != nil {
			t.Fatal(err)
		}
		same(t, "after resume and replay", value(t, mem.Of(eng, db), "count", "n"), `{"N":3}`)
	})
}

// A run that lost its thread does not write any more; reading does no harm.
func TestZombiesDoNotWrite(t *testing.T) {
	onEach(t, func(t *testing.T, db *clocked) {
		mem, eng := engine(t, db, store.Options{})
		put(t, mem.Of(eng, db), "a", "k", `{"by":"first"}`)
		var read, wrote error
		entered, lost := make(chan struct{}), make(chan struct{})
		g := graphOf(t, func(ctx context.Context, s *visit) error {
			close(entered)
			<-lost
			_, _, read = store.From(ctx).Get(ctx, ns("a"), "k")
			wrote = store.From(ctx).Put(ctx, ns("a"), "k", map[string]string{"by": "zombie"})
			return wrote
		})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = g.Thread(eng, "1").Run(context.WithoutCancel(t.Context()), &visit{})
		}()
		<-entered
		takeOver(t, db)
		close(lost)
		<-ended
		if read != nil || wrote == nil {
			t.Errorf("read: %v, wrote: %v", read, wrote)
		}
		same(t, "kept", value(t, mem.Of(eng, db), "a", "k"), `{"by":"first"}`)
	})
}

// A node is tested as a plain function.
func TestPlainNode(t *testing.T) {
	t.Parallel()
	db, err := memdb.Open(store.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	mem, err := store.New(store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	eng, err := pawl.NewEngine(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	s := mem.Of(eng, db)
	put(t, s, "users/u1", "drink", `{"likes":"tea"}`)
	state := &visit{User: pawl.Of("u1")}
	if err := greet(store.With(t.Context(), s), state); err != nil || state.Likes.Get() != "tea" {
		t.Error(state.Likes.Get(), err)
	}
	if err := greet(t.Context(), state); !errors.Is(err, store.ErrNoStore) {
		t.Errorf("without a memory: %v", err)
	}
	// An engine without storage has no memory either, and says so by the node's name.
	bare, err := pawl.NewEngine(nil, &pawl.Options{Parts: []pawl.Part{mem}})
	if err != nil {
		t.Fatal(err)
	}
	defer bare.Close()
	if _, err := graphOf(t, greet).Thread(bare, "1").Run(t.Context(), &visit{User: pawl.Of("u1")}); !errors.As(err, new(*pawl.NoStorageError)) || !strings.Contains(err.Error(), `"greet"`) {
		t.Errorf("without storage: %v", err)
	}
}

type tally struct {
	Count pawl.Sum[int] `json:"count"`
}

// Many tasks write one item at once: one of their writes is kept whole, and each task counts.
func TestManyWriters(t *testing.T) {
	onEach(t, func(t *testing.T, db *clocked) {
		mem, eng := engine(t, db, store.Options{})
		write := pawl.NewWorker("write", func(ctx context.Context, s *tally, n int) error {
			s.Count.Add(1)
			return store.From(ctx).Put(ctx, ns("shared"), "n", map[string]int{"n": n, "same": n})
		})
		numbers := make([]int, 51)
		for i := range numbers {
			numbers[i] = i
		}
		g, err := pawl.New[tally]("tally").Add(write).
			Route(pawl.Start, func(*tally) []pawl.Next { return write.Each(numbers) }, "write").Build()
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []int{51, 102} {
			out, err := g.Thread(eng, "1").Run(t.Context(), &tally{})
			if err != nil {
				t.Fatal(err)
			}
			same(t, "tasks", out.State.Count.Get(), want)
			item, _, err := mem.Of(eng, db).Get(t.Context(), ns("shared"), "n")
			var v struct{ N, Same int }
			if err = errors.Join(err, item.Decode(&v)); err != nil || v.N != v.Same {
				t.Error(v, err)
			}
		}
	})
}
