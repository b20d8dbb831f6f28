// Package stream shows what happens in a thread the way LangGraph's stream modes do: whole states, what each task wrote,
// messages, what nodes say, checkpoints and tasks, of children too.
//
//	v := stream.View{Modes: []stream.Mode{stream.Values, stream.Updates}, Children: true}
//	for c, err := range v.Of(ctx, th.Stream(ctx, in)) { ... }       // runs it
//	for c, err := range v.Watch(ctx, th.Thread, cursor) { ... }     // only looks, from where it was left
//
// A View is a projection of the thread's facts and changes none. What is stored has a [Cursor]: Watch goes on behind it
// with what follows, in whatever process, nothing left out and nothing twice. What has none (tokens, custom events, starts
// of steps, and what an Async or Exit run has not stored yet) is provisional.
package stream

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
)

// Mode says what is shown.
type Mode string

// The modes. The data of a Chunk is of the type that each names.
const (
	Values      Mode = "values"      // State: after each super-step that wrote something, at a resume (of children too), and with what a pause asks
	Updates     Mode = "updates"     // Update: what each task wrote, and each question
	Messages    Mode = "messages"    // Message: tokens, and messages that tasks wrote, once an id
	Custom      Mode = "custom"      // Said: what nodes say with pawl.Emit
	Checkpoints Mode = "checkpoints" // *pawl.Snapshot, as made; at a resume the one that it goes on from
	Tasks       Mode = "tasks"       // Start and End, of tasks and of steps
	Debug       Mode = "debug"       // Detail: Checkpoints and Tasks in one
	Input       Mode = "input"       // Interrupt: each question when it is asked, and when its state changed
	Lifecycle   Mode = "lifecycle"   // Life: runs that begin, go on and stop
)

// View says what to show of a thread.
type View struct {
	Modes    []Mode
	Children bool   // also what happens in children
	Channel  string // the one that holds messages; empty: "messages"
}

// Chunk is one thing that is shown.
type Chunk struct {
	Mode    Mode      `json:"mode"`
	Path    string    `json:"path,omitempty"`  // of the child that it is of, "child:<task>|inner:<task>"; empty: the thread itself
	Cursor  Cursor    `json:"cursor,omitzero"` // Watch goes on behind it; zero: it is provisional
	Step    int       `json:"step"`            // of the checkpoint, or that the task leads to
	Run     string    `json:"run,omitempty"`
	Attempt string    `json:"attempt,omitempty"`
	At      time.Time `json:"at,omitzero"`
	Data    any       `json:"data"`
}

// Namespace is the path, a level at a time.
func (c Chunk) Namespace() []string {
	if c.Path == "" {
		return nil
	}
	return strings.Split(c.Path, "|")
}

// Cursor is a place in what a thread stores: a fact, and how much of what it shows.
type Cursor struct {
	Seq  int64 // of the fact
	Part int   // the part of it that was shown, from 1
}

// String writes "seq.part".
func (c Cursor) String() string { return strconv.FormatInt(c.Seq, 10) + "." + strconv.Itoa(c.Part) }

// MarshalText is String.
func (c Cursor) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads what String writes; an empty text is the beginning.
func (c *Cursor) UnmarshalText(text []byte) (err error) {
	*c = Cursor{}
	if len(text) == 0 {
		return nil
	}
	seq, part, _ := strings.Cut(string(text), ".")
	if c.Seq, err = strconv.ParseInt(seq, 10, 64); err == nil {
		c.Part, err = strconv.Atoi(part)
	}
	if err != nil || c.Seq < 0 || c.Part < 0 {
		return fmt.Errorf("stream: %q is no cursor: it has the form seq.part", text)
	}
	return nil
}

// Of shows events as they come: of a Stream, or of any other run.
func (v View) Of(ctx context.Context, events iter.Seq2[pawl.Event, error]) iter.Seq2[Chunk, error] {
	return v.show(ctx, events, Cursor{})
}

// Watch shows what the thread stored behind a cursor, and goes on as [pawl.Thread.Watch] does.
func (v View) Watch(ctx context.Context, th *pawl.Thread, after Cursor) iter.Seq2[Chunk, error] {
	from := max(after.Seq-1, 0)
	if slices.Contains(v.Modes, Messages) {
		from = 0 // which messages were there before is in what came before
	}
	return v.show(ctx, th.Watch(ctx, from), after)
}

func (v View) show(ctx context.Context, events iter.Seq2[pawl.Event, error], after Cursor) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		p := projection{view: v, ctx: ctx, told: map[string]*telling{}, began: map[string]bool{}}
		if p.channel = v.Channel; p.channel == "" {
			p.channel = "messages"
		}
		for e, err := range events {
			if err == nil {
				p.out = p.out[:0]
				err = p.take(e)
			}
			if err != nil {
				yield(Chunk{}, err)
				return
			}
			for _, c := range p.out {
				if e.Seq > 0 && (e.Seq < after.Seq || e.Seq == after.Seq && c.Cursor.Part <= after.Part) {
					continue // seen before
				}
				if !yield(c, nil) {
					return
				}
			}
		}
	}
}
