package pawl

import (
	"cmp"
	"context"
	"iter"
)

// Stream turns a verb into the stream of what happens while it runs: hand tell to the verb as an option.
//
//	for ev, err := range pawl.Stream(ctx, func(ctx context.Context, tell pawl.RunOption) error {
//		_, err := th.Resume(ctx, tell, review.Answer(id, yes))
//		return err
//	}) { ... }
//
// Facts are told once they are stored, with the number that Watch goes on after; those of Async and Exit runs, and of
// children that are stored with what comes next, are told as they happen, without one. The last event of a run is
// EventFinished with the outcome; an error is the last pair. Leaving the loop stops the run, waits for its tasks and keeps
// the thread resumable. To leave without stopping anything, run elsewhere and Watch.
func Stream(ctx context.Context, verb func(ctx context.Context, tell RunOption) error) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		events, over, gone := make(chan Event), make(chan error, 1), make(chan struct{})
		defer close(gone)
		defer cancel(errLeft)
		sink := func(e Event) {
			if e.Err != nil {
				e.Error = cmp.Or(e.Error, e.Err.Error())
			}
			select { // not ctx: also who ended it wants to hear how the run stopped
			case events <- e:
			case <-gone:
			}
		}
		go func() {
			err := errEnded
			defer func() { over <- err; close(events) }()
			err = verb(ctx, func(c *runConfig) { c.sink = sink })
		}()
		for e := range events {
			if !yield(e, nil) {
				cancel(errLeft)
				for range events {
				}
				return
			}
		}
		if err := <-over; err != nil {
			yield(Event{}, err)
		}
	}
}
