package effect_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/redact"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

type transfer struct {
	To       string `json:"to"`
	Amount   string `json:"amount"`
	Currency string `json:"currency"`
	Note     string `json:"note,omitempty"`
	APIKey   string `json:"api_key,omitempty"`
}

type receipt struct {
	ID string `json:"id"`
}

type state struct {
	Order   pawl.Last[transfer] `json:"order"`
	Ref     pawl.Last[string]   `json:"ref"`
	Receipt pawl.Last[string]   `json:"receipt"`
}

type money = effect.Effect[transfer, receipt]

var hundred = transfer{To: "acme", Amount: "100.00", Currency: "EUR"}

// outside is a target, in this process or another.
type outside interface {
	Mode() pawltest.TargetMode
	Send(ctx context.Context, key, ref string, body []byte) (string, error)
	Find(ctx context.Context, ref string) (string, bool, error)
}

// bank makes the effect that sends to a target, as the target's mode allows.
func bank(target outside) money {
	e := effect.New("bank.transfer", func(ctx context.Context, op effect.Op, in transfer) (receipt, error) {
		body, err := json.Marshal(in)
		if err != nil {
			return receipt{}, effect.NotSent(err)
		}
		id, err := target.Send(ctx, op.Key, op.Ref.String(), body)
		return receipt{id}, err
	}).Material("to", "amount", "currency")
	switch target.Mode() {
	case pawltest.TargetKeys:
		e = e.Keys(24 * time.Hour)
	case pawltest.TargetLookup:
		e = e.Lookup(func(ctx context.Context, op effect.Op, _ transfer) (receipt, bool, error) {
			id, found, err := target.Find(ctx, op.Ref.String())
			return receipt{id}, found, err
		})
	}
	return e
}

func approved(e money) money { return approvedAs(e) }

func approvedAs[In, Out any](e effect.Effect[In, Out]) effect.Effect[In, Out] {
	return e.Approve(approval.Levels{{To: "finance", For: time.Hour}})
}

// payNode pays the order of the state and keeps the receipt.
func payNode(e money) func(context.Context, *state) error {
	return func(ctx context.Context, s *state) error {
		ref := s.Ref.Get()
		if ref == "" {
			ref = "17"
		}
		r, err := e.Do(ctx, effect.Ref("invoice", ref), s.Order.Get())
		if err != nil {
			return err
		}
		s.Receipt.Set(r.ID)
		return nil
	}
}

func graphOf(t testing.TB, node func(context.Context, *state) error, uses ...pawl.Usable) *pawl.Graph[state] {
	t.Helper()
	g, err := pawl.New[state]("expense").
		Node("first", func(context.Context, *state) error { return nil }).
		Node("pay", node, pawl.Uses(uses...)).
		Node("last", func(context.Context, *state) error { return nil }).
		Edge(pawl.Start, "first").Edge("first", "pay").Edge("pay", "last").Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func kinds() []storage.Kind {
	all := append(pawl.Kinds(), effect.Kinds()...)
	return append(append(all, approval.Kinds()...), audit.Kinds()...)
}

func memory(t testing.TB) storage.DB {
	t.Helper()
	db, err := memdb.Open(kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func testKey(b byte) []byte { return bytes.Repeat([]byte{b}, effect.KeySize) }

// process is one process over a shared home: it can die.
type process struct {
	t    testing.TB
	db   *fault.DB
	led  *effect.Ledger
	eng  *pawl.Engine
	desk *effect.Desk
	g    *pawl.Graph[state]
}

func start(t testing.TB, home storage.DB, plan fault.Plan, options ...func(*effect.Options)) *process {
	t.Helper()
	o := effect.Options{Key: testKey(7), Redactor: redact.New(nil), Policy: "1"}
	for _, f := range options {
		f(&o)
	}
	led, err := effect.NewLedger(o)
	if err != nil {
		t.Fatal(err)
	}
	db := fault.Wrap(home, plan)
	eng, err := pawl.NewEngine(db, &pawl.Options{Parts: []pawl.Part{led}, Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	return &process{t, db, led, eng, led.Desk(eng, db), nil}
}

// graph is the one that pays with e.
func (p *process) graph(e money) *pawl.Graph[state] {
	if p.g == nil {
		p.g = graphOf(p.t, payNode(e), e)
	}
	return p.g
}

func (p *process) thread(e money, id string) *pawl.ThreadOf[state] {
	return p.graph(e).Thread(p.eng, id)
}

func person(ctx context.Context, id string) context.Context {
	return pawl.WithActor(ctx, pawl.Actor{ID: id, Groups: []string{"finance"}, Kind: "person"})
}

// yes approves everything that waits in an outcome, and says how much that was.
func (p *process) yes(out *pawl.OutcomeOf[state]) int {
	p.t.Helper()
	return p.decide(out, func(d *approval.Desk, r *approval.Request) error {
		_, err := d.Approve(person(p.t.Context(), "cfo"), r.ID, approval.Decision{Digest: r.Call})
		return err
	})
}

// decideAll approves whatever is open.
func (p *process) decideAll(t testing.TB) {
	t.Helper()
	for _, r := range p.requests() {
		if r.State != approval.Requested {
			continue
		}
		if _, err := approval.NewDesk(p.eng, p.db).Approve(person(t.Context(), "cfo"), r.ID, approval.Decision{Digest: r.Call}); err != nil {
			t.Fatal(err)
		}
	}
}

func (p *process) no(out *pawl.OutcomeOf[state], reason string) int {
	p.t.Helper()
	return p.decide(out, func(d *approval.Desk, r *approval.Request) error {
		_, err := d.Reject(person(p.t.Context(), "cfo"), r.ID, approval.Decision{Reason: reason})
		return err
	})
}

func (p *process) decide(out *pawl.OutcomeOf[state], how func(*approval.Desk, *approval.Request) error) (n int) {
	p.t.Helper()
	for _, r := range p.requests() {
		for _, q := range out.Waiting {
			if q.ID != r.Wait || r.State != approval.Requested {
				continue
			}
			if err := how(approval.NewDesk(p.eng, p.db), &r); err != nil {
				p.t.Fatal(err)
			}
			n++
		}
	}
	return n
}

// requests are all that there ever were.
func (p *process) requests() (out []approval.Request) {
	p.t.Helper()
	for _, row := range rowsOf(p.t, p.db, "approval") {
		var r approval.Request
		if err := json.Unmarshal(row.Body[5:], &r); err != nil {
			p.t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

func (p *process) operations() []effect.Operation {
	p.t.Helper()
	ops, err := p.desk.List(p.t.Context(), effect.Filter{})
	if err != nil {
		p.t.Fatal(err)
	}
	return ops
}

// operation is the only one.
func (p *process) operation() effect.Operation {
	p.t.Helper()
	ops := p.operations()
	if len(ops) != 1 {
		p.t.Fatalf("there are %d operations, want 1: %+v", len(ops), ops)
	}
	return ops[0]
}

func rowsOf(t testing.TB, db storage.DB, kind string) (rows []storage.Row) {
	t.Helper()
	err := db.View(t.Context(), func(_ context.Context, tx storage.Tx) (err error) {
		rows, err = tx.List(kind, storage.Query{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// dump is everything of some kinds, for "nothing changed".
func dump(t testing.TB, db storage.DB, of ...string) string {
	t.Helper()
	var b bytes.Buffer
	for _, kind := range of {
		for _, row := range rowsOf(t, db, kind) {
			fmt.Fprintf(&b, "%s %v %v %d %x\n", kind, row.Key, row.Fields, row.Rev, row.Body)
		}
	}
	return b.String()
}

// ledgerKinds are what a refused call must leave as they are.
func ledgerKinds() []string { return []string{"operation", "attempt", "evidence", "approval"} }

func actions(t testing.TB, db storage.DB, thread string) (out []string) {
	t.Helper()
	rows, err := audit.List(t.Context(), db, "", thread, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		out = append(out, r.Action)
	}
	return out
}

func wantCount(t testing.TB, target *pawltest.Target, requests, lookups, rows int) {
	t.Helper()
	if got, want := target.Count(), (pawltest.TargetCount{Requests: requests, Lookups: lookups, Rows: rows}); got != want {
		t.Errorf("the target saw %s, want %s", got, want)
	}
}

func order(o transfer) *state { return &state{Order: pawl.Of(o)} }

// paid runs or resumes a thread until it is done, with every yes it asks for, and says how often it asked.
func (p *process) paid(th *pawl.ThreadOf[state], o transfer) (out *pawl.OutcomeOf[state], asked int) {
	p.t.Helper()
	out, err := th.Run(p.t.Context(), order(o))
	for err == nil && out.Status == pawl.Waiting {
		n := p.yes(out)
		if n == 0 {
			p.t.Fatalf("the thread waits for what is no approval: %+v", out.Waiting)
		}
		asked += n
		out, err = th.Resume(p.t.Context())
	}
	if err != nil || out.Status != pawl.Done {
		p.t.Fatalf("not done: %+v, %v", out, err)
	}
	return out, asked
}

var errTest = errors.New("the test says so")

type counter struct{ atomic.Int64 }
