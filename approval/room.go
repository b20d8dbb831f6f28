package approval

import (
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
)

// Caps bound how many requests an agent may have open at one time. 0: no bound.
type Caps struct {
	Lineage int // of a thread and its copies
	Graph   int // of all threads of a graph
}

// FullError: an agent has as many open requests as it may. Nobody was asked.
type FullError struct {
	Of   string // "lineage" or "graph"
	Name string
	Max  int
}

// Error says what to do.
func (e *FullError) Error() string {
	return fmt.Sprintf("approval: %s %q has %d open requests, which is all that it may have; nobody was asked and nothing was sent; decide "+
		"some of them and resume the thread", e.Of, e.Name, e.Max)
}

// Room says whether the task may ask for one call more: nil, or a [*FullError]. A request of the same task for the same
// reference does not count: the new one takes its place.
func Room(tx storage.Tx, of pawl.TaskInfo, effect, ref string, caps Caps) error {
	for _, c := range []struct {
		of, name, index string
		max             int
	}{{"lineage", of.Lineage, "by_lineage", caps.Lineage}, {"graph", of.Graph, "by_graph", caps.Graph}} {
		if c.max <= 0 {
			continue
		}
		open, err := list(tx, storage.Query{Index: c.index, Range: storage.Range{Prefix: []any{of.Tenant, string(Requested), c.name}}})
		if err != nil {
			return err
		}
		n := 0
		for _, r := range open {
			own := r.Task == of.Task && r.Effect == effect && r.Ref == ref
			if !own && r.seen(tx.Now()).State == Requested {
				n++
			}
		}
		if n >= c.max {
			return &FullError{Of: c.of, Name: c.name, Max: c.max}
		}
	}
	return nil
}
