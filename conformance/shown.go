package conformance

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
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
	Graph       string     `json:"graph"`       // names of the nodes on the way to the child; empty: the thread's own
	Values      []string   `json:"values"`      // states, and what a pause asks
	Updates     [][]string `json:"updates"`     // by super-step, sorted: what each task wrote, and questions
	Checkpoints []string   `json:"checkpoints"` // place, place of the parent, step, source, what is due, state; how tasks stand that began
	Tasks       [][]string `json:"tasks"`       // by super-step, sorted: that a task begins (>), ends (<), fails (!) or asks (?)
	Debug       []string   `json:"debug"`       // what debug adds to them: steps and types

	Custom   [][]string `json:"custom,omitempty"`   // by super-step and task, in the order of telling
	Messages [][]string `json:"messages,omitempty"` // the same: step, node, id, and a token (+) or the whole (=)
}

func text(v any) string {
	doc, err := json.Marshal(v)
	if err == nil {
		doc, err = ordered(doc)
	}
	if err != nil {
		panic(err) // it is made of texts
	}
	return string(doc)
}

// compact is a document with its keys in order.
func compact(doc []byte) (string, error) {
	out, err := ordered(doc)
	return string(out), err
}

func ordered(doc []byte) ([]byte, error) {
	var v any
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// stateText is a state as one line.
func stateText(doc []byte) (string, error) {
	values, err := valuesOf(doc)
	return text(values), err
}

var shownModes = stream.View{Children: true, Modes: []stream.Mode{
	stream.Values, stream.Updates, stream.Checkpoints, stream.Tasks, stream.Debug, stream.Lifecycle, stream.Custom, stream.Messages,
}}

// streaming does an act and keeps what its stream shows.
func (r *runner) streaming(ctx context.Context, a *Act) (done bool, err error) {
	w := &watcher{graphs: map[string]*watched{}, places: r.places, exit: r.s.Mode == "exit"}
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
	if failed := (*pawl.RunError)(nil); errors.As(err, &failed) && failed.Cause == pawl.CauseLimit {
		w.left()
	}
	r.shown = append(r.shown, w.shown())
	return done, err
}

// shown is what was seen, in an order of its own: children side by side have none.
func (w *watcher) shown() Shown {
	out := Shown{}
	for _, g := range w.graphs {
		if s := g.shown(); len(s.Values)+len(s.Updates)+len(s.Checkpoints)+len(s.Tasks)+len(s.Custom)+len(s.Messages) > 0 {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b Graph) int {
		return cmp.Or(strings.Compare(a.Graph, b.Graph), strings.Compare(text(a), text(b)))
	})
	return out
}
