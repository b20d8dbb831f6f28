package suite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/audit/proof"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/redact"
)

// permits allow some verbs.
type permits struct{ may []pawl.Verb }

func (g *permits) allow(_ context.Context, v pawl.VerbInfo) error {
	if v.Verb == pawl.VerbRead || slices.Contains(g.may, v.Verb) {
		return nil
	}
	return errors.New("has no permission for it")
}

// guarded is a firm whose verbs need permission, and whose trail has a row for each of them.
func guarded(t *testing.T, h *home, g *permits) *firm {
	t.Helper()
	db, red := h.open(t), redact.New(nil)
	led, err := effect.NewLedger(effect.Options{Key: bytes.Repeat([]byte{7}, effect.KeySize), Redactor: red})
	if err != nil {
		t.Fatal(err)
	}
	eng := engine(t, db, &pawl.Options{Parts: []pawl.Part{red, audit.Part{}, led}, Allow: g.allow})
	return (&firm{db: db, eng: eng, ledger: led}).of("t1")
}

// actions counts a thread's trail by action, of one actor.
func (o *firm) actions(t testing.TB, thread, actor string) map[string]int {
	t.Helper()
	rows, err := audit.List(context.Background(), o.db, "t1", thread, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for _, r := range rows {
		if r.Actor.ID == actor {
			n[r.Action]++
		}
	}
	return n
}

// fiveVerbs is P6: resume, retry, replay and fork have a permission each and a row each, also when they are refused, and
// none of them does what another is for. Redo is no verb of a thread: a second payment on purpose has another reference,
// its own approval, its own key and its own rows.
func fiveVerbs(t *testing.T, _ *report) {
	onEachMoney(t, func(t *testing.T, h *home) {
		all := []pawl.Verb{pawl.VerbRun, pawl.VerbResume, pawl.VerbRetry, pawl.VerbReplay, pawl.VerbFork, approval.VerbApprove}
		g := &permits{may: all}
		target, o := pawltest.NewTarget(pawltest.TargetKeys), guarded(t, h, g)
		broken := errors.New("broken")
		fails := broken
		pay := approvedWire(target)
		graph := atDepth(t, pawl.New[payment]("verbs").Node("transfer", pays(pay), pawl.Uses(pay)).
			Node("after", func(context.Context, *payment) error { return fails }).Path(pawl.Start, "transfer", "after"))
		th := graph.Thread(o.eng, "t")
		ann := actor("ann")
		if out, err := th.Run(ann, orderFor("17")); err != nil || out.Status != pawl.Waiting {
			t.Fatal(out, err)
		}
		o.yes(t)
		verbs := []struct {
			verb pawl.Verb
			do   func() (*pawl.OutcomeOf[payment], error)
		}{
			{pawl.VerbResume, func() (*pawl.OutcomeOf[payment], error) { return th.Resume(ann) }}, // after fails
			{pawl.VerbRetry, func() (*pawl.OutcomeOf[payment], error) { fails = nil; return th.Retry(ann) }},
			{pawl.VerbReplay, func() (*pawl.OutcomeOf[payment], error) { return th.Replay(ann, pawl.Before("transfer")) }},
			{pawl.VerbFork, func() (*pawl.OutcomeOf[payment], error) { return th.Fork(ann, pawl.Before("transfer"), nil) }},
		}
		for _, v := range verbs {
			g.may = slices.DeleteFunc(slices.Clone(all), func(x pawl.Verb) bool { return x == v.verb })
			before, had, kept := everything(t, o.db), o.actions(t, "t", "ann"), fails
			if _, err := v.do(); !errors.Is(err, pawl.ErrDenied) {
				t.Errorf("%s with every permission but its own: %v", v.verb, err)
			}
			fails = kept
			unchanged(t, o.db, before)
			had["thread."+string(v.verb)+".refused"]++
			same(t, "rows of the refused "+string(v.verb), o.actions(t, "t", "ann"), had)

			g.may = []pawl.Verb{v.verb}
			if out, err := v.do(); err != nil && !errors.Is(err, broken) || err == nil && out.Status != pawl.Done {
				t.Errorf("%s with its own permission alone: %v, %v", v.verb, out, err)
			}
			had["thread."+string(v.verb)]++
			same(t, "rows of "+string(v.verb), o.actions(t, "t", "ann"), had)
		}
		same(t, "rows of the target", len(target.Rows()), 1)

		g.may = all
		again := graph.Thread(o.eng, "on-purpose")
		if out, err := again.Run(ann, orderFor("17-again")); err != nil || out.Status != pawl.Waiting {
			t.Fatal(out, err)
		}
		same(t, "a second one is asked for", o.yes(t), 1)
		if out, err := again.Resume(ann); err != nil || out.Status != pawl.Done {
			t.Fatal(out, err)
		}
		same(t, "rows of the target", len(target.Rows()), 2)
		keys := map[string]bool{}
		for _, op := range o.operations(t) {
			keys[op.Key] = true
		}
		same(t, "keys", len(keys), 2)
		if r, err := audit.Verify(context.Background(), o.db, "t1"); err != nil || !r.Honest() {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// provedOffline is P10: from a receipt alone, after the thread is gone, the trail says who was shown which view, who
// decided, which call was sent and with which receipt; an export proves it without the database, and one changed byte
// fails it.
func provedOffline(t *testing.T, _ *report) {
	onEachMoney(t, func(t *testing.T, h *home) {
		ctx := context.Background()
		g := &permits{may: []pawl.Verb{pawl.VerbRun, pawl.VerbResume, approval.VerbApprove, pawl.VerbDelete}}
		target, o := pawltest.NewTarget(pawltest.TargetKeys), guarded(t, h, g)
		th := atDepth(t, payGraph(approvedWire(target))).Thread(o.eng, "t")
		if out, err := th.Run(actor("ann"), orderFor("17")); err != nil || out.Status != pawl.Waiting {
			t.Fatal(out, err)
		}
		o.yes(t)
		request := o.requests(t, approval.Granted)[0]
		if out, err := th.Resume(actor("ann")); err != nil || out.Status != pawl.Done {
			t.Fatal(out, err)
		}
		op := o.operation(t)
		if err := th.Delete(actor("ann")); err != nil {
			t.Fatal(err)
		}
		if _, _, err := audit.NewSequencer(o.db).Due(ctx, 0); err != nil {
			t.Fatal(err)
		}

		rows, err := audit.Trail(ctx, o.db, "t1", op.Receipt)
		if err != nil {
			t.Fatal(err)
		}
		var told []string
		for _, r := range rows {
			switch r.Action {
			case "approval.requested":
				same(t, "shown", []string{r.Approval, r.View, r.Digest}, []string{request.ID, request.ViewDigest, op.Call})
			case "approval.granted":
				same(t, "decided", []string{r.Actor.ID, r.View, r.Digest}, []string{"cfo", request.ViewDigest, op.Call})
			case "effect.dispatched":
				same(t, "sent", []any{r.Approval, r.Digest, r.Thread, r.Run != "" && r.Attempt != ""}, []any{request.ID, op.Call, "t", true})
			case "effect.committed":
				same(t, "came back", []string{r.Receipt, r.Operation}, []string{op.Receipt, op.Key})
			}
			told = append(told, r.Action)
		}
		for _, action := range []string{"approval.requested", "approval.granted", "effect.dispatched", "effect.committed"} {
			if !slices.Contains(told, action) {
				t.Errorf("the trail of receipt %s has no %s: %v", op.Receipt, action, told)
			}
		}

		var export bytes.Buffer
		anchor, err := audit.Export(ctx, o.db, "t1", &export)
		if err != nil {
			t.Fatal(err)
		}
		report, err := proof.Read(bytes.NewReader(export.Bytes()), anchor)
		if err != nil || !report.Honest() || report.Pending != 0 || len(report.Notes) != 0 {
			t.Errorf("offline: %+v, %v", report, err)
		}
		for _, part := range []string{`"id":"cfo"`, op.Receipt, op.Call, request.ViewDigest} {
			at := bytes.LastIndex(export.Bytes(), []byte(part))
			if at < 0 {
				t.Errorf("the export has no %s", part)
				continue
			}
			forged := bytes.Clone(export.Bytes())
			forged[at+len(part)-2] ^= 1
			if r, err := proof.Read(bytes.NewReader(forged)); err != nil || r.Honest() || r.Findings[0].Line == 0 {
				t.Errorf("one changed byte of %s: %+v, %v", part, r, err)
			}
		}
	})
}

// madeOnPurpose is S003-16: a hundred calls of resume, retry, replay and fork, by somebody who means no good, add nothing
// to the world; each is a row of its own kind.
func madeOnPurpose(t *testing.T, _ *report) {
	onEachMoney(t, func(t *testing.T, h *home) {
		g := &permits{may: []pawl.Verb{pawl.VerbRun, pawl.VerbResume, pawl.VerbRetry, pawl.VerbReplay, pawl.VerbFork, approval.VerbApprove}}
		target, o := pawltest.NewTarget(pawltest.TargetKeys), guarded(t, h, g)
		th := atDepth(t, payGraph(approvedWire(target))).Thread(o.eng, "t")
		if out, err := th.Run(actor("ann"), orderFor("17")); err != nil || out.Status != pawl.Waiting {
			t.Fatal(out, err)
		}
		o.yes(t)
		if out, err := th.Resume(actor("ann")); err != nil || out.Status != pawl.Done {
			t.Fatal(out, err)
		}
		eve, r := actor("eve"), rand.New(rand.NewPCG(3, 16))
		calls := []struct {
			name string
			do   func() (*pawl.OutcomeOf[payment], error)
		}{
			{"resume", func() (*pawl.OutcomeOf[payment], error) { return th.Resume(eve) }},
			{"retry", func() (*pawl.OutcomeOf[payment], error) { return th.Retry(eve) }},
			{"replay", func() (*pawl.OutcomeOf[payment], error) { return th.Replay(eve, pawl.Before("transfer")) }},
			{"fork", func() (*pawl.OutcomeOf[payment], error) { return th.Fork(eve, pawl.Before("first"), nil) }},
		}
		want := map[string]int{}
		mixed := func(denied bool) {
			c := calls[r.IntN(len(calls))]
			_, err := c.do()
			verb := (*pawl.VerbError)(nil)
			switch {
			case denied && !errors.Is(err, pawl.ErrDenied), !denied && err != nil && !errors.As(err, &verb):
				t.Fatalf("%s: %v", c.name, err)
			case err != nil:
				want["thread."+c.name+".refused"]++
			default:
				want["thread."+c.name]++
			}
		}
		for range times(t, 100) {
			mixed(false)
		}
		same(t, "rows of the trail", o.actions(t, "t", "eve"), want)
		g.may = nil
		before := everything(t, o.db)
		for range 20 {
			mixed(true)
		}
		unchanged(t, o.db, before)
		same(t, "rows of the trail, with the denied", o.actions(t, "t", "eve"), want)
		same(t, "rows of the target", len(target.Rows()), 1)
		same(t, "asked", len(o.requests(t)), 1)
		if r, err := audit.Verify(context.Background(), o.db, "t1"); err != nil || !r.Honest() {
			t.Errorf("%+v, %v", r, err)
		}
		t.Log(strings.TrimPrefix(fmt.Sprint(want), "map"))
	})
}
