package pawl

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/core"
)

// Migration says how a thread that stands under an older version of the graph goes on under this one. A graph declares
// it with Builder.Migrate; Thread.Migrate uses it.
type Migration struct {
	// From is the older version: its digest, or the first eight letters of it or more; or the first difference as a
	// refusal or Check tells it, or its beginning, such as `"screen" inserted before "transfer"`.
	From string
	// Map changes what it is given so that it fits the new graph: it renames nodes, moves or drops what is due, converts
	// channels. It is pure: a preview calls it, too. nil changes nothing beyond what was= and Upgrade say.
	Map func(*Moving) error
}

// Moving is where a thread stands, as a migration changes it.
type Moving struct {
	Thread string
	Status Status
	Due    []DueTask                  // tasks of the next super-step
	Ran    []string                   // nodes that ran in this run
	Values map[string]json.RawMessage // whole values by channel; those that was= and Upgrade can read are the new graph's already

	renamed map[string]string
}

// DueTask is a task that is due.
type DueTask struct {
	Node  string
	Send  bool // to a worker, with Arg
	Arg   json.RawMessage
	Later bool // deferred: it runs once nothing else is due
	Ended bool // it finished while others go on: its result is kept if its node stays, and is discarded if it is moved

	task string
}

// Rename gives a node its new name wherever the thread knows it.
func (m *Moving) Rename(node, name string) {
	m.renamed[node] = name
	for i := range m.Due {
		if m.Due[i].Node == node {
			m.Due[i].Node = name
		}
	}
	for i := range m.Ran {
		if m.Ran[i] == node {
			m.Ran[i] = name
		}
	}
}

// Move makes another node due in place of one; a finished result of it is discarded.
func (m *Moving) Move(node, to string) {
	for i := range m.Due {
		if p := &m.Due[i]; p.Node == node {
			*p = DueTask{Node: to, Send: p.Send, Arg: p.Arg, Later: p.Later}
		}
	}
}

// Drop makes a node due no more; a finished result of it is discarded.
func (m *Moving) Drop(node string) {
	m.Due = slices.DeleteFunc(m.Due, func(p DueTask) bool { return p.Node == node })
}

// Set gives a channel a whole value: T for a Last[T], []T for an Append[T], map[string]T for a Map.
func (m *Moving) Set(channel string, value any) error {
	doc, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("channel %q: %w", channel, err)
	}
	m.Values[channel] = doc
	return nil
}

// Migrate declares how threads of older versions go on.
func (b *Builder[S]) Migrate(list ...Migration) *Builder[S] {
	b.moves = append(b.moves, list...)
	return b
}

// leastDigest is how many letters of a digest name a version.
const leastDigest = 8

// migration finds the one for a version and its difference.
func (d *def[S]) migration(digest, first string) (Migration, bool) {
	for _, m := range d.moves {
		if len(m.From) >= leastDigest && (strings.HasPrefix(digest, m.From) || strings.HasPrefix(first, m.From)) {
			return m, true
		}
	}
	return Migration{}, false
}

// mover is a graph that knows its migrations.
type mover interface {
	jsonDef
	migration(digest, first string) (Migration, bool)
}

// Migrated says what a migration changed, or would. The same thread gives the same report, tried or done.
type Migrated struct {
	Thread    string     `json:"thread"`
	Graph     string     `json:"graph"`
	Run       string     `json:"run"`
	From      string     `json:"from"` // graph versions
	To        string     `json:"to"`
	First     string     `json:"first"`               // first difference
	Status    Status     `json:"status"`              // of the thread, afterwards
	Was       []string   `json:"was"`                 // due before
	Due       []string   `json:"due"`                 // and afterwards
	Converted []string   `json:"converted,omitempty"` // channels whose value is another
	Dropped   []string   `json:"dropped,omitempty"`   // channels that are left behind
	Discarded []string   `json:"discarded,omitempty"` // nodes, also in children that are not done, whose finished work is left behind
	Forgotten []string   `json:"forgotten,omitempty"` // nodes that ran, and joins that wait, and are not in the new graph
	Withdrawn []Question `json:"withdrawn,omitempty"` // open questions; what is due asks anew
	Notes     []Note     `json:"notes,omitempty"`     // of the parts
}

// MigrationError refuses to move a thread onto another version of its graph. Nothing was changed.
type MigrationError struct {
	Verb   Verb
	Thread string
	Graph  string
	From   string
	To     string
	First  string
	Err    error
}

// Error says what was refused, and what to do.
func (e *MigrationError) Error() string {
	s := fmt.Sprintf("pawl: thread %q: %s from %s@%.8s to %s@%.8s is refused: %v; nothing was changed", e.Thread, e.Verb, e.Graph, e.From, e.Graph, e.To, e.Err)
	if e.First != "" {
		s += "; first difference: " + e.First
	}
	return s
}

// Unwrap returns the reason.
func (e *MigrationError) Unwrap() error { return e.Err }

// relocation is a migration worked out, before anything is written.
type relocation struct {
	report  *Migrated
	cp      *core.Checkpoint // without number and id
	tasks   []string         // by what is due: the old task
	ended   []*core.Ended    // results that are kept
	places  []int            // of them, among what is due
	lenient bool             // force: what does not fit is left behind
}

// work makes the checkpoint under the new graph of what a mapping left.
func (mv *relocation) work(d mover, old *core.Topology, from *core.Checkpoint, m *Moving) error {
	if err := mv.due(d.Topology(), m); err != nil {
		return err
	}
	mv.past(d.Topology(), old, from, m)
	if err := mv.values(d, old, from, m); err != nil {
		return err
	}
	if err := d.readable(mv.cp.Values); err != nil {
		return fmt.Errorf("a value does not fit: %w", err)
	}
	return nil
}

// due orders what is due: nodes by name, then sends as they were.
func (mv *relocation) due(t *core.Topology, m *Moving) error {
	slices.SortStableFunc(m.Due, func(a, b DueTask) int {
		switch {
		case a.Send != b.Send && b.Send:
			return -1
		case a.Send != b.Send:
			return 1
		case a.Send:
			return 0
		}
		return strings.Compare(a.Node, b.Node)
	})
	for i, p := range m.Due {
		n, ok := t.Node(p.Node)
		switch {
		case !ok:
			return fmt.Errorf("node %q is due, and graph %q has none; rename, move or drop it", p.Node, t.Graph)
		case p.Send != (n.Kind == core.KindWorker):
			return fmt.Errorf("node %q is due as it was before, and in graph %q it is a %s; move or drop it", p.Node, t.Graph, n.Kind)
		case i > 0 && !p.Send && m.Due[i-1].Node == p.Node:
			return fmt.Errorf("node %q is due twice; drop one of them", p.Node)
		}
		if p.Later && n.Defer {
			mv.cp.Later = append(mv.cp.Later, p.Node)
			continue
		}
		mv.cp.Due = append(mv.cp.Due, core.Due{Node: p.Node, Send: p.Send, Arg: p.Arg})
		mv.tasks = append(mv.tasks, p.task)
	}
	if len(mv.cp.Due) == 0 {
		for _, node := range mv.cp.Later {
			mv.cp.Due, mv.tasks = append(mv.cp.Due, core.Due{Node: node}), append(mv.tasks, "")
		}
		mv.cp.Later = nil
	}
	mv.report.Due = append(mv.report.Due, dueNames(mv.cp.Due)...)
	return nil
}

// past keeps what the new graph knows of the nodes that ran and the joins that wait.
func (mv *relocation) past(t, old *core.Topology, from *core.Checkpoint, m *Moving) {
	for _, name := range m.Ran {
		if _, ok := t.Node(name); ok {
			mv.cp.Visited = append(mv.cp.Visited, name)
		} else {
			mv.report.Forgotten = append(mv.report.Forgotten, name)
		}
	}
	slices.Sort(mv.cp.Visited)
	mv.cp.Visited = slices.Compact(mv.cp.Visited)
	name := func(node string) string {
		if is := m.renamed[node]; is != "" {
			return is
		}
		return node
	}
	for _, j := range old.Joins {
		arrived, waits := from.Joins[j.Name()]
		if !waits {
			continue
		}
		is := core.Join{To: name(j.To)}
		for _, f := range j.From {
			is.From = append(is.From, name(f))
		}
		slices.Sort(is.From)
		if !slices.ContainsFunc(t.Joins, func(n core.Join) bool { return n.Name() == is.Name() }) {
			mv.report.Forgotten = append(mv.report.Forgotten, j.Name())
			continue
		}
		if mv.cp.Joins == nil {
			mv.cp.Joins = map[string][]string{}
		}
		for _, a := range arrived {
			mv.cp.Joins[is.Name()] = append(mv.cp.Joins[is.Name()], name(a))
		}
		slices.Sort(mv.cp.Joins[is.Name()])
	}
}

// values gives each channel of the new graph what it holds: the stored version where nothing changed.
func (mv *relocation) values(d mover, old *core.Topology, from *core.Checkpoint, m *Moving) error {
	t := d.Topology()
	mv.cp.Values = make([]*core.Value, len(t.Channels))
	for c, ch := range t.Channels {
		doc, ok := m.Values[ch.Name]
		at := t.Source(old, c)
		if !ok {
			if at < 0 && !ch.Optional && !mv.lenient {
				return fmt.Errorf("channel %q is new and not optional; set it", ch.Name)
			}
			continue
		}
		delete(m.Values, ch.Name)
		if err := core.CheckSize(fmt.Sprintf("channel %q", ch.Name), doc); err != nil {
			return err
		}
		if at >= 0 {
			stored, err := t.Upgraded(old.Channels[at], c, from.Values[at], d.Upgrade)
			if err == nil && stored == from.Values[at] {
				if whole, err := stored.Bytes(); err == nil && string(whole) == string(doc) {
					mv.cp.Values[c] = stored
					continue
				}
			}
		}
		mv.cp.Values[c] = core.NewSet(doc)
		mv.report.Converted = append(mv.report.Converted, ch.Name)
	}
	for name := range m.Values {
		mv.report.Dropped = append(mv.report.Dropped, name)
	}
	slices.Sort(mv.report.Dropped)
	if len(mv.report.Dropped) > 0 && !mv.lenient {
		return fmt.Errorf("channels %q hold values, and graph %q has none of these names; convert them, and delete them from Values", mv.report.Dropped, t.Graph)
	}
	return nil
}

// moving is what a mapping starts from.
func moving(d mover, old *core.Topology, v *view, thread string, tasks []core.Task) (*Moving, error) {
	t := d.Topology()
	m := &Moving{
		Thread: thread, Status: v.Status, Ran: slices.Clone(v.from.Visited), Values: map[string]json.RawMessage{},
		renamed: map[string]string{},
	}
	for i, due := range v.from.Due {
		ended := slices.ContainsFunc(v.pos.Ended, func(e core.Ended) bool { return !e.Failed && e.Result.Task.ID == tasks[i].ID })
		m.Due = append(m.Due, DueTask{Node: due.Node, Send: due.Send, Arg: due.Arg, Ended: ended, task: tasks[i].ID})
	}
	for _, node := range v.from.Later {
		m.Due = append(m.Due, DueTask{Node: node, Later: true})
	}
	for i, ch := range old.Channels {
		stored := v.from.Values[i]
		if !stored.Has() {
			continue
		}
		whole, err := stored.Bytes()
		if err != nil {
			return nil, err
		}
		m.Values[ch.Name] = whole
		if c := t.Heir(old, i); c >= 0 {
			if up, err := t.Upgraded(ch, c, stored, d.Upgrade); err == nil {
				if whole, err = up.Bytes(); err != nil {
					return nil, err
				}
				delete(m.Values, ch.Name)
				m.Values[t.Channels[c].Name] = whole
			}
		}
	}
	return m, nil
}

// mapped applies a migration's function.
func (m *Moving) mapped(by func(*Moving) error) error {
	if by == nil {
		return nil
	}
	if err := guarded(func() error { return by(m) }); err != nil {
		return fmt.Errorf("its mapping says: %w", err)
	}
	if slices.ContainsFunc(m.Due, func(p DueTask) bool { return p.Node == "" }) {
		return errors.New("its mapping made a node due that has no name")
	}
	return nil
}
