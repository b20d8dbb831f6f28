package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// client is a live value: it holds what has no JSON.
type client struct {
	name  string
	calls chan string
}

func dialled(name string) *client { return &client{name, make(chan string, 16)} }

// bench has a live channel between two that are stored.
type bench struct {
	Log  pawl.Append[string]     `json:"log"`
	Conn pawl.Untracked[*client] `json:"conn"`
	Any  pawl.Untracked[any]     `json:"any" pawl:"unguarded"`
	Last pawl.Last[string]       `json:"last"`
}

type benchNode = func(context.Context, *bench) error

// notes is a node that logs what it sees of the client.
func notes(_ context.Context, s *bench) error {
	s.Log.Add(connOf(s))
	return nil
}

func connOf(s *bench) string {
	if c, ok := s.Conn.Get(); ok && c != nil {
		return c.name
	} else if ok {
		return "nil"
	}
	return "none"
}

func dials(name string) benchNode {
	return func(_ context.Context, s *bench) error { s.Conn.Set(dialled(name)); return nil }
}

func asksGate(ctx context.Context, s *bench) error {
	answer, err := gate.Ask(ctx, "?")
	if err == nil {
		s.Log.Add(answer, connOf(s))
	}
	return err
}

func chain(t *testing.T, nodes ...benchNode) *pawl.Graph[bench] {
	t.Helper()
	b := pawl.New[bench]("bench")
	at := pawl.Start
	for i, n := range nodes {
		name := fmt.Sprint("n", i)
		b, at = b.Node(name, n, pawl.Uses(gate)).Edge(at, name), name
	}
	return must(t, b)
}

func sawAll(t *testing.T, out *pawl.OutcomeOf[bench], err error, want ...string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if got := logOf(&out.State.Log); !slices.Equal(got, want) {
		t.Errorf("the nodes saw %q, want %q", got, want)
	}
}

func TestUntrackedIsSeenAndNeverShown(t *testing.T) {
	t.Parallel()
	for name, eng := range map[string]*pawl.Engine{"kept": opened(t, hooked(t), &pawl.Options{Strict: true}), "unkept": opened(t, nil, nil)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := chain(t, notes, func(_ context.Context, s *bench) error {
				s.Conn.Set(dialled("a"))
				s.Log.Add(connOf(s))
				s.Any.Set(nil)
				return nil
			}, notes, func(_ context.Context, s *bench) error {
				if v, ok := s.Any.Get(); v != nil || !ok {
					t.Errorf("nil was set, and %v, %v is read", v, ok)
				}
				s.Conn.Set(nil)
				return nil
			}, notes)
			th := g.Thread(eng, "t")
			var events []string
			for e, err := range th.Stream(t.Context(), &bench{Last: pawl.Of("x")}) {
				if err != nil {
					t.Fatal(err)
				}
				doc, err := json.Marshal(e)
				events = append(events, string(doc))
				if e.Outcome != nil {
					if want := `{"log":["none","a","a","nil"],"last":"x"}`; string(e.Outcome.Values) != want || err != nil {
						t.Errorf("the outcome is %s, want %s (%v)", e.Outcome.Values, want, err)
					}
				}
			}
			if all := strings.Join(events, "\n"); strings.Contains(all, "conn") || strings.Contains(all, `"any"`) {
				t.Errorf("a live value is told of:\n%s", all)
			}
			if doc, err := g.JSON(); err != nil || strings.Contains(string(doc), "conn") {
				t.Errorf("the graph stores a live channel: %s, %v", doc, err)
			}
			if name == "unkept" {
				return
			}
			st, err := th.State(t.Context())
			if err != nil || strings.Contains(string(st.Values), "conn") {
				t.Errorf("the state is %s, %v", st.Values, err)
			}
			if s, err := th.Read(&pawl.Snapshot{Values: st.Values}); err != nil || connOf(s) != "none" {
				t.Errorf("a state that was stored holds %s, %v", connOf(s), err)
			}
		})
	}
}

func TestUntrackedOfTheOutcomeAndTheInput(t *testing.T) {
	t.Parallel()
	g := must(t, pawl.New[bench]("bench").Node("a", notes).Node("b", notes).
		Route(pawl.Start, func(s *bench) []pawl.Next { return pawl.To(connOf(s)) }, "a", "b"))
	for name, eng := range map[string]*pawl.Engine{"kept": opened(t, hooked(t), nil), "unkept": opened(t, nil, nil)} {
		th := g.Thread(eng, "t")
		in := dialled("b")
		out, err := th.Run(t.Context(), &bench{Conn: pawl.Live(in)}, pawl.RunID("one"))
		if sawAll(t, out, err, "b"); name == "unkept" {
			continue
		}
		if c, ok := out.State.Conn.Get(); c != in || !ok {
			t.Errorf("the outcome holds %v", c)
		}
		if out, err = th.Run(t.Context(), &bench{}, pawl.RunID("one")); err != nil || connOf(out.State) != "none" {
			t.Errorf("a run that was over holds %v, %v", connOf(out.State), err)
		}
		if _, err = th.Run(t.Context(), out.State); err == nil || !strings.Contains(err.Error(), "is no input") {
			t.Errorf("an outcome's state as an input: %v", err)
		}
	}
	empty := chain(t, notes).Thread(opened(t, hooked(t), nil), "t")
	out, err := empty.Run(t.Context(), nil)
	sawAll(t, out, err, "none")
}

// What is live ends with the start of the run: no way on from a stored place has it.
func TestUntrackedIsGoneWhereTheRunGoesOn(t *testing.T) {
	t.Parallel()
	ctx, db := t.Context(), hooked(t)
	var fail atomic.Bool
	g := chain(t, dials("a"), notes, asksGate, func(_ context.Context, s *bench) error {
		if fail.Load() {
			return errors.New("down")
		}
		return notes(ctx, s)
	})
	ask := func(id string) *pawl.ThreadOf[bench] {
		th := g.Thread(opened(t, db, nil), id)
		out, err := th.Run(ctx, &bench{Last: pawl.Of("in")})
		if sawAll(t, out, err, "a"); connOf(out.State) != "a" {
			t.Errorf("a waiting run holds %s", connOf(out.State))
		}
		return th
	}
	out, err := ask("resumed").Resume(ctx, pawl.AnswerWith("", "yes"))
	sawAll(t, out, err, "a", "yes", "none", "none")
	th := ask("forked")
	out, err = th.Fork(ctx, pawl.Before("n1"), nil)
	sawAll(t, out, err, "none")
	out, err = th.Replay(ctx, pawl.Before("n0"))
	sawAll(t, out, err, "a")
	out, err = g.Thread(opened(t, db, nil), "forked").Resume(ctx, pawl.AnswerWith("", "yes"))
	sawAll(t, out, err, "a", "yes", "none", "none")
	fail.Store(true)
	th = ask("failed")
	if _, err = th.Resume(ctx, pawl.AnswerWith("", "yes")); err == nil {
		t.Fatal("the node did not fail")
	}
	fail.Store(false)
	out, err = th.Resume(ctx)
	sawAll(t, out, err, "a", "yes", "none", "none")
}

func TestUntrackedHasOneSetter(t *testing.T) {
	t.Parallel()
	boom := true
	both := must(t, pawl.New[bench]("bench").Node("y", dials("y")).Node("x", dials("x")).Node("z", notes).
		Join([]string{"x", "y"}, "z").Edge(pawl.Start, "x").Edge(pawl.Start, "y"))
	th := both.Thread(opened(t, hooked(t), nil), "t")
	out, err := th.Run(t.Context(), &bench{})
	conflict := (*pawl.ConflictError)(nil)
	if !errors.As(err, &conflict) || conflict.Channel != "conn" || !slices.Equal(conflict.Nodes, []string{"x", "y"}) || out.Cause != pawl.CauseConflict {
		t.Fatalf("two setters: %v", err)
	}
	if out, err = th.Resume(t.Context(), pawl.Again("y")); err != nil || connOf(out.State) != "y" {
		t.Errorf("again: %v, %s", err, connOf(out.State))
	}
	sawAll(t, out, err, "y")
	w := pawl.NewWorker("w", func(_ context.Context, s *bench, n int) error {
		s.Any.Set(n)
		if n == 0 && boom { // a failed try sets nothing
			boom = false
			return errors.New("boom")
		}
		return nil
	}, pawl.Tries(2), pawl.Backoff(0, 0))
	many := must(t, pawl.New[bench]("bench").Add(w).Route(pawl.Start, func(*bench) []pawl.Next { return w.Each([]int{0, 1, 2, 3}) }, "w"))
	out, err = many.Thread(opened(t, hooked(t), nil), "t").Run(t.Context(), &bench{})
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := out.State.Any.Get(); n != 3 {
		t.Errorf("of four setters %v stays, want the last that was sent", n)
	}
}

// Tasks of one super-step see what was there before it, and share it.
func TestUntrackedAmongTasksAtOnce(t *testing.T) {
	t.Parallel()
	var seen sync.Map
	w := pawl.NewWorker("w", func(_ context.Context, s *bench, n int) error {
		c, _ := s.Conn.Get()
		if seen.Store(n, c); n == 0 {
			s.Conn.Set(dialled("next"))
		}
		c.calls <- fmt.Sprint(n)
		return nil
	})
	g := must(t, pawl.New[bench]("bench").Add(w).Node("after", notes).Edge("w", "after").
		Route(pawl.Start, func(*bench) []pawl.Next { return w.Each([]int{0, 1, 2, 3, 4, 5, 6, 7}) }, "w"))
	shared := dialled("shared")
	out, err := g.Thread(opened(t, hooked(t), nil), "t").Run(t.Context(), &bench{Conn: pawl.Live(shared)})
	sawAll(t, out, err, "next")
	if len(shared.calls) != 8 {
		t.Errorf("%d calls came by the shared client, want 8", len(shared.calls))
	}
	seen.Range(func(n, c any) bool {
		if c != shared {
			t.Errorf("task %v saw %v", n, c)
		}
		return true
	})
}

func TestUntrackedWritesThatAreRefused(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	in := func(where string, set func(context.Context, *bench) error) {
		t.Helper()
		g := chain(t, set)
		refused := (*pawl.StateError)(nil)
		if _, err := g.Thread(opened(t, hooked(t), nil), "t").Run(ctx, &bench{}); !errors.As(err, &refused) || refused.Channel != "conn" ||
			!strings.Contains(err.Error(), where) {
			t.Errorf("a write inside %s: %v", where, err)
		}
	}
	in("step", func(ctx context.Context, s *bench) error {
		_, err := pawl.Step(ctx, "dial", func(context.Context) (int, error) { s.Conn.Set(nil); return 1, nil })
		return err
	})
	in("All", func(ctx context.Context, s *bench) error {
		return pawl.All(ctx, func(context.Context) error { s.Conn.Set(nil); return nil })
	})

	g := chain(t, dials("a"), asksGate)
	th := g.Thread(opened(t, hooked(t), nil), "t")
	set := func(s *bench) error { s.Last.Set("changed"); s.Conn.Set(nil); return nil }
	doc := json.RawMessage(`{"last":"changed","conn":{"name":"x"}}`)
	if _, err := th.Run(ctx, &bench{Last: pawl.Of("in")}); err != nil {
		t.Fatal(err)
	}
	_, edit := th.Edit(ctx, set)
	_, editJSON := th.Thread.Edit(ctx, doc)
	_, fork := th.Fork(ctx, pawl.Before("n0"), set)
	_, as := th.EditAs(ctx, [][]pawl.TaskEdit{{g.As("n1", set)}})
	_, run := g.Thread(opened(t, hooked(t), nil), "other").Thread.Run(ctx, doc)
	for what, err := range map[string]error{"edit": edit, "edit by JSON": editJSON, "fork": fork, "edit as": as, "run by JSON": run} {
		if err == nil || !strings.Contains(err.Error(), `channel "conn": holds a live value`) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if st, err := th.State(ctx); err != nil || !strings.Contains(string(st.Values), `"in"`) || st.Status != pawl.Waiting {
		t.Errorf("the thread is %v, %s, %v", st.Status, st.Values, err)
	}
}

func TestUntrackedInChildren(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, mode := range []pawl.ChildMode{pawl.Inherit, pawl.PerThread, pawl.Stateless} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			inner := chain(t, asksGate, dials("inner"), notes)
			var handed []string
			sub := pawl.Sub(inner.Child("sub", mode), func(s *bench) *bench {
				handed = append(handed, connOf(s))
				c, _ := s.Conn.Get()
				return &bench{Conn: pawl.Live(c)}
			}, func(s *bench, r *pawl.Result[bench]) error {
				s.Log.Add(append(logOf(&r.State.Log), "out:"+connOf(r.State), "own:"+connOf(s))...)
				return nil
			})
			call := inner.Child("call", mode)
			g := must(t, pawl.New[bench]("outer").Add(sub).Node("dial", dials("outer")).
				Node("calls", func(ctx context.Context, s *bench) error {
					r, err := call.Call(ctx, &bench{Conn: pawl.Live(dialled("called"))})
					if err == nil {
						s.Log.Add(append(logOf(&r.State.Log), "out:"+connOf(r.State))...)
					}
					return err
				}, pawl.Uses(call)).
				Path(pawl.Start, "dial", "sub", "calls"))
			th := g.Thread(opened(t, hooked(t), nil), "t")
			if _, err := th.Run(ctx, &bench{}); err != nil {
				t.Fatal(err)
			}
			if _, err := th.Resume(ctx, pawl.AnswerWith("", "yes")); err != nil {
				t.Fatal(err)
			}
			out, err := th.Resume(ctx, pawl.AnswerWith("", "no"))
			// A Sub makes the input of a child once, and where that keeps nothing anew; a call hands over what its entry has.
			sees, made := "none", []string{"outer"}
			if mode == pawl.Stateless {
				sees, made = "nil", []string{"outer", "none"}
			}
			sawAll(t, out, err, "yes", sees, "inner", "out:inner", "own:none", "no", "called", "inner", "out:inner")
			if !slices.Equal(handed, made) {
				t.Errorf("the input was made of %q, want %q", handed, made)
			}
		})
	}
}

func TestUntrackedAndTheCache(t *testing.T) {
	t.Parallel()
	entered := map[string]int{}
	counted := func(name string, does benchNode) benchNode {
		return func(ctx context.Context, s *bench) error { entered[name]++; return does(ctx, s) }
	}
	g := must(t, pawl.New[bench]("bench").
		Node("sets", counted("sets", dials("a")), pawl.Cache(time.Hour)).
		Node("reads", counted("reads", notes), pawl.Cache(time.Hour)).
		Path(pawl.Start, "sets", "reads"))
	eng := opened(t, hooked(t), nil)
	for i := range 2 {
		out, err := g.Thread(eng, fmt.Sprint(i)).Run(t.Context(), &bench{Any: pawl.Live[any](i)})
		if sawAll(t, out, err, "a"); connOf(out.State) != "a" {
			t.Errorf("run %d holds %s", i, connOf(out.State))
		}
	}
	if entered["sets"] != 2 || entered["reads"] != 1 {
		t.Errorf("the nodes were entered %v: one that sets is not reused, and what is live is no part of a key", entered)
	}
}

// benchBefore is bench before it had live channels.
type benchBefore struct {
	Log  pawl.Append[string] `json:"log"`
	Last pawl.Last[string]   `json:"last"`
}

func TestUntrackedIsNoOtherVersion(t *testing.T) {
	t.Parallel()
	db := hooked(t)
	old := must(t, pawl.New[benchBefore]("bench").Node("n0", func(ctx context.Context, s *benchBefore) error {
		_, err := gate.Ask(ctx, "?")
		return err
	}, pawl.Uses(gate)).Path(pawl.Start, "n0"))
	if _, err := old.Thread(opened(t, db, nil), "t").Run(t.Context(), &benchBefore{Last: pawl.Of("in")}); err != nil {
		t.Fatal(err)
	}
	now := chain(t, asksGate)
	out, err := now.Thread(opened(t, db, nil), "t").Resume(t.Context(), pawl.AnswerWith("", "yes"))
	if sawAll(t, out, err, "yes", "none"); out.State.Last.Get() != "in" {
		t.Errorf("what stands behind the live channels is %q", out.State.Last.Get())
	}
}

func TestUntrackedOutsideOfARun(t *testing.T) {
	t.Parallel()
	s := &bench{}
	if err := notes(t.Context(), s); err != nil || s.Log.At(0) != "none" {
		t.Errorf("%v, %q", err, s.Log.At(0))
	}
	s.Conn.Set(dialled("own"))
	if doc, err := json.Marshal(s); err != nil || connOf(s) != "own" || string(doc) != `{"log":["none"],"conn":null,"any":null,"last":null}` {
		t.Errorf("%s, %s, %v", connOf(s), doc, err)
	}
	if err := json.Unmarshal([]byte(`{"conn":null}`), s); err != nil {
		t.Error(err)
	}
	if err := json.Unmarshal([]byte(`{"conn":1}`), s); err == nil {
		t.Error("a live value came by JSON")
	}
}

func TestUntrackedTags(t *testing.T) {
	t.Parallel()
	type private struct {
		C pawl.Untracked[int] `json:"c" pawl:"private"`
	}
	type shared struct {
		D pawl.Last[int] `json:"d" pawl:"unguarded"`
	}
	check := func(_ any, err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("built with %v, want %q in it", err, want)
		}
	}
	g, err := pawl.New[private]("g").Build()
	check(g, err, "only unguarded is known")
	i, err := pawl.New[shared]("g").Build()
	check(i, err, "only private and was=NAME are known")
	j, err := pawl.New[bench]("g").Upgrade(pawl.Upgrade("conn", func(int) (int, error) { return 0, nil })).Build()
	check(j, err, "holds live values")
}
