package pawl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

// journal is a second core.Host, as a workflow engine would be one: an ordered list of events, kept as text. It has no
// tables, no leases and no durability modes; where a run stands is what replaying the events gives, and nothing else.
type journal struct {
	mu    sync.Mutex
	lines [][]byte
	room  int   // entries that it still takes before its process dies; negative: any number
	cpN   int64 // checkpoints numbered so far
}

var (
	_          core.Host = (*journal)(nil)
	errNoLife            = errors.New("the process of this journal is dead")
	journalDay           = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

// event is one entry. One of its groups is set.
type event struct {
	Accept *core.Run          `json:",omitempty"`
	Start  []*core.Checkpoint `json:",omitempty"`

	Ended []core.Ended     `json:",omitempty"`
	Next  *core.Checkpoint `json:",omitempty"`
	Stop  *core.Stop       `json:",omitempty"`

	Step *core.Step `json:",omitempty"`

	Ask      *core.Question `json:",omitempty"`
	Replaced string         `json:",omitempty"`

	Question string             `json:",omitempty"` // settled or answered
	State    core.QuestionState `json:",omitempty"`
	Answer   json.RawMessage    `json:",omitempty"`

	Again string `json:",omitempty"` // node whose result is discarded
}

func (j *journal) append(e event) (int64, error) {
	doc, err := json.Marshal(e)
	if err != nil {
		return 0, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.room == 0 {
		return 0, errNoLife
	}
	j.room--
	j.lines = append(j.lines, doc)
	return int64(len(j.lines)), nil
}

func (j *journal) Own(context.Context) (*core.Position, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := &core.Position{}
	j.cpN = 0
	for i, line := range j.lines {
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("entry %d: %w", i, err)
		}
		j.cpN = max(j.cpN, e.replay(p, int64(i+1)))
	}
	return p, nil
}

// replay moves a position on by one event, and returns the highest number of a checkpoint that it names.
func (e *event) replay(p *core.Position, seq int64) int64 {
	head := func(cp *core.Checkpoint) {
		p.Head, p.Ended = cp, nil
		p.Steps, p.Questions = map[string][]core.Step{}, map[string][]core.Question{}
	}
	if e.Accept != nil {
		p.Run = e.Accept
		head(e.Start[len(e.Start)-1])
		return p.Head.N
	}
	for _, n := range e.Ended {
		n.Seq = seq
		p.Ended = append(p.Ended, n)
	}
	switch {
	case e.Next != nil:
		head(e.Next)
	case e.Step != nil:
		e.Step.Seq = seq
		p.Steps[e.Step.Task] = append(p.Steps[e.Step.Task], *e.Step)
	case e.Ask != nil:
		settle(p, e.Replaced, func(q *core.Question) { q.State = core.QuestionSuperseded })
		e.Ask.AskedSeq, e.Ask.Seq, e.Ask.Rev = seq, seq, 1
		p.Questions[e.Ask.Task] = append(p.Questions[e.Ask.Task], *e.Ask)
	case e.Question != "":
		settle(p, e.Question, func(q *core.Question) { q.State, q.Answer, q.Seq = e.State, e.Answer, seq; q.Rev++ })
	case e.Again != "":
		p.Ended = slices.DeleteFunc(p.Ended, func(n core.Ended) bool { return n.Result.Task.Node == e.Again })
	}
	if s := e.Stop; s != nil {
		p.Run.Status, p.Run.Cause, p.Run.Error, p.Run.ErrorNode = s.Status, s.Cause, s.Error, s.ErrorNode
		for _, q := range s.Withdraw {
			settle(p, q.ID, func(q *core.Question) { q.State = core.QuestionWithdrawn })
		}
	}
	return p.Head.N
}

func settle(p *core.Position, id string, change func(*core.Question)) {
	for _, qs := range p.Questions {
		for i := range qs {
			if qs[i].ID == id {
				change(&qs[i])
			}
		}
	}
}

func (j *journal) Accept(_ context.Context, run *core.Run, start []*core.Checkpoint) error {
	_, err := j.append(event{Accept: run, Start: start})
	return err
}

func (j *journal) Commit(_ context.Context, c core.Commit) error {
	_, err := j.append(event{Ended: c.Ended, Next: c.Next, Stop: c.Stop})
	return err
}

func (j *journal) Record(_ context.Context, s *core.Step) (err error) {
	s.At = journalDay
	s.Seq, err = j.append(event{Step: s})
	return err
}

func (j *journal) Ask(_ context.Context, q, replaced *core.Question) error {
	e := event{Ask: q}
	if replaced != nil {
		e.Replaced = replaced.ID
	}
	seq, err := j.append(e)
	if err != nil {
		return err
	}
	q.Seq, q.AskedSeq, q.Rev = seq, seq, 1
	if replaced != nil {
		replaced.State = core.QuestionSuperseded
	}
	return nil
}

func (j *journal) Settle(_ context.Context, q *core.Question, to core.QuestionState) (bool, error) {
	_, err := j.append(event{Question: q.ID, State: to, Answer: q.Answer})
	if err == nil {
		q.State = to
	}
	return err == nil, err
}

// Fresh gives the numbers of a life that died out again: nothing can hang from a checkpoint that was never journaled.
func (j *journal) Fresh() (int64, string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.cpN++
	return j.cpN, fmt.Sprint("cp-", j.cpN)
}

func (j *journal) Now() time.Time { return journalDay }
