package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
)

// Run runs a scenario on Pawl over a database with pawl.Kinds, on a thread of the scenario's id.
func Run(ctx context.Context, db storage.DB, s *Scenario) (*Trace, error) {
	count := &entries{n: map[string]int{}, of: map[[2]string]int{}}
	g, err := s.graph(count)
	if refused := (*pawl.BuildError)(nil); errors.As(err, &refused) {
		return &Trace{Refused: true, Acts: []Seen{}, History: []Checkpoint{}, Entries: map[string]int{}}, nil
	}
	if err != nil {
		return nil, err
	}
	eng, err := pawl.NewEngine(db, &pawl.Options{Limits: pawl.Limits{Steps: s.Limit}})
	if err != nil {
		return nil, err
	}
	defer eng.Close()
	r := &runner{s: s, eng: eng, th: g.Thread(eng, s.ID), places: map[string]map[string]int{}}
	t := &Trace{Acts: []Seen{}}
	for i := range s.Script {
		seen, err := r.act(ctx, &s.Script[i])
		if err != nil {
			return nil, fmt.Errorf("scenario %s: act %d: %w", s.ID, i+1, err)
		}
		t.Acts = append(t.Acts, *seen)
	}
	t.History, err = r.history(ctx)
	t.Shown, t.Entries = r.shown, count.all()
	return t, err
}

type runner struct {
	s      *Scenario
	eng    *pawl.Engine
	th     *pawl.ThreadOf[State]
	last   *pawl.ThreadState
	out    *pawl.OutcomeOf[State] // of the newest run
	tell   pawl.RunOption         // of the act
	shown  []Shown
	places map[string]map[string]int // see watcher
}

// act does what a caller does, and sees what that caller sees.
func (r *runner) act(ctx context.Context, a *Act) (*Seen, error) {
	done, err := r.streaming(ctx, a)
	failed, refused := (*pawl.RunError)(nil), (*pawl.VerbError)(nil)
	switch {
	case errors.As(err, &refused) || errors.Is(err, pawl.ErrNotFound):
		return &Seen{Status: "refused"}, nil
	case err != nil && !errors.As(err, &failed):
		return nil, err
	case !done:
		return &Seen{Status: "skipped"}, nil
	case a.Delete:
		return &Seen{Status: "deleted"}, nil
	case a.Clear:
		return &Seen{Status: "cleared"}, nil
	}
	state, err := r.th.State(ctx)
	if err != nil {
		return nil, err
	}
	r.last = state
	seen := &Seen{Status: string(state.Status), Cause: string(state.Cause)}
	if state.Status == pawl.StatusNew { // where nothing is due, LangGraph does not tell whether something ran
		seen.Status = string(pawl.Done)
	}
	if state.Cause == pawl.CauseConflict {
		return seen, nil
	}
	values, err := valuesOf(state.Values)
	if err != nil {
		return nil, err
	}
	seen.Values, seen.Next = &values, sorted(state.Head.Next)
	if a == &r.s.Script[0] && r.s.Outputs != nil {
		output, err := valuesOf(r.out.Values)
		if err != nil {
			return nil, err
		}
		seen.Output = &output
	}
	for _, q := range state.Waiting {
		seen.Asks = append(seen.Asks, asked(&q))
	}
	slices.Sort(seen.Asks)
	return seen, nil
}

// do does an act. False: there is nothing to do it on.
func (r *runner) do(ctx context.Context, a *Act) (done bool, err error) {
	mode := pawl.WithDurability(map[string]pawl.Durability{"": pawl.Sync, "sync": pawl.Sync, "async": pawl.Async, "exit": pawl.Exit}[r.s.Mode])
	switch {
	case r.last != nil && r.last.Cause == pawl.CauseConflict: // it would only conflict again
		return false, nil
	case a.Run != nil:
		in := &State{}
		a.Run.write(in)
		r.out, err = r.th.Run(ctx, in, mode, r.tell)
	case a.Again:
		if r.last.Status != pawl.Failed {
			return false, nil
		}
		_, err = r.th.Resume(ctx, r.tell)
	case a.GoOn:
		_, err = r.th.Resume(ctx, r.tell)
	case a.Enter != "":
		_, err = r.th.Resume(ctx, pawl.Again(a.Enter), r.tell)
	case a.Delete:
		err = r.th.Delete(ctx)
	case a.Clear:
		_, err = r.eng.ClearCache(ctx, "scenario")
	case a.Edit != nil && a.Edit.As == pawl.End:
		_, err = r.th.EditAs(ctx, [][]pawl.TaskEdit{{{Node: pawl.End}}})
	case a.Edit != nil:
		_, err = r.th.Edit(ctx, a.Edit.edit)
	case a.Replay != "" || a.From != nil || a.Fork != nil || a.Copy != nil:
		return r.goBack(ctx, a)
	default:
		answers := []pawl.RunOption{r.tell}
		for _, q := range r.last.Waiting {
			if given, ok := a.Answer[asked(&q)]; ok {
				answers = append(answers, pawl.AnswerWith(q.ID, given))
			}
		}
		if len(answers) == 1 || r.last.Status != pawl.Waiting {
			return false, nil
		}
		_, err = r.th.Resume(ctx, answers...)
	}
	return true, err
}

func (f *Fork) edit(s *State) error { f.Write.write(s); return nil }

// asked is the text of a question.
func asked(q *pawl.Question) (text string) {
	if json.Unmarshal(q.Body, &text) != nil {
		return q.Name
	}
	return text
}

// goBack forks or replays. False: there is no such point.
func (r *runner) goBack(ctx context.Context, a *Act) (done bool, err error) {
	before, from := a.Replay, a.From
	switch {
	case a.Fork != nil:
		before, from = a.Fork.Before, a.Fork.From
	case a.Copy != nil:
		before, from = a.Copy.Before, a.Copy.From
	}
	at := pawl.Before(before)
	if a.In != "" {
		return r.goBackInside(ctx, a, before)
	}
	if from != nil {
		all, err := r.th.History(ctx, pawl.Page{Limit: 10_000})
		if err != nil || *from >= len(all) {
			return false, err
		}
		at = pawl.Checkpoint(all[len(all)-1-*from].Checkpoint)
	}
	switch {
	case a.Fork != nil:
		_, err = r.th.Fork(ctx, at, a.Fork.edit, r.tell)
	case a.Copy != nil:
		err = r.copy(ctx, at, a.Copy)
	default:
		_, err = r.th.Replay(ctx, at, r.tell)
	}
	if no := (*pawl.PointError)(nil); errors.As(err, &no) {
		return false, nil
	}
	return true, err
}

// copy goes on beside a checkpoint.
func (r *runner) copy(ctx context.Context, at pawl.Point, c *Copy) error {
	if len(c.Tasks) == 0 {
		_, err := r.th.Replay(ctx, at, pawl.Beside(), r.tell)
		return err
	}
	edits := make([]pawl.TaskEdit, len(c.Tasks))
	for i, task := range c.Tasks {
		changes, err := json.Marshal(task.Write)
		if err != nil {
			return err
		}
		edits[i] = pawl.TaskEdit{Node: task.As, Changes: changes}
	}
	if _, err := r.th.EditAs(ctx, [][]pawl.TaskEdit{edits}, pawl.From(at), pawl.Beside()); err != nil {
		return err
	}
	_, err := r.th.Resume(ctx, r.tell)
	return err
}

// goBackInside does so at the newest checkpoint of a child at which a node was due. False: there is no such point.
func (r *runner) goBackInside(ctx context.Context, a *Act, before string) (done bool, err error) {
	at, err := r.inside(ctx, a.In, before)
	if at == "" || err != nil {
		return false, err
	}
	if a.Fork == nil {
		_, err = r.th.Replay(ctx, pawl.Checkpoint(at), r.tell)
		return true, err
	}
	changes, err := json.Marshal(a.Fork.Write)
	if err == nil {
		_, err = r.th.Thread.Fork(ctx, pawl.Checkpoint(at), changes, r.tell)
	}
	return true, err
}

// inside finds the newest checkpoint of a child, by the names of nodes on the way there, at which a node was due.
func (r *runner) inside(ctx context.Context, child, before string) (id string, err error) {
	var in pawl.Path
	for _, name := range strings.Split(child, "|") {
		at, err := r.due(ctx, in, name)
		if at == nil || err != nil {
			return "", err
		}
		if at, err = r.th.Snapshot(ctx, at.Checkpoint); err != nil {
			return "", err
		}
		for _, task := range at.Tasks {
			if task.Node == name && len(task.Children) > 0 {
				in = task.Children[0].Path
			}
		}
	}
	at, err := r.due(ctx, in, before)
	if at == nil || err != nil {
		return "", err
	}
	return at.Checkpoint, nil
}

func (r *runner) due(ctx context.Context, in pawl.Path, node string) (*pawl.Snapshot, error) {
	all, err := r.th.History(ctx, pawl.Page{In: in, Limit: 10_000})
	for _, s := range all {
		if slices.ContainsFunc(s.Tasks, func(t pawl.TaskState) bool { return t.Node == node }) {
			return s, nil
		}
	}
	return nil, err
}

func (r *runner) history(ctx context.Context) ([]Checkpoint, error) {
	snapshots, err := r.th.History(ctx, pawl.Page{Limit: 10_000})
	if err != nil {
		return nil, err
	}
	places := map[string]int{}
	for i, s := range snapshots {
		places[s.Checkpoint] = i
	}
	out := make([]Checkpoint, len(snapshots))
	for i, s := range snapshots {
		values, err := valuesOf(s.Values)
		if err != nil {
			return nil, err
		}
		out[i] = Checkpoint{Step: s.Step, Source: s.Source, Parent: -1, Next: sorted(s.Next), Values: values}
		if i == 0 { // what of the head is still due is in the acts
			out[i].Next = []string{}
		}
		if at, ok := places[s.Parent]; ok {
			out[i].Parent = at
		}
	}
	return out, nil
}

func valuesOf(doc []byte) (v Values, err error) {
	if len(doc) > 0 {
		err = json.Unmarshal(doc, &v)
	}
	return v, err
}

func sorted(names []string) []string {
	out := slices.Clone(names)
	if out == nil {
		out = []string{}
	}
	slices.Sort(out)
	return out
}
