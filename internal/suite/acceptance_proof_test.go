package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/audit/proof"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/internal/nest"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/storage"
)

// acceptanceProof: what approvers see, and what auditors can prove.
func acceptanceProof() []scenario {
	return []scenario{
		{id: "A59", run: lookAlikes},
		{id: "A61", run: tampered},
		{id: "A62", run: behindAReceipt},
	}
}

// alike is a call whose fields sound like secrets, and one that is one.
type alike struct {
	Author      string `json:"author"`
	Monkey      string `json:"monkey"`
	Keyboard    string `json:"keyboard"`
	Cardinality int    `json:"cardinality"`
	Tokenizer   string `json:"tokenizer"`
	OperationID string `json:"operation_key"`
	Token       string `json:"token"`
}

// lookAlikes is A59: names that only sound secret stay visible, a material field that would be hidden is no approval, and
// what is approved is the digest of the original.
func lookAlikes(t *testing.T, _ *report) {
	onEachMoney(t, func(t *testing.T, h *home) {
		ctx, o, sent := context.Background(), firmIn(t, h), []alike{}
		order := alike{"ann", "see", "qwerty", 3, "bpe", "k-1", "hunter2hunter2"}
		post := effect.New("post", func(_ context.Context, _ effect.Op, in alike) (receipt, error) {
			sent = append(sent, in)
			return receipt{"r-1"}, nil
		}).Approve(approval.Levels{{To: "finance"}})
		posts := func(name string, e effect.Effect[alike, receipt], in *alike) *nest.Thread[payment] {
			return atDepth(t, pawl.New[payment](name).Node("post", func(ctx context.Context, _ *payment) error {
				_, err := e.Do(ctx, effect.Ref("letter", name), *in)
				return err
			}, pawl.Uses(e)).Path(pawl.Start, "post")).Thread(o.eng, name)
		}
		th := posts("plain", post.Material("author"), &order)
		out, err := th.Run(ctx, &payment{})
		mustWaitFor(t, out, err, 1)
		r := o.requests(t)[0]
		var view struct{ Params json.RawMessage }
		if err := json.Unmarshal(r.View, &view); err != nil {
			t.Fatal(err)
		}
		same(t, "what is shown", string(view.Params), strings.Replace(compact(order), "hunter2hunter2", "[hidden]", 1))
		if r.Call == r.ViewDigest {
			t.Error("the digest of the call is that of the view")
		}
		// Only the hidden field differs: another call, with another digest.
		other := order
		other.Token = "correct-horse"
		out, err = posts("other", post.Material("author"), &other).Run(ctx, &payment{})
		mustWaitFor(t, out, err, 1)
		for _, again := range o.requests(t, approval.Requested) {
			if again.ID != r.ID && again.Call == r.Call {
				t.Error("two calls that differ in what is hidden have one digest")
			}
		}
		o.yes(t)
		out, err = th.Resume(ctx)
		mustBeDone(t, out, err)
		same(t, "what ran", sent, []alike{order})
		hidden := (*effect.HiddenError)(nil)
		if _, err := posts("hiding", post.Material("token"), &order).Run(ctx, &payment{}); !errors.As(err, &hidden) {
			t.Errorf("a material field that would be hidden: %v", err)
		}
		same(t, "asked", len(o.requests(t)), 2)
	})
}

// proved is a firm with a trail that was put in order.
func proved(t *testing.T, h *home) *firm {
	t.Helper()
	o := firmIn(t, h)
	g := atDepth(t, payGraph(approvedWire(pawltest.NewTarget(pawltest.TargetKeys))))
	for _, invoice := range []string{"17", "18"} {
		o.paid(t, g.Thread(o.eng, invoice), invoice)
	}
	o.sequenced(t)
	if r := o.verified(t); !r.Honest() {
		t.Fatalf("an honest trail: %+v", r.Findings)
	}
	return o
}

func (o *firm) sequenced(t testing.TB) {
	t.Helper()
	if o.order == nil {
		o.order = audit.NewSequencer(o.db)
	}
	if _, _, err := o.order.Due(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
}

// verified is what a check of the trail finds.
func (o *firm) verified(t testing.TB, anchors ...audit.Anchor) *audit.Report {
	t.Helper()
	r, err := audit.Verify(context.Background(), o.db, "t1", anchors...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// tampered is A61: what somebody does who can write to the database.
func tampered(t *testing.T, _ *report) {
	at := func(tx tx, n int64) (storage.Row, error) {
		row, found, err := tx.Get("audit", "t1", "17", n)
		if err == nil && !found {
			err = errors.New("no such row")
		}
		return row, err
	}
	put := func(tx tx, row storage.Row) error { _, err := tx.Put("audit", row, storage.Always()); return err }
	for name, do := range map[string]func(tx tx) error{
		"flip": func(tx tx) error {
			row, err := at(tx, 2)
			if err == nil {
				row.Body = bytes.Clone(row.Body)
				row.Body[len(row.Body)/2] ^= 1
				err = put(tx, row)
			}
			return err
		},
		"delete": func(tx tx) error {
			_, err := tx.Delete("audit", storage.Range{Prefix: []any{"t1", "17", int64(2)}})
			return err
		},
		"reorder": func(tx tx) error {
			one, err := at(tx, 2)
			two, err2 := at(tx, 3)
			one.Key, two.Key = two.Key, one.Key
			return errors.Join(err, err2, put(tx, one), put(tx, two))
		},
		"insert": func(tx tx) error {
			rows, err := tx.List("audit", storage.Query{Range: storage.Range{Prefix: []any{"t1", "17"}}, Desc: true, Limit: 1})
			if err != nil {
				return err
			}
			rows[0].Key = []any{"t1", "17", rows[0].Key[2].(int64) + 1}
			return put(tx, rows[0])
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEachMoney(t, func(t *testing.T, h *home) {
				o := proved(t, h)
				o.forged = true
				if err := update(o.db, do); err != nil {
					t.Fatal(err)
				}
				r := o.verified(t)
				if r.Honest() || r.Findings[0].Thread != "17" || r.Findings[0].N == 0 {
					t.Errorf("findings %+v", r.Findings)
				}
			})
		})
	}
	t.Run("truncate", func(t *testing.T) { onEachMoney(t, truncated) })
}

// truncated cuts the newest rows off, with all that says that they were there: only an anchor tells.
func truncated(t *testing.T, h *home) {
	o := proved(t, h)
	short, err := audit.Head(context.Background(), o.db, "t1")
	if err != nil {
		t.Fatal(err)
	}
	g := atDepth(t, payGraph(approvedWire(pawltest.NewTarget(pawltest.TargetKeys))))
	other := firmIn(t, h)
	o.forged, other.forged = true, true
	o.paid(t, g.Thread(other.eng, "19"), "19")
	o.sequenced(t)
	long, err := audit.Head(context.Background(), o.db, "t1")
	if err != nil || long.Size <= short.Size {
		t.Fatal(short, long, err)
	}
	if r := o.verified(t, long); !r.Honest() {
		t.Fatalf("%+v", r.Findings)
	}
	err = update(o.db, func(tx tx) error {
		_, err := tx.Delete("audit", storage.Range{Prefix: []any{"t1", "19"}})
		for pos := short.Size + 1; pos <= long.Size && err == nil; pos++ {
			_, err = tx.Delete("audit_log", storage.Range{Prefix: []any{"t1", pos}})
		}
		row, _, err2 := tx.Get("audit_head", "t1")
		row.Fields[0], row.Fields[1] = short.Size, short.Head[:]
		_, err3 := tx.Put("audit_head", row, storage.Always())
		return errors.Join(err, err2, err3)
	})
	if err != nil {
		t.Fatal(err)
	}
	if r := o.verified(t); !r.Honest() || !strings.Contains(strings.Join(r.Notes, " "), "unanchored since") {
		t.Errorf("without an anchor: %+v, %q", r.Findings, r.Notes)
	}
	if r := o.verified(t, long); r.Honest() {
		t.Errorf("a cut tail is not found with its anchor: %q", r.Notes)
	}
}

// offline checks an export by itself, and one of which a letter was changed.
func offline(t testing.TB, doc []byte, anchor audit.Anchor) {
	t.Helper()
	r, err := proof.Read(bytes.NewReader(doc), anchor)
	if err != nil || !r.Honest() {
		t.Fatalf("%+v, %v", r, err)
	}
	r, err = proof.Read(bytes.NewReader(bytes.Replace(doc, []byte(`"id":"cfo"`), []byte(`"id":"cf0"`), 1)), anchor)
	if err != nil || r.Honest() {
		t.Errorf("another approver was not found: %+v, %v", r, err)
	}
}

// behindAReceipt is A62 without its inclusion proof: from a receipt to who saw what, who decided and which attempt ran,
// inside the database and offline.
func behindAReceipt(t *testing.T, _ *report) {
	onEachMoney(t, func(t *testing.T, h *home) {
		ctx, target, o := context.Background(), pawltest.NewTarget(pawltest.TargetKeys), firmIn(t, h)
		th := atDepth(t, payGraph(approvedWire(target))).Thread(o.eng, "t")
		out, err := th.Run(ctx, orderFor("17"))
		mustWaitFor(t, out, err, 1)
		r, err := o.approvals.Show(actor("auditor"), o.requests(t)[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		got := o.paid(t, th, "17")
		rows, err := audit.Trail(ctx, o.db, "t1", o.operation(t).Receipt)
		if err != nil {
			t.Fatal(err)
		}
		by := map[string]audit.Row{}
		for _, row := range rows {
			by[row.Action] = row
		}
		same(t, "who saw it", by["approval.viewed"].Actor.ID, "auditor")
		same(t, "what they saw", by["approval.viewed"].View, r.ViewDigest)
		same(t, "who decided", by["approval.granted"].Actor.ID, "cfo")
		same(t, "what was approved", by["approval.granted"].Digest, r.Call)
		same(t, "what ran", by["effect.dispatched"].Digest, r.Call)
		same(t, "whose grant", by["effect.dispatched"].Approval, r.ID)
		same(t, "the receipt", by["effect.committed"].Receipt, o.operation(t).Receipt)
		same(t, "in the state", got, target.Rows()[0].ID)
		o.sequenced(t)
		var doc bytes.Buffer
		anchor, err := audit.Export(ctx, o.db, "t1", &doc)
		if err != nil {
			t.Fatal(err)
		}
		offline(t, doc.Bytes(), anchor)
	})
}

// monthsLater is S002-17: the thread is gone for half a year, and the receipt still leads to all of it.
func monthsLater(t *testing.T, _ *report) {
	onEachClock(t, func(t *testing.T, h *home) {
		target, o := pawltest.NewTarget(pawltest.TargetKeys), firmIn(t, h)
		th := atDepth(t, payGraph(approvedWire(target))).Thread(o.eng, "t")
		out, err := th.Run(t.Context(), orderFor("17"))
		mustWaitFor(t, out, err, 1)
		inbox := func(id string) context.Context {
			return pawl.WithActor(t.Context(), pawl.Actor{ID: id, Groups: []string{"finance"}, Kind: "person", Door: "inbox"})
		}
		r, err := o.approvals.Show(inbox("cfo"), o.requests(t)[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now().UTC()
		if _, err := o.approvals.Approve(inbox("cfo"), r.ID, approval.Decision{Digest: r.Call, Reason: "checked"}); err != nil {
			t.Fatal(err)
		}
		out, err = th.Resume(t.Context())
		mustBeDone(t, out, err)
		got := o.operation(t).Receipt
		if err := th.Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
		o.sequenced(t)
		later(180 * day)
		fresh := firmIn(t, h)
		rows, err := audit.Trail(t.Context(), fresh.db, "t1", got)
		if err != nil {
			t.Fatal(err)
		}
		by := map[string]audit.Row{}
		for _, row := range rows {
			by[row.Action] = row
		}
		same(t, "who was shown it, by which door", by["approval.viewed"].Actor.ID+", "+by["approval.viewed"].Actor.Door, "cfo, inbox")
		same(t, "which view", by["approval.viewed"].View, r.ViewDigest)
		same(t, "who answered, by which door", by["approval.granted"].Actor.ID+", "+by["approval.granted"].Actor.Door, "cfo, inbox")
		same(t, "when", by["approval.granted"].At.Equal(at), true)
		same(t, "which call ran", by["effect.dispatched"].Digest, r.Call)
		same(t, "with which receipt", by["effect.committed"].Receipt, got)
		same(t, "the trail", fresh.verified(t).Honest(), true)
		var doc bytes.Buffer
		anchor, err := audit.Export(t.Context(), fresh.db, "t1", &doc)
		if err != nil {
			t.Fatal(err)
		}
		offline(t, doc.Bytes(), anchor)
	})
}
