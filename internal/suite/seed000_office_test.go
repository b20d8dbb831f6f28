package suite

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/redact"
	"github.com/pawl-dev/pawl/storage"
)

// office is an engine with all parts over a home, and the people at its desks.
type office struct {
	db  storage.DB
	eng *pawl.Engine
	led *effect.Ledger
}

// staff makes the parts of one process. All processes of the suite have the same key.
func staff() (*effect.Ledger, []pawl.Part, error) {
	red := redact.New(nil)
	led, err := effect.NewLedger(effect.Options{Key: bytes.Repeat([]byte{7}, effect.KeySize), Redactor: red, Policy: "1"})
	return led, []pawl.Part{red, led}, err
}

func openOffice(t testing.TB, db storage.DB, graphs ...pawl.Registrable) *office {
	t.Helper()
	led, parts, err := staff()
	if err != nil {
		t.Fatal(err)
	}
	return &office{db, engine(t, db, &pawl.Options{Parts: parts}, graphs...), led}
}

// cfo is the person who decides.
func cfo(ctx context.Context) context.Context {
	return pawl.WithActor(ctx, pawl.Actor{ID: "cfo", Groups: []string{"finance"}, Kind: "person"})
}

// requests are all approvals that were ever asked for, the oldest first.
func (o *office) requests(t testing.TB) []approval.Request {
	t.Helper()
	all, err := approval.NewDesk(o.eng, o.db).List(context.Background(), approval.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(all, func(a, b approval.Request) int { return cmp.Compare(a.Requested.UnixNano(), b.Requested.UnixNano()) })
	return all
}

// request is the approval that a thread shows as this question.
func (o *office) request(t testing.TB, q pawl.Question) approval.Request {
	t.Helper()
	for _, r := range o.requests(t) {
		if r.Wait == q.ID {
			return r
		}
	}
	t.Fatalf("question %+v belongs to no approval", q)
	return approval.Request{}
}

// again reads a request again.
func (o *office) again(t testing.TB, r approval.Request) approval.Request {
	t.Helper()
	now, err := approval.NewDesk(o.eng, o.db).Show(context.Background(), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	return *now
}

func (o *office) yes(t testing.TB, q pawl.Question) approval.Request {
	t.Helper()
	r := o.request(t, q)
	granted, err := approval.NewDesk(o.eng, o.db).Approve(cfo(context.Background()), r.ID, approval.Decision{Digest: r.Call})
	if err != nil {
		t.Fatal(err)
	}
	return *granted
}

func (o *office) no(t testing.TB, q pawl.Question, why string) approval.Request {
	t.Helper()
	denied, err := approval.NewDesk(o.eng, o.db).Reject(cfo(context.Background()), o.request(t, q).ID, approval.Decision{Reason: why})
	if err != nil {
		t.Fatal(err)
	}
	return *denied
}

// operations are all of the ledger, by effect and reference.
func (o *office) operations(t testing.TB) []effect.Operation {
	t.Helper()
	all, err := o.led.Desk(o.eng, o.db).List(context.Background(), effect.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// operation is the only one of an effect.
func (o *office) operation(t testing.TB, name string) effect.Operation {
	t.Helper()
	all, err := o.led.Desk(o.eng, o.db).List(context.Background(), effect.Filter{Effect: name})
	if err != nil || len(all) != 1 {
		t.Fatalf("%d operations of %s, want 1; %v", len(all), name, err)
	}
	return all[0]
}

// attempts are the dispatches of an operation.
func (o *office) attempts(t testing.TB, op effect.Operation) []effect.Attempt {
	t.Helper()
	s, err := o.led.Desk(o.eng, o.db).Show(context.Background(), op.Key)
	if err != nil {
		t.Fatal(err)
	}
	return s.Attempts
}

// trail counts the lines of a thread's audit trail by action.
func (o *office) trail(t testing.TB, thread string) map[string]int {
	t.Helper()
	rows, err := audit.List(context.Background(), o.db, "", thread, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for _, r := range rows {
		n[r.Action]++
	}
	return n
}

// standing is what the office keeps of an effect's operations and approvals, byte for byte: what a refusal must leave as
// it was.
func (o *office) standing(t testing.TB, name string) string {
	t.Helper()
	var b strings.Builder
	err := o.db.View(context.Background(), func(_ context.Context, tx storage.Tx) error {
		b.Reset()
		for _, kind := range []string{"operation", "attempt", "evidence", "approval"} {
			rows, err := tx.List(kind, storage.Query{})
			if err != nil {
				return err
			}
			for _, row := range rows {
				if kind == "operation" && row.Key[1] != name || kind == "approval" && !bytes.Contains(row.Body, []byte(name)) {
					continue
				}
				fmt.Fprintf(&b, "%s %v %v %d %x\n", kind, row.Key, row.Fields, row.Rev, row.Body)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// consume presents a grant for a call of an operation, as a dispatch would.
func (o *office) consume(grant approval.Request, call, operation string) error {
	return o.db.Update(context.Background(), func(_ context.Context, tx storage.Tx) error {
		return approval.Consume(tx, "", grant.ID, call, operation)
	})
}

// explained is checked at the end of every scenario with effects: each row of the world belongs to one committed
// operation, each consumed grant to the operation that it names, and nobody waits that the status does not show.
func (o *office) explained(t testing.TB, world []string, committed int) {
	t.Helper()
	n := 0
	ops := map[string]effect.Operation{}
	for _, op := range o.operations(t) {
		ops[op.Key] = op
		if op.State == effect.StateCommitted {
			n++
		}
	}
	same(t, "committed operations", n, committed)
	same(t, "rows of the world "+fmt.Sprint(world), len(world), committed)
	for _, r := range o.requests(t) {
		if r.State != approval.Consumed {
			continue
		}
		if op, ok := ops[r.UsedBy]; !ok || op.Effect != r.Effect || op.Ref.String() != r.Ref || op.Grant != r.ID || op.Call != r.Call {
			t.Errorf("the grant %+v was used by %+v", r, op)
		}
	}
}

// params are the arguments of a model's call.
type params map[string]string

type tool = effect.Effect[params, string]

// call is a call as a person reads it: send_email(to=all-staff).
func call(name string, in params) string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(in)) {
		list = append(list, k+"="+in[k])
	}
	return name + "(" + strings.Join(list, ",") + ")"
}

// shownCall is the call that a question shows.
func shownCall(t testing.TB, q pawl.Question) string {
	t.Helper()
	var v struct {
		Effect string `json:"effect"`
		Params params `json:"params"`
	}
	if err := json.Unmarshal(q.Body, &v); err != nil || q.Kind != "approval" {
		t.Fatalf("question %+v shows no call: %v", q, err)
	}
	return call(v.Effect, v.Params)
}

// tool is an outside action: a row in the world's ledger, which can be looked up. at, if any, is called around the row.
func (l *ledger) tool(name string, at func(point string)) tool {
	if at == nil {
		at = func(string) {}
	}
	receipt := func(row string) string { return fmt.Sprintf("receipt-%d", slices.Index(l.rows(), row)+1) }
	return effect.New(name, func(_ context.Context, _ effect.Op, in params) (string, error) {
		at("received")
		l.add(call(name, in))
		at("committed")
		return receipt(call(name, in)), nil
	}).Lookup(func(_ context.Context, _ effect.Op, in params) (string, bool, error) {
		row := call(name, in)
		return receipt(row), l.count(row) > 0, nil
	})
}

// financed is a tool that finance must allow.
func financed(e tool) tool { return e.Approve(approval.Levels{{To: "finance", For: time.Hour}}) }

var (
	allStaff = params{"to": "all-staff"}
	board    = params{"to": "board"}
	finance  = params{"folder": "/finance"}
)

// refusedAs fails unless a run failed on an error of this type, which it returns.
func refusedAs[E error](t testing.TB, out *pawl.Outcome, err error) (e E) {
	t.Helper()
	if !errors.As(err, &e) {
		t.Fatalf("outcome %+v, error %v, want a %T", out, err, e)
	}
	return e
}
