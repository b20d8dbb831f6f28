package suite

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/nest"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
)

// deed is what a thread was told to do, and what came of it.
type deed struct {
	Do     pawl.Last[string] `json:"do"`
	Rounds pawl.Sum[int]     `json:"rounds"`
	Did    pawl.Last[string] `json:"did"`
}

// deeds is a graph that can be brought into every status by what it is told: "ask", "loop", or anything that act
// decides on. "fail" and "loop" have a second node run beside.
func deeds(at nest.Level, counts *ledger, act func(do string) error) (*nest.Graph[deed], error) {
	ask := approve()
	work := func(ctx context.Context, s *deed) error {
		counts.add("work")
		do := s.Do.Get()
		if do == "ask" {
			if _, err := ask.Ask(ctx, asked{"go on?"}); err != nil {
				return err
			}
		}
		if err := act(do); err != nil {
			return err
		}
		s.Rounds.Add(1)
		s.Did.Set(do)
		return nil
	}
	return atLevel(at, pawl.New[deed]("deeds").
		Node("side", func(context.Context, *deed) error { counts.add("side"); return nil }).
		Node("work", work, pawl.Uses(ask)).
		Route(pawl.Start, func(s *deed) []pawl.Next {
			if do := s.Do.Get(); do == "fail" || do == "loop" {
				return pawl.To("side", "work")
			}
			return pawl.To("work")
		}, "side", "work").
		Route("work", func(s *deed) []pawl.Next {
			if s.Do.Get() == "loop" && s.Rounds.Get() < 3 {
				return pawl.To("work")
			}
			return pawl.To(pawl.End)
		}, "work", pawl.End))
}

func told(do string) *deed { return &deed{Do: pawl.Of(do)} }

// stage is a thread that is brought into a status.
type stage struct {
	t      *testing.T
	home   *home
	db     storage.DB
	counts *ledger
	graph  *nest.Graph[deed]
	th     *nest.Thread[deed]
	broken error
	held   chan struct{} // not nil: work tells that it was entered, and then waits
	gate   chan struct{}
}

func newStage(t *testing.T, h *home) *stage {
	s := &stage{t: t, home: h, db: h.open(t), counts: newLedger(t), gate: make(chan struct{})}
	var err error
	if s.graph, err = deeds(levelFor(t), s.counts, s.act); err != nil {
		t.Fatal(err)
	}
	s.th = s.graph.Thread(engine(t, s.db, &pawl.Options{Limits: pawl.Limits{Steps: 2}}), "t")
	return s
}

func (s *stage) act(string) error {
	if s.held != nil {
		close(s.held)
		<-s.gate
	}
	return s.broken
}

// hold starts something whose node then stands still until the test ends.
func (s *stage) hold(verb func() error) {
	s.held = make(chan struct{})
	over := make(chan error, 1)
	go func() { over <- verb() }()
	<-s.held
	s.t.Cleanup(func() {
		close(s.gate)
		if err := <-over; err != nil {
			s.t.Errorf("what was held ended with %v", err)
		}
		settled(s.t, statusOf(s.t, s.th))
	})
}

func (s *stage) run(do string, want pawl.Status, cause pawl.Cause) {
	s.t.Helper()
	out, err := s.th.Run(s.t.Context(), told(do))
	if (err != nil) != (want == pawl.Failed) || out == nil || out.Status != want || out.Cause != cause {
		s.t.Fatalf("%s: %+v, %v", do, out, err)
	}
}

// reach brings the thread into the status of a column, and mends what was broken.
func (s *stage) reach(column string) {
	t := s.t
	switch column {
	case "pending": // accepted and not yet claimed by anybody, as a worker would find it
		s.run("ok", pawl.Done, "")
		mark := func(_ context.Context, tx storage.Tx) error {
			row, _, err := tx.Get(records.Thread, "", "t")
			if err == nil {
				row.Fields[2] = string(pawl.Pending)
				_, err = tx.Put(records.Thread, row, storage.Always())
			}
			return err
		}
		if err := s.db.Update(t.Context(), mark); err != nil {
			t.Fatal(err)
		}
	case "running":
		s.hold(func() error { _, err := s.th.Run(context.Background(), told("ok")); return err })
	case "waiting":
		s.run("ask", pawl.Waiting, "")
	case "done":
		s.run("ok", pawl.Done, "")
	case "failed: concluded":
		s.broken = pawl.Conclude("it cannot be done")
		s.run("ok", pawl.Failed, pawl.CauseConcluded)
	case "failed: error":
		s.broken = errors.New("down")
		s.run("fail", pawl.Failed, pawl.CauseError)
	case "failed: limit":
		s.run("loop", pawl.Failed, pawl.CauseLimit)
	case "crashed":
		killed(t, "000-table", []string{s.home.path, s.counts.path})
	case "cancelled":
		s.run("ask", pawl.Waiting, "")
		if err := s.th.Cancel(t.Context(), "enough"); err != nil {
			t.Fatal(err)
		}
	}
	s.broken = nil
}

// dieInTheTable is the process behind the column "crashed".
func dieInTheTable(doc []byte) {
	a := args[[]string](doc)
	g := must(deeds(levelHere(), &ledger{a[1]}, func(string) error { killSelf(); return nil }))
	must(g.Thread(childEngine(a[0], nil), "t").Run(context.Background(), told("ok")))
}

// do does a verb as the table means it: run with new input, resume with an answer where there is a question.
func (s *stage) do(verb pawl.Verb) (*pawl.OutcomeOf[deed], error) {
	ctx := s.t.Context()
	switch verb {
	case pawl.VerbRun:
		return s.th.Run(ctx, told("ok"))
	case pawl.VerbRetry:
		return s.th.Retry(ctx)
	}
	var answers []pawl.RunOption
	for _, q := range statusOf(s.t, s.th).Waiting {
		answers = append(answers, approve().Answer(q.ID, true))
	}
	return s.th.Resume(ctx, answers...)
}

// cell is one field of the table of verbs and statuses.
type cell struct {
	column string
	verb   pawl.Verb
	want   string   // busy, refused, new run, goes on, runs no node, new attempt
	names  []string // what a refusal names
	ends   pawl.Status
	work   int // entries of work that this adds
}

func verbsAndStatuses(t *testing.T, _ *report) {
	const run, resume, retry = pawl.VerbRun, pawl.VerbResume, pawl.VerbRetry
	for _, c := range []cell{
		{column: "pending", verb: run, want: "busy"},
		{column: "pending", verb: resume, want: "busy"},
		{column: "pending", verb: retry, want: "busy"},
		{column: "running", verb: run, want: "busy"},
		{column: "running", verb: resume, want: "busy"},
		{column: "running", verb: retry, want: "busy"},
		{column: "waiting", verb: run, want: "refused", names: []string{"answer", "cancel"}},
		{column: "waiting", verb: resume, want: "goes on", ends: pawl.Done, work: 1},
		{column: "waiting", verb: retry, want: "refused", names: []string{"answer", "cancel"}},
		{column: "done", verb: run, want: "new run", ends: pawl.Done, work: 1},
		{column: "done", verb: resume, want: "runs no node"},
		{column: "done", verb: retry, want: "refused", names: []string{"run"}},
		{column: "failed: concluded", verb: run, want: "new run", ends: pawl.Done, work: 1},
		{column: "failed: concluded", verb: resume, want: "refused", names: []string{"retry"}},
		{column: "failed: concluded", verb: retry, want: "new attempt", ends: pawl.Done, work: 1},
		{column: "failed: error", verb: run, want: "new run", ends: pawl.Done, work: 1},
		{column: "failed: error", verb: resume, want: "goes on", ends: pawl.Done, work: 1},
		{column: "failed: error", verb: retry, want: "new attempt", ends: pawl.Done, work: 1},
		{column: "failed: limit", verb: run, want: "new run", ends: pawl.Done, work: 1},
		{column: "failed: limit", verb: resume, want: "goes on", ends: pawl.Done, work: 1},
		{column: "failed: limit", verb: retry, want: "new attempt", ends: pawl.Failed, work: 2}, // and reaches the limit again
		{column: "crashed", verb: run, want: "refused", names: []string{"resume"}},
		{column: "crashed", verb: resume, want: "goes on", ends: pawl.Done, work: 1},
		{column: "crashed", verb: retry, want: "refused", names: []string{"resume"}},
		{column: "cancelled", verb: run, want: "new run", ends: pawl.Done, work: 1},
		{column: "cancelled", verb: resume, want: "refused", names: []string{"retry"}},
		{column: "cancelled", verb: retry, want: "new attempt", ends: pawl.Waiting, work: 1},
	} {
		t.Run(fmt.Sprintf("%s, %s", c.column, c.verb), func(t *testing.T) {
			if c.column == "crashed" {
				three(t, func(t *testing.T) string { return c.check(newStage(t, onDisk(t))) })
				return
			}
			onEach(t, func(t *testing.T, h *home) { c.check(newStage(t, h)) })
		})
	}
}

func (c cell) check(s *stage) string {
	t := s.t
	s.reach(c.column)
	was, before, rows, entries := statusOf(t, s.th), history(t, s.th), everyRow(t, s.db), s.counts.rows()
	out, err := s.do(c.verb)
	is, after := statusOf(t, s.th), history(t, s.th)
	switch c.want {
	case "busy", "refused", "runs no node":
		if c.want == "runs no node" && err != nil {
			t.Fatal(err)
		}
		if c.want != "runs no node" {
			wantRefused(t, err, c.verb, c.names...)
			same(t, "errors.Is(err, ErrBusy)", errors.Is(err, pawl.ErrBusy), c.want == "busy")
		}
		same(t, "the database", everyRow(t, s.db), rows)
		same(t, "entries", s.counts.rows(), entries)
		same(t, "status", is.Status, was.Status)
		same(t, "history", compact(after), compact(before))
		settled(t, is)
		return fmt.Sprint(c.want, is.Status)
	}
	if (err != nil) != (c.ends == pawl.Failed) {
		t.Fatalf("%s: %v", c.verb, err)
	}
	same(t, "status", out.Status, c.ends)
	same(t, "entries of work that came", s.counts.count("work"), countOf(entries, "work")+c.work)
	if c.want == "goes on" { // what had finished does not run again
		same(t, "entries of side", s.counts.count("side"), countOf(entries, "side"))
	}
	same(t, "same run", out.Run == was.Run, c.want != "new run")
	same(t, "same attempt", out.Attempt == was.Attempt, c.want == "goes on")
	if c.want != "new attempt" { // a retry sets the old attempt aside
		grew(t, before, after)
	}
	settled(t, is)
	return fmt.Sprint(c.want, is.Status)
}

func countOf(rows []string, row string) (n int) {
	for _, r := range rows {
		if r == row {
			n++
		}
	}
	return n
}
