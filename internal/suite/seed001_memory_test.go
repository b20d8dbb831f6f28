package suite

import (
	"context"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

type prefers struct {
	User pawl.Last[string] `json:"user"`
	Asks pawl.Last[bool]   `json:"asks"`
	Told pawl.Last[string] `json:"told"`
}

// remembers writes what a user prefers, or looks it up and tells what it found.
func remembers(ctx context.Context, s *prefers) error {
	space := []string{"users", s.User.Get()}
	if !s.Asks.Get() {
		return store.From(ctx).Put(ctx, space, "drink", map[string]string{"likes": "tea"})
	}
	item, known, err := store.From(ctx).Get(ctx, space, "drink")
	if err != nil || !known {
		s.Told.Set("nothing")
		return err
	}
	s.Told.Set(string(item.Value))
	return nil
}

func threadIsNoUser(t *testing.T, _ *report) {
	onEach(t, func(t *testing.T, h *home) {
		db := h.open(t)
		mem := must(store.New(store.Options{}))
		g := atDepth(t, pawl.New[prefers]("prefers").Node("remembers", remembers).Edge(pawl.Start, "remembers"))
		eng := engine(t, db, &pawl.Options{Parts: []pawl.Part{mem}}, g)
		run := func(eng *pawl.Engine, thread, user string, asks bool) string {
			t.Helper()
			out, err := g.Thread(eng, thread).Run(t.Context(), &prefers{User: pawl.Of(user), Asks: pawl.Of(asks)})
			return mustBeDone(t, out, err)
		}
		ours, theirs := eng.Tenant("acme"), eng.Tenant("other")
		same(t, "thread 1's state", run(ours, "1", "u1", false), `{"user":"u1","asks":false}`)
		known := `{"user":"u1","asks":true,"told":"{\"likes\":\"tea\"}"}`
		same(t, "thread 2", run(ours, "2", "u1", true), known)
		if err := g.Thread(ours, "1").Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
		same(t, "thread 3, after thread 1 is deleted", run(ours, "3", "u1", true), known)
		same(t, "another user", run(ours, "4", "u2", true), `{"user":"u2","asks":true,"told":"nothing"}`)
		same(t, "another tenant", run(theirs, "2", "u1", true), `{"user":"u1","asks":true,"told":"nothing"}`)
		item, ok, err := mem.Of(ours, db).Get(t.Context(), []string{"users", "u1"}, "drink")
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		same(t, "from outside", string(item.Value), `{"likes":"tea"}`)
	})
}
