package suite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// standing brings threads into a status and says which verbs are refused there.
type standing struct {
	status  pawl.Status
	cause   pawl.Cause
	refused []string
	bring   func(*testing.T, *refusals, *pawl.ThreadOf[request])
}

func standings() map[string]standing {
	ctx := context.Background()
	run := func(t *testing.T, th *pawl.ThreadOf[request]) {
		t.Helper()
		if out, err := th.Run(ctx, &request{}); err != nil || out.Status != pawl.Waiting {
			t.Fatalf("%+v, %v", out, err)
		}
	}
	fails := func(with error) func(*testing.T, *refusals, *pawl.ThreadOf[request]) {
		return func(t *testing.T, r *refusals, th *pawl.ThreadOf[request]) {
			g := build(t, pawl.New[request]("requests").Node("note", func(context.Context, *request) error { return with }).Edge(pawl.Start, "note"))
			_, err := g.Thread(engine(t, r.db, nil, g), th.ID()).Run(ctx, &request{})
			if !errors.Is(err, with) {
				t.Fatal(err)
			}
		}
	}
	return map[string]standing{
		"waiting": {pawl.Waiting, "", []string{"run", "stream", "retry"},
			func(t *testing.T, _ *refusals, th *pawl.ThreadOf[request]) { run(t, th) }},
		"done": {pawl.Done, "", []string{"retry", "cancel"}, func(t *testing.T, _ *refusals, th *pawl.ThreadOf[request]) {
			run(t, th)
			out, err := th.Resume(ctx, decide.Answer("", 1))
			mustBeDone(t, out, err)
		}},
		"failed":    {pawl.Failed, pawl.CauseError, nil, fails(errors.New("bad luck"))},
		"concluded": {pawl.Failed, pawl.CauseConcluded, []string{"resume", "resume, answer"}, fails(pawl.Conclude("it cannot be done"))},
		"cancelled": {pawl.Cancelled, "", []string{"resume", "resume, answer", "cancel"},
			func(t *testing.T, _ *refusals, th *pawl.ThreadOf[request]) {
				run(t, th)
				if err := th.Cancel(ctx, "enough"); err != nil {
					t.Fatal(err)
				}
			}},
		"crashed": {pawl.Crashed, "", []string{"run", "stream", "retry"}, func(t *testing.T, r *refusals, th *pawl.ThreadOf[request]) {
			db := fault.Wrap(r.db, fault.Plan{})
			g := build(t, pawl.New[request]("requests").Node("note", func(context.Context, *request) error { db.Stop(); return nil }).Edge(pawl.Start, "note"))
			if _, err := g.Thread(engine(t, db, nil, g), th.ID()).Run(ctx, &request{}); !errors.Is(err, fault.ErrStopped) {
				t.Fatal(err)
			}
		}},
		"running": {pawl.Running, "", []string{"run", "stream", "resume", "resume, answer", "retry", "fork", "replay", "edit", "delete"},
			func(t *testing.T, r *refusals, th *pawl.ThreadOf[request]) { // by another engine
				inside, over := make(chan struct{}), make(chan struct{})
				ctx, stop := context.WithCancel(ctx)
				g := build(t, pawl.New[request]("requests").Node("note", func(ctx context.Context, _ *request) error {
					close(inside)
					<-ctx.Done()
					return ctx.Err()
				}).Edge(pawl.Start, "note"))
				owner := engine(t, r.db, nil, g)
				go func() { defer close(over); g.Thread(owner, th.ID()).Run(ctx, &request{}) }()
				t.Cleanup(func() { stop(); <-over })
				<-inside
			}},
	}
}

// wrongVerbs tries each verb that the table of the design refuses in each status.
func wrongVerbs(t *testing.T, h *home) {
	r := waitingRequest(t, h)
	for name, s := range standings() {
		t.Run(name, func(t *testing.T) {
			th := r.g.Thread(r.eng, "in "+name)
			s.bring(t, r, th)
			state := statusOf(t, th)
			same(t, "status", [2]string{string(state.Status), string(state.Cause)}, [2]string{string(s.status), string(s.cause)})
			doors := r.doors(r.eng, th.ID())
			for _, verb := range s.refused {
				refused(t, r.db, verb, doors[verb], func(e *pawl.VerbError) bool {
					return e.Status == s.status && e.Cause == s.cause && e.Thread == th.ID() && !slices.Contains(e.Legal, e.Verb) && slices.Equal(e.Legal, state.Legal) &&
						errors.Is(e, pawl.ErrBusy) == (s.status == pawl.Running)
				}, fmt.Sprintf("%q is %s", th.ID(), s.status), "is refused and nothing was changed", "legal now: ")
			}
		})
	}
}

func closedEngine(t *testing.T, h *home) {
	r := waitingRequest(t, h)
	closed := engine(t, r.db, nil, r.g)
	closed.Close()
	for name, door := range r.doors(closed, "t") {
		refused(t, r.db, name, door, is(pawl.ErrClosed), "the engine is closed", "nothing was done")
	}
	refused(t, r.db, "register", func() error { return closed.Register(r.g) }, is(pawl.ErrClosed), "the engine is closed")
	refused(t, r.db, "typed run", func() error { _, err := r.g.Thread(closed, "new").Run(context.Background(), &request{}); return err },
		is(pawl.ErrClosed), "nothing was done")
}

// allowRefuses: permission is asked before anything is read.
func allowRefuses(t *testing.T, h *home) {
	r := waitingRequest(t, h)
	no := errors.New("not on a Sunday")
	m := &meter{DB: r.db}
	strict := engine(t, m, &pawl.Options{Allow: func(context.Context, pawl.VerbInfo) error { return no }}, r.g)
	for name, door := range r.doors(strict, "t") {
		refused(t, r.db, name, func() error {
			var err error
			if rows, _ := m.loads(func() { err = door() }); rows > 0 || len(m.written) > 0 {
				t.Errorf("%s: %d rows were read and %d Updates made for what is not allowed", name, rows, len(m.written))
			}
			return err
		}, func(err error) bool { return errors.Is(err, pawl.ErrDenied) && errors.Is(err, no) }, "not allowed", "not on a Sunday", "nothing was read and nothing was done")
	}
}

func otherGraph(t *testing.T, h *home) {
	ctx, r := context.Background(), waitingRequest(t, h)
	g := build(t, pawl.New[request]("other").Node("note", func(context.Context, *request) error { return nil }).Edge(pawl.Start, "note"))
	th := g.Thread(engine(t, r.db, nil, g), "t")
	for name, verb := range map[string]func() error{
		"run":    func() error { _, err := th.Run(ctx, &request{}); return err },
		"resume": func() error { _, err := th.Resume(ctx); return err },
		"retry":  func() error { _, err := th.Retry(ctx); return err },
		"fork":   func() error { _, err := th.Fork(ctx, pawl.Before("note"), nil); return err },
		"replay": func() error { _, err := th.Replay(ctx, pawl.Before("note")); return err },
		"edit":   func() error { _, err := th.Edit(ctx, func(*request) error { return nil }); return err },
	} {
		refused(t, r.db, name, verb, func(e *pawl.NotFoundError) bool { return e.What == "thread" && e.ID == "t" },
			`"t"`, `belongs to graph "requests", not "other"`, "nothing was")
	}
}

func otherTenant(t *testing.T, h *home) {
	r := waitingRequest(t, h)
	doors := r.doors(r.eng.Tenant("another"), "t")
	for _, name := range []string{"resume", "resume, answer", "retry", "fork", "replay", "cancel", "answer", "engine, answer", "snapshot"} {
		refused(t, r.db, name, doors[name], is(pawl.ErrNotFound), "not")
	}
	before := everything(t, r.db)
	for _, name := range []string{"state", "history", "questions", "find questions", "threads", "delete"} {
		if err := doors[name](); err != nil { // there is nothing, and looking makes nothing
			t.Errorf("%s: %v", name, err)
		}
	}
	unchanged(t, r.db, before)
	if err := doors["edit"](); err != nil { // it makes a thread of the name, which is the other tenant's own
		t.Error(err)
	}
	own := must(r.eng.Thread("requests", "t").State(t.Context()))
	same(t, "status and values of ours", string(own.Status)+string(own.Values), `waiting{"notes":["noted"]}`)
	if n := len(must(r.eng.Threads(t.Context(), "", 9))); n != 1 {
		t.Errorf("%d threads are ours, want 1", n)
	}
}

func runIDWithOtherInput(t *testing.T, h *home) {
	ctx, r := context.Background(), waitingRequest(t, h)
	th := r.g.Thread(r.eng, "named")
	if _, err := th.Run(ctx, &request{Amount: pawl.Of(1)}, pawl.RunID("order 1")); err != nil {
		t.Fatal(err)
	}
	other := func() error { _, err := th.Run(ctx, &request{Amount: pawl.Of(2)}, pawl.RunID("order 1")); return err }
	refused(t, r.db, "while it waits", other, func(e *pawl.VerbError) bool { return e.Verb == pawl.VerbRun && e.Status == pawl.Waiting },
		`"named"`, `"order 1"`, "another input", "nothing was changed", "another RunID")
	before := everything(t, r.db)
	out, err := th.Run(ctx, &request{Amount: pawl.Of(1)}, pawl.RunID("order 1")) // the same again starts nothing
	mustWaitFor(t, out, err, 1)
	unchanged(t, r.db, before)
	end, err := th.Resume(ctx, decide.Answer("", 5))
	mustBeDone(t, end, err)
	if _, err = th.Run(ctx, &request{}); err != nil {
		t.Fatal(err)
	}
	refused(t, r.db, "after another run", other, func(e *pawl.VerbError) bool { return e.Verb == pawl.VerbRun }, `"named"`, `"order 1"`, "another input", "nothing was changed")
}

// strayOptions gives options to verbs that they make no sense for.
func strayOptions(t *testing.T, h *home) {
	ctx, r := context.Background(), waitingRequest(t, h)
	for name, call := range map[string]func() error{
		"Again for run":    func() error { _, err := r.th.Run(ctx, &request{}, pawl.Again("note")); return err },
		"Answer for retry": func() error { _, err := r.th.Retry(ctx, decide.Answer(r.q.ID, 1)); return err },
		"Hold for resume":  func() error { _, err := r.th.Resume(ctx, pawl.Hold()); return err },
		"RunID for fork":   func() error { _, err := r.th.Fork(ctx, pawl.Before("note"), nil, pawl.RunID("x")); return err },
		"no such mode":     func() error { _, err := r.th.Resume(ctx, pawl.WithDurability("sometimes")); return err },
	} {
		refused[error](t, r.db, name, call, nil, "nothing was done")
	}
}

// noStorage: what needs what was kept says so; a graph without questions runs.
func noStorage(t *testing.T) {
	t.Parallel()
	g := build(t, requests())
	eng := engine(t, nil, nil, g)
	r := &refusals{q: pawl.Question{ID: "some-id"}}
	for name, door := range r.doors(eng, "t") {
		if slices.Contains([]string{"run", "stream", "questions", "find questions", "threads", "delete"}, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			err := door()
			if e := (*pawl.NoStorageError)(nil); !errors.As(err, &e) {
				t.Fatalf("error %v", err)
			}
			says(t, err.Error(), "no storage", "nothing is pending", "sqlite.Open")
		})
	}
	for _, name := range []string{"questions", "find questions", "threads", "delete"} {
		if err := r.doors(eng, "t")[name](); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := g.Thread(eng, "t").Run(context.Background(), &request{})
	if e := (*pawl.NoStorageError)(nil); !errors.As(err, &e) || e.Node != "decide" || e.Question != "decide" {
		t.Errorf("a question without storage: %v", err)
	}
}

// fullEverywhere has no room for a first, a later and an answering Update, by storage/fault.
func fullEverywhere(t *testing.T, h *home) {
	ctx, r := context.Background(), waitingRequest(t, h)
	full := false
	db := fault.Wrap(r.db, fault.Plan{At: func(p fault.Point) fault.Action {
		if full && p.Place == fault.Before {
			return fault.Fail(storage.ErrFull)
		}
		return fault.Action{}
	}})
	eng := engine(t, db, nil, r.g)
	full = true
	for name, door := range r.doors(eng, "t") {
		if slices.Contains([]string{"resume", "state", "history", "snapshot", "watch", "questions", "find questions", "threads", "run", "stream", "retry"}, name) {
			continue // they write nothing on a waiting thread
		}
		refused(t, r.db, name, door, is(storage.ErrFull), "no space left", "nothing was written")
	}
	refused(t, r.db, "a new thread", func() error { _, err := r.g.Thread(eng, "new").Run(ctx, &request{}); return err },
		is(storage.ErrFull), `"new"`, "was not claimed", "nothing was written")
}
