package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/stream"
)

// watcher makes a Shown of the chunks of an act.
type watcher struct {
	graphs map[string]*watched
	places map[string]map[string]int // of checkpoints, by path: in the order in which the scenario shows them first
	exit   bool                      // few are stored, and LangGraph does not say which
}

// watched is a Graph that is being shown.
type watched struct {
	Graph
	tasks [][]told // by super-step
	last  any      // what tasks or checkpoints showed
	again bool     // and it is left out
}

// told is something that a task did.
type told struct{ kind, id, node, line string }

var ids = regexp.MustCompile(`:[^|]*`)

func (w *watcher) graph(path string) *watched {
	if w.graphs[path] == nil {
		w.graphs[path] = &watched{tasks: [][]told{nil}, Graph: Graph{
			Graph: ids.ReplaceAllString(path, ""), Values: []string{}, Updates: [][]string{nil}, Checkpoints: []string{}, Debug: []string{},
			Custom: [][]string{nil}, Messages: [][]string{nil},
		}}
	}
	return w.graphs[path]
}

func (w *watcher) take(c stream.Chunk) error {
	if life, ok := c.Data.(stream.Life); ok {
		if life.Event == "interrupted" {
			w.left()
		}
		return nil
	}
	g := w.graph(c.Path)
	switch data := c.Data.(type) {
	case stream.State:
		return g.state(data)
	case stream.Update:
		return g.update(data)
	case *pawl.Snapshot:
		return w.checkpoint(g, data)
	case stream.Start:
		return g.start(data)
	case stream.End:
		return g.end(data)
	case stream.Detail:
		return g.detail(data)
	case stream.Said:
		at := &g.Custom[len(g.Custom)-1]
		*at = append(*at, textOf(data.Value, data.Name))
		return nil
	case stream.Message:
		g.message(c.Step, data)
		return nil
	}
	return fmt.Errorf("conformance: nobody knows %T", c.Data)
}

// left leaves out that tasks begin which no node was entered for: at a breakpoint or a limit. They begin when the run goes on.
func (w *watcher) left() {
	for _, g := range w.graphs {
		last := &g.tasks[len(g.tasks)-1]
		over := map[string]bool{}
		for _, t := range *last {
			over[t.id] = over[t.id] || t.kind != ">" || w.inside(t.id)
		}
		*last = slices.DeleteFunc(*last, func(t told) bool { return !over[t.id] })
		if n := len(g.Debug); len(*last) == 0 && n > 0 && strings.HasSuffix(g.Debug[n-1], " task") {
			g.Debug = g.Debug[:n-1]
		}
	}
}

// inside says whether a child of that task is shown.
func (w *watcher) inside(task string) bool {
	for path := range w.graphs {
		if strings.Contains(path, task) {
			return true
		}
	}
	return false
}

// step says that what follows is of another super-step.
func (g *watched) step() {
	for _, lines := range []*[][]string{&g.Updates, &g.Custom, &g.Messages} {
		if len((*lines)[len(*lines)-1]) > 0 {
			*lines = append(*lines, nil)
		}
	}
	if last := len(g.tasks) - 1; len(g.tasks[last]) > 0 {
		g.tasks = append(g.tasks, nil)
	}
}

func (g *watched) state(s stream.State) error {
	if len(s.Interrupts) > 0 {
		asks := make([]string, len(s.Interrupts))
		for i, q := range s.Interrupts {
			asks[i] = "? " + textOf(q.Value, q.Name)
		}
		g.Values = append(g.Values, strings.Join(sorted(asks), " "))
		return nil
	}
	line, err := stateText(s.Values)
	g.Values = append(g.Values, line)
	return err
}

func (g *watched) update(u stream.Update) error {
	last := &g.Updates[len(g.Updates)-1]
	for _, q := range u.Interrupts {
		*last = append(*last, "? "+textOf(q.Value, q.Name))
	}
	if len(u.Interrupts) > 0 {
		return nil
	}
	wrote, err := compact(u.Writes)
	if u.Cached {
		wrote = "again " + wrote
	}
	*last = append(*last, u.Node+" "+wrote)
	return err
}

func (w *watcher) checkpoint(g *watched, s *pawl.Snapshot) error {
	g.step()
	g.last, g.again = s, false
	path := string(s.Path)
	if w.places[path] == nil {
		w.places[path] = map[string]int{}
	}
	places := w.places[path]
	if places[s.Checkpoint] == 0 {
		places[s.Checkpoint] = len(places) + 1
	}
	parent := "-"
	if s.Parent != "" || w.exit {
		parent = "?"
		if at := places[s.Parent]; at > 0 && !w.exit {
			parent = strconv.Itoa(at)
		}
	}
	state, err := stateText(s.Values)
	if err != nil {
		return err
	}
	due, tasks := "-", []string{}
	if len(s.Next) > 0 {
		due = strings.Join(sorted(s.Next), ",")
	}
	for _, task := range s.Tasks {
		line, err := standing(&task)
		if err != nil {
			return err
		}
		if line != "" {
			tasks = append(tasks, line)
		}
	}
	line := fmt.Sprintf("#%d of %s: %d %s %s %s", places[s.Checkpoint], parent, s.Step, s.Source, due, state)
	g.Checkpoints = append(g.Checkpoints, strings.Join(append([]string{line}, sorted(tasks)...), " "))
	return nil
}

// standing is how a task stands in a checkpoint that a run goes on from.
func standing(t *pawl.TaskState) (string, error) {
	switch {
	case t.State == "failed":
		return "! " + t.Node + cause(t.Error), nil
	case len(t.Questions) > 0:
		line := []string{}
		for _, q := range t.Questions {
			line = append(line, textOf(q.Body, q.Name))
		}
		return strings.Join(append([]string{"?", t.Node}, sorted(line)...), " "), nil
	case t.State == "done":
		return "< " + t.Node + " " + wrote(t.Writes), nil
	}
	return "", nil
}

// wrote is what a task wrote, as streams show it.
func wrote(writes []pawl.Written) string {
	if len(writes) == 0 {
		return "null"
	}
	out := map[string]any{}
	for _, w := range writes {
		out[w.Channel] = w.Value
		if w.Replace {
			out[w.Channel] = map[string]any{"__overwrite__": w.Value}
		}
	}
	return text(out)
}

func (g *watched) start(s stream.Start) error {
	if last := g.tasks[len(g.tasks)-1]; slices.ContainsFunc(last, func(t told) bool { return t.kind != ">" }) {
		g.step()
	}
	read := stateText
	if bytes.HasPrefix(s.Input, []byte(`"`)) { // a worker's payload
		read = compact
	}
	given, err := read(s.Input)
	g.tell(s, told{">", s.ID, s.Node, s.Node + " " + given})
	return err
}

func (g *watched) end(e stream.End) error {
	line, err := compact(e.Result)
	kind := "<"
	switch {
	case e.Error != "":
		kind, line, err = "!", cause(e.Error), nil
	case len(e.Interrupts) > 0:
		kind, line, err = "?", questions(e.Interrupts), nil
	}
	g.tell(e, told{kind, e.ID, e.Node, e.Node + " " + strings.TrimSpace(line)})
	if g.again = e.Cached; g.again { // LangGraph does not show how a task ended whose result is reused
		last := &g.tasks[len(g.tasks)-1]
		*last = (*last)[:len(*last)-1]
	}
	return err
}

func (g *watched) tell(data any, t told) {
	t.line = t.kind + " " + t.line
	last := &g.tasks[len(g.tasks)-1]
	*last = append(*last, t)
	g.last, g.again = data, false
}

func (g *watched) message(step int, m stream.Message) {
	line := fmt.Sprintf("%d %s %s: ", step, m.Node, m.ID)
	if m.Token != nil {
		line += "+" + m.Token.Text
	} else {
		var whole Message
		_ = json.Unmarshal(m.Whole, &whole) // another form has no text
		line += "=" + whole.Text
	}
	at := &g.Messages[len(g.Messages)-1]
	*at = append(*at, line)
}

// teller is who told a line, or the message that it is of.
func teller(line string) string {
	who, _, _ := strings.Cut(line, ": ")
	return who
}

// detail checks that debug shows what tasks and checkpoints showed.
func (g *watched) detail(d stream.Detail) error {
	if text(d.Payload) != text(g.last) {
		return fmt.Errorf("conformance: debug shows %s, after %s", text(d.Payload), text(g.last))
	}
	if line := fmt.Sprintf("%d %s", d.Step, d.Type); !g.again && !slices.Contains(g.Debug[max(0, len(g.Debug)-2):], line) {
		g.Debug = append(g.Debug, line)
	}
	return nil
}

func (g *watched) shown() Graph {
	for _, lines := range []*[][]string{&g.Updates, &g.Custom, &g.Messages} {
		*lines = slices.DeleteFunc(*lines, func(step []string) bool { return len(step) == 0 })
	}
	for _, step := range g.Updates {
		slices.Sort(step)
	}
	for _, step := range slices.Concat(g.Custom, g.Messages) { // of one task the order counts
		slices.SortStableFunc(step, func(a, b string) int { return strings.Compare(teller(a), teller(b)) })
	}
	g.Tasks = [][]string{}
	for _, step := range g.tasks {
		if len(step) > 0 {
			g.Tasks = append(g.Tasks, lines(step))
		}
	}
	return g.Graph
}

// lines leaves open which of several tasks that fail in one super-step, and of the siblings that they stop, came how far.
func lines(step []told) []string {
	over, others, failed := map[string]bool{}, map[string]string{}, false
	for _, t := range step {
		over[t.id] = over[t.id] || t.kind == "<" || t.kind == "?"
		failed = failed || t.kind == "!"
	}
	for _, t := range step {
		if failed && !over[t.id] {
			others[t.id] = t.node
		}
	}
	out := []string{}
	for _, t := range step {
		if t.kind != "!" || len(others) < 2 {
			out = append(out, t.line)
		}
	}
	if len(others) > 1 {
		names := []string{}
		for _, name := range others {
			names = append(names, name)
		}
		out = append(out, "! "+strings.Join(sorted(names), " "))
	}
	return sorted(out)
}

// questions are what is asked, sorted.
func questions(asked []stream.Interrupt) string {
	out := make([]string, len(asked))
	for i, q := range asked {
		out[i] = textOf(q.Value, q.Name)
	}
	return strings.Join(sorted(out), " ")
}

// textOf is a text in JSON, or what stands for another value.
func textOf(doc []byte, other string) (text string) {
	if json.Unmarshal(doc, &text) != nil {
		return other
	}
	return text
}

// cause is what the node said that failed: the engine's words are around it.
func cause(failure string) string { return failure[strings.LastIndex(failure, ": ")+1:] }
