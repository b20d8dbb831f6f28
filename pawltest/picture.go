package pawltest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
)

// observed is a home that tells the ledger which steps were committed. It stands below the faults, so it never misses
// one that a stop keeps from its caller.
type observed struct {
	storage.DB
	ledger *ledger
	box    records.Box
}

func (o *observed) Update(ctx context.Context, fn func(ctx context.Context, tx storage.Tx) error) error {
	var steps []string
	err := o.DB.Update(ctx, func(ctx context.Context, tx storage.Tx) error {
		w := &observedTx{Tx: tx, box: o.box}
		err := fn(ctx, w)
		steps = w.steps
		return err
	})
	if err == nil {
		o.ledger.add(recorded, steps...)
	}
	return err
}

type observedTx struct {
	storage.Tx
	box   records.Box
	steps []string
}

func (o *observedTx) Put(kind string, row storage.Row, cond storage.If) (bool, error) {
	ok, err := o.Tx.Put(kind, row, cond)
	if kind == records.Step && ok && err == nil {
		label, err := labelOf(o.box, row)
		o.steps = append(o.steps, label)
		return ok, err
	}
	return ok, err
}

// labelOf is how the ledger calls a step.
func labelOf(box records.Box, row storage.Row) (string, error) {
	step, err := box.ReadStep("", row)
	if err != nil {
		return "", err
	}
	if step.Key == "" {
		return step.Name, nil
	}
	return step.Name + "/" + step.Key, nil
}

// reconcile adds what was committed while the process was being killed, and so was not noted by it.
func (l *ledger) reconcile(ctx context.Context, home storage.DB, box records.Box) error {
	stored := map[string]int{}
	err := home.View(ctx, func(_ context.Context, tx storage.Tx) error {
		rows, err := tx.List(records.Step, storage.Query{})
		for _, row := range rows {
			label, bad := labelOf(box, row)
			if bad != nil {
				return bad
			}
			stored[label]++
		}
		return err
	})
	if err != nil {
		return err
	}
	for label, n := range stored {
		for range n - l.count(recorded, label) {
			l.add(recorded, label)
		}
	}
	return nil
}

// picture is all that a home holds, and what its threads look like from outside.
type picture struct {
	rows    map[string]string // what is never changed once it is written, by kind and key
	answers map[string]string // answers that were taken, by question
	threads map[string]string // how each thread stands, by id
	numbers map[int64]bool    // of threads that there are
	of      map[string]int64  // thread number of each entry of rows and answers
	faults  []string

	view
}

// view says what of a home a picture shows.
type view struct {
	deep  bool     // each thread's whole history, too
	kept  []string // kinds of others whose rows stay as they are
	extra []string // kinds of waits that say nothing of how a thread stands
}

// photograph reads a home.
func photograph(ctx context.Context, home storage.DB, options pawl.Options, v view) (*picture, error) {
	p := &picture{
		view: v,
		rows: map[string]string{}, answers: map[string]string{}, threads: map[string]string{}, numbers: map[int64]bool{},
		of: map[string]int64{},
	}
	questions := map[string][]*core.Question{}
	err := home.View(ctx, func(_ context.Context, tx storage.Tx) error {
		return p.read(tx, records.Box{Codec: options.Codec}, questions)
	})
	if err != nil {
		return nil, err
	}
	eng, err := pawl.NewEngine(home, &options)
	if err != nil {
		return nil, err
	}
	defer func() { _ = eng.Close() }() // it owns nothing
	list, err := eng.Threads(ctx, "", 0)
	if err != nil {
		return nil, err
	}
	for _, info := range list {
		if err := p.thread(ctx, eng.Thread("", info.Thread), questions[info.Thread]); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// read takes in the rows.
func (p *picture) read(tx storage.Tx, box records.Box, questions map[string][]*core.Question) error {
	kinds := []string{records.Checkpoint, records.Value, records.Step, records.Ended, records.Graph, records.Nested, records.Frame}
	for _, kind := range slices.Concat(kinds, p.kept) {
		rows, err := tx.List(kind, storage.Query{})
		if err != nil {
			return err
		}
		for _, row := range rows {
			if kind == records.Ended {
				ended, err := box.ReadEnded(tx, &records.Values{Box: box, ThreadN: row.Key[0].(int64)}, row)
				if err != nil {
					return err
				}
				if ended.Failed { // it is written over when the task runs again
					continue
				}
			}
			key := fmt.Sprint(kind, row.Key)
			p.rows[key] = fmt.Sprintf("%v %x", row.Fields, row.Body)
			switch kind {
			case records.Checkpoint, records.Value, records.Nested:
				p.of[key] = row.Key[0].(int64) >> 32
			case records.Step, records.Ended, records.Frame:
				p.of[key] = row.Key[0].(int64)
			}
		}
	}
	rows, err := tx.List(records.Thread, storage.Query{})
	if err != nil {
		return err
	}
	for _, row := range rows {
		p.numbers[row.Fields[0].(int64)] = true
	}
	if rows, err = tx.List(records.Question, storage.Query{}); err != nil {
		return err
	}
	for _, row := range rows {
		q, err := box.ReadQuestion(row)
		if err != nil {
			return err
		}
		questions[q.Thread] = append(questions[q.Thread], q)
		if q.State == core.QuestionAnswered {
			p.answers[q.ID], p.of[q.ID] = string(q.Answer), q.ThreadN
		}
	}
	return nil
}

// thread takes in how a thread stands, without what is another in every run: ids and times.
func (p *picture) thread(ctx context.Context, th *pawl.Thread, questions []*core.Question) error {
	state, err := th.State(ctx)
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", state.Status, state.Cause)
	if state.Head != nil {
		fmt.Fprintf(&b, "\nvalues %s\nnext %v", plain(state.Head.Values), state.Head.Next)
	}
	p.pending(state, questions)
	var asked []string
	for _, q := range questions {
		if slices.Contains(p.extra, q.Kind) {
			continue
		}
		asked = append(asked, fmt.Sprintf("question %s %s/%s revision %d %s: %s -> %s",
			q.Node, q.Name, q.Key, q.Revision, q.State, q.Body, q.Answer))
	}
	slices.Sort(asked)
	b.WriteString("\n" + strings.Join(asked, "\n"))
	history, err := th.History(ctx, pawl.Page{Limit: 1 << 20})
	if err != nil {
		return err
	}
	for _, s := range history {
		var due []string
		for _, task := range s.Tasks {
			due = append(due, task.Node)
		}
		if p.deep {
			fmt.Fprintf(&b, "\nstep %d %s due %v values %s", s.Step, s.Source, due, plain(s.Values))
		}
	}
	p.threads[th.ID()] = b.String()
	return nil
}

// pending says what is open and does not show, and what shows and is not open.
func (p *picture) pending(state *pawl.ThreadState, questions []*core.Question) {
	var open, shown []string
	for _, q := range questions {
		if q.State == core.QuestionOpen || q.State == core.QuestionSubmitted {
			open = append(open, q.ID)
		}
	}
	for _, q := range state.Waiting {
		shown = append(shown, q.ID)
	}
	slices.Sort(open)
	slices.Sort(shown)
	if !slices.Equal(open, shown) {
		p.fault("thread %q: questions %v are open and %v are shown", state.Thread, open, shown)
	}
	if over := state.Status == pawl.Done || state.Status == pawl.Cancelled; over && len(open) > 0 {
		p.fault("thread %q is %s and questions %v are open", state.Thread, state.Status, open)
	}
	if state.Status == pawl.Done && state.Head != nil && len(state.Head.Next) > 0 {
		p.fault("thread %q is done and %v is due", state.Thread, state.Head.Next)
	}
}

func (p *picture) fault(format string, args ...any) {
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

// plain is JSON whose objects are in the order of their names.
func plain(doc json.RawMessage) string {
	out, err := core.Canonical(doc)
	if err != nil {
		return string(doc)
	}
	return string(out)
}

// grewFrom says what an earlier picture held and this one lacks or holds otherwise. Deleted threads are left out, and
// with again, finished tasks: a conflict is settled by discarding some.
func (p *picture) grewFrom(old *picture, again bool) []string {
	var faults []string
	compare := func(was, is map[string]string, what string) {
		for key, value := range was {
			of := old.of[key]
			if of != 0 && !p.numbers[of] || again && strings.HasPrefix(key, records.Ended) {
				continue
			}
			if now, ok := is[key]; !ok {
				faults = append(faults, fmt.Sprintf("%s %s was there at the stop and is gone", what, key))
			} else if now != value {
				faults = append(faults, fmt.Sprintf("%s %s has changed since the stop: it was %s, it is %s", what, key, value, now))
			}
		}
	}
	compare(old.rows, p.rows, "row")
	compare(old.answers, p.answers, "answer of question")
	return faults
}

// against compares how the threads stand with a run that nothing stopped.
func (p *picture) against(want *picture) []string {
	faults := slices.Clone(p.faults)
	for id, is := range p.threads {
		if was, ok := want.threads[id]; !ok {
			faults = append(faults, fmt.Sprintf("thread %q is there and without a stop it is not", id))
		} else if was != is {
			faults = append(faults, fmt.Sprintf("thread %q ends otherwise:\n%s\nwithout a stop:\n%s", id, is, was))
		}
	}
	for id := range want.threads {
		if _, ok := p.threads[id]; !ok {
			faults = append(faults, fmt.Sprintf("thread %q is not there", id))
		}
	}
	return faults
}
