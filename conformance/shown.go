package conformance

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/stream"
)

// Shown is what a client sees that streams one act, graph by graph: the thread's own, and those of its children.
type Shown []Graph

// Graph is what the stream modes show of one run of a graph, without what no two runs have in common: ids, times, and the
// order of what ends in one super-step.
type Graph struct {
	Graph   string     `json:"graph"`   // names of the nodes on the way to the child; empty: the thread's own
	Values  []string   `json:"values"`  // states, and what a pause asks
	Updates [][]string `json:"updates"` // by super-step, sorted: what each task wrote, and questions
}

// watcher makes a Shown of the chunks of an act.
type watcher struct{ graphs map[string]*Graph }

var ids = regexp.MustCompile(`:[^|]*`)

func (w *watcher) graph(path string) *Graph {
	if w.graphs[path] == nil {
		w.graphs[path] = &Graph{Graph: ids.ReplaceAllString(path, ""), Values: []string{}, Updates: [][]string{nil}}
	}
	return w.graphs[path]
}

func (w *watcher) take(c stream.Chunk) error {
	g := w.graph(c.Path)
	switch data := c.Data.(type) {
	case stream.State:
		return g.state(data)
	case *pawl.Snapshot:
		if last := len(g.Updates) - 1; len(g.Updates[last]) > 0 {
			g.Updates = append(g.Updates, nil)
		}
	case stream.Update:
		last := &g.Updates[len(g.Updates)-1]
		for _, asked := range data.Interrupts {
			*last = append(*last, "? "+textOf(asked))
		}
		if len(data.Interrupts) == 0 {
			wrote, err := compact(data.Writes)
			if err != nil {
				return err
			}
			*last = append(*last, data.Node+" "+wrote)
		}
	}
	return nil
}

func (g *Graph) state(s stream.State) error {
	if len(s.Interrupts) > 0 {
		asks := make([]string, len(s.Interrupts))
		for i, asked := range s.Interrupts {
			asks[i] = "? " + textOf(asked)
		}
		slices.Sort(asks)
		g.Values = append(g.Values, strings.Join(asks, " "))
		return nil
	}
	values, err := valuesOf(s.Values)
	if err != nil {
		return err
	}
	doc, err := json.Marshal(values)
	if err != nil {
		return err
	}
	line, err := compact(doc)
	g.Values = append(g.Values, line)
	return err
}

// shown is what was seen, in an order of its own: children side by side have none.
func (w *watcher) shown() Shown {
	out := Shown{}
	for _, path := range slices.Sorted(maps.Keys(w.graphs)) {
		g := w.graphs[path]
		g.Updates = slices.DeleteFunc(g.Updates, func(step []string) bool { return len(step) == 0 })
		for _, step := range g.Updates {
			slices.Sort(step)
		}
		if len(g.Values)+len(g.Updates) > 0 {
			out = append(out, *g)
		}
	}
	slices.SortFunc(out, func(a, b Graph) int { return cmp.Compare(text(a), text(b)) })
	return out
}

func text(v any) string {
	doc, err := json.Marshal(v)
	if err != nil {
		panic(err) // it is made of texts
	}
	return string(doc)
}

func textOf(asked stream.Interrupt) (text string) {
	if json.Unmarshal(asked.Value, &text) != nil {
		return asked.Name
	}
	return text
}

// compact is a document with its keys in order.
func compact(doc []byte) (string, error) {
	var v any
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return "", err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSpace(b.String()), err
}

var shownModes = stream.View{Modes: []stream.Mode{stream.Values, stream.Updates, stream.Checkpoints}, Children: true}

// streaming does an act and keeps what its stream shows.
func (r *runner) streaming(ctx context.Context, a *Act) (done bool, err error) {
	w := &watcher{graphs: map[string]*Graph{}}
	events := pawl.Stream(ctx, func(ctx context.Context, tell pawl.RunOption) (failed error) {
		r.tell = tell
		done, failed = r.do(ctx, a)
		err = failed
		return nil
	})
	for c, unread := range shownModes.Of(ctx, events) {
		if unread == nil {
			unread = w.take(c)
		}
		if unread != nil {
			return false, unread
		}
	}
	r.shown = append(r.shown, w.shown())
	return done, err
}
