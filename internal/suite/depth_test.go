package suite_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/storage"
)

// nesting says how deep, and how, the graphs of a context's scenarios run: as a node, or called in one.
type nesting struct {
	depth  int
	called bool
	mode   pawl.ChildMode
}

type nestingKey struct{}

func (n nesting) String() string {
	if n.called {
		return fmt.Sprintf("called %d deep %s", n.depth, n.mode)
	}
	return fmt.Sprintf("%d deep %s", n.depth, n.mode)
}

// nest puts a graph into others over the same state, which hand all of it in and take out what it added.
func nest[S any](ctx context.Context, g *pawl.Graph[S]) (*pawl.Graph[S], error) {
	n, _ := ctx.Value(nestingKey{}).(nesting)
	for d := range n.depth {
		child := g.Child(fmt.Sprint("level", d), n.mode)
		b := pawl.New[S](fmt.Sprint(g.Name(), " around"))
		if node := child.UseName(); n.called {
			b.Node(node, func(ctx context.Context, s *S) error {
				r, err := child.Call(ctx, handed(s))
				if err != nil {
					return err
				}
				return taken(s, r)
			}, pawl.Uses(child))
		} else {
			b.Add(pawl.Sub(child, handed[S], taken[S]))
		}
		var err error
		if g, err = b.Path(pawl.Start, child.UseName()).Build(); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// handed is a literal of all that a state holds.
func handed[S any](s *S) *S {
	out := new(S)
	if err := copyState(s, out); err != nil {
		panic(err)
	}
	return out
}

func taken[S any](s *S, r *pawl.Result[S]) error {
	added, err := r.Added()
	if err != nil {
		return err
	}
	return copyState(added, s)
}

// copyState writes what one state holds to another.
func copyState[S any](from, to *S) error {
	doc, err := json.Marshal(from)
	if err != nil {
		return err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(doc, &members); err != nil {
		return err
	}
	for name, value := range members {
		if empty := string(value); empty == "null" || empty == "[]" || empty == "{}" || empty == "0" {
			delete(members, name)
		}
	}
	if doc, err = json.Marshal(members); err != nil {
		return err
	}
	return json.Unmarshal(doc, to)
}

// TestDepth runs scenarios as they are and inside others, and demands the same values, steps and answers.
func TestDepth(t *testing.T) {
	t.Parallel()
	for name, drive := range map[string]sweepDrive{
		"chain": sweepChain(t), "fan-out": sweepFanOut(t), "several": sweepSeveral(t), "loop": sweepLoop(t), "workers": sweepWorkers(t),
		"deltas": sweepDeltas(t), "calls": sweepCalls(t, pawl.Inherit), "sent": sweepSent(t), "child": sweepSub(t, pawl.Inherit, 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := seenAt(t, drive, nesting{})
			for _, called := range []bool{false, true} {
				for _, mode := range []pawl.ChildMode{pawl.Inherit, pawl.PerThread, pawl.Stateless} {
					for depth := 1; depth <= 3; depth++ {
						n := nesting{depth, called, mode}
						if got := seenAt(t, drive, n); !slices.Equal(got, want) {
							t.Errorf("%v:\n%v\nat the root:\n%v", n, got, want)
						}
					}
				}
			}
		})
	}
}

// seenAt is what a scenario leaves: the thread's values, the steps that were journaled, and the answers.
func seenAt(t *testing.T, drive sweepDrive, n nesting) []string {
	t.Helper()
	db, err := memdb.Open(pawl.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	eng, err := pawl.NewEngine(db, &pawl.Options{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	ctx := context.WithValue(t.Context(), nestingKey{}, n)
	if err := drive(ctx, eng); err != nil {
		t.Fatal(n, err)
	}
	state, err := eng.Thread("", "t").State(ctx)
	if err != nil {
		t.Fatal(err)
	}
	values, err := core.Canonical(state.Head.Values)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	err = db.View(ctx, func(_ context.Context, tx storage.Tx) error {
		out = nil
		inside, err := tx.List(records.Nested, storage.Query{NoBody: true})
		if err == nil && n.depth > 0 && n.mode != pawl.Stateless && len(inside) == 0 {
			t.Errorf("%v: nothing ran inside", n)
		}
		if err != nil {
			return err
		}
		steps, err := tx.List(records.Step, storage.Query{})
		if err != nil {
			return err
		}
		for _, row := range steps {
			s, err := records.Box{}.ReadStep("t", row)
			if err != nil {
				return err
			}
			out = append(out, fmt.Sprintf("%s: step %s/%s = %s", s.Node, s.Name, s.Key, s.Result))
		}
		asked, err := tx.List(records.Question, storage.Query{})
		for _, row := range asked {
			q, err := records.Box{}.ReadQuestion(row)
			if err != nil {
				return err
			}
			out = append(out, fmt.Sprintf("%s: %s/%s revision %d %s -> %s", q.Node, q.Name, q.Key, q.Revision, q.Body, q.Answer))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return append(out, string(bytes.TrimSpace(values)))
}

// atDepth is a scenario of the sweep inside others.
func atDepth(drive sweepDrive, n nesting) sweepDrive {
	return func(ctx context.Context, eng *pawl.Engine) error {
		return drive(context.WithValue(ctx, nestingKey{}, n), eng)
	}
}
