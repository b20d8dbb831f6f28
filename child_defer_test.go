package pawl_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

// logs is a node that leaves a line.
func logs(line string) func(context.Context, *family) error {
	return func(_ context.Context, s *family) error { s.Log.Add(line); return nil }
}

// deferring is a parent around a child in which a deferred node waits for a question beside it.
func deferring(t testing.TB, mode pawl.ChildMode, options ...pawl.NodeOption) *pawl.Graph[family] {
	inner := must(t, pawl.New[family]("inner").
		Node("first", logs("first")).
		Node("asks", asksOkay, pawl.Uses(okay)).
		Node("last", logs("last"), append(options, pawl.Defer())...).
		Edge(pawl.Start, "first").Edge("first", "asks").Edge("first", "last"))
	return must(t, pawl.New[family]("outer").Add(pawl.Sub(inner.Child("sub", mode), handIn, takeOut)).Path(pawl.Start, "sub"))
}

// childOf is the path of the child in which a question was asked.
func childOf(q pawl.Question) pawl.Path { return pawl.Path(q.Path[:strings.LastIndex(q.Path, "|")]) }

// P5, P8: a deferred node that a child was led to runs once, whatever happens to the thread before it does.
func TestDeferredInAChildSurvives(t *testing.T) {
	t.Parallel()
	type thread = *pawl.ThreadOf[family]
	for name, c := range map[string]struct {
		happens func(th thread, in pawl.Path) error
		want    []string
	}{
		"nothing": {func(thread, pawl.Path) error { return nil }, nil},
		"an edit of the child": {func(th thread, in pawl.Path) error {
			_, err := th.Thread.Edit(t.Context(), []byte(`{"word":"x"}`), pawl.In(in))
			return err
		}, nil},
		"two edits of the child": {func(th thread, in pawl.Path) error {
			_, err := th.Thread.Edit(t.Context(), []byte(`{"word":"x"}`), pawl.In(in))
			_, again := th.Thread.Edit(t.Context(), []byte(`{"log":["edited"]}`), pawl.In(in))
			return errors.Join(err, again)
		}, []string{"first", "edited", "two:yes", "last"}},
		"an edit of the parent": {func(th thread, _ pawl.Path) error {
			_, err := th.Thread.Edit(t.Context(), []byte(`{"word":"x"}`))
			return err
		}, nil},
		"a replay inside": {func(th thread, in pawl.Path) error {
			_, err := th.Replay(t.Context(), pawl.Checkpoint(at(t, th.Thread, in, "asks").Checkpoint), pawl.Hold())
			return err
		}, nil},
		"a fork inside, from before it was led to": {func(th thread, in pawl.Path) error {
			_, err := th.Thread.Fork(t.Context(), pawl.Checkpoint(at(t, th.Thread, in, "first").Checkpoint), []byte(`{"log":["forked"]}`), pawl.Hold())
			return err
		}, []string{"forked", "first", "two:yes", "last"}},
	} {
		for _, mode := range []pawl.ChildMode{pawl.Inherit, pawl.PerThread} {
			t.Run(name+", "+string(mode), func(t *testing.T) {
				th := deferring(t, mode).Thread(memoryEngine(t, nil), "t")
				out, err := th.Run(t.Context(), &family{})
				if err != nil || len(out.Waiting) != 1 {
					t.Fatal(out, err)
				}
				if err := c.happens(th, childOf(out.Waiting[0])); err != nil {
					t.Fatal(err)
				}
				if out, err = th.Resume(t.Context()); err != nil || len(out.Waiting) != 1 {
					t.Fatal(out, err)
				}
				if c.want == nil {
					c.want = []string{"first", "two:yes", "last"}
				}
				out, err = th.Resume(t.Context(), okay.Answer(out.Waiting[0].ID, "yes"))
				if err != nil || out.Status != pawl.Done || !slices.Equal(logOf(&out.State.Log), c.want) {
					t.Errorf("%v, want %v: %v", logOf(&out.State.Log), c.want, err)
				}
			})
		}
	}
}

// P7: a node that a child has deferred is of the run's past: a fork inside does not go on under another version of it.
func TestDeferredInAChildIsOfItsPast(t *testing.T) {
	t.Parallel()
	db := hooked(t)
	th := deferring(t, pawl.Inherit).Thread(opened(t, db, nil), "t")
	out, err := th.Run(t.Context(), &family{})
	if err != nil {
		t.Fatal(err)
	}
	in := childOf(out.Waiting[0])
	before, after := at(t, th.Thread, in, "first").Checkpoint, at(t, th.Thread, in, "asks").Checkpoint
	newer := deferring(t, pawl.Inherit, pawl.Version(2)).Thread(opened(t, db, nil), "t")
	refused := (*pawl.VersionError)(nil)
	if _, err := newer.Replay(t.Context(), pawl.Checkpoint(after)); !errors.As(err, &refused) || !strings.Contains(refused.First, `"sub|last"`) {
		t.Errorf("from where it is deferred: %v", err)
	}
	if st := standing(t, newer); st.Status != pawl.Waiting || len(st.Waiting) != 1 || st.Waiting[0].ID != out.Waiting[0].ID {
		t.Errorf("a refusal changed something: %+v", st)
	}
	if got, err := newer.Replay(t.Context(), pawl.Checkpoint(before)); err != nil || len(got.Waiting) != 1 {
		t.Errorf("from before it was led to: %+v, %v", got, err)
	}
}
