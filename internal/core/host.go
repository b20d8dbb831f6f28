package core

import (
	"context"
	"time"
)

// Host is a durable home for one thread's run, as the loop sees it: the local host keeps it in a database, a workflow
// engine in a history, the tests' host in a journal. Its methods may be called by the tasks of one super-step at
// once. A host that lost the thread to another owner fails every call with an error.
type Host interface {
	// Own takes the thread and says where it stands.
	Own(ctx context.Context) (*Position, error)
	// Accept makes a run and its input durable, in every mode, and the checkpoints with it under Sync.
	Accept(ctx context.Context, run *Run, start []*Checkpoint) error
	// Commit takes what a super-step did; when it returns depends on the run's durability.
	Commit(ctx context.Context, c Commit) error
	// Record makes a finished step durable, and before it all that the step hangs from.
	Record(ctx context.Context, s *Step) error
	// Ask makes a question durable, and before it all that it hangs from; replaced, if not nil, is superseded with it.
	Ask(ctx context.Context, q, replaced *Question) error
	// Settle changes a question's state: a submitted answer that was checked, an expiry that was seen. It says whether
	// the row was still as q remembers it.
	Settle(ctx context.Context, q *Question, to QuestionState) (bool, error)
	// Fresh numbers a new checkpoint and gives it an id.
	Fresh() (n int64, id string)
	// Now is the host's clock.
	Now() time.Time
}

// Memory is a host that keeps what children remember from run to run.
type Memory interface {
	// Checkpoint reads a checkpoint of a child's run, its values as the child's graph reads them.
	Checkpoint(ctx context.Context, n int64, child Def) (*Checkpoint, error)
}

// Policy is how one node is run.
type Policy struct {
	Backoff
	Tries   int           // 1: no retry
	Timeout time.Duration // of one try; 0: none
	Durable bool
	Uses    map[string]bool // nil: anything
	Idle    time.Duration   // without progress; 0: none
	Beats   bool            // only a heartbeat is progress
	Retries []Retry         // asked in their order; none: the host decides
	Handles bool            // a function of the graph takes over when the tries are over
}

// Backoff is how long is waited before a further try.
type Backoff struct {
	Wait    time.Duration // before the second try
	MaxWait time.Duration
	Factor  float64       // by which it grows from try to try
	Jitter  time.Duration // at most so much is added, evenly spread; negative: a tenth of the wait
}

// After is the wait after so many tries, without jitter.
func (b *Backoff) After(tries int) time.Duration {
	d := float64(b.Wait)
	for n := 1; n < tries && d < float64(b.MaxWait); n++ {
		d *= b.Factor
	}
	return time.Duration(min(d, float64(b.MaxWait)))
}

// Retry is how errors of one kind are tried again.
type Retry struct {
	If    func(error) bool
	Tries int      // 0: the node's
	Waits *Backoff // nil: the node's
}

// For is the policy as it stands for an error.
func (p *Policy) For(err error) (tries int, waits *Backoff) {
	for _, r := range p.Retries {
		if !r.If(err) {
			continue
		}
		if tries, waits = r.Tries, r.Waits; tries == 0 {
			tries = p.Tries
		}
		if waits == nil {
			waits = &p.Backoff
		}
		return tries, waits
	}
	if len(p.Retries) > 0 {
		return 1, &p.Backoff
	}
	return p.Tries, &p.Backoff
}
