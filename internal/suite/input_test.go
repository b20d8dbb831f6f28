package suite

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
)

// TestBadInput sends what is wrong through every door. Each is refused with a typed error that says what was not done,
// and nothing changes, byte for byte.
func TestBadInput(t *testing.T) {
	for name, run := range map[string]func(*testing.T, *home){
		"names that do not exist":    unknownNames,
		"wrong JSON":                 wrongJSON,
		"answers that come too late": lateAnswers,
		"verbs in every status":      wrongVerbs,
		"a closed engine":            closedEngine,
		"what Allow refuses":         allowRefuses,
		"a thread of another graph":  otherGraph,
		"a thread of another tenant": otherTenant,
		"a run id with other input":  runIDWithOtherInput,
		"options of other verbs":     strayOptions,
		"a full disk":                fullEverywhere,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEach(t, run)
		})
	}
	t.Run("no storage", noStorage)
	t.Run("files", badFiles)
}

// request is the state of the graph that bad input is sent to: a question after a first node.
type request struct {
	Amount pawl.Last[int]      `json:"amount"`
	Notes  pawl.Append[string] `json:"notes"`
}

var decide = pawl.Interrupt[string, int]{Name: "decide", Check: func(_ string, a int) error {
	if a < 0 {
		return errors.New("a negative amount is no decision")
	}
	return nil
}}

var soon = pawl.Interrupt[string, int]{Name: "soon", Expires: time.Nanosecond}

func requests() *pawl.Builder[request] {
	return pawl.New[request]("requests").
		Node("note", func(_ context.Context, s *request) error { s.Notes.Add("noted"); return nil }).
		Node("decide", func(ctx context.Context, s *request) error {
			a, err := decide.Ask(ctx, "how much?")
			if err == nil {
				s.Amount.Set(a)
			}
			return err
		}, pawl.Uses(decide)).
		Path(pawl.Start, "note", "decide")
}

// refusals is a home with a waiting thread "t", and the checks of what must be refused.
type refusals struct {
	db  storage.DB
	eng *pawl.Engine
	g   *pawl.Graph[request]
	th  *pawl.ThreadOf[request]
	q   pawl.Question
}

func waitingRequest(t *testing.T, h *home) *refusals {
	t.Helper()
	r := &refusals{db: h.open(t), g: build(t, requests())}
	r.eng = engine(t, r.db, nil, r.g)
	r.th = r.g.Thread(r.eng, "t")
	out, err := r.th.Run(context.Background(), &request{})
	r.q = mustWaitFor(t, out, err, 1)[0]
	return r
}

// refused runs one bad call as a subtest: the error is an E that says all parts, and the home is what it was.
func refused[E error](t *testing.T, db storage.DB, name string, call func() error, check func(E) bool, parts ...string) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Helper()
		before := everything(t, db)
		err := call()
		var typed E
		if !errors.As(err, &typed) {
			t.Fatalf("error %v (%T), want a %T", err, err, typed)
		}
		if check != nil && !check(typed) {
			t.Errorf("the error's fields: %+v", typed)
		}
		says(t, err.Error(), parts...)
		unchanged(t, db, before)
	})
}

// is makes a sentinel of errors.Is a check for refused.
func is(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }

// doors are the ways in: each is called with good arguments.
func (r *refusals) doors(eng *pawl.Engine, thread string) map[string]func() error {
	ctx := context.Background()
	th := eng.Thread("requests", thread)
	at := pawl.Before("note")
	return map[string]func() error{
		"run":            func() error { _, err := th.Run(ctx, []byte(`{}`)); return err },
		"stream":         func() error { return lastOf(th.Stream(ctx, []byte(`{}`))) },
		"resume":         func() error { _, err := th.Resume(ctx); return err },
		"resume, answer": func() error { _, err := th.Resume(ctx, decide.Answer(r.q.ID, 1)); return err },
		"retry":          func() error { _, err := th.Retry(ctx); return err },
		"fork":           func() error { _, err := th.Fork(ctx, at, []byte(`{"amount":1}`)); return err },
		"replay":         func() error { _, err := th.Replay(ctx, at); return err },
		"edit":           func() error { _, err := th.Edit(ctx, []byte(`{"amount":1}`)); return err },
		"cancel":         func() error { return th.Cancel(ctx, "why not") },
		"delete":         func() error { return th.Delete(ctx) },
		"answer":         func() error { _, err := th.Answer(ctx, r.q.ID, 1); return err },
		"engine, answer": func() error { _, err := eng.Answer(ctx, r.q.ID, 1); return err },
		"state":          func() error { _, err := th.State(ctx); return err },
		"history":        func() error { _, err := th.History(ctx, pawl.Page{}); return err },
		"snapshot":       func() error { _, err := th.Snapshot(ctx, "x"); return err },
		"watch":          func() error { return lastOf(th.Watch(ctx, 0)) },
		"questions":      func() error { _, err := eng.Questions(ctx, 9); return err },
		"find questions": func() error { _, err := eng.FindQuestions(ctx, "0", 9); return err },
		"threads":        func() error { _, err := eng.Threads(ctx, "", 9); return err },
	}
}

func lastOf(events func(func(pawl.Event, error) bool)) (last error) {
	for _, err := range events {
		if last = err; err != nil {
			return last
		}
	}
	return nil
}

func unknownNames(t *testing.T, h *home) {
	ctx, r := context.Background(), waitingRequest(t, h)
	what := func(what, id string) func(*pawl.NotFoundError) bool {
		return func(e *pawl.NotFoundError) bool {
			return e.What == what && e.ID == id && errors.Is(e, pawl.ErrNotFound)
		}
	}
	nobody := r.g.Thread(r.eng, "nobody")
	for name, verb := range map[string]func() error{
		"resume": func() error { _, err := nobody.Resume(ctx); return err },
		"retry":  func() error { _, err := nobody.Retry(ctx); return err },
		"cancel": func() error { return nobody.Cancel(ctx, "why not") },
		"run at": func() error { _, err := nobody.Run(ctx, &request{}, pawl.At(r.q.ID)); return err },
		"edit at": func() error {
			_, err := nobody.Edit(ctx, func(*request) error { return nil }, pawl.At(r.q.ID))
			return err
		},
	} {
		refused(t, r.db, "thread/"+name, verb, what("thread", "nobody"), `"nobody"`, "not found", "nothing was changed")
	}
	for name, verb := range map[string]func() error{
		"fork":   func() error { _, err := nobody.Fork(ctx, pawl.Before("note"), nil); return err },
		"replay": func() error { _, err := nobody.Replay(ctx, pawl.Before("note")); return err },
	} {
		refused(t, r.db, "thread/"+name, verb, is(pawl.ErrNotFound), `"nobody"`, "nothing was changed")
	}
	for name, give := range map[string]func() error{
		"engine": func() error { _, err := r.eng.Answer(ctx, "no-such-id", 1); return err },
		"thread": func() error { _, err := r.th.Answer(ctx, "no-such-id", 1); return err },
		"resume": func() error { _, err := r.th.Resume(ctx, decide.Answer("no-such-id", 1)); return err },
	} {
		refused(t, r.db, "question/"+name, give, what("question", "no-such-id"), `"no-such-id"`, "nothing was changed")
	}
	refused(t, r.db, "node", func() error { _, err := r.th.Resume(ctx, pawl.Again("ghost")); return err },
		what("node", "ghost"), `"t"`, `"ghost"`, "nothing was changed")
	refused(t, r.db, "graph", func() error { _, err := r.eng.Thread("ghost", "t").Resume(ctx); return err },
		what("graph", "ghost"), `"t"`, `"ghost"`, "register it", "nothing was changed")
	for name, verb := range map[string]func() error{
		"run":  func() error { _, err := r.eng.Thread("requests", "new").Run(ctx, []byte(`{"ghost":1}`)); return err },
		"fork": func() error { _, err := r.th.Thread.Fork(ctx, pawl.Before("note"), []byte(`{"ghost":1}`)); return err },
		"edit": func() error { _, err := r.th.Thread.Edit(ctx, []byte(`{"ghost":1}`)); return err },
	} {
		refused(t, r.db, "channel/"+name, verb, what("channel", "ghost"), `"ghost"`, `"amount"`, "nothing was")
	}
	for _, id := range []string{"no-such-id", r.th.ID(), "00000000-0000-0000-0000-000000000000"} {
		for name, verb := range map[string]func() error{
			"fork":     func() error { _, err := r.th.Fork(ctx, pawl.Checkpoint(id), nil); return err },
			"replay":   func() error { _, err := r.th.Replay(ctx, pawl.Checkpoint(id)); return err },
			"snapshot": func() error { _, err := r.th.Snapshot(ctx, id); return err },
		} {
			refused(t, r.db, "checkpoint/"+id+"/"+name, verb, func(e *pawl.PointError) bool { return errors.Is(e, pawl.ErrNotFound) && len(e.Exists) == 3 },
				`"t"`, id, "nothing was changed", "checkpoints that exist")
		}
	}
	refused(t, r.db, "checkpoint/page", func() error { _, err := r.th.History(ctx, pawl.Page{Before: "no-such-id"}); return err },
		what("checkpoint", "no-such-id"), `"t"`, "no-such-id")
	refused(t, r.db, "node of a point", func() error { _, err := r.th.Replay(ctx, pawl.Before("ghost")); return err },
		is(pawl.ErrNotFound), `"t"`, `"ghost"`, "nothing was changed")
	refused(t, r.db, "head", func() error { _, err := r.th.Resume(ctx, decide.Answer(r.q.ID, 1), pawl.At("no-such-id")); return err },
		func(e *pawl.VerbError) bool { return e.Verb == pawl.VerbResume }, `"t"`, "no-such-id", "nothing was changed")
}

func wrongJSON(t *testing.T, h *home) {
	ctx, r := context.Background(), waitingRequest(t, h)
	for doc, says := range map[string]string{
		``: "", `{`: "", `[]`: "", `null`: "", `7`: "", `{"amount":"ten"}`: `"amount"`, `{"amount":1.5}`: `"amount"`,
		`{"amount":null}`: `"amount"`, `{"notes":"one"}`: `"notes"`, `{"notes":[1]}`: `"notes"`, `{"amount":1}{}`: "",
		`{"amount":1,"amount":2}`: "amount", "{\"notes\":[\"\xff\"]}": "",
	} {
		for name, verb := range map[string]func() error{
			"run":  func() error { _, err := r.eng.Thread("requests", "new").Run(ctx, []byte(doc)); return err },
			"fork": func() error { _, err := r.th.Thread.Fork(ctx, pawl.Before("note"), []byte(doc)); return err },
			"edit": func() error { _, err := r.th.Thread.Edit(ctx, []byte(doc)); return err },
		} {
			refused[*pawl.InputError](t, r.db, fmt.Sprintf("input/%q/%s", doc, name), verb, nil, "refused", "nothing was", says)
		}
	}
	for _, bad := range []any{"ten", 1.5, nil, []int{1}, true, -1} {
		for name, give := range map[string]func() error{
			"engine": func() error { _, err := r.eng.Answer(ctx, r.q.ID, bad); return err },
			"thread": func() error { _, err := r.th.Answer(ctx, r.q.ID, bad); return err },
			"resume": func() error { _, err := r.th.Resume(ctx, pawl.AnswerWith(r.q.ID, bad)); return err },
		} {
			refused(t, r.db, fmt.Sprintf("answer/%v/%s", bad, name), give, func(e *pawl.AnswerError) bool {
				return e.Reason == pawl.ReasonRefused && len(e.Faults) > 0 && e.Question == r.q.ID
			}, `"t"`, `"decide"`, r.q.ID, "nothing was consumed")
		}
	}
	refused[error](t, r.db, "answer/a channel", func() error { _, err := r.eng.Answer(ctx, r.q.ID, make(chan int)); return err },
		nil, "cannot be encoded", "nothing was consumed")
}

// lateAnswers sends answers to questions that are answered, expired, changed or withdrawn.
func lateAnswers(t *testing.T, h *home) {
	ctx, r := context.Background(), waitingRequest(t, h)
	gives := func(eng *pawl.Engine, th *pawl.Thread, q pawl.Question, value any) map[string]func() error {
		return map[string]func() error{
			"engine": func() error { _, err := eng.Answer(ctx, q.ID, value); return err },
			"thread": func() error { _, err := th.Answer(ctx, q.ID, value); return err },
			"resume": func() error { _, err := th.Resume(ctx, pawl.AnswerWith(q.ID, value)); return err },
		}
	}
	first := pawl.WithActor(ctx, pawl.Actor{ID: "ann"})
	if _, err := r.eng.Answer(first, r.q.ID, 5); err != nil {
		t.Fatal(err)
	}
	for name, give := range gives(r.eng, r.th.Thread, r.q, 6) {
		refused(t, r.db, "answered/"+name, give, func(e *pawl.AnswerError) bool {
			return e.Reason == pawl.ReasonAnswered && errors.Is(e, pawl.ErrAnswered) && e.By == "ann" && !e.At.IsZero()
		}, `"t"`, r.q.ID, "by ann", "nothing was consumed")
	}

	asks := "first"
	g := build(t, pawl.New[request]("late").Node("ask", func(ctx context.Context, s *request) error {
		_, err := soon.Ask(ctx, "quick")
		if err != nil && !errors.Is(err, pawl.ErrExpired) {
			_, _ = decide.Ask(ctx, asks)
			return err
		}
		_, err = decide.Ask(ctx, asks)
		return err
	}, pawl.Uses(soon, decide)).Edge(pawl.Start, "ask"))
	eng := engine(t, r.db, nil, g)
	th := g.Thread(eng, "late")
	out, err := th.Run(ctx, &request{})
	open := mustWaitFor(t, out, err, 2)
	for name, give := range gives(eng, th.Thread, open[0], 1) {
		refused(t, r.db, "expired/"+name, give, func(e *pawl.AnswerError) bool {
			return e.Reason == pawl.ReasonExpired && errors.Is(e, pawl.ErrExpired) && !e.At.IsZero()
		}, `"late"`, `"soon"`, "expired", "nothing was consumed")
	}

	asks = "second"
	_, err = th.Resume(ctx, decide.Answer(open[1].ID, 1))
	if changed := (*pawl.ChangedError)(nil); !errors.As(err, &changed) {
		t.Fatalf("the question changed, and the error is %v", err)
	}
	newest := statusOf(t, th).Waiting
	for name, give := range gives(eng, th.Thread, open[1], 2) {
		refused(t, r.db, "changed/"+name, give, func(e *pawl.AnswerError) bool {
			return e.Reason == pawl.ReasonSuperseded && len(newest) == 1 && e.Newest == newest[0].ID
		}, `"late"`, `"decide"`, "changed", "the open one is", "nothing was consumed")
	}

	if err := th.Cancel(ctx, "enough"); err != nil {
		t.Fatal(err)
	}
	for name, give := range gives(eng, th.Thread, newest[0], 2) {
		if name == "resume" { // the verb itself is refused first
			refused[*pawl.VerbError](t, r.db, "withdrawn/"+name, give, nil, "cancelled", "nothing was changed")
			continue
		}
		refused(t, r.db, "withdrawn/"+name, give, func(e *pawl.AnswerError) bool { return e.Reason == pawl.ReasonWithdrawn },
			`"late"`, "withdrawn", "nothing was consumed")
	}
}
