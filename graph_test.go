package pawl

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

// ledger is the state of the builder's tests.
type ledger struct {
	Notes Append[string] `json:"notes"`
	Total Sum[int64]     `json:"total"`
	Pick  Last[string]   `json:"pick"`
	Tags  Last[[]string] `json:"tags"`
}

type (
	ship    struct{ Order string }
	verdict struct{ OK bool }
	parcel  struct {
		N int `json:"n"`
	}
)

func nop(context.Context, *ledger) error             { return nil }
func nopWork(context.Context, *ledger, parcel) error { return nil }
func nowhere(*ledger) []Next                         { return nil }
func always[S any](*S) []Next                        { return To(End) }
func askShip(*ledger) ship                           { return ship{} }
func decideShip(s *ledger, v verdict) error          { return nil }
func sound() *Builder[ledger] {
	return New[ledger]("g").Node("a", nop).Node("b", nop).Path(Start, "a", "b")
}
func with(opts ...NodeOption) *Builder[ledger]          { return sound().Node("c", nop, opts...).Edge("b", "c") }
func question(name string) Interrupt[ship, verdict]     { return Interrupt[ship, verdict]{Name: name} }
func lookup(opts ...NodeOption) *Worker[ledger, parcel] { return NewWorker("lookup", nopWork, opts...) }

func mustBuild[S any](t *testing.T, b *Builder[S]) *Graph[S] {
	t.Helper()
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestBuildFaults(t *testing.T) {
	t.Parallel()
	var noWorker *Worker[ledger, parcel]
	var noUse Usable
	for _, c := range []struct {
		name  string
		build *Builder[ledger]
		want  []string
	}{
		{"graph without a name", New[ledger]("").Node("a", nop).Edge(Start, "a"), []string{`a graph needs a name`}},
		{"graph name with a colon", New[ledger]("a:b").Node("a", nop).Edge(Start, "a"),
			[]string{`graph "a:b": "|" and ":" separate the parts of a path; leave them out of names`}},
		{"node without a name", sound().Node("", nop).Edge("a", ""), []string{`a node needs a name`}},
		{"node named like Start", sound().Node(Start, nop),
			[]string{`node "__start__": names that begin with "__" are reserved`}},
		{"node named like End", sound().Node(End, nop).Edge("a", End),
			[]string{`node "__end__": names that begin with "__" are reserved`}},
		{"node with a bar", sound().Node("x|y", nop).Edge("a", "x|y"),
			[]string{`node "x|y": "|" and ":" separate the parts of a path; leave them out of names`}},
		{"node with a colon", sound().Node("x:y", nop).Edge("a", "x:y"),
			[]string{`node "x:y": "|" and ":" separate the parts of a path; leave them out of names`}},
		{"node with a control character", sound().Node("x\ny", nop).Edge("a", "x\ny"),
			[]string{`node "x\ny": a name holds no control characters`}},
		{"node name that is no text", sound().Node("x\xff", nop).Edge("a", "x\xff"),
			[]string{`node "x\xff": a name is valid UTF-8`}},
		{"question with a bar in its name", sound().Add(AskNode(question("x|y"), askShip, decideShip)).Edge("a", "x|y"),
			[]string{`node "x|y": "|" and ":" separate the parts of a path; leave them out of names`}},
		{"node added twice", sound().Node("a", nop), []string{`node "a" is added twice`}},
		{"worker and node of one name", sound().Node("lookup", nop).Edge("a", "lookup").Add(lookup()),
			[]string{`node "lookup" is added twice`}},
		{"nil function", sound().Node("c", nil).Edge("b", "c"), []string{`node "c" has a nil function`}},
		{"worker with a nil function", sound().Add(NewWorker[ledger, parcel]("lookup", nil)).Route("a", nowhere, "lookup"),
			[]string{`node "lookup" has a nil function`}},
		{"question without a question function", sound().Add(AskNode(question("ok"), nil, decideShip)).Edge("b", "ok"),
			[]string{`node "ok" has a nil function`}},
		{"question without a decision", sound().Add(AskNode[ledger](question("ok"), askShip, nil)).Edge("b", "ok"),
			[]string{`node "ok" has a nil function`}},
		{"nothing added", sound().Add(nil), []string{`Add(nil): add a worker or an AskNode`}},
		{"nil worker added", sound().Add(noWorker), []string{`Add(nil): add a worker or an AskNode`}},

		{"no try", with(Tries(0)), []string{`node "c": Tries(0): a node needs at least one try`}},
		{"negative backoff", with(Backoff(-time.Second, time.Second)),
			[]string{`node "c": Backoff(-1s, 1s): the first wait is not negative and the longest not below it`}},
		{"backoff that shrinks", with(Backoff(time.Minute, time.Second)),
			[]string{`node "c": Backoff(1m0s, 1s): the first wait is not negative and the longest not below it`}},
		{"negative timeout", with(Timeout(-1)), []string{`node "c": Timeout(-1ns): a time limit is not negative; leave it out for none`}},
		{"version zero", with(Version(0)), []string{`node "c": Version(0): versions count from 1`}},
		{"nil option", with(nil), []string{`node "c": a nil option`}},
		{"nothing used", with(Uses(noUse)), []string{`node "c": Uses(nil): name an interrupt or an effect`}},
		{"nameless use", with(Uses(question(""))), []string{`node "c": Uses: what a node uses needs a name`}},
		{"used twice", with(Uses(question("ok"), question("ok"))), []string{`node "c": Uses names "ok" twice`}},
		{"used twice in two options", with(Uses(question("ok")), Uses(question("ok"))), []string{`node "c": Uses names "ok" twice`}},
		{"question that uses itself", sound().Add(AskNode(question("ok"), askShip, decideShip, Uses(question("ok")))).Edge("b", "ok"),
			[]string{`node "ok": Uses names "ok" twice`}},
		{"one interrupt name, two types", with(Uses(question("ok"))).Node("d", nop, Uses(Interrupt[ship, bool]{Name: "ok"})).Edge("b", "d"),
			[]string{`nodes "c" and "d" use two interrupts named "ok" whose types or rules differ; rename one`}},
		{"one interrupt name, two rules", with(Uses(question("ok"))).
			Node("d", nop, Uses(Interrupt[ship, verdict]{Name: "ok", Expires: time.Hour})).Edge("b", "d"),
			[]string{`nodes "c" and "d" use two interrupts named "ok" whose types or rules differ; rename one`}},

		{"edge from End", sound().Edge(End, "b"), []string{`edge from End to "b": nothing leaves End`}},
		{"edge to Start", sound().Edge("b", Start), []string{`edge from "b" to Start: nothing leads back to Start`}},
		{"edge from nowhere", sound().Edge("x", "b"), []string{`edge from "x" to "b": there is no node "x"`}},
		{"edge to nowhere", sound().Edge("b", "x"), []string{`edge from "b" to "x": there is no node "x"`}},
		{"edge from and to nowhere", sound().Edge("x", "y"),
			[]string{`edge from "x" to "y": there is no node "x"`, `edge from "x" to "y": there is no node "y"`}},
		{"label of no line", sound().Label("a", "x", "why"), []string{`label "why" from "a" to "x": no edge and no route leads there`}},
		{"two labels of a line", sound().Label("a", "b", "one").Label("a", "b", "two"), []string{`label "two" from "a" to "b": there is another for that line`}},
		{"label of two lines", sound().Label("a", "b", "one\ntwo"), []string{`label "one\ntwo" from "a" to "b": it holds control characters, or is not valid UTF-8`}},
		{"edge declared twice", sound().Edge("a", "b"), []string{`edge from "a" to "b": declared twice`}},
		{"path of one", sound().Path("a"), []string{`Path of 1: an edge needs two names`}},
		{"path of none", sound().Path(), []string{`Path of 0: an edge needs two names`}},
		{"no entry", New[ledger]("g").Node("a", nop),
			[]string{`nothing leaves Start: add an edge or a route from pawl.Start to the first node`}},
		{"empty graph", New[ledger]("g"),
			[]string{`nothing leaves Start: add an edge or a route from pawl.Start to the first node`}},
		{"out of reach", sound().Node("c", nop).Node("d", nop).Path("c", "d", "c"), []string{
			`node "c" cannot be reached from Start, so it would never run; lead to it or leave it out`,
			`node "d" cannot be reached from Start, so it would never run; lead to it or leave it out`}},

		{"join of one", sound().Node("c", nop).Edge("a", "c").Join([]string{"a"}, "c"),
			[]string{`join of 1 into "c": a join waits for two nodes or more; use Edge for one`}},
		{"join of none", sound().Join(nil, "b"),
			[]string{`join of 0 into "b": a join waits for two nodes or more; use Edge for one`}},
		{"join of one, twice", sound().Join([]string{"a", "a"}, "b"), []string{`join of "a" and "a" into "b": "a" is named twice`}},
		{"join of Start", sound().Join([]string{"a", Start}, "b"),
			[]string{`join of Start and "a" into "b": Start is always finished; leave it out`}},
		{"join of End", sound().Join([]string{"a", End}, "b"), []string{`join of End and "a" into "b": nothing leaves End`}},
		{"join from nowhere", sound().Join([]string{"a", "x"}, "b"), []string{`join of "a" and "x" into "b": there is no node "x"`}},
		{"join into nowhere", sound().Join([]string{"b", "a"}, "x"), []string{`join of "a" and "b" into "x": there is no node "x"`}},
		{"join into Start", sound().Join([]string{"b", "a"}, Start), []string{`join of "a" and "b" into Start: nothing leads back to Start`}},
		{"join declared twice", with().Join([]string{"a", "b"}, "c").Join([]string{"b", "a"}, "c"),
			[]string{`join of "a" and "b" into "c": declared twice, or named like another join (a+b>c)`}},
		{"joins that read alike", New[ledger]("g").Node("a", nop).Node("b", nop).Node("a+b", nop).Node("b+c", nop).Node("c", nop).Node("d", nop).
			Edge(Start, "a").Edge(Start, "a+b").Edge(Start, "b+c").Edge(Start, "c").Edge("a", "b").Edge("a", "d").
			Join([]string{"a", "b+c"}, "d").Join([]string{"a+b", "c"}, "d"),
			[]string{`join of "a+b" and "c" into "d": declared twice, or named like another join (a+b+c>d)`}},
		{"reached by half a join", sound().Node("c", nop).Node("d", nop).Join([]string{"a", "c"}, "d").Edge("d", "c"), []string{
			`node "c" cannot be reached from Start, so it would never run; lead to it or leave it out`,
			`node "d" cannot be reached from Start, so it would never run; lead to it or leave it out`}},

		{"route from End", sound().Route(End, nowhere, "a"), []string{`route from End: nothing leaves End`}},
		{"route from nowhere", sound().Route("x", nowhere, "a"), []string{`route from "x": there is no node "x"`}},
		{"route without a function", sound().Route("b", nil, "a"), []string{`route from "b": its function is nil`}},
		{"route without targets", sound().Route("b", nowhere),
			[]string{`route from "b": it declares no targets; list every node that it may choose, and End`}},
		{"route to nowhere", sound().Route("b", nowhere, "a", "x"), []string{`route from "b": there is no node "x"`}},
		{"route to Start", sound().Route("b", nowhere, Start), []string{`route from "b": nothing leads back to Start`}},
		{"target declared twice", sound().Route("b", nowhere, "a", "a"), []string{`route from "b": target "a" is declared twice`}},

		{"function that routes a node twice", sound().Route("b", nowhere, "a").Route("b", nowhere, End),
			[]string{`route from "b": the function github.com/pawl-dev/pawl.nowhere is given twice, so what it chooses would be chosen twice; ` +
				`give it once, with all targets`}},
		{"generic function that routes a node twice", sound().Route("b", always[ledger], "a").Route("a", always[ledger], "b").Route("b", always[ledger], "a"),
			[]string{`route from "b": the function github.com/pawl-dev/pawl.always[...] is given twice, so what it chooses would be chosen twice; ` +
				`give it once, with all targets`}},

		{"edge to a worker", sound().Add(lookup()).Edge("b", "lookup").Route("a", nowhere, "lookup"),
			[]string{`edge from "b" to "lookup": worker "lookup" needs a payload; send it one from a route, with its With or Each`}},
		{"join into a worker", sound().Add(lookup()).Join([]string{"a", "b"}, "lookup").Route("a", nowhere, "lookup"),
			[]string{`join of "a" and "b" into "lookup": worker "lookup" needs a payload; send it one from a route, with its With or Each`}},
		{"worker that nothing sends to", sound().Add(lookup()),
			[]string{`worker "lookup" is the target of no route, so nothing can send to it; declare it in a Route or leave it out`}},
		{"worker that nothing reachable sends to", sound().Add(lookup()).Node("c", nop).Edge("c", "b").Route("c", nowhere, "lookup"), []string{
			`node "lookup" cannot be reached from Start, so it would never run; lead to it or leave it out`,
			`node "c" cannot be reached from Start, so it would never run; lead to it or leave it out`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g, err := c.build.Build()
			var faults *BuildError
			if !errors.As(err, &faults) {
				t.Fatalf("built %v, error %v; want a *BuildError", g, err)
			}
			if g != nil {
				t.Error("a graph came with the error")
			}
			if !slices.Equal(faults.Faults, c.want) {
				t.Errorf("faults:\n\t%s\nwant:\n\t%s", strings.Join(faults.Faults, "\n\t"), strings.Join(c.want, "\n\t"))
			}
		})
	}
}

type chooser struct{ to string }

func (c chooser) choose(*ledger) []Next { return To(c.to) }

// Functions that may hold something are not told apart by their code, and one function may route many nodes.
func TestRoutesThatAreNoTwins(t *testing.T) {
	t.Parallel()
	b := sound().Route("a", nowhere, End).Route("b", nowhere, End).Route("b", chooser{"a"}.choose, "a").Route("b", chooser{End}.choose, End)
	for _, to := range []string{"a", End} {
		b.Route("b", func(*ledger) []Next { return To(to) }, to)
	}
	mustBuild(t, b)
}

func TestBuildReportsAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := New[ledger]("bad|name").
		Node("a", nop, Tries(-1), Timeout(-time.Second)).
		Node("a", nil).
		Edge(Start, "b").Edge("a", "c").
		Join([]string{"a"}, "d").
		Route("a", nil, "e").
		Build()
	want := `graph "bad|name" was not built:
	graph "bad|name": "|" and ":" separate the parts of a path; leave them out of names
	node "a": Tries(-1): a node needs at least one try
	node "a": Timeout(-1s): a time limit is not negative; leave it out for none
	node "a" is added twice
	node "a" has a nil function
	edge from Start to "b": there is no node "b"
	edge from "a" to "c": there is no node "c"
	join of 1 into "d": a join waits for two nodes or more; use Edge for one
	join of "a" into "d": there is no node "d"
	route from "a": its function is nil
	route from "a": there is no node "e"
	nothing leaves Start: add an edge or a route from pawl.Start to the first node`
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
}

func TestBuildReportsTheState(t *testing.T) {
	t.Parallel()
	type state struct {
		Plain int          `json:"plain"`
		Fine  Last[string] `json:"fine"`
	}
	_, err := New[state]("g").Edge(Start, "nowhere").Build()
	var faults *BuildError
	if !errors.As(err, &faults) || len(faults.Faults) < 2 {
		t.Fatalf("got %v; want faults of the state and of the edge", err)
	}
	if all := err.Error(); !strings.Contains(all, "Plain") || !strings.Contains(all, `no node "nowhere"`) {
		t.Errorf("got %v; want the field Plain and the node nowhere named", err)
	}
}

func TestBuildAccepts(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]*Builder[ledger]{
		"only Start and End":        New[ledger]("g").Edge(Start, End),
		"entry by a route":          New[ledger]("g").Node("a", nop).Route(Start, nowhere, "a", End),
		"worker from Start":         New[ledger]("g").Add(lookup()).Route(Start, nowhere, "lookup"),
		"worker from itself":        New[ledger]("g").Add(lookup()).Route(Start, nowhere, "lookup").Route("lookup", nowhere, "lookup"),
		"worker in a join":          sound().Add(lookup()).Route("a", nowhere, "lookup").Node("c", nop).Join([]string{"b", "lookup"}, "c"),
		"a loop":                    sound().Edge("b", "a"),
		"a node after itself":       sound().Edge("b", "b"),
		"two routes of one node":    sound().Route("b", nowhere, "a").Route("b", always, "a", End),
		"edge and route to one":     sound().Route("a", nowhere, "b"),
		"lines before their nodes":  New[ledger]("g").Edge("a", "b").Edge(Start, "a").Node("b", nop).Node("a", nop),
		"a name of many scripts":    New[ledger]("наш Graph-1").Node("прийом 受付 (a+b)>c", nop).Edge(Start, "прийом 受付 (a+b)>c"),
		"one interrupt in two":      with(Uses(question("ok"))).Add(AskNode(question("ok"), askShip, decideShip)).Edge("c", "ok"),
		"join reached through loop": with().Node("d", nop).Join([]string{"b", "c"}, "d").Edge("d", "a"),
	} {
		if _, err := b.Build(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBuilderAfterBuildDoesNotChangeTheGraph(t *testing.T) {
	t.Parallel()
	targets, from := []string{"a", End}, []string{"b", "a"}
	b := with().Join(from, "c").Route("b", func(*ledger) []Next { return To("a") }, targets...)
	g := mustBuild(t, b)
	before, digest := mustJSON(t, g), g.Digest()
	targets[0], from[0] = "x", "x"
	b.Node("z", nop).Edge("a", "z").Route("a", nowhere, "z").Route("b", func(*ledger) []Next { panic("not this graph's") }, "z").
		Join([]string{"c", "z"}, "b").Add(lookup())
	if after := mustJSON(t, g); !bytes.Equal(before, after) || g.Digest() != digest {
		t.Errorf("the graph changed from\n%s\nto\n%s", before, after)
	}
	out, err := g.def.RunTask(t.Context(), core.TaskInput{Task: &core.Task{Node: "b"}, Values: make([]*core.Value, 4)})
	if err != nil || len(out.Next) != 1 || out.Next[0].Node != "a" {
		t.Errorf("b led to %v (%v); want a alone", out.Next, err)
	}
	if _, err := b.Build(); err == nil {
		t.Error("the builder forgot the faults that were added after its first Build")
	}
}

func TestOneWorkerInTwoGraphs(t *testing.T) {
	t.Parallel()
	w := lookup(Tries(2))
	one := mustBuild(t, New[ledger]("one").Add(w).Route(Start, nowhere, "lookup"))
	two := mustBuild(t, New[ledger]("two").Add(w).Route(Start, nowhere, "lookup").Route("lookup", func(*ledger) []Next { return To(End) }, End))
	if a, b := len(one.def.nodes["lookup"].routes), len(two.def.nodes["lookup"].routes); a != 0 || b != 1 {
		t.Errorf("the worker has %d and %d routes; want 0 and 1", a, b)
	}
}

func TestBuildIsDeterministic(t *testing.T) {
	t.Parallel()
	build := func(flip bool) *Graph[ledger] {
		b := New[ledger]("g")
		declare := []func(){
			func() { b.Node("a", nop, Uses(question("x"), question("w"))) }, func() { b.Node("b", nop) }, func() { b.Node("c", nop, Version(3)) },
			func() { b.Add(lookup()) }, func() { b.Edge(Start, "a") }, func() { b.Edge(Start, "b") }, func() { b.Edge("a", "c") },
			func() { b.Route("b", nowhere, "lookup", "c", End) }, func() { b.Route("b", always, "a") },
			func() { b.Join([]string{"b", "a"}, "c") }, func() { b.Join([]string{"a", "c"}, "b") },
		}
		if flip {
			slices.Reverse(declare)
		}
		for _, f := range declare {
			f()
		}
		return mustBuild(t, b)
	}
	want := build(false)
	for i := range 20 {
		got := build(i%2 == 1)
		if a, b := mustJSON(t, want), mustJSON(t, got); !bytes.Equal(a, b) {
			t.Fatalf("the order of declaring shows:\n%s\nand\n%s", a, b)
		}
		if want.Digest() != got.Digest() {
			t.Fatal("the digest depends on the order of declaring")
		}
	}
}

func TestDigestSeesMeaningNotCode(t *testing.T) {
	t.Parallel()
	base := mustBuild(t, with()).Digest()
	other := func(context.Context, *ledger) error { return errors.New("other code") }
	if d := mustBuild(t, sound().Node("c", other, Tries(4), Timeout(time.Hour)).Edge("b", "c")).Digest(); d != base {
		t.Error("code and tries changed the digest")
	}
	for name, b := range map[string]*Builder[ledger]{
		"a version": with(Version(2)),
		"a use":     with(Uses(question("ok"))),
		"an edge":   with().Edge("c", "a"),
		"a target":  with().Route("c", nowhere, "a"),
		"a join":    with().Join([]string{"a", "b"}, "c"),
		"a node":    with().Node("d", nop).Edge("a", "d"),
		"durable":   with(Durable()),
	} {
		if mustBuild(t, b).Digest() == base {
			t.Errorf("%s did not change the digest", name)
		}
	}
}

func TestPolicyAndInterrupts(t *testing.T) {
	t.Parallel()
	b := sound().
		Node("c", nop, Tries(3), Backoff(time.Second, time.Minute), Timeout(time.Hour), Durable(), Uses(question("why"))).
		Add(AskNode(question("ok"), askShip, decideShip)).Path("b", "c", "ok")
	g := mustBuild(t, b)
	var d core.Def = g.erased()
	if p := d.Policy("c"); p.Tries != 3 || p.Wait != time.Second || p.MaxWait != time.Minute || p.Timeout != time.Hour || !p.Durable || !p.Uses["why"] || p.Uses["ok"] {
		t.Errorf("policy of c: %+v", p)
	}
	if p := d.Policy("a"); p.Tries != 1 || p.Timeout != 0 || p.Durable || p.Uses == nil || len(p.Uses) != 0 {
		t.Errorf("policy of a, without options: %+v", p)
	}
	if p := d.Policy("ok"); !p.Uses["ok"] {
		t.Error("a question node does not declare its own interrupt")
	}
	for _, name := range []string{Start, "unknown"} {
		if p := d.Policy(name); p.Tries != 1 || p.Uses == nil || len(p.Uses) != 0 {
			t.Errorf("policy of %s: %+v", name, p)
		}
	}
	for name, want := range map[string]bool{"why": true, "ok": true, "c": false, "": false} {
		if in, ok := d.Interrupt(name); ok != want || ok && in == nil {
			t.Errorf("interrupt %q: %v, %v", name, in, ok)
		}
	}
	if n, _ := d.Topology().Node("ok"); n.Kind != core.KindAsk || !slices.Equal(n.Uses, []string{"ok"}) {
		t.Errorf("question node: %+v", n)
	}
}

func mustJSON[S any](t *testing.T, g *Graph[S]) []byte {
	t.Helper()
	doc, err := g.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return doc
}
