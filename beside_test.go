package pawl_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

// abThenAsks is a -> b -> asks, and counts what is entered.
func abThenAsks(t *testing.T, e entries) *pawl.Graph[family] {
	return must(t, pawl.New[family]("abc").Node("a", e.node("a", nil)).Node("b", e.node("b", nil)).
		Node("asks", e.node("asks", asksOkay), pawl.Uses(okay)).Path(pawl.Start, "a", "b", "asks"))
}

func snapshotOf(t *testing.T, th *pawl.Thread, id string) *pawl.Snapshot {
	t.Helper()
	s, err := th.Snapshot(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// toldOf are the checkpoints that a stream of the verb tells, and what each stands behind.
func toldOf(t *testing.T, verb func(context.Context, pawl.RunOption) error) map[string]string {
	t.Helper()
	told := map[string]string{}
	for ev, err := range pawl.Stream(t.Context(), verb) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Kind == pawl.EventCheckpoint {
			s, err := ev.Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			told[s.Checkpoint] = s.Parent
		}
	}
	return told
}

// A version of a checkpoint stands where that one stands, one step on, and is told as it is stored.
func TestBesideStandsBehindTheSameParent(t *testing.T) {
	t.Parallel()
	for _, mode := range []pawl.Durability{pawl.Sync, pawl.Async} {
		for _, node := range []string{pawl.Start, "a", "b", "asks"} {
			t.Run(string(mode)+" "+node, func(t *testing.T) {
				t.Parallel()
				th := abThenAsks(t, entries{}).Thread(memoryEngine(t, nil), "t")
				out, err := th.Run(t.Context(), &family{}, pawl.WithDurability(mode))
				if err != nil {
					t.Fatal(err)
				}
				from, asked := at(t, th.Thread, "", node), out.Waiting[0].ID
				told := toldOf(t, func(ctx context.Context, tell pawl.RunOption) error {
					_, err := th.Fork(ctx, pawl.Checkpoint(from.Checkpoint), func(s *family) error { s.Word.Set("!"); return nil }, pawl.Beside(), tell)
					return err
				})
				h, err := th.History(t.Context(), pawl.Page{})
				if err != nil {
					t.Fatal(err)
				}
				beside := h[len(told)-1]
				if beside.Parent != from.Parent || beside.Step != from.Step+1 || beside.Source != "edit" || beside.Checkpoint == from.Checkpoint {
					t.Errorf("behind %s, step %d, %s; its original behind %s, step %d", beside.Parent, beside.Step, beside.Source, from.Parent, from.Step)
				}
				for _, s := range h[:len(told)] {
					if parent, ok := told[s.Checkpoint]; !ok || parent != s.Parent {
						t.Errorf("checkpoint %s behind %q is told as behind %q", s.Checkpoint, s.Parent, parent)
					}
				}
				if _, err := th.Resume(t.Context(), okay.Answer(asked, "yes")); err == nil {
					t.Error("a question of the branch that was left took an answer")
				}
				out, err = th.Resume(t.Context())
				answered(t, th, out, err, "a", "b", "two:yes")
			})
		}
	}
}

// What the head stands on leads past the original: that is on no branch of the head any more.
func TestBesideLeavesItsOriginalBehind(t *testing.T) {
	t.Parallel()
	e := entries{}
	th := abThenAsks(t, e).Thread(memoryEngine(t, nil), "t")
	if _, err := th.Run(t.Context(), &family{}); err != nil {
		t.Fatal(err)
	}
	original := at(t, th.Thread, "", "b")
	if _, err := th.Replay(t.Context(), pawl.Before("b"), pawl.Beside(), pawl.Hold()); err != nil {
		t.Fatal(err)
	}
	held, err := th.State(t.Context())
	if err != nil || held.Status != pawl.Waiting || held.Head.Parent != original.Parent || held.Head.Source != "fork" || e["b"] != 1 {
		t.Fatal(held, err, e)
	}
	if _, err := th.Replay(t.Context(), pawl.Before("b"), pawl.Beside(), pawl.Hold()); err != nil { // a version of the version
		t.Fatal(err)
	}
	state, err := th.State(t.Context())
	if err != nil || state.Head.Parent != original.Parent || state.Head.Step != original.Step+2 {
		t.Fatal(state, err)
	}
	pruned, err := th.Prune(t.Context(), pawl.Keep{Newest: 2}, pawl.Reason("room"))
	if err != nil {
		t.Fatal(err)
	}
	h, err := th.History(t.Context(), pawl.Page{})
	if err != nil || len(h) != pruned.Kept || h[0].Checkpoint != state.Head.Checkpoint {
		t.Fatal(pruned, err)
	}
	if !slices.ContainsFunc(h, func(s *pawl.Snapshot) bool { return s.Checkpoint == original.Parent }) {
		t.Errorf("the one before the head is gone: %d are left", len(h))
	}
	out, err := th.Resume(t.Context())
	answered(t, th, out, err, "a", "b", "two:yes")
}

// In a child each checkpoint on the way there gets a version beside it.
func TestBesideInsideAChild(t *testing.T) {
	t.Parallel()
	for depth := 1; depth <= 3; depth++ {
		for _, mode := range []pawl.ChildMode{pawl.Inherit, pawl.PerThread} {
			e := entries{}
			th := relatives(t, e, mode, depth).Thread(memoryEngine(t, nil), "t")
			out, err := th.Run(t.Context(), &family{})
			if err != nil {
				t.Fatal(err)
			}
			in := out.Waiting[0].Path[:strings.LastIndex(out.Waiting[0].Path, "|")]
			old := at(t, th.Thread, pawl.Path(in), "b")
			clear(e)
			var raw *pawl.Outcome
			told := toldOf(t, func(ctx context.Context, tell pawl.RunOption) (err error) {
				raw, err = th.Thread.Fork(ctx, pawl.Checkpoint(old.Checkpoint), []byte(`{"word":"!"}`), pawl.Beside(), tell)
				return err
			})
			if err != nil || e["a"] != 0 || e["b"] != 1 || e["before"] != 0 {
				t.Fatal(raw, err, e)
			}
			in = raw.Waiting[0].Path[:strings.LastIndex(raw.Waiting[0].Path, "|")]
			now := at(t, th.Thread, pawl.Path(in), "b")
			if now.Parent != old.Parent || now.Step != old.Step+1 || now.Checkpoint == old.Checkpoint || len(now.Parents) != depth {
				t.Errorf("%s, depth %d: behind %s, step %d; its original behind %s, step %d", mode, depth, now.Parent, now.Step, old.Parent, old.Step)
			}
			if parent, ok := told[now.Checkpoint]; !ok || parent != now.Parent {
				t.Errorf("%s, depth %d: it is told as behind %q", mode, depth, parent)
			}
			for path, was := range old.Parents {
				before, after := snapshotOf(t, th.Thread, was), ""
				for p, id := range now.Parents {
					if strings.Count(string(p), "|") == strings.Count(string(path), "|") && (p == "") == (path == "") {
						after = id
					}
				}
				if beside := snapshotOf(t, th.Thread, after); beside.Parent != before.Parent || beside.Checkpoint == before.Checkpoint {
					t.Errorf("%s, depth %d: around it %s is behind %s, its original %s behind %s", mode, depth, after, beside.Parent, was, before.Parent)
				}
			}
			out, err = th.Resume(t.Context(), okay.Answer(raw.Waiting[0].ID, "no"))
			if err != nil || out.Status != pawl.Done || !slices.Equal(logOf(&out.State.Log), []string{"a", "b!", "two:no"}) {
				t.Fatal(mode, depth, out, err)
			}
		}
	}
}

// A run that began with another version of an input was given that one, and a retry starts with it.
func TestBesideOfAnInputIsRetried(t *testing.T) {
	t.Parallel()
	boom := false
	g := must(t, pawl.New[family]("g").Node("a", func(_ context.Context, s *family) error {
		if boom {
			return errors.New("boom")
		}
		s.Log.Add("a")
		return nil
	}).Path(pawl.Start, "a"))
	th := g.Thread(memoryEngine(t, nil), "t")
	in := &family{}
	in.Log.Add("in")
	if _, err := th.Run(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	boom = true
	edits := [][]pawl.TaskEdit{{g.As(pawl.Start, func(s *family) error { s.Log.Add("in*"); return nil })}}
	if _, err := th.EditAs(t.Context(), edits, pawl.From(pawl.Before(pawl.Start)), pawl.Beside()); err != nil {
		t.Fatal(err)
	}
	if out, err := th.Resume(t.Context()); err == nil || out.Status != pawl.Failed {
		t.Fatal(out, err)
	}
	boom = false
	out, err := th.Retry(t.Context())
	if err != nil || !slices.Equal(logOf(&out.State.Log), []string{"in*", "a"}) {
		t.Fatal(out, err)
	}
}
