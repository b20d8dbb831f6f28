package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/storage"
)

// scribe is a part that keeps what it was asked and told, and may refuse.
type scribe struct {
	mu     sync.Mutex
	lines  []string
	refuse func(pawl.VerbInfo) error
}

func (*scribe) Name() string   { return "scribe" }
func (*scribe) Digest() string { return "1" }

func (s *scribe) Verb(_ context.Context, tx storage.Tx, v pawl.VerbInfo) ([]pawl.Note, error) {
	if tx.Now().IsZero() {
		return nil, errors.New("no clock")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	line := fmt.Sprintf("%s %s by %s", v.Verb, v.Thread, v.Actor.ID)
	for _, more := range [][2]string{{"stage", v.Stage}, {"reason", v.Reason}, {"question", v.Name}} {
		if more[1] != "" {
			line += " " + more[0] + " " + more[1]
		}
	}
	if v.Verb == pawl.VerbAnswer && (v.Digest == "" || v.View == "" || v.Run == "" || v.Question == "" || v.Graph == "") {
		return nil, fmt.Errorf("an answer without what it is of: %+v", v)
	}
	s.lines = append(s.lines, line)
	if s.refuse != nil {
		return nil, s.refuse(v)
	}
	return nil, nil
}

func (s *scribe) Refused(_ context.Context, _ storage.Tx, v pawl.VerbInfo, why error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lines = append(s.lines, fmt.Sprintf("refused %s %s by %s", v.Verb, v.Thread, v.Actor.ID)); why == nil {
		return errors.New("without a reason")
	}
	return nil
}

// said returns the lines since the last call.
func (s *scribe) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := strings.Join(s.lines, "; ")
	s.lines = nil
	return out
}

type consentState struct {
	Said pawl.Last[string] `json:"said"`
}

// asking is an engine with a scribe, and a thread "t" of a graph that asks one question, which is due after a day.
func asking(t *testing.T, s *scribe, allow func(context.Context, pawl.VerbInfo) error) (*pawl.Engine, *pawl.ThreadOf[consentState], storage.DB) {
	t.Helper()
	ok := pawl.Interrupt[string, string]{Name: "ok", Expires: 24 * time.Hour, Default: func(string) string { return "default" }}
	g, err := pawl.New[consentState]("consent").Node("ask", func(ctx context.Context, s *consentState) error {
		a, err := ok.Ask(ctx, "fine?")
		s.Said.Set(a)
		return err
	}, pawl.Uses(ok)).Edge(pawl.Start, "ask").Build()
	if err != nil {
		t.Fatal(err)
	}
	db, err := memdb.Open(pawl.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	eng, err := pawl.NewEngine(db, &pawl.Options{Parts: []pawl.Part{s}, Allow: allow})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close() })
	if err := eng.Register(g); err != nil {
		t.Fatal(err)
	}
	return eng, g.Thread(eng, "t"), db
}

// Parts are asked of every call, also of one that has nothing to do, and told of those that are refused.
func TestPartsKnowOfEveryCall(t *testing.T) {
	t.Parallel()
	s := &scribe{}
	denied := false
	eng, th, _ := asking(t, s, func(_ context.Context, v pawl.VerbInfo) error {
		if denied && v.Verb != pawl.VerbRead {
			return errors.New("no")
		}
		return nil
	})
	ctx := pawl.WithActor(t.Context(), pawl.Actor{ID: "ann"})
	must := func(err error, want string) {
		t.Helper()
		if got := s.said(); err != nil || got != want {
			t.Errorf("got  %s, %v\nwant %s", got, err, want)
		}
	}
	refused := func(err error, want string) {
		t.Helper()
		if got := s.said(); err == nil || got != want {
			t.Errorf("got  %s, %v\nwant %s", got, err, want)
		}
	}
	_, err := th.Resume(ctx)
	refused(err, "refused resume t by ann")
	out, err := th.Run(ctx, &consentState{}, pawl.RunID("r"), pawl.Reason("because"))
	must(err, "run t by ann reason because")
	id := out.Waiting[0].ID
	_, err = th.Run(ctx, &consentState{}, pawl.RunID("r"))
	must(err, "run t by ann")
	_, err = th.Run(ctx, &consentState{})
	refused(err, "refused run t by ann")
	_, err = th.Resume(ctx)
	must(err, "resume t by ann")
	_, err = th.Retry(ctx)
	refused(err, "refused retry t by ann")
	_, err = th.Migrate(ctx, pawl.Reason("because"))
	refused(err, "refused migrate t by ann")
	_, err = th.MigrateBack(ctx, pawl.Reason("because"))
	refused(err, "refused migrate t by ann")
	_, err = eng.Answer(ctx, id, 7)
	refused(err, "refused answer  by ann")
	_, err = eng.Answer(ctx, "nothing", "yes")
	refused(err, "refused answer  by ann")
	_, err = eng.Answer(ctx, id, "yes")
	must(err, "answer t by ann question ok")
	_, err = th.Resume(ctx)
	must(err, "resume t by ann")
	_, err = th.Resume(ctx)
	must(err, "resume t by ann")
	_, err = th.Fork(ctx, pawl.Before("nowhere"), nil)
	refused(err, "refused fork t by ann")
	out, err = th.Replay(ctx, pawl.Before("ask"))
	must(err, "replay t by ann")
	out, err = th.Resume(ctx, pawl.AnswerWith(out.Waiting[0].ID, "no"))
	must(err, "answer t by ann question ok; resume t by ann")
	if out.State.Said.Get() != "no" {
		t.Errorf("said %q", out.State.Said.Get())
	}
	if _, err := th.PreviewResume(ctx); err != nil {
		t.Error(err)
	}
	s.said() // a preview asks too
	denied = true
	_, err = th.Resume(ctx)
	refused(err, "refused resume t by ann")
	refused(th.Delete(ctx), "refused delete t by ann")
	denied = false
	s.refuse = func(pawl.VerbInfo) error { return errors.New("not today") }
	refused(th.Delete(ctx), "delete t by ann; refused delete t by ann")
	s.refuse = nil
	must(th.Delete(ctx), "delete t by ann")
}

// A part that refuses an answer leaves the question open.
func TestAPartRefusesAnAnswer(t *testing.T) {
	t.Parallel()
	s := &scribe{}
	eng, th, _ := asking(t, s, nil)
	out, err := th.Run(t.Context(), &consentState{})
	if err != nil {
		t.Fatal(err)
	}
	s.refuse = func(v pawl.VerbInfo) error {
		if v.Verb == pawl.VerbAnswer {
			return errors.New("not you")
		}
		return nil
	}
	id := out.Waiting[0].ID
	if _, err := eng.Answer(t.Context(), id, "yes"); err == nil || err.Error() != "not you" {
		t.Errorf("got %v", err)
	}
	if _, err := th.Resume(t.Context(), pawl.AnswerWith(id, "yes")); err == nil || err.Error() != "not you" {
		t.Errorf("got %v", err)
	}
	if open, err := eng.Questions(t.Context(), 0); err != nil || len(open) != 1 || open[0].ID != id {
		t.Errorf("open: %v, %v", open, err)
	}
}

// Cancelling a running thread asks the parts before anything stops, and again when its tasks are over.
func TestPartsAreAskedWhenARunningThreadIsCancelled(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		refuse bool
		other  bool // another engine on the same database cancels
		want   string
	}{
		{"here", false, false, "cancel t by eve stage asked reason enough; cancel t by  stage stopped reason enough"},
		{"by another engine", false, true, "cancel t by eve stage asked reason enough; cancel t by  stage stopped reason enough"},
		{"refused", true, false, "cancel t by eve stage asked reason enough; refused cancel t by eve"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &scribe{}
				entered, free := make(chan struct{}), make(chan struct{})
				g, err := pawl.New[consentState]("slow").Node("work", func(ctx context.Context, _ *consentState) error {
					close(entered)
					select {
					case <-ctx.Done():
						return context.Cause(ctx)
					case <-free:
						return nil
					}
				}).Edge(pawl.Start, "work").Build()
				if err != nil {
					t.Fatal(err)
				}
				db, err := memdb.Open(pawl.Kinds()...)
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				engine := func() *pawl.Engine {
					eng, err := pawl.NewEngine(db, &pawl.Options{Parts: []pawl.Part{s}})
					if err != nil {
						t.Fatal(err)
					}
					return eng
				}
				eng := engine()
				defer eng.Close()
				over := make(chan *pawl.Outcome)
				go func() {
					out, _ := g.Thread(eng, "t").Run(t.Context(), &consentState{})
					over <- &out.Outcome
				}()
				<-entered
				s.said()
				by := eng
				if c.other {
					by = engine()
					defer by.Close()
				}
				if c.refuse {
					s.refuse = func(pawl.VerbInfo) error { return errors.New("not now") }
				}
				err = by.Thread("slow", "t").Cancel(pawl.WithActor(t.Context(), pawl.Actor{ID: "eve"}), "enough")
				if c.refuse != (err != nil) {
					t.Errorf("cancel: %v", err)
				}
				if c.refuse {
					close(free)
				}
				want := pawl.Cancelled
				if c.refuse {
					want = pawl.Done
				}
				if out := <-over; out.Status != want {
					t.Errorf("status %s, want %s", out.Status, want)
				}
				if got := s.said(); got != c.want {
					t.Errorf("got  %s\nwant %s", got, c.want)
				}
			})
		})
	}
}

// A question that nobody answers in time lets its node go on, with the default, when a timer runs.
func TestTimer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &scribe{}
		eng, th, _ := asking(t, s, nil)
		start := time.Now()
		if _, err := th.Run(t.Context(), &consentState{}); err != nil {
			t.Fatal(err)
		}
		timer := eng.Timer()
		if done, next, err := timer.Due(t.Context(), 10); done != 0 || err != nil || next.Sub(start.Add(24*time.Hour)).Abs() > time.Millisecond {
			t.Errorf("before: %d, %s, %v", done, next, err)
		}
		<-time.After(24*time.Hour + time.Millisecond)
		s.said()
		if done, _, err := timer.Due(t.Context(), 10); done != 1 || err != nil {
			t.Errorf("at its time: %d, %v", done, err)
		}
		synctest.Wait()
		state, err := th.State(t.Context())
		if err != nil || state.Status != pawl.Done || !strings.Contains(string(state.Values), "default") {
			t.Errorf("got %+v, %v", state, err)
		}
		if got := s.said(); got != "resume t by timer" {
			t.Errorf("parts: %s", got)
		}
		if done, next, err := timer.Due(t.Context(), 10); done != 0 || !next.IsZero() || err != nil {
			t.Errorf("after: %d, %s, %v", done, next, err)
		}
	})
}

// Where no program can resume the thread, the question is stored as expired after a while.
func TestTimerWithoutTheGraph(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		eng, th, db := asking(t, &scribe{}, nil)
		out, err := th.Run(t.Context(), &consentState{})
		if err != nil {
			t.Fatal(err)
		}
		eng.Close()
		stock, err := pawl.NewEngine(db, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer stock.Close()
		<-time.After(24*time.Hour + time.Millisecond)
		state := func() string {
			found, err := stock.FindQuestions(t.Context(), out.Waiting[0].ID, 0)
			if err != nil || len(found) != 1 {
				t.Fatal(found, err)
			}
			return string(found[0].State)
		}
		done, next, err := stock.Timer().Due(t.Context(), 10)
		if done != 0 || err != nil || time.Until(next) > time.Second || state() != "open" {
			t.Errorf("at its time: %d, %s, %v, %s", done, next, err, state())
		}
		<-time.After(2 * time.Minute)
		timers := []*pawl.Timer{stock.Timer(), stock.Timer()}
		var fired []int
		for _, timer := range timers {
			done, _, err := timer.Due(t.Context(), 10)
			if err != nil {
				t.Error(err)
			}
			fired = append(fired, done)
		}
		if !slices.Equal(fired, []int{1, 0}) || state() != "expired" {
			t.Errorf("fired %v, %s", fired, state())
		}
	})
}
