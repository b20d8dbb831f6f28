package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/internal/house"
	"github.com/pawl-dev/pawl/internal/nest"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/redact"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
)

// The rig of outside actions: one transfer of 100.00 EUR to acme for invoice-17, of tenant t1.

type transfer struct {
	To       string `json:"to"`
	Amount   string `json:"amount"`
	Currency string `json:"currency"`
}

type receipt struct {
	ID string `json:"id"`
}

// payment is the state of the graphs that pay.
type payment struct {
	Order   pawl.Last[transfer] `json:"order"`
	Invoice pawl.Last[string]   `json:"invoice"`
	Receipt pawl.Last[string]   `json:"receipt"`
}

type wiring = effect.Effect[transfer, receipt]

var hundred = transfer{To: "acme", Amount: "100.00", Currency: "EUR"}

func orderFor(invoice string) *payment {
	return &payment{Order: pawl.Of(hundred), Invoice: pawl.Of(invoice)}
}

// bank is a target: in this process, or behind HTTP.
type bank interface {
	Mode() pawltest.TargetMode
	Send(ctx context.Context, key, ref string, body []byte) (receipt string, err error)
	Find(ctx context.Context, ref string) (receipt string, found bool, err error)
}

var allTargets = []pawltest.TargetMode{pawltest.TargetKeys, pawltest.TargetLookup, pawltest.TargetOpaque}

// wire is the effect that sends to a bank, with what that bank promises.
func wire(b bank) wiring { return wireAs("bank.transfer", b) }

func wireAs(name string, b bank) wiring {
	e := effect.New(name, func(ctx context.Context, op effect.Op, in transfer) (receipt, error) {
		body, err := json.Marshal(in)
		if err != nil {
			return receipt{}, effect.NotSent(err)
		}
		id, err := b.Send(ctx, op.Key, op.Ref.String(), body)
		return receipt{id}, err
	}).Material("to", "amount", "currency")
	switch b.Mode() {
	case pawltest.TargetKeys:
		e = e.Keys(24 * time.Hour)
	case pawltest.TargetLookup:
		e = e.Lookup(func(ctx context.Context, op effect.Op, _ transfer) (receipt, bool, error) {
			id, found, err := b.Find(ctx, op.Ref.String())
			return receipt{id}, found, err
		})
	}
	return e
}

// approvedWire needs a yes of finance.
func approvedWire(b bank) wiring { return approvedAs("bank.transfer", b) }

func approvedAs(name string, b bank) wiring {
	return wireAs(name, b).Approve(approval.Levels{{To: "finance", For: time.Hour}})
}

// pays is a node that pays what the state says and keeps the receipt.
func pays(e wiring) func(context.Context, *payment) error {
	return func(ctx context.Context, s *payment) error {
		r, err := e.Do(ctx, effect.Ref("invoice", s.Invoice.Get()), s.Order.Get())
		if err == nil {
			s.Receipt.Set(r.ID)
		}
		return err
	}
}

func noop[S any](context.Context, *S) error { return nil }

// payGraph pays between two other nodes.
func payGraph(e wiring) *pawl.Builder[payment] {
	return pawl.New[payment]("pay").Node("first", noop).Node("transfer", pays(e), pawl.Uses(e)).Node("last", noop).
		Path(pawl.Start, "first", "transfer", "last")
}

// moneyHome is a home with the record kinds of effects, approvals and audit.
func moneyHome(t testing.TB, path string) *home {
	if path != "" {
		return &home{name: "sqlite", path: path, open: func(t testing.TB) storage.DB {
			db := must(sqlite.Open(path, house.Kinds()...))
			t.Cleanup(func() { db.Close() })
			return db
		}}
	}
	db, err := memdb.Open(house.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return &home{name: "memory", open: func(testing.TB) storage.DB { return db }}
}

// onEachMoney is onEach for what pays.
func onEachMoney(t *testing.T, run func(t *testing.T, h *home)) {
	t.Run("memory", func(t *testing.T) { run(t, moneyHome(t, "")) })
	if inMemoryOnly(t) {
		return
	}
	t.Run("sqlite", func(t *testing.T) { run(t, moneyHome(t, newFile(t))) })
}

func newFile(t testing.TB) string { return filepath.Join(t.TempDir(), "pawl.db") }

// firm is a process of tenant t1 over a home, with its desks.
type firm struct {
	db        storage.DB
	eng       *pawl.Engine
	ledger    *effect.Ledger
	effects   *effect.Desk
	approvals *approval.Desk
	order     *audit.Sequencer
	forged    bool // its rows were tampered with
}

// openFirm makes a process. The key is beside the file at path; without a file all processes have the same.
func openFirm(db storage.DB, path, policy string, parts ...pawl.Part) (*firm, error) {
	return openFirmAs(db, path, effect.Options{Policy: policy}, parts...)
}

// openFirmAs is openFirm with a ledger of its own making.
func openFirmAs(db storage.DB, path string, ledger effect.Options, parts ...pawl.Part) (*firm, error) {
	key := bytes.Repeat([]byte{7}, effect.KeySize)
	if path != "" {
		var err error
		if key, err = effect.KeyFile(house.KeyFile(path)); err != nil {
			return nil, err
		}
	}
	redactor := redact.New(nil)
	ledger.Key, ledger.Redactor = key, redactor
	led, err := effect.NewLedger(ledger)
	if err != nil {
		return nil, err
	}
	eng, err := pawl.NewEngine(db, &pawl.Options{Parts: append([]pawl.Part{redactor, led}, parts...), Strict: true})
	if err != nil {
		return nil, err
	}
	return (&firm{db: db, eng: eng, ledger: led}).of("t1"), nil
}

// of is the same process, working for another tenant.
func (o *firm) of(tenant string) *firm {
	eng := o.eng.Tenant(tenant)
	return &firm{db: o.db, eng: eng, ledger: o.ledger, effects: o.ledger.Desk(eng, o.db), approvals: approval.NewDesk(eng, o.db)}
}

// firmIn is openFirm for this process, closed at the end of the test.
func firmIn(t testing.TB, h *home, policy ...string) *firm {
	t.Helper()
	return firmAs(t, h, effect.Options{Policy: append(policy, "policy-1")[0]})
}

func firmAs(t testing.TB, h *home, ledger effect.Options) *firm {
	t.Helper()
	o, err := openFirmAs(h.open(t), h.path, ledger)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !t.Failed() && !o.forged { // every scenario leaves an honest trail
			if r := o.verified(t); !r.Honest() {
				t.Errorf("the trail: %+v", r.Findings)
			}
		}
		o.eng.Close()
	})
	return o
}

func actor(id string) context.Context {
	return pawl.WithActor(context.Background(), pawl.Actor{ID: id, Groups: []string{"finance"}, Kind: "person"})
}

// requests are all that there ever were, as they are stored, those of one state only if it is named.
func (o *firm) requests(t testing.TB, state ...approval.State) []approval.Request {
	t.Helper()
	f := approval.Filter{}
	if len(state) > 0 {
		f.State = state[0]
	}
	out, err := o.approvals.List(context.Background(), f)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// yes approves all that is open and returns how much that was.
func (o *firm) yes(t testing.TB) int {
	t.Helper()
	open := o.requests(t, approval.Requested)
	for _, r := range open {
		if _, err := o.approvals.Approve(actor("cfo"), r.ID, approval.Decision{Digest: r.Call}); err != nil {
			t.Fatal(err)
		}
	}
	return len(open)
}

// operations are all of the tenant.
func (o *firm) operations(t testing.TB) []effect.Operation {
	t.Helper()
	out, err := o.effects.List(context.Background(), effect.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// operation is the only one.
func (o *firm) operation(t testing.TB) effect.Operation {
	t.Helper()
	ops := o.operations(t)
	if len(ops) != 1 {
		states := make([]string, len(ops))
		for i, op := range ops {
			states[i] = fmt.Sprintf("%s %s %d: %s, %s", op.Effect, op.Ref, op.Revision, op.State, op.Reason)
		}
		t.Fatalf("%d operations, want 1: %q", len(ops), states)
	}
	return ops[0]
}

// toEnd goes on with a thread from wherever it stands, approving what it asks, until it is done ("done") or waits for
// somebody who knows what happened ("waits").
func (o *firm) toEnd(t testing.TB, th *nest.Thread[payment], invoice string) string {
	t.Helper()
	for range 10 {
		s, err := th.State(context.Background())
		if err == nil && s.Status == pawl.Done {
			return "done"
		}
		var out *pawl.OutcomeOf[payment]
		if errors.Is(err, pawl.ErrNotFound) || err == nil && s.Status == pawl.StatusNew {
			out, err = th.Run(context.Background(), orderFor(invoice))
		} else if err == nil {
			out, err = th.Resume(context.Background())
		}
		if err != nil {
			t.Fatal(err)
		}
		if out.Status == pawl.Waiting && out.Waiting[0].Kind == "doubt" {
			return "waits"
		}
		o.yes(t)
	}
	t.Fatal("it does not end")
	return ""
}

// paid runs a new thread to its end and returns its receipt.
func (o *firm) paid(t testing.TB, th *nest.Thread[payment], invoice string) string {
	t.Helper()
	same(t, "end of "+th.ID(), o.toEnd(t, th, invoice), "done")
	return receiptIn(t, th)
}

func receiptIn(t testing.TB, th *nest.Thread[payment]) string {
	t.Helper()
	var v struct {
		Receipt string `json:"receipt"`
	}
	if err := json.Unmarshal(statusOf(t, th).Head.Values, &v); err != nil {
		t.Fatal(err)
	}
	return v.Receipt
}

// kept is what a refusal must leave as it was: the rows of operations, attempts, evidence and requests, and the target.
func (o *firm) kept(t testing.TB, target *pawltest.Target) string {
	t.Helper()
	var b bytes.Buffer
	err := o.db.View(context.Background(), func(_ context.Context, tx storage.Tx) error {
		b.Reset()
		for _, kind := range []string{"operation", "attempt", "evidence", "approval"} {
			rows, err := tx.List(kind, storage.Query{})
			if err != nil {
				return err
			}
			for _, row := range rows {
				fmt.Fprintf(&b, "%s %q %q %d %q\n", kind, row.Key, row.Fields, row.Rev, row.Body)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String() + fmt.Sprintf("%v %q", target.Count(), target.Rows())
}

// saw fails unless a target saw so much.
func saw(t testing.TB, target *pawltest.Target, requests, lookups, rows int) {
	t.Helper()
	same(t, "the target saw", target.Count(), pawltest.TargetCount{Requests: requests, Lookups: lookups, Rows: rows})
}

// deathbed is a home whose process dies where an operation comes into a state: before that is on disk, or after.
type deathbed struct {
	storage.DB
	state effect.State
	after bool
}

func (d *deathbed) Update(ctx context.Context, fn func(ctx context.Context, tx storage.Tx) error) error {
	met := false
	err := d.DB.Update(ctx, func(ctx context.Context, tx storage.Tx) error {
		met = false
		err := fn(ctx, &deathbedTx{tx, d.state, &met})
		if err == nil && met && !d.after {
			killSelf()
		}
		return err
	})
	if err == nil && met {
		killSelf()
	}
	return err
}

type deathbedTx struct {
	storage.Tx
	state effect.State
	met   *bool
}

func (d *deathbedTx) Put(kind string, row storage.Row, cond storage.If) (bool, error) {
	ok, err := d.Tx.Put(kind, row, cond)
	if kind == "operation" && ok && err == nil && row.Fields[1] == string(d.state) {
		*d.met = true
	}
	return ok, err
}

// clerk is a process that runs or resumes one thread and may die. Its target kills it, too.
type clerk struct {
	Path, Bank, Book, Thread, Policy string
	Mode                             pawltest.TargetMode
	State                            effect.State // dies there; empty: not
	After                            bool
}

func (c clerk) bank() *remoteBank { return &remoteBank{c.Bank, c.Book, c.Mode, os.Getpid()} }

// clerkChild prints how the run stands, and its receipt.
func clerkChild(doc []byte) {
	c := args[clerk](doc)
	var db storage.DB = must(sqlite.Open(c.Path, house.Kinds()...))
	if c.State != "" {
		db = &deathbed{db, c.State, c.After}
	}
	o := must(openFirm(db, c.Path, c.Policy))
	th := atDepthHere(payGraph(approvedWire(c.bank()))).Thread(o.eng, c.Thread)
	out, err := th.Run(context.Background(), orderFor("17"), pawl.RunID("run-"+c.Thread))
	if err == nil && out.Status != pawl.Done {
		out, err = th.Resume(context.Background())
	}
	out = must(out, err)
	fmt.Println(out.Status, out.State.Receipt.Get())
	must(0, o.eng.Close())
}
