package suite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/house"
	"github.com/pawl-dev/pawl/memdb"
)

// TestAuditOfGraphs: what an operator does to a graph is a row, in the Update that does it, and so is what was refused.
func TestAuditOfGraphs(t *testing.T) {
	t.Parallel()
	db, err := memdb.Open(house.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	denied := errors.New("not yours")
	deny := false
	eng := engine(t, db, &pawl.Options{Parts: []pawl.Part{audit.Part{}}, Allow: func(_ context.Context, v pawl.VerbInfo) error {
		if deny {
			return denied
		}
		return nil
	}}).Tenant("acme")
	g := build(t, pawl.New[rowPrivate]("g").
		Node("a", func(_ context.Context, s *rowPrivate) error { s.Hello.Add("a"); return nil }, pawl.Cache(time.Hour)).
		Node("b", func(_ context.Context, s *rowPrivate) error { s.Hello.Add("b"); return nil }, pawl.Cache(time.Hour)).
		Path(pawl.Start, "a", "b"))
	if _, err := g.Thread(eng, "t").Run(t.Context(), &rowPrivate{}); err != nil {
		t.Fatal(err)
	}
	ctx := actor("ops")
	do := func(err error) {
		t.Helper()
		if (err != nil) != deny || deny && !errors.Is(err, denied) {
			t.Error(err)
		}
	}
	clear := func(nodes ...string) {
		t.Helper()
		_, err := eng.ClearCache(ctx, "g", nodes...)
		do(err)
	}
	do(eng.Drain(ctx, "g", g.Digest(), "deploy"))
	do(eng.Undrain(ctx, "g", g.Digest(), "it was none"))
	clear("a", "gone")
	clear()
	deny = true
	do(eng.Drain(ctx, "g", g.Digest(), "again"))
	clear()
	deny = false

	rows, err := audit.List(t.Context(), db, "acme", "", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rows {
		got = append(got, fmt.Sprintf("%s %s %s %s>%s %s", r.Actor.ID, r.Action, r.Ref, strings.ReplaceAll(r.Before, g.Digest(), "v1"), r.After,
			strings.ReplaceAll(r.Reason, g.Digest(), "v1")))
	}
	refused := func(verb string) string {
		return fmt.Sprintf(`pawl: not allowed: %s of thread "" by "ops": not yours; nothing was read and nothing was done`, verb)
	}
	same(t, "trail", strings.Join(got, "\n"), strings.Join([]string{
		"ops graph.drain g v1>drained deploy",
		"ops graph.drain g v1>open it was none",
		"ops graph.clear g|a >1 results forgotten ",
		"ops graph.clear g|gone >0 results forgotten ",
		"ops graph.clear g >1 results forgotten ",
		"ops graph.drain.refused g v1>drained " + refused("drain"),
		"ops graph.clear.refused g > " + refused("clear"),
	}, "\n"))
}
