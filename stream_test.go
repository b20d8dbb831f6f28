package pawl_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/pawl-dev/pawl"
)

// A node that ends the goroutine of its run, as FailNow does, ends the stream with an error.
func TestStreamOfGoexit(t *testing.T) {
	t.Parallel()
	g := single(t, func(context.Context, *note) error { runtime.Goexit(); return nil })
	var last error
	for _, err := range g.Thread(opened(t, hooked(t), nil), "t").Stream(t.Context(), nil) {
		last = err
	}
	if last == nil {
		t.Error("the stream ended without an error")
	}
}

// Whoever ends the context of a stream still hears how the run stopped.
func TestStreamOfEndedContext(t *testing.T) {
	t.Parallel()
	for range 20 { // the choice between two ready channels is random
		ctx, cancel := context.WithCancel(t.Context())
		g := single(t, func(ctx context.Context, _ *note) error { cancel(); return ctx.Err() })
		var last pawl.Event
		for ev, err := range g.Thread(opened(t, hooked(t), nil), "t").Stream(ctx, nil) {
			if err == nil {
				last = ev
			}
		}
		if last.Kind != pawl.EventFinished || last.Outcome == nil || last.Outcome.Status != pawl.Failed {
			t.Fatalf("the last event is %q", last.Kind)
		}
	}
}

// A loop body that panics leaves no goroutine that waits for a reader.
func TestStreamOfPanickingReader(t *testing.T) {
	t.Parallel()
	eng := opened(t, hooked(t), nil)
	th := single(t, func(context.Context, *note) error { return nil }).Thread(eng, "t")
	func() {
		defer func() { _ = recover() }()
		for range th.Stream(t.Context(), nil) {
			panic("the reader's own")
		}
	}()
	if err := eng.Close(); err != nil { // waits for the run
		t.Fatal(err)
	}
}
