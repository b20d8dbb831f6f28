package stream

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"github.com/pawl-dev/pawl"
)

// projection turns events into chunks. The parts of an event are counted whether they are asked for or not, so that a
// cursor means the same in every view.
type projection struct {
	view    View
	ctx     context.Context
	channel string
	event   pawl.Event
	parts   int
	out     []Chunk
	told    map[string]*telling // messages, by id
	began   map[string]bool     // by path: a task ended since the last checkpoint
}

// show adds a part of the event, if it is asked for.
func (p *projection) show(mode Mode, data any) {
	p.parts++
	if !slices.Contains(p.view.Modes, mode) || p.event.Path != "" && !p.view.Children {
		return
	}
	c := Chunk{
		Mode: mode, Path: p.event.Path, Step: p.event.Step, Run: p.event.Run, Attempt: p.event.Attempt, At: p.event.At, Data: data,
	}
	if p.event.Seq > 0 {
		c.Cursor = Cursor{p.event.Seq, p.parts}
	}
	p.out = append(p.out, c)
}

func (p *projection) take(e pawl.Event) error {
	p.event, p.parts = e, 0
	switch e.Kind {
	case pawl.EventAccepted:
		p.show(Lifecycle, Life{Event: "running"})
	case pawl.EventResumed:
		p.show(Lifecycle, Life{Event: "resumed"})
		return p.checkpoint(true)
	case pawl.EventCheckpoint:
		return p.checkpoint(e.Source != "input" && !e.Quiet)
	case pawl.EventTaskEnd:
		return p.ended()
	case pawl.EventStepStart, pawl.EventStep:
		p.step()
	case pawl.EventQuestion, pawl.EventAnswer:
		asked := Interrupt{ID: e.Question, Name: e.Name, Node: e.Node, Value: e.Data, State: e.State}
		if e.Kind == pawl.EventQuestion {
			p.show(Updates, Update{Node: e.Node, Task: e.Task, Interrupts: []Interrupt{asked}})
		}
		p.show(Input, asked)
	case pawl.EventCustom:
		p.said()
	case pawl.EventLost:
		p.lost(e.Count)
	case pawl.EventFinished:
		return p.finished()
	}
	return nil
}

// checkpoint shows a checkpoint: the state where it is news, and the tasks that are due.
func (p *projection) checkpoint(news bool) error {
	s, err := p.snapshot(Values, Checkpoints, Tasks, Debug, Messages)
	if err != nil || s == nil {
		return err
	}
	p.known(s)
	p.stands(s, news)
	return nil
}

// stands shows how a graph stands, and at a resume how the children do that it goes on with.
func (p *projection) stands(s *pawl.Snapshot, news bool) {
	if p.event.Step = s.Step; news {
		p.show(Values, State{Values: s.Values})
	}
	if !s.At.IsZero() { // a child that keeps nothing, and a run without storage, make none
		p.show(Checkpoints, s)
		p.show(Debug, Detail{Step: s.Step, At: p.event.At, Type: "checkpoint", Payload: s})
	}
	p.event.Step = s.Step + 1
	for _, task := range s.Tasks {
		if task.Node == pawl.Start || task.State == "done" {
			continue
		}
		start := Start{ID: task.ID, Node: task.Node, Input: s.Values}
		if len(task.Arg) > 0 {
			start.Input = task.Arg
		}
		p.show(Tasks, start)
		p.show(Debug, Detail{Step: s.Step + 1, At: p.event.At, Type: "task", Payload: start})
	}
	if p.event.Kind == pawl.EventResumed {
		p.children(s, func(c *pawl.Snapshot) { p.stands(c, news) })
	}
}

// children goes through the children of tasks that are not done.
func (p *projection) children(s *pawl.Snapshot, each func(*pawl.Snapshot)) {
	path := p.event.Path
	for _, task := range s.Tasks {
		for _, c := range task.Children {
			if task.State != "done" && len(c.Next) > 0 {
				p.event.Path = string(c.Path)
				each(c)
			}
		}
	}
	p.event.Path = path
}

// waits shows the tasks that wait, those of children first.
func (p *projection) waits(s *pawl.Snapshot) {
	p.children(s, p.waits)
	p.event.Step = s.Step + 1
	for _, task := range s.Tasks {
		if len(task.Questions) > 0 {
			end := End{ID: task.ID, Node: task.Node, Interrupts: interrupts(task.Questions)}
			p.show(Tasks, end)
			p.show(Debug, Detail{Step: s.Step + 1, At: p.event.At, Type: "task_result", Payload: end})
		}
	}
}

// snapshot reads what the event is about, if a mode needs it.
func (p *projection) snapshot(modes ...Mode) (*pawl.Snapshot, error) {
	if p.event.Path != "" && !p.view.Children && !slices.Contains(p.view.Modes, Messages) {
		return nil, nil
	}
	if !slices.ContainsFunc(modes, func(m Mode) bool { return slices.Contains(p.view.Modes, m) }) {
		return nil, nil
	}
	return p.event.Snapshot(p.ctx)
}

// step shows a step as a task of its own under the one that called it. One that is read from the journal was shown before,
// and a failure that was handed over is no step of the node.
func (p *projection) step() {
	e := p.event
	if e.Replayed || e.Name == pawl.StepHandedOver {
		return
	}
	kind, data := "task_result", any(End{ID: e.Address, Node: e.Name, In: e.Task, Key: e.Key})
	if e.Kind == pawl.EventStepStart {
		kind, data = "task", Start{ID: e.Address, Node: e.Name, In: e.Task, Key: e.Key}
	}
	p.show(Tasks, data)
	p.show(Debug, Detail{Step: e.Step, At: e.At, Type: kind, Payload: data})
}

func (p *projection) ended() error {
	e := p.event
	if e.Node == pawl.Start {
		return nil
	}
	p.began[e.Path] = true
	end := End{ID: e.Task, Node: e.Node, Error: e.Error, Cached: e.Cached}
	if e.Error == "" {
		for _, w := range e.Writes {
			if w.Channel == p.channel {
				p.messages(w.Value)
			}
		}
		end.Result = object(e.Writes)
		p.show(Updates, Update{Node: e.Node, Task: e.Task, Writes: end.Result, Again: e.Replayed, Cached: e.Cached})
	}
	p.show(Tasks, end)
	p.show(Debug, Detail{Step: e.Step, At: e.At, Type: "task_result", Payload: end})
	return nil
}

// finished shows how a run stopped. Where something is asked, also beside a failure, that is the state with what is asked,
// and the tasks that wait.
func (p *projection) finished() error {
	life := Life{Event: p.event.State, Node: p.event.Node, Error: p.event.Error}
	switch pawl.Status(p.event.State) {
	case pawl.Done:
		life.Event = "completed"
	case pawl.Waiting:
		life = Life{Event: "interrupted"}
	}
	if life.Event == "interrupted" || life.Event == string(pawl.Failed) {
		s, err := p.snapshot(Values, Tasks, Debug, Lifecycle)
		if err != nil {
			return err
		}
		if s != nil {
			p.asks(s)
		}
	}
	p.show(Lifecycle, life)
	return nil
}

func (p *projection) asks(s *pawl.Snapshot) {
	var all []Interrupt
	for _, task := range s.Tasks {
		all = append(all, interrupts(task.Questions)...)
	}
	if p.event.Step = s.Step; len(all) > 0 { // at a breakpoint the state is no news
		p.show(Values, State{Values: s.Values, Interrupts: all})
	}
	p.waits(s)
}

// object is what a task wrote, as one JSON object; null: nothing.
func object(writes []pawl.Written) json.RawMessage {
	if len(writes) == 0 {
		return json.RawMessage("null")
	}
	var b bytes.Buffer
	for i, w := range writes {
		b.WriteByte("{,"[min(i, 1)])
		name, _ := json.Marshal(w.Channel) // every text has a form
		b.Write(name)
		b.WriteByte(':')
		switch {
		case w.Clear:
			b.WriteString("null")
		case w.Replace:
			b.WriteString(`{"__overwrite__":`)
			b.Write(w.Value)
			b.WriteByte('}')
		default:
			b.Write(w.Value)
		}
	}
	b.WriteByte('}')
	return b.Bytes()
}
