package core

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestMerges(t *testing.T) {
	t.Parallel()
	type channels = map[string]string
	for _, c := range []struct {
		name    string
		before  channels
		results []Result
		want    channels
	}{
		{"nobody wrote", channels{"last": `"x"`, "list": `["x"]`}, nil, channels{"last": `"x"`, "list": `["x"]`}},
		{"last is replaced", channels{"last": `"x"`}, []Result{wrote("a", set("last", `"y"`))}, channels{"last": `"y"`}},
		{"null is a value", channels{"last": `"x"`}, []Result{wrote("a", set("last", `null`))}, channels{"last": `null`}},
		{"a list grows in the order of the results", channels{"list": `["x"]`},
			[]Result{wrote("a", add("list", `["a1","a2"]`)), wrote("b", add("list", `["b"]`)), wrote("w", add("list", `["w"]`))},
			channels{"list": `["x","a1","a2","b","w"]`}},
		{"a list starts", nil, []Result{wrote("a", add("list", `["a"]`)), wrote("b", add("list", `["b"]`))}, channels{"list": `["a","b"]`}},
		{"an empty addition", channels{"list": `["x"]`}, []Result{wrote("a", add("list", `[]`)), wrote("b", add("list", ` [ "b" ] `))},
			channels{"list": `["x","b"]`}},
		{"a list is replaced", channels{"list": `["x"]`}, []Result{wrote("a", set("list", `[]`))}, channels{"list": `[]`}},
		{"sums of all arithmetics", channels{"int": "-5", "uint": "5", "float": "0.5"},
			[]Result{wrote("a", add("int", "-2"), add("uint", "2"), add("float", "0.25")), wrote("b", add("int", "10"))},
			channels{"int": "3", "uint": "7", "float": "0.75"}},
		{"sums to the edge", channels{"int": "9223372036854775806", "uint": "18446744073709551614"},
			[]Result{wrote("a", add("int", "1"), add("uint", "1"))},
			channels{"int": "9223372036854775807", "uint": "18446744073709551615"}},
		{"sums to the lower edge", channels{"int": "-9223372036854775807"}, []Result{wrote("a", add("int", "-1"))},
			channels{"int": "-9223372036854775808"}},
		{"keys of two tasks", channels{"map": `{"x":1,"y":2}`},
			[]Result{wrote("a", merged("map", `{"s":{"p":3},"d":["x"]}`)), wrote("b", merged("map", `{"s":{"y":4}}`))},
			channels{"map": `{"p":3,"y":4}`}},
		{"a key deleted and set by one task stands", channels{"map": `{"x":1}`},
			[]Result{wrote("a", merged("map", `{"s":{"x":2},"d":["x"]}`))}, channels{"map": `{"x":2}`}},
		{"a map is replaced", channels{"map": `{"x":1}`}, []Result{wrote("a", set("map", `{}`))}, channels{"map": `{}`}},
		{"channels in any order", channels{"last": `"x"`, "list": `["x"]`},
			[]Result{wrote("a", set("flash", `1`), add("list", `["a"]`), set("last", `"y"`)), wrote("b", add("int", "1"), add("list", `["b"]`))},
			channels{"last": `"y"`, "list": `["x","a","b"]`, "int": "1", "flash": `1`}},
		{"channels of one task in any order", channels{"last": `"x"`, "list": `["x"]`},
			[]Result{wrote("a", set("flash", `1`), add("list", `["a"]`), set("last", `"y"`))},
			channels{"last": `"y"`, "list": `["x","a"]`, "flash": `1`}},
		{"a fold takes items in order", channels{"fold": `"x"`},
			[]Result{wrote("a", add("fold", `["1","2"]`)), wrote("b", add("fold", `["3"]`))}, channels{"fold": `"x123"`}},
		{"a fold starts from nothing", nil, []Result{wrote("a", add("fold", `["1"]`))}, channels{"fold": `"1"`}},
		{"a fold is set", channels{"fold": `"x"`}, []Result{wrote("a", set("fold", `"y"`))}, channels{"fold": `"y"`}},
		{"once is put", nil, []Result{wrote("a", set("once", `"grant"`))}, channels{"once": `"grant"`}},
		{"once stays until it is taken", channels{"once": `"grant"`}, []Result{wrote("a")}, channels{"once": `"grant"`}},
		{"once is taken", channels{"once": `"grant"`}, []Result{wrote("a", taken("once"))}, nil},
		{"once is taken and put back", channels{"once": `"grant"`},
			[]Result{wrote("a", Write{Channel: "once", Op: OpSet, Data: []byte(`"next"`), Took: true})}, channels{"once": `"next"`}},
		{"flash is written", nil, []Result{wrote("a", set("flash", `1`))}, channels{"flash": `1`}},
		{"flash is gone after a super-step", channels{"flash": `1`}, []Result{wrote("a")}, nil},
		{"flash is written again", channels{"flash": `1`}, []Result{wrote("a", set("flash", `2`))}, channels{"flash": `2`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			top := board()
			before := first(top, c.before)
			next := mustApply(t, before, top, c.results...)
			if got := texts(t, top, next); !maps.Equal(got, c.want) {
				t.Errorf("got %v; want %v", got, c.want)
			}
			if got := texts(t, top, before); !maps.Equal(got, c.before) {
				t.Errorf("the checkpoint before was changed to %v", got)
			}
			if next.Parent != before.N || next.Step != before.Step+1 || next.Source != SourceLoop {
				t.Errorf("the next checkpoint is misplaced: %+v", next)
			}
		})
	}
}

func TestWritersThatCollide(t *testing.T) {
	t.Parallel()
	patch := func(p string) Write { return merged("map", p) }
	for _, c := range []struct {
		name    string
		a, b    Write
		key     string
		collide bool
	}{
		{"two of last", set("last", `1`), set("last", `1`), "", true},
		{"two of once", set("once", `1`), set("once", `2`), "", true},
		{"a taker and a putter of once", taken("once"), set("once", `2`), "", true},
		{"two takers of once", taken("once"), taken("once"), "", true},
		{"two of flash", set("flash", `1`), set("flash", `2`), "", true},
		{"a list is replaced beside an addition", set("list", `[]`), add("list", `["b"]`), "", true},
		{"an addition beside a replacing", add("list", `["a"]`), set("list", `[]`), "", true},
		{"a map is replaced beside a patch", set("map", `{}`), patch(`{"s":{"x":1}}`), "", true},
		{"a fold is set beside an item", set("fold", `""`), add("fold", `["b"]`), "", true},
		{"one key set twice", patch(`{"s":{"p":1,"x":1}}`), patch(`{"s":{"x":1,"y":2}}`), "x", true},
		{"one key set and deleted", patch(`{"s":{"x":1}}`), patch(`{"d":["x"]}`), "x", true},
		{"one key deleted twice", patch(`{"d":["x"]}`), patch(`{"d":["x"]}`), "x", true},
		{"other keys", patch(`{"s":{"x":1}}`), patch(`{"s":{"y":1}}`), "", false},
		{"additions", add("list", `[1]`), add("list", `[1]`), "", false},
		{"sums", add("int", `1`), add("int", `1`), "", false},
		{"items of a fold", add("fold", `["1"]`), add("fold", `["1"]`), "", false},
		{"other channels", set("last", `1`), set("once", `1`), "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			top := board()
			_, err := Apply(first(top, nil), top, joined, []Result{wrote("b", c.a), wrote("w", c.b)})
			var e *ConflictError
			if !c.collide {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if !errors.As(err, &e) {
				t.Fatalf("got %v; want a conflict", err)
			}
			want := &ConflictError{Channel: c.a.Channel, Key: c.key, Nodes: []string{"b", "w"}, Tasks: []string{"task-b", "task-w"}}
			if !reflect.DeepEqual(e, want) {
				t.Errorf("got %+v; want %+v", e, want)
			}
			for _, word := range []string{c.a.Channel, c.key, "b and w", "nothing was merged"} {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not say %q", err, word)
				}
			}
		})
	}
}

func TestTwoSendsOfOneWorkerCollide(t *testing.T) {
	t.Parallel()
	top := board()
	one, two := wrote("w", set("last", `1`)), wrote("w", set("last", `2`))
	one.Task.ID, two.Task.ID = "send-0", "send-1"
	_, err := Apply(first(top, nil), top, joined, []Result{one, two})
	var e *ConflictError
	if !errors.As(err, &e) || !slices.Equal(e.Tasks, []string{"send-0", "send-1"}) {
		t.Fatalf("got %v; want a conflict of both tasks", err)
	}
}

func TestWhatCannotBeMerged(t *testing.T) {
	t.Parallel()
	failing := func(string, []byte, []byte) ([]byte, error) { return nil, errors.New("the rule failed") }
	for _, c := range []struct {
		name   string
		before map[string]string
		result Result
		says   []string
	}{
		{"an int over", map[string]string{"int": "9223372036854775807"}, wrote("a", add("int", "1")), []string{"int", `"a"`, "overflows"}},
		{"an int under", map[string]string{"int": "-9223372036854775808"}, wrote("a", add("int", "-1")), []string{"overflows"}},
		{"a uint over", map[string]string{"uint": "18446744073709551615"}, wrote("a", add("uint", "1")), []string{"uint", "overflows"}},
		{"a negative uint", map[string]string{"uint": "5"}, wrote("a", add("uint", "-1")), []string{"uint", "-1"}},
		{"a float over", map[string]string{"float": "1.7e308"}, wrote("a", add("float", "1.7e308")), []string{"float", "overflows"}},
		{"a float that is infinite", nil, wrote("a", add("float", "1e999")), []string{"float"}},
		{"no number", nil, wrote("a", add("int", `"1"`)), []string{"int"}},
		{"a fraction in an int", nil, wrote("a", add("int", `1.5`)), []string{"int"}},
		{"an unknown channel", nil, wrote("a", set("nobody", "1")), []string{`"a"`, "nobody", "nothing was merged"}},
		{"an unknown node", nil, wrote("nobody"), []string{"nobody", "board", "nothing was merged"}},
		{"a way to an unknown node", nil, wrote("a").to(Due{Node: "nobody"}), []string{`"a"`, "nobody", "nothing was merged"}},
		{"a send to an unknown node", nil, wrote("a").to(sendTo("nobody", "1")), []string{`"a"`, "nobody"}},
		{"a fold that fails", nil, wrote("a", add("fold", `["x"]`)), []string{"fold", `"a"`, "the rule failed"}},
		{"a patch that is none", nil, wrote("a", merged("map", `[]`)), []string{"map"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			top := board()
			before := first(top, c.before)
			next, err := Apply(before, top, failing, []Result{c.result})
			if err == nil || next != nil {
				t.Fatalf("got %+v, %v; want an error alone", next, err)
			}
			for _, word := range c.says {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not say %q", err, word)
				}
			}
		})
	}
}

func TestAddNumbersAgainstWiderArithmetic(t *testing.T) {
	t.Parallel()
	edges := []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, math.MaxInt64 - 1, math.MaxInt64}
	for _, x := range edges {
		for _, y := range edges {
			got, err := AddNumbers(Signed, fmt.Append(nil, x), fmt.Append(nil, y))
			exact := new(big.Int).Add(big.NewInt(x), big.NewInt(y))
			fits := exact.IsInt64()
			if fits != (err == nil) || fits && string(got) != exact.String() {
				t.Errorf("%d + %d is %q, %v", x, y, got, err)
			}
		}
	}
	for _, c := range []struct{ a, b, want string }{
		{"0", "1e21", "1e+21"}, {"0.1", "0.2", "0.30000000000000004"}, {"1", "-1", "0"}, {"0", "5e-324", "5e-324"},
	} {
		if got, err := AddNumbers(Float, []byte(c.a), []byte(c.b)); err != nil || string(got) != c.want {
			t.Errorf("%s + %s is %q, %v; want %q", c.a, c.b, got, err, c.want)
		}
	}
	for _, c := range []struct {
		n    Number
		a, b string
	}{{Float, "NaN", "1"}, {Float, "Inf", "-Inf"}, {"complex", "1", "1"}, {"", "1", "1"}, {Unsigned, "x", "1"}, {Signed, "1", ""}} {
		if got, err := AddNumbers(c.n, []byte(c.a), []byte(c.b)); err == nil {
			t.Errorf("%s of %s and %s is %s; want an error", c.n, c.a, c.b, got)
		}
	}
}

func TestEqualValueIsNoNewVersion(t *testing.T) {
	t.Parallel()
	top := board()
	before := first(top, map[string]string{"last": `"x"`, "int": "5", "list": `["x"]`, "fold": `"x"`, "flash": `1`})
	next := mustApply(t, before, top,
		wrote("a", set("last", `"x"`), add("int", "0"), set("list", `["x"]`), add("fold", `[]`), set("flash", `1`)))
	for c, v := range next.Values {
		if v != before.Values[c] {
			t.Errorf("channel %q has a new version of an equal value", top.Channels[c].Name)
		}
	}
	changed := mustApply(t, before, top, wrote("a", set("last", `"y"`)))
	if changed.Values[0] == before.Values[0] || changed.Values[1] != before.Values[1] {
		t.Error("a version stands for what it does not hold")
	}
}

func TestDeltasAreTheWritesThemselves(t *testing.T) {
	t.Parallel()
	top := board()
	list, table := top.Channel("list"), top.Channel("map")
	before := first(top, map[string]string{"list": `["x"]`, "map": `{"x":1}`})
	one := []Result{wrote("a", add("list", `["a"]`), merged("map", `{"s":{"a":1}}`))}
	next, err := Apply(before, top, joined, one)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []int{list, table} {
		v := next.Values[c]
		if v != one[0].Writes[i].Value || v.Base != before.Values[c] {
			t.Errorf("channel %q: the version is not the task's own write on the version before", top.Channels[c].Name)
		}
	}
	two := []Result{wrote("a", add("list", `["a"]`)), wrote("b", add("list", `["b"]`))}
	if next, err = Apply(before, top, joined, two); err != nil {
		t.Fatal(err)
	}
	v := next.Values[list]
	if v.Op != OpList || len(v.Parts) != 2 || v.Parts[0] != two[0].Writes[0].Value || v.Parts[1] != two[1].Writes[0].Value {
		t.Errorf("several writers are not listed in order: %+v", v)
	}
}

func TestWhatIsDue(t *testing.T) {
	t.Parallel()
	node := func(names ...string) (out []Due) {
		for _, n := range names {
			out = append(out, Due{Node: n})
		}
		return out
	}
	for _, c := range []struct {
		name    string
		edges   map[string][]string
		results []Result
		want    []Due
	}{
		{"nothing", nil, []Result{wrote("c")}, nil},
		{"edges, by name", map[string][]string{"c": {"w", "a"}}, []Result{wrote("c")}, node("a", "w")},
		{"the end is no node", map[string][]string{"c": {End, "a"}}, []Result{wrote("c").to(Due{Node: End})}, node("a")},
		{"two ways to one node run it once", map[string][]string{"a": {"c"}, "w": {"c"}}, []Result{wrote("a"), wrote("w").to(node("c")...)}, node("c")},
		{"routes beside edges", map[string][]string{"c": {"d"}}, []Result{wrote("c").to(node("b", "a")...)}, node("a", "b", "d")},
		{"sends after nodes, in the order of sending", map[string][]string{"a": {"w"}},
			[]Result{wrote("a").to(sendTo("d", "1"), sendTo("c", "2")), wrote("b").to(sendTo("a", "3"), sendTo("d", "1"))},
			append(node("d", "w"), sendTo("d", "1"), sendTo("c", "2"), sendTo("a", "3"), sendTo("d", "1"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			top := board()
			for from, to := range c.edges {
				top.edge(from, to...)
			}
			if got := mustApply(t, first(top, nil), top, c.results...).Due; !reflect.DeepEqual(got, c.want) {
				t.Errorf("due are %v; want %v", got, c.want)
			}
		})
	}
}

func TestJoins(t *testing.T) {
	t.Parallel()
	top := board()
	name := top.Joins[0].Name()
	before := first(top, nil)
	half := mustApply(t, before, top, wrote("b"))
	if len(half.Due) != 0 || !reflect.DeepEqual(half.Joins, map[string][]string{name: {"b"}}) {
		t.Fatalf("after one source due are %v and joins %v", half.Due, half.Joins)
	}
	again := mustApply(t, half, top, wrote("b"))
	if len(again.Due) != 0 || !reflect.DeepEqual(again.Joins, half.Joins) {
		t.Fatalf("the same source again: due %v, joins %v", again.Due, again.Joins)
	}
	kept := mustApply(t, half, top, wrote("c"))
	if !reflect.DeepEqual(kept.Joins, half.Joins) {
		t.Fatalf("a stranger changed the join to %v", kept.Joins)
	}
	full := mustApply(t, kept, top, wrote("a"))
	if !reflect.DeepEqual(full.Due, []Due{{Node: "d"}}) || full.Joins != nil {
		t.Fatalf("after both sources due are %v and joins %v", full.Due, full.Joins)
	}
	if rearmed := mustApply(t, full, top, wrote("a")); len(rearmed.Due) != 0 || !slices.Equal(rearmed.Joins[name], []string{"a"}) {
		t.Fatalf("the join did not wait for both again: due %v, joins %v", rearmed.Due, rearmed.Joins)
	}
	at := mustApply(t, before, top, wrote("a"), wrote("b"))
	if !reflect.DeepEqual(at.Due, []Due{{Node: "d"}}) || at.Joins != nil {
		t.Fatalf("both at once: due %v, joins %v", at.Due, at.Joins)
	}
	if !reflect.DeepEqual(half.Joins, map[string][]string{name: {"b"}}) {
		t.Errorf("a later super-step changed the checkpoint before: %v", half.Joins)
	}
}

func TestDeferredNodesRunWhenNothingElseIsDue(t *testing.T) {
	t.Parallel()
	top := board().edge("a", "b", "w").edge("b", "w").edge("c", "d", "w")
	w, _ := top.Node("w")
	d, _ := top.Node("d")
	w.Defer, d.Defer = true, true
	due := func(cp *Checkpoint) string { return fmt.Sprint(dueTexts(cp.Due), cp.Later) }
	before := first(top, nil)
	led := mustApply(t, before, top, wrote("a"))
	again := mustApply(t, led, top, wrote("b"), wrote("c").to(Due{Node: "a"}))
	free := mustApply(t, again, top, wrote(Start))
	sent := mustApply(t, led, top, wrote("b").to(sendTo("w", "1")))
	over := mustApply(t, free, top, wrote("d"), wrote("w"))
	for _, c := range []struct{ when, got, want string }{
		{"another is due", due(led), "[b] [w]"},
		{"led to again, and another with it", due(again), "[a] [d w]"},
		{"nothing else is due", due(free), "[d w] []"},
		{"a payload is sent to it, which runs at once", due(sent), "[w=1] [d w]"},
		{"it ran", due(over), "[] []"},
		{"it alone is led to", due(mustApply(t, before, top, wrote("c"))), "[d w] []"},
		{"a join leads to it", due(mustApply(t, before, top, wrote("a"), wrote("b"))), "[b] [d w]"},
		{"the checkpoint before is as it was", due(led), "[b] [w]"},
	} {
		if c.got != c.want {
			t.Errorf("%s: due and later are %s; want %s", c.when, c.got, c.want)
		}
	}
}

func TestVisited(t *testing.T) {
	t.Parallel()
	top := board()
	cp := first(top, nil)
	cp = mustApply(t, cp, top, wrote(Start))
	if len(cp.Visited) != 0 {
		t.Fatalf("Start counts as a node that ran: %v", cp.Visited)
	}
	one := mustApply(t, cp, top, wrote("c"), wrote("w"), wrote("w"))
	two := mustApply(t, one, top, wrote("a"), wrote("c"))
	if !slices.Equal(one.Visited, []string{"c", "w"}) || !slices.Equal(two.Visited, []string{"a", "c", "w"}) {
		t.Errorf("visited are %v and then %v", one.Visited, two.Visited)
	}
}
