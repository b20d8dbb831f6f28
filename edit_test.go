package pawl_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

// An edit does not bring a run back that was ended for good.
func TestEditOfWhatIsOver(t *testing.T) {
	t.Parallel()
	ok := pawl.Interrupt[string, bool]{Name: "ok"}
	for name, c := range map[string]struct {
		node func(ctx context.Context) error
		end  func(th *pawl.ThreadOf[note]) error
		want pawl.Status
	}{
		"cancelled": {
			func(ctx context.Context) error { _, err := ok.Ask(ctx, "?"); return err },
			func(th *pawl.ThreadOf[note]) error { return th.Cancel(context.Background(), "for good") }, pawl.Cancelled,
		},
		"concluded": {
			func(context.Context) error { return pawl.Conclude("not for us") },
			func(*pawl.ThreadOf[note]) error { return nil }, pawl.Failed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			th := single(t, func(ctx context.Context, _ *note) error { return c.node(ctx) }, pawl.Uses(ok)).Thread(opened(t, hooked(t), nil), "t")
			_, _ = th.Run(t.Context(), nil)
			if err := c.end(th); err != nil {
				t.Fatal(err)
			}
			out, err := th.Edit(t.Context(), func(s *note) error { s.Text.Set("edited"); return nil })
			if err != nil || out.Status != c.want || out.State.Text.Get() != "edited" {
				t.Fatalf("edit: %v", err)
			}
			refused := (*pawl.VerbError)(nil)
			if _, err := th.Resume(t.Context()); !errors.As(err, &refused) {
				t.Errorf("resume after the edit: %v", err)
			}
			if st := status(t, th); st.Status != c.want {
				t.Errorf("the thread is %s", st.Status)
			}
		})
	}
}

// A run that a replay left behind is reported as the run that took its place stands, not as waiting for nobody.
func TestRunIDOfARunLeftBehind(t *testing.T) {
	t.Parallel()
	ok := pawl.Interrupt[string, bool]{Name: "ok"}
	th := single(t, func(ctx context.Context, _ *note) error { _, err := ok.Ask(ctx, "?"); return err }, pawl.Uses(ok)).
		Thread(opened(t, hooked(t), nil), "t")
	if _, err := th.Run(t.Context(), nil, pawl.RunID("order 1")); err != nil {
		t.Fatal(err)
	}
	replayed, err := th.Replay(t.Context(), pawl.Before("only"))
	if err != nil {
		t.Fatal(err)
	}
	again := func(want pawl.Status, open int) {
		out, err := th.Run(t.Context(), nil, pawl.RunID("order 1"))
		if err != nil || out.Status != want || len(out.Waiting) != open || out.Run != replayed.Run {
			t.Errorf("the same run again: %s, %d open, %v", out.Status, len(out.Waiting), err)
		}
	}
	again(pawl.Waiting, 1)
	if _, err := th.Resume(t.Context(), ok.Answer("", true)); err != nil {
		t.Fatal(err)
	}
	again(pawl.Done, 0)
}

// kept is what an edit leaves of a list.
func kept(line string) func(*lines) error {
	return func(s *lines) error { s.Log.Add(line); return nil }
}

// The first edit makes a thread that nobody ran: what is legal there, and what every verb comes to.
func TestFirstEdit(t *testing.T) {
	t.Parallel()
	type handle = *pawl.ThreadOf[lines]
	refused := func(verb string) func(*testing.T, handle, error) {
		return func(t *testing.T, th handle, err error) {
			if no := (*pawl.VerbError)(nil); !errors.As(err, &no) || string(no.Verb) != verb || no.Status != pawl.StatusNew {
				t.Error(err)
			}
		}
	}
	ends := func(want pawl.Status, log ...string) func(*testing.T, handle, error) {
		return func(t *testing.T, th handle, err error) {
			st, also := th.State(t.Context())
			if err != nil || also != nil || st.Status != want {
				t.Fatal(st.Status, err, also)
			}
			if s, err := th.Read(st.Head); err != nil || !slices.Equal(logged(s), log) {
				t.Errorf("%v, %v", logged(s), err)
			}
		}
	}
	for name, c := range map[string]struct {
		do   func(context.Context, handle) error
		then func(*testing.T, handle, error)
	}{
		"run": {func(ctx context.Context, th handle) error { _, err := th.Run(ctx, nil); return err },
			ends(pawl.Done, "seed", "a", "w1", "w2", "w3", "z")},
		"resume": {func(ctx context.Context, th handle) error { _, err := th.Resume(ctx); return err }, refused("resume")},
		"retry":  {func(ctx context.Context, th handle) error { _, err := th.Retry(ctx); return err }, refused("retry")},
		"cancel": {func(ctx context.Context, th handle) error { return th.Cancel(ctx, "no") }, refused("cancel")},
		"edit":   {func(ctx context.Context, th handle) error { _, err := th.Edit(ctx, kept("more")); return err }, ends(pawl.StatusNew, "seed", "more")},
		"edit as a node": {func(ctx context.Context, th handle) error {
			_, err := th.EditAs(ctx, [][]pawl.TaskEdit{{says("z", "Z")}})
			return err
		}, ends(pawl.Done, "seed", "Z")},
		"edit as an input": {func(ctx context.Context, th handle) error {
			_, err := th.EditAs(ctx, [][]pawl.TaskEdit{{says(pawl.Start, "in")}})
			return err
		}, ends(pawl.Waiting, "seed", "in")},
		"fork": {func(ctx context.Context, th handle) error {
			st, err := th.State(ctx)
			if err == nil {
				_, err = th.Fork(ctx, pawl.Checkpoint(st.Head.Checkpoint), kept("forked"))
			}
			return err
		}, ends(pawl.Done, "seed", "forked")},
		"copy": {func(ctx context.Context, th handle) error {
			copied, err := th.Copy(ctx, "copy", pawl.Point{})
			if err == nil {
				var st *pawl.ThreadState
				if st, err = copied.State(ctx); st.Status != pawl.StatusNew || string(st.Head.Values) != `{"log":["seed"]}` {
					err = errors.Join(err, errors.New("the copy is "+string(st.Status)))
				}
			}
			return err
		}, ends(pawl.StatusNew, "seed")},
		"delete": {func(ctx context.Context, th handle) error { return th.Delete(ctx) }, func(t *testing.T, th handle, err error) {
			if st, also := th.State(t.Context()); err != nil || also != nil || st.Head != nil || st.Status != pawl.StatusNew {
				t.Error(st, err, also)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			th := forked(t, &visits{}).Thread(opened(t, hooked(t), nil), "t")
			out, err := th.Edit(t.Context(), kept("seed"))
			if err != nil || out.Status != pawl.StatusNew || len(out.Next) > 0 || !slices.Equal(logged(out.State), []string{"seed"}) {
				t.Fatal(out, err)
			}
			if got := rewritten(t, th, true); !slices.Equal(got, []string{`0 {"log":["seed"]} [] edit`}) {
				t.Error(got)
			}
			st, err := th.State(t.Context())
			if err != nil || !slices.Equal(st.Legal, []pawl.Verb{pawl.VerbRun, pawl.VerbFork, pawl.VerbReplay, pawl.VerbEdit, pawl.VerbDelete}) {
				t.Error(st.Legal, err)
			}
			c.then(t, th, c.do(t.Context(), th))
		})
	}
}

// A run after the first edit is a run like another: its retry starts from the edited values, and a watcher is told of both.
func TestRunAfterTheFirstEdit(t *testing.T) {
	t.Parallel()
	ran := 0
	g := linesOf(t, pawl.New[lines]("g").Node("a", func(_ context.Context, s *lines) error {
		if ran++; ran == 1 {
			return errBroken
		}
		s.Log.Add("a")
		return nil
	}).Path(pawl.Start, "a"))
	for _, mode := range []pawl.Durability{pawl.Sync, pawl.Async, pawl.Exit} {
		ran = 0
		th := g.Thread(opened(t, hooked(t), &pawl.Options{Durability: mode}), "t")
		if _, err := th.Edit(t.Context(), kept("seed")); err != nil {
			t.Fatal(err)
		}
		if _, err := th.Run(t.Context(), nil); err == nil {
			t.Fatal("it did not fail")
		}
		out, err := th.Retry(t.Context())
		if err != nil || !slices.Equal(logged(out.State), []string{"seed", "a"}) {
			t.Errorf("%s: %v, %v", mode, out, err)
		}
		runs, err := th.Runs(t.Context())
		if err != nil || len(runs) != 3 || runs[2].Kind != "edit" || runs[2].Status != pawl.StatusNew {
			t.Errorf("%s: %+v, %v", mode, runs, err)
		}
		var told []string
		for e, err := range th.Watch(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			if told = append(told, string(e.Kind)+" "+e.Source+e.State); e.Attempt == runs[0].Attempt && e.State == string(pawl.Done) {
				break
			}
		}
		if len(told) < 3 || told[0] != "checkpoint edit" || told[1] != "finished new" || told[2] != "accepted running" {
			t.Errorf("%s: %q", mode, told)
		}
	}
}

// Who is refused before there is a thread makes none; of two first edits at once both are kept.
func TestFirstEditAtTheDoor(t *testing.T) {
	t.Parallel()
	g := forked(t, &visits{})
	other := linesOf(t, pawl.New[lines]("other").Node("a", func(context.Context, *lines) error { return nil }).Path(pawl.Start, "a"))
	denied := &pawl.Options{Allow: func(_ context.Context, v pawl.VerbInfo) error {
		if v.Verb == pawl.VerbEdit {
			return errors.New("not you")
		}
		return nil
	}}
	for _, c := range []struct {
		name string
		id   string
		opts *pawl.Options
		with []pawl.RunOption
		edit func(*lines) error
		want string
	}{
		{"denied", "t", denied, nil, kept("x"), "not you"},
		{"at a head", "t", nil, []pawl.RunOption{pawl.At("x")}, kept("x"), "not found"},
		{"of a child", "t", nil, []pawl.RunOption{pawl.In("c:1")}, kept("x"), "not found"},
		{"without an id", "", nil, nil, kept("x"), "id is empty"},
		{"an id that is no text", "\xff", nil, nil, kept("x"), "not valid UTF-8"},
		{"an edit that fails", "t", nil, nil, func(*lines) error { return errBroken }, errBroken.Error()},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			eng := opened(t, hooked(t), c.opts)
			if _, err := g.Thread(eng, c.id).Edit(t.Context(), c.edit, c.with...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Error(err)
			}
			if list, err := eng.Threads(t.Context(), "", 10); err != nil || len(list) > 0 {
				t.Error(list, err)
			}
		})
	}
	t.Run("of another graph", func(t *testing.T) {
		t.Parallel()
		eng := opened(t, hooked(t), nil)
		if _, err := g.Thread(eng, "t").Edit(t.Context(), kept("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := other.Thread(eng, "t").Edit(t.Context(), kept("y")); !errors.Is(err, pawl.ErrNotFound) {
			t.Error(err)
		}
		if out, err := g.Thread(eng.Tenant("else"), "t").Edit(t.Context(), kept("z")); err != nil || out.State.Log.Len() != 1 {
			t.Error(out, err)
		}
	})
	t.Run("a drained version", func(t *testing.T) {
		t.Parallel()
		eng := opened(t, hooked(t), nil)
		if err := eng.Drain(t.Context(), g.Name(), g.Digest(), "old"); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Thread(eng, "t").Edit(t.Context(), kept("x")); !errors.As(err, new(*pawl.DrainingError)) {
			t.Error(err)
		}
	})
	t.Run("two at once", func(t *testing.T) {
		t.Parallel()
		db := hooked(t)
		th := g.Thread(opened(t, db, nil), "t")
		second := func() {
			if _, err := th.Edit(context.Background(), kept("in between")); err != nil {
				t.Error(err)
			}
		}
		db.before.Store(&second)
		out, err := th.Edit(t.Context(), kept("late"))
		if err != nil || !slices.Equal(logged(out.State), []string{"in between", "late"}) {
			t.Error(out, err)
		}
	})
}
