package pawltest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/storage"
)

// recorder is a test that is watched: it fails without failing the test around it.
type recorder struct {
	testing.TB
	said     []string
	cleanups []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.said = append(r.said, fmt.Sprintf(format, args...))
}
func (r *recorder) Fail()             { r.Errorf("failed") }
func (r *recorder) Log(...any)        {}
func (r *recorder) Fatal(args ...any) { r.Errorf("%s", fmt.Sprint(args...)); panic(r) }

// watch runs a test's body and its cleanups and returns what it failed with.
func watch(t *testing.T, body func(t testing.TB)) string {
	t.Helper()
	r := &recorder{TB: t}
	func() {
		defer func() {
			if p := recover(); p != nil && p != any(r) {
				panic(p)
			}
		}()
		body(r)
	}()
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
	return strings.Join(r.said, "\n")
}

func TestRun(t *testing.T) {
	t.Parallel()
	g := checkoutGraph(t)
	eng := pawltest.New(t, g)
	typed := pawltest.Run(t, g.Thread(eng, "typed"), &order{}, yes)
	if typed.Status != pawl.Done || typed.State.Charge.Get() != "charge-1" || typed.State.Log.Len() != 3 {
		t.Errorf("typed: %s with %s", typed.Status, typed.Values)
	}
	erased := pawltest.Run(t, eng.Thread("checkout", "erased"), json.RawMessage(`{"log":["in"]}`), yes)
	if want := `{"charge":"charge-1","log":["in","yes","parcel-1","closed"]}`; string(erased.Values) != want {
		t.Errorf("erased: %s, want %s", erased.Values, want)
	}
}

func TestResume(t *testing.T) {
	t.Parallel()
	g := checkoutGraph(t)
	th := g.Thread(pawltest.New(t, g), "o1")
	if out, err := th.Run(t.Context(), &order{}); err != nil || out.Status != pawl.Waiting {
		t.Fatalf("%v %v", out.Status, err)
	}
	if out := pawltest.Resume(t, th, yes); out.Status != pawl.Done {
		t.Errorf("status %s", out.Status)
	}
}

func TestSilence(t *testing.T) {
	t.Parallel()
	said := watch(t, func(t testing.TB) {
		g := checkoutGraph(t)
		pawltest.Run(t, g.Thread(pawltest.New(t, g), "o1"), &order{}, pawltest.People{"other": nil})
	})
	for _, part := range []string{`"ship"`, `node "checkout"`, "ship charge-1?", "add"} {
		if !strings.Contains(said, part) {
			t.Errorf("it said %q, which lacks %s", said, part)
		}
	}
}

func TestDriveTwice(t *testing.T) {
	t.Parallel()
	g := checkoutGraph(t)
	th := g.Thread(pawltest.New(t, g), "o1")
	for range 2 {
		out, err := pawltest.Drive(t.Context(), th, "run-1", &order{}, yes)
		if err != nil || out.Status != pawl.Done || out.State.Log.Len() != 3 {
			t.Fatalf("%v %v", out, err)
		}
	}
}

// TestStrict breaks each rule that only a strict engine checks.
func TestStrict(t *testing.T) {
	t.Parallel()
	entries := 0
	for _, c := range []struct {
		name string
		node func(context.Context, *ranked) error
		want []string // nothing: a clean graph
	}{
		{"clean", func(ctx context.Context, s *ranked) error {
			scores := append([]int(nil), s.Scores.Get()...)
			scores[0] = 7
			s.Scores.Set(scores)
			_, err := ship.Ask(ctx, "ship?")
			return err
		}, nil},
		{"changes in place what it read", func(_ context.Context, s *ranked) error {
			s.Scores.Get()[0] = 7
			return nil
		}, []string{`node "rank"`, `channel "scores"`, "changed in place"}},
		{"changes in place and waits", func(ctx context.Context, s *ranked) error {
			s.Scores.Get()[0] = 7
			_, err := ship.Ask(ctx, "ship?")
			return err
		}, []string{`node "rank"`, `channel "scores"`, "changed in place"}},
		{"asks something else on re-entry", func(ctx context.Context, _ *ranked) error {
			entries++
			_, err := ship.Ask(ctx, fmt.Sprint("ship parcel ", entries, "?"))
			return err
		}, []string{`node "rank"`, `question "ship"`, "parcel 1", "parcel 2"}},
		{"hides that it waits", func(ctx context.Context, s *ranked) error {
			if answer, err := ship.Ask(ctx, "ship?"); err == nil {
				s.Scores.Set([]int{len(answer)})
			}
			return nil
		}, []string{`node "rank"`, "returned nil", "ship"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			said := watch(t, func(t testing.TB) {
				g, err := pawl.New[ranked]("rank").Node("rank", c.node, pawl.Uses(ship)).Path(pawl.Start, "rank").Build()
				if err != nil {
					t.Fatal(err)
				}
				in := &ranked{Scores: pawl.Of([]int{1, 2, 3})}
				if out := pawltest.Run(t, g.Thread(pawltest.New(t, g), "r1"), in, yes); out.Status != pawl.Done {
					t.Errorf("status %s: %s", out.Status, out.Reason)
				}
			})
			if len(c.want) == 0 && said != "" {
				t.Errorf("a clean graph was reported: %s", said)
			}
			for _, part := range c.want {
				if !strings.Contains(said, part) {
					t.Errorf("it said %q, which lacks %s", said, part)
				}
			}
		})
	}
}

type ranked struct {
	Scores pawl.Last[[]int] `json:"scores"`
}

func TestGoroutineLeft(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	defer close(end)
	said := watch(t, func(t testing.TB) {
		pawltest.New(t)
		go func() { <-end }()
	})
	if !strings.Contains(said, "goroutines are left") || !strings.Contains(said, "TestGoroutineLeft") {
		t.Errorf("it said %q", said)
	}
}

func TestTwoEnginesLeaveNothing(t *testing.T) {
	t.Parallel()
	said := watch(t, func(t testing.TB) {
		g := checkoutGraph(t)
		home := pawltest.Memory(t)
		first, second := pawltest.Engine(t, home, nil), pawltest.Engine(t, home, &pawl.Options{Durability: pawl.Async})
		pawltest.Run(t, g.Thread(first, "o1"), &order{}, yes)
		pawltest.Run(t, g.Thread(second, "o2"), &order{}, yes)
	})
	if said != "" {
		t.Errorf("it said %q", said)
	}
}

func TestSlow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		over   func(storage.DB) *pawltest.Store
		status pawl.Status // as another process sees it while the write is held
	}{
		{"slow: written, not told", pawltest.Slow, pawl.Running},
		{"stuck: not written", pawltest.Stuck, pawl.StatusNew},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, home := checkoutGraph(t), pawltest.Memory(t)
			store := c.over(home)
			eng, other := pawltest.Engine(t, store, nil), pawltest.Engine(t, home, nil)
			store.Freeze()
			over := make(chan error, 1)
			go func() {
				_, err := g.Thread(eng, "o1").Run(t.Context(), &order{})
				over <- err
			}()
			if err := store.Held(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			state, err := other.Thread("checkout", "o1").State(t.Context())
			if err != nil || state.Status != c.status {
				t.Errorf("while held: %v %v, want %s", state, err, c.status)
			}
			select {
			case err := <-over:
				t.Errorf("the run returned %v while its write was held", err)
			default:
			}
			if n := store.Ack(5); n != 1 {
				t.Errorf("let %d writes go, want 1", n)
			}
			if err := store.Held(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			store.Thaw()
			if err := <-over; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestHeldEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := pawltest.Slow(pawltest.Memory(t)).Held(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want context.Canceled", err)
	}
}

// TestDelayed counts durable writes by the virtual time that they take.
func TestDelayed(t *testing.T) {
	t.Parallel()
	g := checkoutGraph(t)
	synctest.Test(t, func(t *testing.T) {
		eng := pawltest.Engine(t, pawltest.Delayed(pawltest.Memory(t), time.Second), nil)
		begin := time.Now()
		if _, err := g.Thread(eng, "o1").Run(t.Context(), &order{}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != 4*time.Second { // accepted, a step, a question, the wait
			t.Errorf("it took %v of virtual time, want 4 s", took)
		}
	})
}
