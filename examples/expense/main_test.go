package main

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/app"
	"github.com/pawl-dev/pawl/approval"
)

// office is the program's engine, with people.
type office struct {
	*app.App
	bank  bank
	graph *pawl.Graph[State]
}

func open(t *testing.T) office {
	t.Helper()
	b := bank{filepath.Join(t.TempDir(), "bank.jsonl")}
	g, err := graph(b)
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.Open(t.Context(), "memory:", g)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return office{a, b, g}
}

func (o office) files(t *testing.T, id string, e Expense) *pawl.OutcomeOf[State] {
	t.Helper()
	out, err := o.graph.Thread(o.Engine, id).Run(t.Context(), &State{Expense: pawl.Of(e)})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (o office) goesOn(t *testing.T, id string, options ...pawl.RunOption) *pawl.OutcomeOf[State] {
	t.Helper()
	out, err := o.graph.Thread(o.Engine, id).Resume(t.Context(), options...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (o office) asked(t *testing.T) approval.Request {
	t.Helper()
	open, err := o.Approvals().List(t.Context(), approval.Filter{State: approval.Requested})
	if err != nil || len(open) != 1 {
		t.Fatalf("requests: %v, %v", open, err)
	}
	return open[0]
}

func (o office) made(t *testing.T) int {
	t.Helper()
	done, err := o.bank.statement()
	if err != nil {
		t.Fatal(err)
	}
	return len(done)
}

func as(t *testing.T, who string, groups ...string) context.Context {
	return pawl.WithActor(t.Context(), pawl.Actor{ID: who, Groups: groups, Kind: "person"})
}

// A large expense is reviewed, approved as the reviewer left it, and paid once, also when the thread is forked.
func TestLarge(t *testing.T) {
	t.Parallel()
	o := open(t)
	out := o.files(t, "e-1", Expense{ID: "17", Vendor: "acme", Cents: 250_000, Why: "a lathe"})
	if out.Status != pawl.Waiting || out.Waiting[0].Name != "review" {
		t.Fatalf("%+v", out.Outcome)
	}
	th := o.graph.Thread(o.Engine, "e-1")
	refused := (*pawl.AnswerError)(nil)
	if _, err := th.Resume(t.Context(), review.Answer(out.Waiting[0].ID, Decision{Pay: true, Cents: 1_000_000})); !errors.As(err, &refused) {
		t.Fatalf("more than was asked for: %v", err)
	}
	out = o.goesOn(t, "e-1", review.Answer(out.Waiting[0].ID, Decision{Pay: true, Cents: 200_000}))
	if out.Status != pawl.Waiting || out.Waiting[0].Kind != "approval" || o.made(t) != 0 {
		t.Fatalf("%+v, %d transfers", out.Outcome, o.made(t))
	}
	r := o.asked(t)
	if _, err := o.Approvals().Approve(as(t, "bob"), r.ID, approval.Decision{Digest: r.Call}); !errors.Is(err, pawl.ErrDenied) {
		t.Fatalf("bob is not finance: %v", err)
	}
	if _, err := o.Approvals().Approve(as(t, "cho", "finance"), r.ID, approval.Decision{Digest: r.Call}); err != nil {
		t.Fatal(err)
	}
	out = o.goesOn(t, "e-1")
	if done, err := o.bank.statement(); err != nil || len(done) != 1 || done[0].Cents != 200_000 || out.State.Receipt.Get().ID != "tr-001" {
		t.Fatalf("%v, %v, receipt %v", done, err, out.State.Receipt.Get())
	}
	again, err := th.Replay(t.Context(), pawl.Before("pay"))
	if err != nil || again.Status != pawl.Done || again.State.Receipt.Get().ID != "tr-001" || o.made(t) != 1 {
		t.Fatalf("replayed: %+v, %v, %d transfers", again, err, o.made(t))
	}
}

// A small one needs no review; finance may say no, and the graph is told why.
func TestRejected(t *testing.T) {
	t.Parallel()
	o := open(t)
	o.files(t, "e-2", Expense{ID: "18", Vendor: "globex", Cents: 4_200})
	r := o.asked(t)
	if _, err := o.Approvals().Reject(as(t, "cho", "finance"), r.ID, approval.Decision{Reason: "no invoice"}); err != nil {
		t.Fatal(err)
	}
	out := o.goesOn(t, "e-2")
	notes := []string{}
	for _, n := range out.State.Notes.All() {
		notes = append(notes, n)
	}
	if out.Status != pawl.Done || out.State.Allowed.Get() || !strings.Contains(strings.Join(notes, "|"), "not paid: no invoice") || o.made(t) != 0 {
		t.Fatalf("%+v, notes %q, %d transfers", out.Outcome, notes, o.made(t))
	}
}

// What is not worth a transfer is not paid; what is no expense fails, and says why.
func TestOthers(t *testing.T) {
	t.Parallel()
	o := open(t)
	if out := o.files(t, "e-3", Expense{ID: "19", Vendor: "acme", Cents: pocket}); out.Status != pawl.Done || o.made(t) != 0 {
		t.Fatalf("%+v", out.Outcome)
	}
	out, err := o.graph.Thread(o.Engine, "e-4").Run(t.Context(), &State{Expense: pawl.Of(Expense{Vendor: "acme"})})
	if err == nil || out.Cause != pawl.CauseConcluded {
		t.Fatalf("%+v, %v", out, err)
	}
}

// go run . plays it through with the program's own command line.
func TestPlay(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := play(t.Context(), &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{"ann$ go run . runs start expense e-1", "answered: ", "approved: bank.transfer expense:17", "status  done", "approval.consumed",
		"The bank made 1 transfer of 200000 cents."} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, &out)
		}
	}
}
