package pawl

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
)

// routed is a graph whose only node writes with fn and then routes with choose.
func routed(t *testing.T, fn func(context.Context, *ledger) error, choose func(*ledger) []Next, targets ...string) *Graph[ledger] {
	t.Helper()
	b := New[ledger]("g").Node("from", fn).Edge(Start, "from").Node("a", nop).Node("b", nop).Add(lookup()).
		Route(Start, nowhere, "a", "b", "lookup", End)
	return mustBuild(t, b.Route("from", choose, targets...))
}

func names(due []core.Due) (out []string) {
	for _, d := range due {
		out = append(out, strings.TrimSuffix(d.Node+" "+string(d.Arg), " "))
	}
	return out
}

func listed(notes *Append[string]) (out []string) {
	for _, n := range notes.All() {
		out = append(out, n)
	}
	return out
}

func TestRouteChooses(t *testing.T) {
	t.Parallel()
	w := lookup()
	for _, c := range []struct {
		name   string
		choose func(*ledger) []Next
		want   []string
	}{
		{"a node", func(*ledger) []Next { return To("a") }, []string{"a"}},
		{"nodes", func(*ledger) []Next { return To("b", "a") }, []string{"b", "a"}},
		{"End", func(*ledger) []Next { return To(End) }, nil},
		{"End and a node", func(*ledger) []Next { return To(End, "a") }, []string{"a"}},
		{"nothing", func(*ledger) []Next { return nil }, nil},
		{"no name", func(*ledger) []Next { return To() }, nil},
		{"one payload", func(*ledger) []Next { return w.With(parcel{7}) }, []string{`lookup {"n":7}`}},
		{"payloads in their order", func(*ledger) []Next { return w.Each([]parcel{{2}, {1}, {2}}) },
			[]string{`lookup {"n":2}`, `lookup {"n":1}`, `lookup {"n":2}`}},
		{"no payload", func(*ledger) []Next { return w.Each(nil) }, nil},
		{"both", func(*ledger) []Next { return append(w.With(parcel{1}), To("a")...) }, []string{`lookup {"n":1}`, "a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := routed(t, nop, c.choose, "a", "b", "lookup", End)
			out, err := runNode(g, "from", nil, "")
			if err != nil || !slices.Equal(names(out.Next), c.want) {
				t.Errorf("led to %q, error %v; want %q", names(out.Next), err, c.want)
			}
		})
	}
}

func TestRouteSeesTheTasksOwnWrites(t *testing.T) {
	t.Parallel()
	add := func(_ context.Context, s *ledger) error {
		s.Notes.Add("mine")
		s.Total.Add(2)
		s.Pick.Set("b")
		return nil
	}
	var notes []string
	var total int64
	g := routed(t, add, func(s *ledger) []Next {
		notes, total = listed(&s.Notes), s.Total.Get()
		return To(s.Pick.Get())
	}, "a", "b")
	out, err := runNode(g, "from", map[string]string{"notes": `["old"]`, "total": `40`, "pick": `"a"`}, "")
	if err != nil || !slices.Equal(names(out.Next), []string{"b"}) {
		t.Errorf("led to %q, error %v; want b, which the node chose", names(out.Next), err)
	}
	if !slices.Equal(notes, []string{"old", "mine"}) || total != 42 {
		t.Errorf("the route saw notes %q and total %d", notes, total)
	}
	if len(out.Writes) != 3 {
		t.Errorf("%d writes, want 3", len(out.Writes))
	}
}

func TestAllRoutesOfANodeRun(t *testing.T) {
	t.Parallel()
	g := mustBuild(t, sound().Route("b", func(*ledger) []Next { return To("a") }, "a").
		Route("b", nowhere, "a").Route("b", func(*ledger) []Next { return To("b", End) }, "b", End))
	out, err := runNode(g, "b", nil, "")
	if err != nil || !slices.Equal(names(out.Next), []string{"a", "b"}) {
		t.Errorf("led to %q, error %v; want a, b", names(out.Next), err)
	}
}

func TestRouteOfAFailedNodeDoesNotRun(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	g := routed(t, func(_ context.Context, s *ledger) error { s.Pick.Set("a"); return broken },
		func(*ledger) []Next { t.Error("the route ran"); return nil }, "a")
	out, err := runNode(g, "from", nil, "")
	if !errors.Is(err, broken) || len(out.Writes) > 0 || len(out.Next) > 0 {
		t.Errorf("got %+v, %v; want the node's own error alone", out, err)
	}
}

func TestRouteFailuresBelongToTheTask(t *testing.T) {
	t.Parallel()
	set := func(_ context.Context, s *ledger) error { s.Pick.Set("x"); return nil }
	unencodable := NewWorker("lookup", func(context.Context, *ledger, float64) error { return nil })
	stranger := NewWorker("a", nopWork)
	for _, c := range []struct {
		name   string
		choose func(*ledger) []Next
		want   string
	}{
		{"undeclared", func(*ledger) []Next { return To("b") },
			`node "from": its route chose "b", which it does not declare (a, lookup); nothing was merged; add it to the targets in Route`},
		{"undeclared beside a declared one", func(*ledger) []Next { return To("a", "b") },
			`node "from": its route chose "b", which it does not declare (a, lookup); nothing was merged; add it to the targets in Route`},
		{"unknown", func(*ledger) []Next { return To("x") },
			`node "from": its route chose "x", which it does not declare (a, lookup); nothing was merged; add it to the targets in Route`},
		{"undeclared End", func(*ledger) []Next { return To(End) },
			`node "from": its route chose "__end__", which it does not declare (a, lookup); nothing was merged; add it to the targets in Route`},
		{"zero Next", func(*ledger) []Next { return make([]Next, 1) },
			`node "from": its route to a, lookup chose no valid destination, but an empty name; nothing was merged; choose one of them, or return an empty list to lead nowhere`},
		{"empty name", func(*ledger) []Next { return To("") },
			`node "from": its route to a, lookup chose no valid destination, but an empty name; nothing was merged; choose one of them, or return an empty list to lead nowhere`},
		{"empty name behind a declared one", func(*ledger) []Next { return To("a", "") },
			`node "from": its route to a, lookup chose no valid destination, but an empty name; nothing was merged; choose one of them, or return an empty list to lead nowhere`},
		{"worker without a payload", func(*ledger) []Next { return To("lookup") },
			`node "from": its route chose worker "lookup" without a payload; send one with the worker's With or Each`},
		{"payload for a plain node", func(*ledger) []Next { return stranger.With(parcel{1}) },
			`node "from": its route sent a payload to "a", which is no worker of this graph; choose it with To`},
		{"payload that is no JSON", func(*ledger) []Next { return unencodable.Each([]float64{1, math.NaN()}) },
			`node "from": its route failed: payload 1 for worker "lookup" cannot be sent: json: unsupported value: NaN`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out, err := runNode(routed(t, set, c.choose, "a", "lookup"), "from", nil, "")
			if err == nil || err.Error() != c.want {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
			if len(out.Writes) > 0 || len(out.Next) > 0 {
				t.Errorf("a failed task did something: %+v", out)
			}
		})
	}
}

func TestUndeclaredTargetHasFields(t *testing.T) {
	t.Parallel()
	_, err := runNode(routed(t, nop, func(*ledger) []Next { return To("b") }, "a", End), "from", nil, "")
	var e *UndeclaredTargetError
	if !errors.As(err, &e) || e.Node != "from" || e.Target != "b" || !slices.Equal(e.Declared, []string{"a", End}) {
		t.Errorf("got %+v", e)
	}
}

func TestATargetIsDeclaredByItsOwnRoute(t *testing.T) {
	t.Parallel()
	g := mustBuild(t, sound().Route("b", nowhere, "a").Route("b", func(*ledger) []Next { return To("a") }, End))
	_, err := runNode(g, "b", nil, "")
	var e *UndeclaredTargetError
	if !errors.As(err, &e) || !slices.Equal(e.Declared, []string{End}) {
		t.Errorf("got %v; want the second route's own declaration", err)
	}
}

func TestWorkerPayload(t *testing.T) {
	t.Parallel()
	var got parcel
	w := NewWorker("lookup", func(_ context.Context, s *ledger, p parcel) error {
		got = p
		s.Total.Add(int64(p.N))
		return nil
	})
	g := mustBuild(t, New[ledger]("g").Add(w).Route(Start, func(*ledger) []Next { return w.With(parcel{7}) }, "lookup"))
	start, err := runNode(g, Start, nil, "")
	if err != nil || len(start.Next) != 1 {
		t.Fatalf("start: %+v, %v", start, err)
	}
	out, err := runNode(g, "lookup", nil, string(start.Next[0].Arg))
	if err != nil || got.N != 7 || len(out.Writes) != 1 {
		t.Errorf("the worker got %+v and did %+v, %v", got, out, err)
	}
}

func TestWorkerPayloadIsEncodedAtOnce(t *testing.T) {
	t.Parallel()
	w := NewWorker("tags", func(context.Context, *ledger, []string) error { return nil })
	tags := []string{"a"}
	sent := w.With(tags)
	tags[0] = "changed"
	if arg := string(sent[0].due.Arg); arg != `["a"]` {
		t.Errorf("sent %s; want what it was when it was sent", arg)
	}
}

func TestWorkerPayloadIsDecodedStrictly(t *testing.T) {
	t.Parallel()
	g := mustBuild(t, New[ledger]("g").Add(NewWorker("lookup", func(context.Context, *ledger, parcel) error {
		t.Error("the worker was entered")
		return nil
	})).Route(Start, nowhere, "lookup"))
	for name, c := range map[string]struct{ arg, want string }{
		"nothing":          {" ", "unexpected end"},
		"cut off":          {`{"n":`, "unexpected EOF"},
		"unknown field":    {`{"n":1,"m":2}`, `unknown field "m"`},
		"another type":     {`{"n":"1"}`, "cannot unmarshal string"},
		"two values":       {`{"n":1}{"n":2}`, "more than one value"},
		"something behind": {`{"n":1} x`, "more than one value"},
		"no object":        {`[1]`, "cannot unmarshal array"},
	} {
		_, err := runNode(g, "lookup", nil, c.arg)
		prefix := `worker "lookup" was not entered: its payload is no pawl.parcel: `
		if err == nil || !strings.HasPrefix(err.Error(), prefix) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v; want %s... %s", name, err, prefix, c.want)
		}
	}
}
