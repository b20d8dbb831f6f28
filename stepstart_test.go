package pawl_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

type errands struct {
	Done pawl.Append[string] `json:"done"`
}

func stepsOf(t *testing.T, node func(context.Context, *errands) error, options ...pawl.NodeOption) *pawl.Graph[errands] {
	t.Helper()
	g, err := pawl.New[errands]("errands").Node("go", node, options...).Edge(pawl.Start, "go").Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// stepsTold are the events of steps, with their names, tries and whether they were read.
func stepsTold(t *testing.T, th *pawl.ThreadOf[errands], in *errands) (out []string, addresses map[string][]string) {
	t.Helper()
	addresses = map[string][]string{}
	for e, err := range th.Stream(t.Context(), in) {
		if err != nil {
			if !errors.As(err, new(*pawl.RunError)) {
				t.Fatal(err)
			}
			continue
		}
		if e.Kind != pawl.EventStep && e.Kind != pawl.EventStepStart {
			continue
		}
		if e.Kind == pawl.EventStepStart && (e.Seq != 0 || e.At.IsZero() || e.Node != "go" || e.Task == "" || e.Run == "" || e.Step != 1) {
			t.Errorf("a start is told as %+v", e)
		}
		line := string(e.Kind) + " " + e.Name
		if e.Replayed {
			line += " again"
		}
		out, addresses[e.Name] = append(out, line), append(addresses[e.Name], e.Address)
	}
	return out, addresses
}

func TestStartsOfStepsAreTold(t *testing.T) {
	t.Parallel()
	for name, eng := range map[string]*pawl.Engine{"kept": opened(t, hooked(t), nil), "unkept": opened(t, nil, nil)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entries := 0
			g := stepsOf(t, func(ctx context.Context, s *errands) error {
				entries++
				if _, err := pawl.Step(ctx, "buy", func(context.Context) (int, error) { return 1, nil }); err != nil {
					return err
				}
				_, err := pawl.Step(ctx, "cook", func(ctx context.Context) (int, error) {
					if entries == 1 {
						return 0, errors.New("burnt")
					}
					return pawl.Step(ctx, "taste", func(context.Context) (int, error) { return 2, nil })
				})
				return err
			}, pawl.Tries(2), pawl.Backoff(0, 0))
			told, addresses := stepsTold(t, g.Thread(eng, "t"), nil)
			want := []string{"step_start buy", "step buy", "step_start cook", "step buy again", "step_start cook", "step_start taste", "step taste", "step cook"}
			if !slices.Equal(told, want) {
				t.Errorf("told %q, want %q", told, want)
			}
			for step, all := range addresses {
				if all[0] == "" || slices.ContainsFunc(all, func(a string) bool { return a != all[0] }) {
					t.Errorf("step %s has the addresses %q", step, all)
				}
			}
		})
	}
}

// What is reused is not called, so it does not start.
func TestReusedStepsDoNotStart(t *testing.T) {
	t.Parallel()
	g := stepsOf(t, func(ctx context.Context, _ *errands) error {
		_, err := pawl.CachedStep(ctx, "look", time.Hour, 1, func(context.Context, int) (int, error) { return 1, nil })
		return err
	})
	eng := opened(t, hooked(t), nil)
	for id, want := range []string{"step_start look", "step look"} {
		if told, _ := stepsTold(t, g.Thread(eng, string(rune('a'+id))), nil); told[0] != want {
			t.Errorf("thread %d is told %q", id, told)
		}
	}
}

// A watcher is told of a step while it is called, and one that comes later is not.
func TestStartsOfStepsAreWatched(t *testing.T) {
	t.Parallel()
	seen, over := make(chan struct{}), make(chan error, 1)
	g := stepsOf(t, func(ctx context.Context, _ *errands) error {
		_, err := pawl.Step(ctx, "wait", func(ctx context.Context) (int, error) {
			select {
			case <-seen:
				return 1, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		})
		return err
	})
	th := g.Thread(opened(t, hooked(t), nil), "t")
	if _, err := th.Edit(t.Context(), func(s *errands) error { s.Done.Add("made"); return nil }); err != nil {
		t.Fatal(err)
	}
	var told []pawl.EventKind
	var address string
	begun := false
	for e, err := range th.Watch(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if !begun { // the thread is there, and watched
			begun = true
			go func() {
				_, err := th.Run(t.Context(), nil)
				over <- err
			}()
		}
		switch e.Kind {
		case pawl.EventStepStart:
			address = e.Address
			told = append(told, e.Kind)
			close(seen)
		case pawl.EventStep:
			if told = append(told, e.Kind); e.Address != address {
				t.Errorf("it ended as %q and began as %q", e.Address, address)
			}
			for later, err := range th.Watch(t.Context(), 0) {
				if err != nil || later.Kind == pawl.EventStepStart {
					t.Fatalf("who comes later is told %v, %v", later.Kind, err)
				}
				if later.Kind == pawl.EventStep {
					break
				}
			}
		}
		if e.Kind == pawl.EventStep {
			break
		}
	}
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(told, []pawl.EventKind{pawl.EventStepStart, pawl.EventStep}) {
		t.Errorf("told %v", told)
	}
}
