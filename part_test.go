package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/storage"
)

type deskPart struct{ refuse pawl.Verb }

func (deskPart) Name() string   { return "desk" }
func (deskPart) Digest() string { return "1" }

type seenKey struct{}

func (deskPart) Task(ctx context.Context, info pawl.TaskInfo) (context.Context, func(error)) {
	return context.WithValue(ctx, seenKey{}, info), nil
}

func (d deskPart) Verb(_ context.Context, _ storage.Tx, v pawl.VerbInfo) ([]pawl.Note, error) {
	if v.Verb == d.refuse {
		return nil, errors.New("the desk says no")
	}
	return []pawl.Note{{Part: "desk", Text: "fine"}}, nil
}

func (deskPart) Store(_ string, doc []byte) ([]byte, error) { return []byte(`"hidden"`), nil }

type partState struct {
	Result pawl.Last[string] `json:"result"`
}

type named string

func (n named) UseName() string { return string(n) }

// A part opens a wait in an Update of the task, a decider answers it with its own records, and the node goes on.
func TestAPartWaitsAndDecides(t *testing.T) {
	t.Parallel()
	node := func(ctx context.Context, s *partState) error {
		task, _ := pawl.TaskFrom(ctx)
		if info, ok := ctx.Value(seenKey{}).(pawl.TaskInfo); !ok || info.Thread != "t" || info.Node != "pay" {
			t.Errorf("the part's task hook gave %+v", info)
		}
		if _, err := task.Address(ctx, "effect", "pay", pawl.Key("order-1")); err != nil {
			return err
		}
		if q, ok := task.Awaits(ctx, "approval", "pay", pawl.Key("order-1")); ok {
			if q.State == "answered" {
				s.Result.Set(string(q.Answer))
				return nil
			}
			return pawl.ErrWaiting
		}
		err := task.Update(ctx, func(ctx context.Context, tx storage.Tx) error {
			_, err := task.Wait(ctx, tx, pawl.Wait{Kind: "approval", Name: "pay", Key: "order-1", Body: json.RawMessage(`{"amount":1}`), Digest: "d"})
			return err
		})
		if err != nil {
			return err
		}
		return task.Closed(ctx)
	}
	g, err := pawl.New[partState]("parts").Node("pay", node, pawl.Uses(named("pay"))).Edge(pawl.Start, "pay").Build()
	if err != nil {
		t.Fatal(err)
	}
	db, err := memdb.Open(pawl.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	eng, err := pawl.NewEngine(db, &pawl.Options{Parts: []pawl.Part{deskPart{refuse: pawl.VerbDelete}}})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	th := g.Thread(eng, "t")
	out, err := th.Run(t.Context(), &partState{})
	if err != nil || out.Status != pawl.Waiting || len(out.Waiting) != 1 || out.Waiting[0].Kind != "approval" {
		t.Fatalf("got %+v, %v", out, err)
	}
	id := out.Waiting[0].ID
	if _, err := eng.Answer(t.Context(), id, "yes"); err == nil {
		t.Error("a wait that is decided elsewhere took a plain answer")
	}
	decide := func() error {
		return db.Update(t.Context(), func(_ context.Context, tx storage.Tx) error {
			_, err := eng.AnswerTx(tx, id, pawl.Answer{Value: json.RawMessage(`"granted"`), By: "cfo"})
			return err
		})
	}
	if err := decide(); err != nil {
		t.Fatal(err)
	}
	if again := (*pawl.AnswerError)(nil); !errors.As(decide(), &again) {
		t.Error("a wait was decided twice")
	}
	out, err = th.Resume(t.Context())
	if err != nil || out.State.Result.Get() != `"granted"` {
		t.Fatalf("got %+v, %v", out, err)
	}
	if err := th.Delete(t.Context()); err == nil || err.Error() != "the desk says no" {
		t.Errorf("delete was not refused by the part: %v", err)
	}
	if s, err := th.State(t.Context()); err != nil || s.Status != pawl.Done {
		t.Errorf("after a refused verb the thread is %+v, %v", s, err)
	}
}

// hushed hides one word of every error.
type hushed struct{}

func (hushed) Name() string             { return "hushed" }
func (hushed) Digest() string           { return "1" }
func (hushed) Text(words string) string { return strings.ReplaceAll(words, "CANARY", "[hidden]") }

// What is stored and shown of a node's error has passed the parts; the error in this process is whole.
func TestErrorsAreStoredAsPartsTellThem(t *testing.T) {
	t.Parallel()
	secret := errors.New("401 for https://host/?token=CANARY")
	g, err := pawl.New[partState]("leaky").
		Node("call", func(context.Context, *partState) error { return secret }).
		Edge(pawl.Start, "call").Build()
	if err != nil {
		t.Fatal(err)
	}
	db, err := memdb.Open(pawl.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	eng, err := pawl.NewEngine(db, &pawl.Options{Parts: []pawl.Part{hushed{}}})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	th := g.Thread(eng, "t")
	out, err := th.Run(t.Context(), &partState{})
	if !errors.Is(err, secret) || out.Status != pawl.Failed {
		t.Fatalf("got %+v, %v", out, err)
	}
	state, stateErr := th.State(t.Context())
	if stateErr != nil {
		t.Fatal(stateErr)
	}
	for place, words := range map[string]string{
		"outcome": out.Reason, "error": err.Error(), "state": state.Reason, "task": state.Head.Tasks[0].Error,
	} {
		if strings.Contains(words, "CANARY") || !strings.Contains(words, "[hidden]") {
			t.Errorf("%s says %q", place, words)
		}
	}
}
