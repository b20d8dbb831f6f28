package pawl

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/local"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
)

// ThreadState is where a thread stands.
type ThreadState struct {
	Thread   string     `json:"thread"`
	Graph    string     `json:"graph"`
	Status   Status     `json:"status"`
	Cause    Cause      `json:"cause,omitempty"`
	Reason   string     `json:"reason,omitempty"`
	Run      string     `json:"run,omitempty"`
	Attempt  string     `json:"attempt,omitempty"`
	Crashes  int        `json:"crashes,omitempty"`
	Mode     Durability `json:"durability,omitempty"` // of the current run
	Stranded bool       `json:"stranded,omitempty"`   // nobody here can go on with it: see Differs
	Differs  string     `json:"differs,omitempty"`    // first difference to the graph here; empty: it is not here at all
	Version  string     `json:"version,omitempty"`    // of the graph, that the run is bound to
	Waiting  []Question `json:"waiting,omitempty"`
	Legal    []Verb     `json:"legal"`
	Owner    string     `json:"owner,omitempty"`  // the member that runs it; empty: nobody does
	Updated  time.Time  `json:"updated,omitzero"` // when the status last changed, or what it waits for was decided
	Input    bool       `json:"input"`            // the run's input is stored
	Head     *Snapshot  `json:"head,omitempty"`
	// Values are the head's with what those tasks wrote that ended already, as far as that can be merged without the
	// others. It is no checkpoint yet.
	Values json.RawMessage `json:"values,omitempty"`
}

// State reads where the thread stands. A thread that nobody ran is new: nothing is next, its values are those that it was
// given by edits, and reading makes none.
//
// With the path of a child the head is the newest checkpoint of that child, and what is waited for is what is open
// in it; the rest is the thread's.
func (t *Thread) State(ctx context.Context, in ...Path) (*ThreadState, error) {
	at := Path("")
	if len(in) > 0 {
		at = in[0]
	}
	var out *ThreadState
	err := t.read(ctx, func(tx storage.Tx, seen *local.Seen) error {
		s := &ThreadState{Thread: t.id, Graph: t.graph, Status: seen.Status}
		if seen.Info == nil {
			s.Legal, out = []Verb{VerbRun, VerbEdit}, s
			return nil
		}
		d, served := t.eng.graph(seen.Info.Graph)
		s.Graph, s.Updated, s.Stranded = seen.Info.Graph, seen.Info.Updated, !served
		if served {
			if diff := strays(seen, d.Topology()); diff != nil {
				s.Stranded, s.Differs = true, diff.String()
			}
		}
		if seen.Run != nil {
			s.Version = seen.Run.Version()
			s.Run, s.Attempt, s.Crashes, s.Mode, s.Input = seen.Run.ID, seen.Run.Attempt, seen.Run.Crashes, seen.Run.Mode, seen.Run.Kind == core.RunInput
			if seen.Status == Failed || seen.Status == Cancelled || seen.Status == Waiting {
				s.Cause, s.Reason = seen.Run.Cause, seen.Run.Error
			}
		}
		if s.Status == Running {
			s.Owner = seen.Lease.Owner
		}
		s.Legal, s.Waiting = core.Legal(s.Status, s.Cause), questionsOf(seen.Open)
		r := records.NewReader(t.eng.store.Box, tx, seen.Info)
		stored := seen.Head
		if at != "" {
			read, err := t.pages(r, at)
			if err != nil {
				return err
			}
			newest, err := read(0, 1)
			if err != nil || len(newest) == 0 {
				return cmp.Or(err, error(&NotFoundError{What: "child", ID: string(at), Thread: t.id}))
			}
			stored = newest[0]
			s.Waiting = slices.DeleteFunc(s.Waiting, func(q Question) bool { return !strings.HasPrefix(q.Path, string(at)+"|") })
		}
		if stored != nil {
			head, err := t.family(r, seen, stored)
			if err != nil {
				return err
			}
			s.Head = head
			if s.Values, err = t.soon(r, stored.Checkpoint, head.Values); err != nil {
				return err
			}
		}
		out = s
		return nil
	})
	return out, err
}

// soon is what a head comes to with the writes of the tasks that ended, or the head where their merge needs code that is
// not here, or conflicts.
func (t *Thread) soon(r *records.Reader, cp *core.Checkpoint, head []byte) ([]byte, error) {
	topology, err := r.Topology(cp)
	if err != nil {
		return nil, err
	}
	ended, err := r.Ended(cp.N)
	if err != nil {
		return nil, err
	}
	var results []core.Result
	path := ""
	if cp.Frame != nil {
		path = cp.Frame.Path
	}
	for _, task := range core.Plan(cp, t.identity(), path) {
		for _, e := range ended {
			if e.Result.Task.ID == task.ID && !e.Failed {
				results = append(results, e.Result)
			}
		}
	}
	d, served := t.eng.graph(r.Info.Graph)
	if served && cp.Frame != nil {
		d, served = core.Inside(d, cp.Frame.Under)
	}
	if len(results) == 0 || !served {
		return head, nil
	}
	values, err := core.Soon(cp, topology, d.Fold, results)
	if err != nil {
		return head, nil
	}
	return core.Object(topology, values)
}
