package pawl

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/local"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
)

// Snapshot is the readable form of a checkpoint.
type Snapshot struct {
	Checkpoint string          `json:"checkpoint"`
	Parent     string          `json:"parent,omitempty"`
	Step       int             `json:"step"`
	Source     string          `json:"source"` // input, loop, edit, fork, migrate, force
	Run        string          `json:"run"`
	Attempt    string          `json:"attempt"`
	Seq        int64           `json:"seq"`
	At         time.Time       `json:"at"`
	Values     json.RawMessage `json:"values"`
	Next       []string        `json:"next"` // nodes that are due; at the head without those that ended
	Tasks      []TaskState     `json:"tasks,omitempty"`
	Path       Path            `json:"path,omitempty"`    // of the child that it is of; empty: of the thread itself
	Child      string          `json:"child,omitempty"`   // its name
	Key        string          `json:"key,omitempty"`     // of the call
	Parents    map[Path]string `json:"parents,omitempty"` // ids of the checkpoints around it, by path
}

// TaskState is how one task of the super-step after a checkpoint stands.
type TaskState struct {
	ID     string    `json:"id"`
	Node   string    `json:"node"`
	Kind   string    `json:"kind"` // node, worker, or without a function that would run again: ask, child
	Path   string    `json:"path"`
	State  string    `json:"state"` // due, done, failed, waiting
	Error  string    `json:"error,omitempty"`
	Tries  int       `json:"tries,omitempty"`
	Writes []Written `json:"writes,omitempty"` // of a task that is done; [Start] writes the input
	Cached bool      `json:"cached,omitempty"` // its result is of an earlier task like it; the node was not entered
	Steps  []string  `json:"steps,omitempty"`  // names of recorded steps
	// Arg is a worker's payload, in the snapshots of events.
	Arg       json.RawMessage `json:"arg,omitempty"`
	Questions []Question      `json:"questions,omitempty"`
	// Children are the runs of children that the task began, as they stand. In a History they are left out: read the
	// snapshot, or the history of the path.
	Children []*Snapshot `json:"children,omitempty"`
}

// read is the door of everything that only looks.
func (t *Thread) read(ctx context.Context, f func(storage.Tx, *local.Seen) error) error {
	if err := t.eng.allowed(ctx, VerbInfo{Verb: VerbRead, Graph: t.graph, Thread: t.id}); err != nil {
		return err
	}
	if t.eng.store == nil {
		return &NoStorageError{Graph: t.graph, Question: string(VerbRead)}
	}
	return t.eng.store.View(ctx, func(tx storage.Tx) error {
		seen, err := t.eng.store.PeekTx(tx, t.eng.tenant, t.id)
		if err == nil && seen.Info != nil {
			err = t.ofGraph(seen.Info.Graph)
		}
		if err != nil {
			return err
		}
		return f(tx, seen)
	})
}

// Page is a part of a history.
type Page struct {
	Before  string // id of the checkpoint to go on from, exclusive; empty: the head
	Limit   int    // 0: 100
	Attempt string // an attempt that a retry set aside; empty: all that is not set aside
	In      Path   // of a child; empty: the thread itself
}

// History reads a thread's checkpoints, the newest first, all branches. Attempts that a retry set aside are read by
// name only.
func (t *Thread) History(ctx context.Context, page Page) ([]*Snapshot, error) {
	var out []*Snapshot
	err := t.read(ctx, func(tx storage.Tx, seen *local.Seen) error {
		out = nil
		if seen.Info == nil {
			return nil
		}
		r := records.NewReader(t.eng.store.Box, tx, seen.Info)
		before := int64(0)
		if page.Before != "" {
			n, ok := local.NumberOf(page.Before)
			if !ok {
				return &NotFoundError{What: "checkpoint", ID: page.Before, Thread: t.id}
			}
			before = n
		}
		limit := page.Limit
		if limit <= 0 {
			limit = 100
		}
		read, err := t.pages(r, page.In)
		if err != nil {
			return err
		}
		for len(out) < limit {
			stored, err := read(before, limit)
			if err != nil {
				return err
			}
			for _, s := range stored {
				before = s.Checkpoint.N
				run, err := r.Run(s.Checkpoint.Run)
				if err != nil {
					return err
				}
				if page.Attempt == "" && run.Aside || page.Attempt != "" && run.Attempt != page.Attempt || len(out) == limit {
					continue
				}
				snap, err := t.snapshot(r, seen, s)
				if err != nil {
					return err
				}
				out = append(out, snap)
			}
			if len(stored) < limit {
				return nil
			}
		}
		return nil
	})
	return out, err
}

// Snapshot reads one checkpoint by id, also one of a child, with the children that its tasks began.
func (t *Thread) Snapshot(ctx context.Context, checkpoint string) (*Snapshot, error) {
	var out *Snapshot
	err := t.read(ctx, func(tx storage.Tx, seen *local.Seen) error {
		if seen.Info == nil {
			return &NotFoundError{What: "thread", ID: t.id}
		}
		r := records.NewReader(t.eng.store.Box, tx, seen.Info)
		s, err := t.find(r, seen, Checkpoint(checkpoint))
		if err == nil {
			out, err = t.family(r, seen, s)
		}
		return err
	})
	return out, err
}

// bareOf reads a checkpoint as it stood when it was made.
func (t *Thread) bareOf(r *records.Reader, s *records.Stored, show shown) (*Snapshot, error) {
	cp := s.Checkpoint
	topology, err := r.Topology(cp)
	if err != nil {
		return nil, err
	}
	if err := r.Fill(s, topology, nil); err != nil {
		return nil, err
	}
	run, err := r.Run(cp.Run)
	if err != nil {
		return nil, err
	}
	before := ""
	if cp.Parent > 0 {
		read := r.Checkpoint
		if cp.Frame != nil {
			read = r.Nested
		}
		parent, err := read(cp.Parent)
		if err != nil {
			return nil, err
		}
		if parent != nil {
			before = parent.Checkpoint.ID
		}
	}
	out, err := bare(t.identity(), cp, run, topology, before, show)
	if err != nil {
		return nil, err
	}
	out.Seq = cp.Seq
	return out, out.nestedIn(r, cp)
}

func (t *Thread) snapshot(r *records.Reader, seen *local.Seen, s *records.Stored) (*Snapshot, error) {
	cp := s.Checkpoint
	out, err := t.bareOf(r, s, core.Object)
	if err != nil {
		return nil, err
	}
	var hanging core.Position
	if err := r.Hanging(cp.N, &hanging); err != nil {
		return nil, err
	}
	leads, err := leading(r, seen, cp)
	if err != nil {
		return nil, err
	}
	topology, err := r.Topology(cp)
	if err != nil {
		return nil, err
	}
	blocked, due := t.blockedAt(cp, &hanging), out.Tasks
	came, over, err := r.Came(s)
	if err != nil {
		return nil, err
	}
	hanging.Ended = append(hanging.Ended, came...)
	out.Next, out.Tasks = []string{}, nil
	for i, task := range core.Plan(cp, t.identity(), string(out.Path)) {
		state := taskState(task, &hanging, topology, blocked[task.ID])
		if over {
			state.State, state.Error = "done", ""
		}
		if state.Kind = due[i].Kind; state.State != "done" || !leads {
			out.Next = append(out.Next, task.Node)
		}
		out.Tasks = append(out.Tasks, state)
	}
	return out, nil
}

func taskState(task core.Task, p *core.Position, topology *core.Topology, blocked bool) TaskState {
	s := TaskState{ID: task.ID, Node: task.Node, Path: task.Path(), State: "due"}
	for i := range p.Steps[task.ID] {
		s.Steps = append(s.Steps, p.Steps[task.ID][i].Name)
	}
	s.Questions = questionsOf(p.Questions[task.ID])
	for _, asked := range p.Questions { // of children that keep no checkpoints
		for i := range asked {
			if d := depthOf(p.Frame); len(asked[i].Under) > d && asked[i].Under[d].Task == task.ID {
				s.Questions = append(s.Questions, questionOf(&asked[i]))
			}
		}
	}
	if blocked {
		s.State = "waiting"
	}
	for i := range p.Ended {
		if e := &p.Ended[i]; e.Result.Task.ID == task.ID {
			s.State, s.Error, s.Tries, s.Cached = "done", e.Error, e.Tries, e.Result.Cached
			if s.Writes = writtenOf(topology, e.Result.Writes); e.Failed {
				s.State = "failed"
			}
		}
	}
	return s
}

// open reads the thread's open questions.
func (t *Thread) open(ctx context.Context) ([]Question, error) {
	if t.eng.store == nil {
		return nil, &NoStorageError{Graph: t.graph, Question: string(VerbAnswer)}
	}
	var out []Question
	err := t.eng.store.View(ctx, func(tx storage.Tx) error {
		info, err := t.eng.store.Box.FindThread(tx, t.eng.tenant, t.id)
		if err != nil || info == nil {
			return err
		}
		open, err := records.NewReader(t.eng.store.Box, tx, info).Open()
		out = questionsOf(open)
		return err
	})
	return out, err
}

// stands is the outcome of a thread that is not run: how it stands.
func (t *Thread) stands(v *view) (*Outcome, error) {
	out := &Outcome{Thread: t.id, Graph: v.Info.Graph, Status: v.Status, Waiting: questionsOf(v.Open)}
	if v.Run != nil {
		out.Run, out.Attempt = v.Run.ID, v.Run.Attempt
		if v.Status == Failed || v.Status == Cancelled || v.Status == Waiting {
			out.Cause, out.Reason, out.Node = v.Run.Cause, v.Run.Error, v.Run.ErrorNode
		}
	}
	if v.from == nil {
		return out, nil
	}
	out.Checkpoint, out.Next = v.from.ID, dueNames(v.from.Due)
	var err error
	if d, ok := t.eng.graph(v.Info.Graph); ok {
		out.Values, err = core.Output(d.Topology(), v.from.Values)
	}
	return out, err
}

// originOf reads the attempt that made a checkpoint, and the topology that it was made under.
func (t *Thread) originOf(ctx context.Context, cp *core.Checkpoint) (run *core.Run, topology *core.Topology, err error) {
	err = t.eng.store.View(ctx, func(tx storage.Tx) error {
		info, err := t.eng.store.Box.FindThread(tx, t.eng.tenant, t.id)
		if err != nil {
			return err
		}
		if info == nil {
			return local.ErrMoved
		}
		r := records.NewReader(t.eng.store.Box, tx, info)
		still, err := r.Checkpoint(cp.N)
		if err != nil {
			return err
		}
		if still == nil || still.Checkpoint.ID != cp.ID {
			return local.ErrMoved // since it was seen it was deleted, and another thread may have its name
		}
		if run, err = r.Run(cp.Run); err == nil {
			topology, err = r.Topology(cp)
		}
		return err
	})
	return run, topology, err
}

// Preview says what a verb would do now, without doing it.
type Preview struct {
	Enter    []TaskState `json:"enter"`              // entered from their first line; their recorded steps return results
	Wait     []TaskState `json:"wait,omitempty"`     // stay as they are, until their questions are answered
	Kept     []TaskState `json:"kept,omitempty"`     // ended before; not run again
	Withdraw []Question  `json:"withdraw,omitempty"` // open now, and withdrawn by it
	Notes    []Note      `json:"notes,omitempty"`    // what the parts have to say, e.g. effects whose receipts are reused
	Refused  error       `json:"-"`                  // why the verb is not legal now; nil: it is
}

// PreviewResume says which nodes a resume would run again.
func (t *Thread) PreviewResume(ctx context.Context) (*Preview, error) {
	return t.preview(ctx, VerbResume, Point{})
}

// PreviewFork says what a fork or replay from a point would run: all that is due there, under fresh tasks, so that steps
// are called again and questions are asked again.
func (t *Thread) PreviewFork(ctx context.Context, at Point) (*Preview, error) {
	return t.preview(ctx, VerbFork, at)
}

// PreviewVerb says whether retry, cancel or delete is legal now, what it would withdraw, and what the parts have to say
// of it. It says nothing of the tasks.
func (t *Thread) PreviewVerb(ctx context.Context, verb Verb) (*Preview, error) {
	return t.preview(ctx, verb, Point{})
}

func (t *Thread) preview(ctx context.Context, verb Verb, at Point) (*Preview, error) {
	var out *Preview
	err := t.read(ctx, func(tx storage.Tx, seen *local.Seen) error {
		p := &Preview{Refused: t.legal(verb, &view{Seen: seen}, &runConfig{})}
		out = p
		if seen.Info == nil {
			return nil
		}
		notes, err := t.eng.consent(ctx, dropTx{tx}, t.of(ctx, verb, seen.Run, ""))
		if err != nil {
			p.Refused = errors.Join(p.Refused, err)
		}
		p.Notes = notes
		r := records.NewReader(t.eng.store.Box, tx, seen.Info)
		from := seen.Head
		if verb != VerbFork && verb != VerbResume {
			p.Withdraw = questionsOf(seen.Open)
			return nil
		}
		if verb == VerbFork {
			if from, err = t.find(r, seen, at); err != nil {
				return err
			}
			p.Withdraw = questionsOf(seen.Open)
		}
		if from == nil {
			return nil
		}
		snap, err := t.family(r, seen, from)
		if err != nil {
			return err
		}
		if verb == VerbResume {
			snap.Tasks = flat(snap.Tasks)
		}
		for _, task := range snap.Tasks {
			switch {
			case verb == VerbFork:
				p.Enter = append(p.Enter, TaskState{ID: task.ID, Node: task.Node, Kind: task.Kind, Path: task.Path, State: "due"})
			case task.State == "done":
				p.Kept = append(p.Kept, task)
			case task.State == "waiting":
				p.Wait = append(p.Wait, task)
			default:
				p.Enter = append(p.Enter, task)
			}
		}
		return nil
	})
	return out, err
}
