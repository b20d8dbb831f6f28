package suite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/nest"
)

// The states of a graph that is changed while a run of it is in flight.
type (
	versionState struct {
		N   pawl.Last[int]      `json:"n"`
		Log pawl.Append[string] `json:"log"`
	}
	versionOptional struct {
		N    pawl.Last[int]      `json:"n"`
		More pawl.Last[string]   `json:"more,omitzero"`
		Log  pawl.Append[string] `json:"log"`
	}
	versionRequired struct {
		N    pawl.Last[int]      `json:"n"`
		More pawl.Last[string]   `json:"more"`
		Log  pawl.Append[string] `json:"log"`
	}
	versionRemoved struct {
		Log pawl.Append[string] `json:"log"`
	}
	versionRetyped struct {
		N   pawl.Last[string]   `json:"n"`
		Log pawl.Append[string] `json:"log"`
	}
	versionRemerged struct {
		N   pawl.Sum[int]       `json:"n"`
		Log pawl.Append[string] `json:"log"`
	}
)

// version is START -> a -> b, which asks -> c -> perhaps z. Each field is a change to it.
type version struct {
	a, asks  string // names instead of a and gate
	versions map[string]int
	edges    [][2]string
	targets  map[string]string // one more target of the route of a or c
	uses     map[string]string // one more name that a node may ask
	join     []string          // nodes that the new one, or z, waits for, too
	says     string            // what the code of a and c writes
	node     string            // a new node, that c leads to
}

func versioned[S any](t testing.TB, v version, l *ledger, log func(*S, string)) *nest.Graph[S] {
	t.Helper()
	asks := pawl.Interrupt[string, string]{Name: or(v.asks, "gate")}
	a := or(v.a, "a")
	plain := func(name string) func(context.Context, *S) error {
		return func(_ context.Context, s *S) error {
			l.add(name)
			log(s, name+v.says)
			return nil
		}
	}
	options := func(name string, uses ...pawl.Usable) []pawl.NodeOption {
		if more := v.uses[name]; more != "" {
			uses = append(uses, pawl.Interrupt[string, string]{Name: more})
		}
		return []pawl.NodeOption{pawl.Version(max(v.versions[name], 1)), pawl.Uses(uses...)}
	}
	targets := func(name string, always ...string) []string {
		if more := v.targets[name]; more != "" {
			always = append(always, more)
		}
		return always
	}
	b := pawl.New[S]("versioned").Node(a, plain("a"), options("a")...).Node("c", plain("c"), options("c")...).Node("z", plain("z")).
		Node("b", func(ctx context.Context, s *S) error {
			l.add("b")
			answer, err := asks.Ask(ctx, "?")
			if err == nil {
				log(s, "b "+answer)
			}
			return err
		}, options("b", asks)...).
		Edge(pawl.Start, a).Edge("b", "c").
		Route(a, func(*S) []pawl.Next { return pawl.To("b") }, targets("a", "b")...).
		Route("c", func(*S) []pawl.Next { return pawl.To(pawl.End) }, targets("c", "z", pawl.End)...)
	for _, e := range v.edges {
		b = b.Edge(e[0], e[1])
	}
	if v.join != nil {
		b = b.Join(v.join, or(v.node, "z"))
	}
	if v.node != "" {
		b = b.Node(v.node, plain(v.node)).Edge("c", v.node)
	}
	return atDepth(t, b)
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// verdict is what a change means for a run that waits in b. Empty: it goes on; else the difference that is named.
type verdict struct {
	change string
	atB    string // for resume, and for fork and replay from the checkpoint at which b was due
	atA    string // for fork and replay from the checkpoint before a
	// Retry starts from nothing here, so that there is no past that could tell: it is always let through.
	graph func(testing.TB, *ledger) pawl.Registrable
}

func graphOf(t testing.TB, v version, l *ledger) *nest.Graph[versionState] {
	return versioned(t, v, l, func(s *versionState, line string) { s.Log.Add(line) })
}

func changed(v version) func(testing.TB, *ledger) pawl.Registrable {
	return func(t testing.TB, l *ledger) pawl.Registrable { return graphOf(t, v, l) }
}

func changedState[S any](log func(*S, string)) func(testing.TB, *ledger) pawl.Registrable {
	return func(t testing.TB, l *ledger) pawl.Registrable { return versioned(t, version{}, l, log) }
}

var verdicts10 = []verdict{
	{change: "nothing", graph: changed(version{})},
	{change: "code alone", graph: changed(version{says: " anew"})},
	{change: "a later node's version", graph: changed(version{versions: map[string]int{"c": 2}})},
	{change: "a later node's edge", graph: changed(version{edges: [][2]string{{"c", "z"}}})},
	{change: "a later node's targets", graph: changed(version{targets: map[string]string{"c": "b"}})},
	{change: "a later node's questions", graph: changed(version{uses: map[string]string{"c": "new"}})},
	{change: "a new later node", graph: changed(version{node: "fresh"})},
	{change: "a join of later nodes", graph: changed(version{edges: [][2]string{{"c", "z"}}, join: []string{"c", "z"}, node: "fresh"})},
	{change: "an optional channel", graph: changedState(func(s *versionOptional, line string) { s.Log.Add(line) })},

	{change: "a required channel", atB: `"more"`, atA: `"more"`, graph: changedState(func(s *versionRequired, line string) { s.Log.Add(line) })},
	{change: "a channel less", atB: `"n"`, atA: `"n"`, graph: changedState(func(s *versionRemoved, line string) { s.Log.Add(line) })},
	{change: "a channel's type", atB: `"n"`, atA: `"n"`, graph: changedState(func(s *versionRetyped, line string) { s.Log.Add(line) })},
	{change: "a channel's merge", atB: `"n"`, atA: `"n"`, graph: changedState(func(s *versionRemerged, line string) { s.Log.Add(line) })},

	{change: "an earlier node's name", atB: `node "a": was there, is absent`, atA: `node "a": was there, is absent`, graph: changed(version{a: "a2"})},
	{change: "an earlier node's version", atB: `"a"`, atA: `"a"`, graph: changed(version{versions: map[string]int{"a": 2}})},
	{change: "an earlier node's edge", atB: `"a"`, atA: `"a"`, graph: changed(version{edges: [][2]string{{"a", "z"}}})},
	{change: "an earlier node's targets", atB: `"a"`, atA: `"a"`, graph: changed(version{targets: map[string]string{"a": "z"}})},
	{change: "an earlier node's questions", atB: `"a"`, atA: `"a"`, graph: changed(version{uses: map[string]string{"a": "new"}})},
	{change: "another beginning", atB: `"` + pawl.Start + `"`, atA: `"` + pawl.Start + `"`, graph: changed(version{edges: [][2]string{{pawl.Start, "z"}}})},
	{change: "a join with an earlier node", atB: `"a"`, atA: `"a"`, graph: changed(version{join: []string{"a", "c"}})},

	{change: "the waiting node's version", atB: `"b"`, graph: changed(version{versions: map[string]int{"b": 2}})},
	{change: "the waiting node's edge", atB: `"b"`, graph: changed(version{edges: [][2]string{{"b", "z"}}})},
	{change: "the waiting node's question", atB: `"b"`, graph: changed(version{asks: "other"})},
	{change: "the waiting node's questions", atB: `"b"`, graph: changed(version{uses: map[string]string{"b": "new"}})},
	{change: "a join with the waiting node", atB: `"b"`, graph: changed(version{join: []string{"b", "c"}})},
}

// neverReinterpreted is P7.
func neverReinterpreted(t *testing.T, _ *report) {
	for _, v := range verdicts10 {
		t.Run(v.change, func(t *testing.T) { onEach(t, v.judge) })
	}
}

// judge runs a thread under the old graph until it waits, and tries each verb on it under the changed one.
func (v verdict) judge(t *testing.T, h *home) {
	ctx, l, db := context.Background(), newLedger(t), h.open(t)
	before := graphOf(t, version{}, l)
	type verb struct {
		name  string
		do    func(*pawl.Thread, map[string]string) (*pawl.Outcome, error)
		fails string
	}
	verbs := []verb{
		{"resume", func(th *pawl.Thread, at map[string]string) (*pawl.Outcome, error) {
			return th.Resume(ctx, pawl.AnswerWith(at["question"], "yes"))
		}, v.atB},
		{"fork at b", func(th *pawl.Thread, at map[string]string) (*pawl.Outcome, error) {
			return th.Fork(ctx, pawl.Checkpoint(at["b"]), []byte(`{"log":["edited"]}`))
		}, v.atB},
		{"replay at b", func(th *pawl.Thread, at map[string]string) (*pawl.Outcome, error) {
			return th.Replay(ctx, pawl.Checkpoint(at["b"]))
		}, v.atB},
		{"fork at a", func(th *pawl.Thread, at map[string]string) (*pawl.Outcome, error) {
			return th.Fork(ctx, pawl.Checkpoint(at["a"]), []byte(`{"log":["edited"]}`))
		}, v.atA},
		{"replay at a", func(th *pawl.Thread, at map[string]string) (*pawl.Outcome, error) {
			return th.Replay(ctx, pawl.Checkpoint(at["a"]), pawl.Hold())
		}, v.atA},
		{"retry", func(th *pawl.Thread, _ map[string]string) (*pawl.Outcome, error) { return th.Retry(ctx) }, ""},
	}
	places := map[string]map[string]string{}
	old := engine(t, db, nil, before)
	for _, verb := range verbs {
		th := before.Thread(old, verb.name)
		out, err := th.Run(ctx, &versionState{})
		at := map[string]string{"question": mustWaitFor(t, out, err, 1)[0].ID}
		for _, s := range history(t, th) {
			at[fmt.Sprint(s.Next)] = s.Checkpoint
		}
		at["a"], at["b"] = at["[a]"], at["[b]"]
		if places[verb.name] = at; verb.name == "retry" {
			if err := th.Cancel(ctx, "for the test"); err != nil {
				t.Fatal(err)
			}
		}
	}
	now := v.graph(t, l)
	eng := engine(t, db, nil, now)
	for _, verb := range verbs {
		t.Run(verb.name, func(t *testing.T) {
			th := eng.Thread("versioned", verb.name)
			content, entries := everything(t, db), len(l.rows())
			out, err := verb.do(th, places[verb.name])
			if verb.fails == "" {
				v.goesOn(t, th, out, err)
				return
			}
			refused := (*pawl.VersionError)(nil)
			if !errors.As(err, &refused) {
				t.Fatalf("outcome %+v, error %v; want a *VersionError about %s", out, err, verb.fails)
			}
			says(t, strings.ReplaceAll(refused.First, levelOf(t).Node(""), ""), verb.fails)
			says(t, err.Error(), verb.name, "versioned", "first difference", "nothing was run", "old version")
			if refused.Thread != verb.name || refused.Run == "" || refused.Was == refused.Is || refused.Is != digestOf(now) {
				t.Errorf("the refusal names %+v", refused)
			}
			same(t, "entries", len(l.rows()), entries)
			unchanged(t, db, content)
		})
	}
}

func digestOf(g pawl.Registrable) string { return g.(interface{ Digest() string }).Digest() }

// goesOn takes a run to its end that was let through.
func (v verdict) goesOn(t *testing.T, th *pawl.Thread, out *pawl.Outcome, err error) {
	t.Helper()
	for range 3 {
		if err != nil {
			t.Fatal(err)
		}
		if out.Status == pawl.Done {
			return
		}
		var answers []pawl.RunOption
		for _, q := range out.Waiting {
			answers = append(answers, pawl.AnswerWith(q.ID, "yes"))
		}
		out, err = th.Resume(context.Background(), answers...)
	}
	t.Errorf("it does not come to an end: %+v, %v", out, err)
}
