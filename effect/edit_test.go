package effect_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// count is a call whose parameters have types to lose.
type order2 struct {
	To     string   `json:"to"`
	Cents  int64    `json:"cents"`
	Lines  []string `json:"lines"`
	Rush   bool     `json:"rush"`
	APIKey string   `json:"api_key"`
}

// Valid is the rule that the parameters bring along.
func (o *order2) Valid() error {
	if o.Cents <= 0 {
		return errors.New("cents must be above zero")
	}
	return nil
}

type editState struct {
	In      pawl.Last[order2] `json:"in"`
	Receipt pawl.Last[string] `json:"receipt"`
	Ran     pawl.Last[int64]  `json:"ran"`
}

// shopOf is a program that buys with approval, and what it bought.
type shopOf struct {
	bought []order2
	e      effect.Effect[order2, string]
	g      *pawl.Graph[editState]
}

func newShop(t testing.TB) *shopOf {
	t.Helper()
	s := &shopOf{}
	s.e = effect.New("shop.buy", func(_ context.Context, op effect.Op, in order2) (string, error) {
		s.bought = append(s.bought, in)
		return "receipt of " + op.Ref.ID, nil
	}).Material("to", "cents").Approve(approval.Levels{{To: "finance", For: time.Hour}}).Check(func(in order2) error {
		if in.Cents > 1000 {
			return errors.New("more than 10.00 is not bought here")
		}
		return nil
	})
	node := func(ctx context.Context, st *editState) error {
		got, err := s.e.Do(ctx, effect.Ref("order", "1"), st.In.Get())
		if err != nil {
			return err
		}
		ran, _, err := s.e.Result(ctx, effect.Ref("order", "1"))
		st.Receipt.Set(got)
		st.Ran.Set(ran.Ran.Cents)
		return err
	}
	g, err := pawl.New[editState]("shop").Node("buy", node, pawl.Uses(s.e)).Edge(pawl.Start, "buy").Build()
	if err != nil {
		t.Fatal(err)
	}
	s.g = g
	return s
}

var basket = order2{To: "acme", Cents: 500, Lines: []string{"a"}, APIKey: "CANARY-1"}

func (p *process) desks(t testing.TB) *approval.Desk {
	t.Helper()
	return approval.NewDesk(p.eng, p.db)
}

// asked runs the shop to its request.
func (s *shopOf) asked(t testing.TB, p *process, thread string) approval.Request {
	t.Helper()
	if err := p.eng.Register(s.g); err != nil {
		t.Fatal(err)
	}
	out, err := s.g.Thread(p.eng, thread).Run(person(t.Context(), "starter"), &editState{In: pawl.Of(basket)})
	if err != nil || out.Status != pawl.Waiting {
		t.Fatalf("got %+v, %v", out, err)
	}
	return p.openRequest(t)
}

func (p *process) openRequest(t testing.TB) approval.Request {
	t.Helper()
	open, err := p.desks(t).List(t.Context(), approval.Filter{State: approval.Requested})
	if err != nil || len(open) != 1 {
		t.Fatalf("%d are open: %v", len(open), err)
	}
	return open[0]
}

func set(path, doc string) approval.Change {
	return approval.Change{Path: path, New: json.RawMessage(doc)}
}

func onHomes(t *testing.T, test func(t *testing.T, db storage.DB)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { t.Parallel(); test(t, memory(t)) })
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		db, err := sqlite.Open(filepath.Join(t.TempDir(), "a.db"), kinds()...)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		test(t, db)
	})
}

// A49: an edit voids the operation and reserves the next, somebody else approves it, its types are kept, and what runs is
// what was approved, with the secrets that nobody saw. The node gets the receipt and learns what ran.
func TestEdit(t *testing.T) {
	t.Parallel()
	onHomes(t, func(t *testing.T, db storage.DB) {
		s, p := newShop(t), start(t, db, fault.Plan{})
		r := s.asked(t, p, "t")
		ann := person(t.Context(), "ann")
		next, err := p.desk.Edit(ann, r.ID, effect.Edit{Digest: r.Call, Reason: "too dear", Changes: []approval.Change{set("/cents", "400"), set("/lines", `["a","b"]`)}})
		if err != nil {
			t.Fatal(err)
		}
		if next.ID == r.ID || next.Call == r.Call || next.Operation == r.Operation || next.Instead != r.ID || next.Editor != "ann" ||
			next.Why != `changed by "ann": too dear` || next.State != approval.Requested || next.ViewDigest == r.ViewDigest || next.Wait == r.Wait {
			t.Errorf("the new request is %+v", next)
		}
		diff, _ := json.Marshal(next.Diff)
		if want := `[{"path":"/cents","old":500,"new":400},{"path":"/lines","old":["a"],"new":["a","b"]}]`; string(diff) != want {
			t.Errorf("the diff is %s", diff)
		}
		if !strings.Contains(string(next.View), `"cents":400`) || strings.Contains(string(next.View)+string(diff), "CANARY") {
			t.Errorf("it shows %s", next.View)
		}
		if old, err := p.desks(t).Show(t.Context(), r.ID); err != nil || old.State != approval.Superseded || !strings.Contains(old.Unused, next.ID) {
			t.Errorf("the old one is %+v, %v", old, err)
		}
		st, err := s.g.Thread(p.eng, "t").State(t.Context())
		if err != nil || len(st.Waiting) != 1 || st.Waiting[0].ID != next.Wait || st.Waiting[0].Digest != next.Call {
			t.Errorf("the thread waits for %+v, %v", st.Waiting, err)
		}
		ops := p.operations()
		if len(ops) != 2 || ops[0].State != effect.StateVoided || ops[1].State != effect.StateReserved || ops[1].Revision != 2 ||
			ops[0].Proposed != ops[1].Proposed || ops[1].Authorised == ops[1].Proposed || ops[1].Key == ops[0].Key {
			t.Errorf("the operations are %+v", ops)
		}
		for who, ctx := range map[string]context.Context{"the editor": ann, "the starter": person(t.Context(), "starter")} {
			if _, err := p.desks(t).Approve(ctx, next.ID, approval.Decision{Digest: next.Call}); !errors.As(err, new(*approval.ForbiddenError)) {
				t.Errorf("%s approves it: %v", who, err)
			}
		}
		if _, err := p.desks(t).Approve(person(t.Context(), "bob"), r.ID, approval.Decision{Digest: r.Call}); !errors.As(err, new(*approval.DecidedError)) {
			t.Errorf("a yes for the call before: %v", err)
		}
		if out, err := s.g.Thread(p.eng, "t").Resume(t.Context()); err != nil || out.Status != pawl.Waiting || p.openRequest(t).ID != next.ID {
			t.Errorf("resumed without an answer: %+v, %v", out, err)
		}
		granted, err := p.desks(t).Approve(person(t.Context(), "bob"), next.ID, approval.Decision{Digest: next.Call})
		if err != nil || granted.Word() != "Approved with changes" {
			t.Fatalf("got %+v, %v", granted, err)
		}
		out, err := s.g.Thread(p.eng, "t").Resume(t.Context())
		if err != nil || out.Status != pawl.Done || out.State.Receipt.Get() != "receipt of 1" || out.State.Ran.Get() != 400 {
			t.Fatalf("got %+v, %v", out, err)
		}
		want := basket
		want.Cents, want.Lines = 400, []string{"a", "b"}
		if len(s.bought) != 1 || fmt.Sprint(s.bought[0]) != fmt.Sprint(want) {
			t.Errorf("bought %+v", s.bought)
		}
		op := p.operations()[1]
		if op.State != effect.StateCommitted || op.Call != next.Call || op.Grant != next.ID || op.Editor != "ann" {
			t.Errorf("what ran is %+v", op)
		}
		if got := actions(t, p.db, "t"); !slices.Contains(got, "approval.superseded") || !slices.Contains(got, "effect.voided") {
			t.Errorf("the trail is %v", got)
		}
	})
}

// A48: what breaks the type or a rule is refused with its places; the request is open, the trail has the attempt, and a good
// change is accepted once.
func TestABadEdit(t *testing.T) {
	t.Parallel()
	s, p := newShop(t), start(t, memory(t), fault.Plan{})
	r := s.asked(t, p, "t")
	ann := person(t.Context(), "ann")
	before := dump(t, p.db, ledgerKinds()...)
	refused := 0
	for _, c := range []struct {
		name string
		e    effect.Edit
		says string
	}{
		{"a text for a number", effect.Edit{Changes: []approval.Change{set("/cents", `"400"`)}}, "/cents: "},
		{"an unknown field", effect.Edit{Changes: []approval.Change{set("/tip", `1`)}}, "/tip: unknown field"},
		{"a missing field", effect.Edit{Changes: []approval.Change{set("/to", ``)}}, "/to: missing field"},
		{"a float", effect.Edit{Changes: []approval.Change{set("/cents", `1.5`)}}, "/cents"},
		{"its own rule", effect.Edit{Changes: []approval.Change{set("/cents", `-1`)}}, "cents must be above zero"},
		{"the effect's rule", effect.Edit{Changes: []approval.Change{set("/cents", `1001`)}}, "more than 10.00 is not bought here"},
		{"a secret", effect.Edit{Changes: []approval.Change{set("/api_key", `"x"`)}}, "/api_key: it is hidden from whoever approves"},
		{"nothing", effect.Edit{}, "changes nothing"},
		{"nothing new", effect.Edit{Changes: []approval.Change{set("/cents", `500`)}}, "changes nothing"},
		{"no place", effect.Edit{Changes: []approval.Change{set("/x/y", `1`)}}, `no "x"`},
		{"another tool", effect.Edit{Effect: "mail.send", Changes: []approval.Change{set("/cents", `1`)}}, `make a call of "mail.send" of one of "shop.buy"`},
	} {
		c.e.Digest = r.Call
		_, err := p.desk.Edit(ann, r.ID, c.e)
		e := (*effect.EditError)(nil)
		if !errors.As(err, &e) || len(e.Faults) == 0 || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "CANARY") {
			t.Errorf("%s: %v", c.name, err)
		}
		refused++
	}
	for name, try := range map[string]func() error{
		"a stranger": func() error {
			_, err := p.desk.Edit(pawl.WithActor(t.Context(), pawl.Actor{ID: "eve"}), r.ID, effect.Edit{Digest: r.Call, Changes: []approval.Change{set("/tip", "1")}})
			if !errors.As(err, new(*approval.ForbiddenError)) {
				return fmt.Errorf("got %w", err)
			}
			return nil
		},
		"another digest": func() error {
			_, err := p.desk.Edit(ann, r.ID, effect.Edit{Digest: "0", Changes: []approval.Change{set("/cents", "1")}})
			if !errors.As(err, new(*approval.DigestError)) {
				return fmt.Errorf("got %w", err)
			}
			return nil
		},
	} {
		if err := try(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		refused++
	}
	if _, err := p.desk.Edit(ann, "nothing", effect.Edit{}); !errors.Is(err, pawl.ErrNotFound) {
		t.Errorf("what is not there: %v", err)
	}
	if after := dump(t, p.db, ledgerKinds()...); after != before {
		t.Errorf("a refused change changed\n%s\ninto\n%s", before, after)
	}
	n := 0
	for _, a := range actions(t, p.db, "t") {
		if a == "approval.edit.refused" {
			n++
		}
	}
	if n != refused {
		t.Errorf("%d of %d attempts are in the trail", n, refused)
	}
	got := p.desk.Decide(ann, []approval.Choice{
		{ID: r.ID, Verb: approval.VerbEdit, Decision: approval.Decision{Digest: r.Call}, Changes: []approval.Change{set("/cents", "1")}},
		{ID: r.ID, Verb: approval.VerbApprove, Decision: approval.Decision{Digest: r.Call}},
	})
	if got[0].Err != nil || got[0].Request.Editor != "ann" || !errors.As(got[1].Err, new(*approval.DecidedError)) {
		t.Errorf("got %+v, %v; %v", got[0].Request, got[0].Err, got[1].Err)
	}
}

// A no to the change, a revoked yes, a change of a change: each leads where a request without changes would.
func TestAfterAnEdit(t *testing.T) {
	t.Parallel()
	s, p := newShop(t), start(t, memory(t), fault.Plan{})
	r := s.asked(t, p, "t")
	edit := func(who string, r approval.Request, cents string) approval.Request {
		t.Helper()
		next, err := p.desk.Edit(person(t.Context(), who), r.ID, effect.Edit{Digest: r.Call, Changes: []approval.Change{set("/cents", cents)}})
		if err != nil {
			t.Fatal(err)
		}
		return *next
	}
	two := edit("bob", edit("ann", r, "400"), "300")
	if _, err := p.desks(t).Approve(person(t.Context(), "cfo"), two.ID, approval.Decision{Digest: two.Call}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.desk.Edit(person(t.Context(), "ann"), two.ID, effect.Edit{Digest: two.Call, Changes: []approval.Change{set("/cents", "1")}}); !errors.As(err, new(*approval.DecidedError)) {
		t.Errorf("a granted call was changed: %v", err)
	}
	if _, err := p.desks(t).Revoke(person(t.Context(), "ann"), two.ID, ""); err != nil {
		t.Fatal(err)
	}
	if out, err := s.g.Thread(p.eng, "t").Resume(t.Context()); err != nil || out.Status != pawl.Waiting {
		t.Fatalf("got %+v, %v", out, err)
	}
	again := p.openRequest(t)
	if again.Call != two.Call || again.N != 2 || again.Editor != "bob" || !strings.Contains(string(again.View), `"cents":300`) {
		t.Errorf("asked anew as %+v, %s", again, again.View)
	}
	if _, err := p.desks(t).Reject(person(t.Context(), "cfo"), again.ID, approval.Decision{Reason: "no"}); err != nil {
		t.Fatal(err)
	}
	_, err := s.g.Thread(p.eng, "t").Resume(t.Context())
	if no := (*effect.DeniedError)(nil); !errors.As(err, &no) || no.Reason != "no" || len(s.bought) != 0 {
		t.Errorf("got %v; bought %v", err, s.bought)
	}
}

// The process of the desk dies at every call of the home: the change is there whole or not at all, and said again it is
// there once.
func TestTheEditorsDeskDies(t *testing.T) {
	t.Parallel()
	for n := range 12 {
		home := memory(t)
		s, p := newShop(t), start(t, home, fault.Plan{})
		r := s.asked(t, p, "t")
		change := effect.Edit{Digest: r.Call, Changes: []approval.Change{set("/cents", "400")}}
		dying := start(t, home, fault.Plan{At: fault.At(n, fault.Stop())})
		_, _ = dying.desk.Edit(person(t.Context(), "ann"), r.ID, change)
		dying.db.Stop()
		now := p.openRequest(t)
		if now.ID == r.ID {
			if _, err := p.desk.Edit(person(t.Context(), "ann"), r.ID, change); err != nil {
				t.Errorf("%d: %v", n, err)
			}
			now = p.openRequest(t)
		}
		if _, err := p.desks(t).Approve(person(t.Context(), "cfo"), now.ID, approval.Decision{Digest: now.Call}); err != nil {
			t.Fatal(err)
		}
		if out, err := s.g.Thread(p.eng, "t").Resume(t.Context()); err != nil || out.State.Ran.Get() != 400 || len(s.bought) != 1 {
			t.Errorf("%d: %+v, %v", n, out, err)
		}
		if len(p.operations()) != 2 {
			t.Errorf("%d: %d operations", n, len(p.operations()))
		}
	}
}

// A55: the policy changes while a request waits. A yes for the call under the policy before covers nothing: it is superseded,
// and the call is asked about again, with the reason.
func TestThePolicyChangesWhileItWaits(t *testing.T) {
	t.Parallel()
	target := pawltest.NewTarget(pawltest.TargetKeys)
	e, home := approved(bank(target)), memory(t)
	p := start(t, home, fault.Plan{})
	out, err := p.thread(e, "t").Run(t.Context(), order(hundred))
	if err != nil {
		t.Fatal(err)
	}
	r := p.openRequest(t)
	p.yes(out)
	_ = p.eng.Close()
	p = start(t, home, fault.Plan{}, func(o *effect.Options) { o.Policy = "2" })
	if out, err := p.thread(e, "t").Resume(t.Context()); err != nil || out.Status != pawl.Waiting {
		t.Fatalf("got %+v, %v", out, err)
	}
	next := p.openRequest(t)
	if next.ID == r.ID || next.Instead != r.ID || next.Call == r.Call || next.Policy != "2" || !strings.Contains(next.Why, `the policy changed from "1" to "2"`) {
		t.Errorf("asked again as %+v", next)
	}
	if old, err := p.desks(t).Show(t.Context(), r.ID); err != nil || old.State != approval.Superseded || old.Unused != next.Why {
		t.Errorf("the old one is %+v, %v", old, err)
	}
	wantCount(t, target, 0, 0, 0)
}
