package pawl

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/local"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
)

// VersionError: the run's past can tell this graph from the one that it ran under. Nothing was run and nothing changed.
type VersionError struct {
	Thread  string
	Run     string
	Graph   string
	Was     string // digest of the run's graph
	Is      string // digest of the graph here
	First   string // first difference
	Changed int    // nodes that differ
	Notes   []Note // how what the parts keep of the thread stands: its operations
}

// Error says what was refused, and what to do.
func (e *VersionError) Error() string {
	s := fmt.Sprintf("pawl: thread %q: run %s is pinned to graph %s@%.8s, here is %s@%.8s (%s since); first difference: %s; "+
		"nothing was run and nothing changed. Use a program of the old version (pin), stop new runs of it and let it finish "+
		"(pawl graph drain %s@%.8s), move this run (pawl graph migrate %s --from %.8s --to %.8s --dry-run), fork it from before what changed, or cancel "+
		"it and retry it under the new one",
		e.Thread, e.Run, e.Graph, e.Was, e.Graph, e.Is, changedNodes(e.Changed), e.First, e.Graph, e.Was, e.Thread, e.Was, e.Is)
	for _, n := range e.Notes {
		s += ". " + n.Text
	}
	return s
}

func changedNodes(n int) string {
	if n == 1 {
		return "1 node changed"
	}
	return fmt.Sprintf("%d nodes changed", n)
}

func (t *Thread) versionError(run *core.Run, old *core.Topology, d core.Def, diff *core.Difference) error {
	e := &VersionError{
		Thread: t.id, Graph: old.Graph, Was: core.GraphDigest(old), Is: core.GraphDigest(d.Topology()), First: diff.String(),
		Changed: core.Changed(old, d.Topology()),
	}
	if run != nil {
		e.Run = run.ID
	}
	return e
}

// explained lets the parts say how what they keep of the thread stands, where its run is refused for its version.
func (t *Thread) explained(ctx context.Context, err error) error {
	refused := (*VersionError)(nil)
	if !errors.As(err, &refused) || len(t.eng.opts.Parts) == 0 {
		return err
	}
	told := t.eng.store.View(context.WithoutCancel(ctx), func(tx storage.Tx) error {
		notes, err := t.eng.consent(ctx, dropTx{tx}, t.info(ctx, VerbRead))
		refused.Notes = notes
		return err
	})
	if told != nil {
		refused.Notes = append(refused.Notes, Note{Part: "pawl", Text: "How its operations stand could not be read: " + told.Error()})
	}
	return err
}

// pastOf are the names of the nodes that a run has met: only by them can it tell two graphs apart.
func pastOf(cp *core.Checkpoint) []string {
	return slices.Concat([]string{core.Start}, cp.Visited, cp.Later, dueNames(cp.Due))
}

// strays compares the graph of a thread's head with another as far as a verb that goes on from there would: a run that
// may go on by all that it met, else only by what the thread holds.
func strays(seen *local.Seen, now *core.Topology) *core.Difference {
	if seen.Head == nil || seen.Topology == nil || seen.Run == nil {
		return nil
	}
	var past []string
	if resumable, _ := core.Judge(VerbResume, seen.Status, seen.Run.Cause); resumable && seen.Status != Done || isBusy(seen.Status) {
		past = append(pastOf(seen.Head.Checkpoint), seen.Inside...)
	}
	return core.Compare(seen.Met, now, past)
}

func isBusy(s Status) bool { return s == Running || s == Pending }

// VersionInfo counts the threads of one version of a graph.
type VersionInfo struct {
	Graph      string         `json:"graph"`
	Version    string         `json:"version"`            // digest
	Here       bool           `json:"here"`               // it is the one of this program
	Draining   bool           `json:"draining,omitempty"` // no new runs
	Threads    map[Status]int `json:"threads"`            // by status; failed ones may still be resumed
	Unfinished int            `json:"unfinished"`         // pending, running, waiting, crashed
	Stranded   int            `json:"stranded,omitempty"` // of these, those that this program cannot go on with
}

// Versions counts the tenant's threads of a graph by the version under which each stands. The program
// of an old version may stop when it has no unfinished ones there, or, as seen from the program that takes its place,
// none that are stranded. The version of this program comes first, the others in the order of their digests.
func (e *Engine) Versions(ctx context.Context, graph string) ([]VersionInfo, error) {
	if err := e.allowed(ctx, VerbInfo{Verb: VerbRead, Graph: graph}); err != nil {
		return nil, err
	}
	if e.store == nil {
		return nil, &NoStorageError{Graph: graph, Question: string(VerbRead)}
	}
	found := map[string]*VersionInfo{}
	version := func(digest string) *VersionInfo {
		if found[digest] == nil {
			found[digest] = &VersionInfo{Graph: graph, Version: digest, Threads: map[Status]int{}}
		}
		return found[digest]
	}
	d, served := e.graph(graph)
	if served {
		version(core.GraphDigest(d.Topology())).Here = true
	}
	for seen, err := range e.sightings(ctx, graph) {
		if err != nil {
			return nil, err
		}
		if seen.Run == nil || len(seen.Run.Graphs) == 0 {
			continue
		}
		stands := len(seen.Run.Graphs) - 1
		if seen.Head != nil && seen.Head.Checkpoint.Run == seen.Run.N {
			stands = seen.Head.Checkpoint.Graph
		}
		v := version(seen.Run.Graphs[stands])
		if v.Threads[seen.Status]++; isBusy(seen.Status) || seen.Status == Waiting || seen.Status == Crashed {
			v.Unfinished++
			if !served || strays(seen, d.Topology()) != nil {
				v.Stranded++
			}
		}
	}
	err := e.store.View(ctx, func(tx storage.Tx) error {
		rows, err := tx.List(records.Drain, storage.Query{Range: storage.Range{Prefix: []any{e.tenant, graph}}, NoBody: true})
		for _, row := range rows {
			version(row.Key[2].(string)).Draining = true
		}
		return err
	})
	out := make([]VersionInfo, 0, len(found))
	for _, v := range found {
		out = append(out, *v)
	}
	slices.SortFunc(out, func(a, b VersionInfo) int {
		if a.Here != b.Here {
			return map[bool]int{true: -1, false: 1}[a.Here]
		}
		return strings.Compare(a.Version, b.Version)
	})
	return out, err
}

// sightings reads where each of the tenant's threads of a graph stands, by id, a page in one View. A thread that cannot
// be read is an error beside which its Info is told, and the next one follows.
func (e *Engine) sightings(ctx context.Context, graph string) iter.Seq2[*local.Seen, error] {
	const page = 64
	return func(yield func(*local.Seen, error) bool) {
		type sight struct {
			seen *local.Seen
			err  error
		}
		for after := ""; ; {
			var found []sight
			last, n := after, 0
			err := e.store.View(ctx, func(tx storage.Tx) error {
				q := storage.Query{Range: storage.Range{Prefix: []any{e.tenant}}, Limit: page}
				if after != "" {
					q.Range.From = after + "\x00"
				}
				rows, err := tx.List(records.Thread, q)
				found, n = nil, len(rows)
				for _, row := range rows {
					last = row.Key[1].(string)
					if row.Fields[1].(string) != graph {
						continue
					}
					seen, err := e.store.PeekTx(tx, e.tenant, last)
					if err != nil {
						seen = &local.Seen{Info: &records.ThreadInfo{Tenant: e.tenant, ID: last, Graph: graph}}
					}
					found = append(found, sight{seen, err})
				}
				return err
			})
			if err != nil {
				yield(nil, err)
				return
			}
			for _, s := range found {
				if !yield(s.seen, s.err) {
					return
				}
			}
			if n < page {
				return
			}
			after = last
		}
	}
}
