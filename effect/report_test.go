package effect_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// booksOf are a target's rows as its owner would give them.
func booksOf(target *pawltest.Target) iter.Seq2[effect.TargetRow, error] {
	return func(yield func(effect.TargetRow, error) bool) {
		for _, r := range target.Rows() {
			row := effect.TargetRow{Key: r.Key, Ref: r.Ref, Receipt: r.ID}
			if err := json.Unmarshal([]byte(r.Body), &row.Fields); err != nil || !yield(row, err) {
				return
			}
		}
	}
}

func noRows(func(effect.TargetRow, error) bool) {}

func (p *process) report(rows iter.Seq2[effect.TargetRow, error], o effect.ReportOptions) *effect.Report {
	p.t.Helper()
	r, err := p.desk.Report(p.t.Context(), rows, o)
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

// kindsOf are the findings of a report, in words.
func kindsOf(all []effect.Finding) (out []string) {
	for _, f := range all {
		out = append(out, string(f.Kind))
	}
	return out
}

// On honest data nothing is unexplained, whatever happened on the way.
func TestAReportExplainsHonestBooks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		mode    pawltest.TargetMode
		drop    pawltest.TargetPoint
		no      bool
		matched int
		open    string // what the report says of the one open operation
	}{
		{name: "nothing breaks", mode: pawltest.TargetOpaque, matched: 1},
		{name: "denied", mode: pawltest.TargetOpaque, no: true},
		{name: "committed and dropped, keys", mode: pawltest.TargetKeys, drop: pawltest.TargetCommitted, matched: 1},
		{name: "committed and dropped, look-up", mode: pawltest.TargetLookup, drop: pawltest.TargetCommitted, matched: 1},
		{name: "received and dropped, look-up", mode: pawltest.TargetLookup, drop: pawltest.TargetReceived, matched: 1},
		{name: "committed and dropped, opaque", mode: pawltest.TargetOpaque, drop: pawltest.TargetCommitted, matched: 1, open: "the target has its row"},
		{name: "received and dropped, opaque", mode: pawltest.TargetOpaque, drop: pawltest.TargetReceived, open: "the target has no row of it"},
	} {
		for _, needsYes := range []bool{false, true} {
			if c.no && !needsYes {
				continue
			}
			t.Run(fmt.Sprintf("%s, approval %v", c.name, needsYes), func(t *testing.T) {
				t.Parallel()
				target := pawltest.NewTarget(c.mode)
				if c.drop != "" {
					target.DropAt(c.drop, 1)
				}
				e := bank(target)
				if needsYes {
					e = approved(e)
				}
				p := start(t, memory(t), fault.Plan{})
				th := p.thread(e, "t")
				out, err := th.Run(t.Context(), order(hundred))
				if err == nil && needsYes {
					if c.no {
						p.no(out, "no")
					} else {
						p.yes(out)
					}
					_, err = th.Resume(t.Context())
				}
				if err != nil && !c.no {
					t.Fatal(err)
				}
				r := p.report(booksOf(target), effect.ReportOptions{})
				open := 0
				if c.open != "" {
					open = 1
				}
				if r.Unexplained != 0 || len(r.Findings) != 0 || len(r.Open) != open || r.Matched != c.matched || r.Operations != 1 {
					t.Fatalf("report %+v", r)
				}
				if c.open != "" && (!strings.Contains(r.Open[0].Text, c.open) || r.Open[0].Operation != p.operation().Key) {
					t.Errorf("open %+v", r.Open)
				}
				if again := p.report(booksOf(target), effect.ReportOptions{Effects: []string{"bank.transfer"}}); again.Unexplained != 0 || again.Matched != c.matched {
					t.Errorf("for its effect alone %+v", again)
				}
			})
		}
	}
}

// paidOnce is a committed, approved transfer with its target.
func paidOnce(t *testing.T) (*process, *pawltest.Target) {
	t.Helper()
	target := pawltest.NewTarget(pawltest.TargetOpaque)
	p := start(t, memory(t), fault.Plan{})
	p.paid(p.thread(approved(bank(target)), "t"), hundred)
	return p, target
}

func (p *process) forge(do func(tx storage.Tx) error) {
	p.t.Helper()
	if err := p.db.Update(p.t.Context(), func(_ context.Context, tx storage.Tx) error { return do(tx) }); err != nil {
		p.t.Fatal(err)
	}
}

// Each kind of damage is one finding, which names what is wrong and leaves the rest alone.
func TestAReportNamesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	send := func(p *process, target *pawltest.Target, key, ref, amount string) {
		o := hundred
		o.Amount = amount
		body, _ := json.Marshal(o)
		if _, err := target.Send(p.t.Context(), key, ref, body); err != nil {
			p.t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name   string
		damage func(p *process, target *pawltest.Target)
		want   effect.FindingKind
		says   string
	}{
		{"a stray row", func(p *process, target *pawltest.Target) { send(p, target, "", "invoice:99", "1.00") }, effect.FindStray, "ref invoice:99"},
		{"a stray row of a known reference", func(p *process, target *pawltest.Target) { send(p, target, "mine", "invoice:17", "100.00") },
			effect.FindStray, "invoice:17 is operation"},
		{"two rows with its key", func(p *process, target *pawltest.Target) { send(p, target, p.operation().Key, "invoice:17", "100.00") },
			effect.FindTwice, `the run of thread "t" is done all the same`},
		{"two rows of its reference", func(p *process, target *pawltest.Target) { send(p, target, "", "invoice:17", "100.00") },
			effect.FindTwice, "the target has 2 rows for one operation"},
		{"committed without a row", func(p *process, _ *pawltest.Target) {
			op := rowsOf(p.t, p.db, "operation")[0]
			op.Key, op.Fields = []any{"", "bank.transfer", "invoice:18", int64(1)}, []any{strings.Repeat("f", 64), "committed", op.Fields[2]}
			p.forge(func(tx storage.Tx) error {
				_, err := tx.Put("operation", op, storage.Absent())
				return err
			})
		}, effect.FindMissing, "invoice:18"},
		{"committed without a dispatch", func(p *process, _ *pawltest.Target) {
			p.forge(func(tx storage.Tx) error {
				_, err := tx.Delete("attempt", storage.Range{Prefix: []any{""}})
				return err
			})
		}, effect.FindUnsent, "no dispatch of it is"},
		{"a dispatch without its operation", func(p *process, _ *pawltest.Target) {
			p.forge(func(tx storage.Tx) error {
				_, err := tx.Delete("operation", storage.Range{Prefix: []any{""}})
				return err
			})
		}, effect.FindOrphan, "which is not there"},
		{"a dispatch without its grant", func(p *process, _ *pawltest.Target) {
			p.forge(func(tx storage.Tx) error {
				_, err := tx.Delete("approval", storage.Range{Prefix: []any{""}})
				return err
			})
		}, effect.FindUngranted, "without its grant"},
		{"a grant without its dispatch", func(p *process, _ *pawltest.Target) {
			out, err := p.g.Thread(p.eng, "other").Run(p.t.Context(), &state{Order: pawl.Of(hundred), Ref: pawl.Of("18")})
			if err != nil || p.yes(out) != 1 {
				p.t.Fatal(err)
			}
			for _, r := range p.requests() {
				if r.State == approval.Granted {
					p.forge(func(tx storage.Tx) error { return approval.Consume(tx, "", r.ID, r.Call, r.Operation) })
				}
			}
		}, effect.FindGrant, "no dispatch used it"},
		{"a row of what was denied", func(p *process, target *pawltest.Target) {
			out, err := p.g.Thread(p.eng, "other").Run(p.t.Context(), &state{Order: pawl.Of(hundred), Ref: pawl.Of("18")})
			if err != nil || p.no(out, "no") != 1 {
				p.t.Fatal(err)
			}
			denied := (*effect.DeniedError)(nil)
			if _, err := p.g.Thread(p.eng, "other").Resume(p.t.Context()); !errors.As(err, &denied) {
				p.t.Fatal(err)
			}
			send(p, target, denied.Operation, "invoice:18", "100.00")
		}, effect.FindUnexpected, "the target has it, and the operation is denied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, target := paidOnce(t)
			before := p.report(booksOf(target), effect.ReportOptions{})
			if before.Unexplained != 0 || before.Matched != 1 || before.Grants != 1 || before.Attempts != 1 {
				t.Fatalf("before: %+v", before)
			}
			c.damage(p, target)
			r := p.report(booksOf(target), effect.ReportOptions{})
			n := 0
			for _, f := range r.Findings {
				if f.Kind == c.want && strings.Contains(f.Text, c.says) && f.Next != "" {
					n++
				}
			}
			if n != 1 || r.Unexplained != len(r.Findings) {
				t.Fatalf("%d of %s saying %q in %+v", n, c.want, c.says, r.Findings)
			}
			if c.want == effect.FindOrphan {
				return // its row and its grant lost their operation, too
			}
			alone := []effect.FindingKind{c.want}
			switch c.want {
			case effect.FindMissing: // the forged operation has neither a dispatch nor what its body is sealed for
				alone = []effect.FindingKind{effect.FindUnreadable, c.want, effect.FindUnsent}
			case effect.FindUnsent:
				alone = []effect.FindingKind{c.want, effect.FindGrant}
			}
			if got := kindsOf(r.Findings); fmt.Sprint(got) != fmt.Sprint(alone) {
				t.Errorf("findings %q, want %q", got, alone)
			}
		})
	}
}

// A row is compared with the call that was made, and its values are not told.
func TestAReportComparesFields(t *testing.T) {
	t.Parallel()
	p, target := paidOnce(t)
	op, id := p.operation(), target.Rows()[0].ID
	field := func(v string) map[string]json.RawMessage {
		return map[string]json.RawMessage{"amount": json.RawMessage(v), "fee": json.RawMessage(`"0.50"`)}
	}
	for _, c := range []struct {
		name string
		row  effect.TargetRow
		want string
	}{
		{"the same", effect.TargetRow{Key: op.Key, Receipt: id, Fields: field(`"100.00"`)}, ""},
		{"in quotes and capitals", effect.TargetRow{Key: `"` + strings.ToUpper(op.Key) + `"`}, ""},
		{"as a UUID", effect.TargetRow{Key: effect.Op{Key: op.Key}.UUID()}, ""},
		{"by its receipt", effect.TargetRow{Receipt: id}, ""},
		{"by its receipt under a key of its own", effect.TargetRow{Key: "A-1", Receipt: id}, ""},
		{"by its reference", effect.TargetRow{Ref: "invoice:17"}, ""},
		{"of another effect", effect.TargetRow{Ref: "invoice:17", Effect: "mail"}, "stray_row,missing_row"},
		{"another amount", effect.TargetRow{Key: op.Key, Fields: field(`"120.00"`)}, "other_call"},
		{"another receipt", effect.TargetRow{Key: op.Key, Receipt: "tx-other"}, "other_call"},
	} {
		r := p.report(func(yield func(effect.TargetRow, error) bool) { yield(c.row, nil) }, effect.ReportOptions{})
		if got := strings.Join(kindsOf(r.Findings), ","); got != c.want {
			t.Errorf("%s: findings %q, want %q", c.name, got, c.want)
		}
		if doc, _ := json.Marshal(r); bytes.Contains(doc, []byte("120.00")) {
			t.Errorf("%s: the report tells values: %s", c.name, doc)
		}
	}
}

// Rows and operations outside the time are left alone, unless they belong together.
func TestAReportOfAWhile(t *testing.T) {
	t.Parallel()
	p, _ := paidOnce(t)
	op := p.operation()
	old := effect.ReportOptions{Until: op.Last.Add(-time.Hour)}
	stray := effect.TargetRow{Ref: "invoice:99", At: op.Last}
	one := func(rows ...effect.TargetRow) iter.Seq2[effect.TargetRow, error] {
		return func(yield func(effect.TargetRow, error) bool) {
			for _, r := range rows {
				if !yield(r, nil) {
					return
				}
			}
		}
	}
	for _, c := range []struct {
		name    string
		rows    iter.Seq2[effect.TargetRow, error]
		o       effect.ReportOptions
		want    string
		outside int
	}{
		{"nothing was there yet", noRows, old, "", 0},
		{"it lacks its row", noRows, effect.ReportOptions{}, "missing_row", 0},
		{"since then", noRows, effect.ReportOptions{From: op.Last}, "missing_row", 0},
		{"later only", noRows, effect.ReportOptions{From: op.Last.Add(time.Hour)}, "", 0},
		{"a later stray row", one(stray), old, "", 1},
		{"the same within the time", one(stray), effect.ReportOptions{}, "stray_row,missing_row", 0},
		{"its row is found outside the time, too", one(effect.TargetRow{Key: op.Key, At: op.Last.Add(time.Minute)}), effect.ReportOptions{Until: op.Last.Add(time.Second)}, "", 0},
		{"another effect", noRows, effect.ReportOptions{Effects: []string{"mail"}}, "", 0},
	} {
		r := p.report(c.rows, c.o)
		if got := strings.Join(kindsOf(r.Findings), ","); got != c.want || r.Outside != c.outside {
			t.Errorf("%s: findings %q, want %q; %d outside", c.name, got, c.want, r.Outside)
		}
	}
}

// An effect in the same database has no books elsewhere.
func TestAReportOfAnEffectInTheSameDatabase(t *testing.T) {
	t.Parallel()
	p := start(t, bookHome(t), fault.Plan{})
	p.paid(p.thread(approved(inside(booked)), "t"), hundred)
	if r := p.report(noRows, effect.ReportOptions{}); r.Unexplained != 0 || r.Operations != 1 || r.Attempts != 1 || r.Grants != 1 {
		t.Errorf("report %+v", r)
	}
}

func TestReportsAreRefused(t *testing.T) {
	t.Parallel()
	p, _ := paidOnce(t)
	_, err := p.desk.Report(t.Context(), effect.ReadTargetRows(strings.NewReader("{}\n\n{\"kee\":\"x\"}")), effect.ReportOptions{})
	if err == nil || !strings.Contains(err.Error(), `row 2`) || !strings.Contains(err.Error(), "kee") {
		t.Errorf("an unknown field: %v", err)
	}
	_, err = p.desk.Report(t.Context(), effect.ReadTargetRows(strings.NewReader("{} {}")), effect.ReportOptions{})
	if err == nil {
		t.Error("two rows on a line are taken")
	}
	eng, err := pawl.NewEngine(p.db, &pawl.Options{Allow: func(context.Context, pawl.VerbInfo) error { return errTest }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	if _, err := p.led.Desk(eng, p.db).Report(t.Context(), noRows, effect.ReportOptions{}); !errors.Is(err, pawl.ErrDenied) {
		t.Errorf("somebody who may not look: %v", err)
	}
	if r, err := p.led.Desk(p.eng.Tenant("t2"), p.db).Report(t.Context(), noRows, effect.ReportOptions{}); err != nil || r.Operations != 0 || r.Unexplained != 0 {
		t.Errorf("another tenant sees %+v, %v", r, err)
	}
}

func TestAReportForPeople(t *testing.T) {
	t.Parallel()
	p, target := paidOnce(t)
	op := p.operation()
	lines := fmt.Sprintf("{\"key\":%q,\"receipt\":%q,\"at\":\"2026-12-01T09:00:00Z\"}\n{\"ref\":\"invoice:99\"}\n", op.Key, target.Rows()[0].ID)
	r := p.report(effect.ReadTargetRows(strings.NewReader(lines)), effect.ReportOptions{})
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	want := "Reconciliation of all effects, tenant \"\", " + r.At.Format(time.RFC3339) + "\n" +
		"Target rows 2 (explained 1, outside the time 0) | operations 1 | dispatches 1 | grants spent 1\n" +
		"Unexplained: 1\n" +
		"  stray_row: the target has a row ref invoice:99 that no operation explains\n" +
		"    row ref invoice:99\n" +
		"    Next: find out at the target who sent it; it did not come through this ledger\n" +
		"Open: 0\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	doc, err := json.Marshal(r)
	if err != nil || !bytes.Contains(doc, []byte(`"unexplained":1`)) || !bytes.Contains(doc, []byte(`"open":[]`)) {
		t.Errorf("%s, %v", doc, err)
	}
}

// What a person decided about an operation is how the report takes it.
func TestAReportAfterARelease(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		say  func(id string) effect.Decision
		open int
		want string
	}{
		{"nobody decided", nil, 1, ""},
		{"applied", func(id string) effect.Decision { return effect.Applied(receipt{id}) }, 0, ""},
		{"not applied, and the target has it", func(string) effect.Decision { return effect.NotApplied() }, 0, "unexpected_row"},
		{"abandoned, and the target has it", func(string) effect.Decision { return effect.Abandon() }, 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			target := pawltest.NewTarget(pawltest.TargetOpaque)
			target.DropAt(pawltest.TargetCommitted, 1)
			p := start(t, memory(t), fault.Plan{})
			if _, err := p.thread(bank(target), "t").Run(t.Context(), order(hundred)); err != nil {
				t.Fatal(err)
			}
			if c.say != nil {
				if _, err := p.desk.Release(person(t.Context(), "ops"), p.operation().Key, c.say(target.Rows()[0].ID), "seen"); err != nil {
					t.Fatal(err)
				}
			}
			r := p.report(booksOf(target), effect.ReportOptions{})
			if got := strings.Join(kindsOf(r.Findings), ","); got != c.want || len(r.Open) != c.open {
				t.Errorf("operation %s: findings %q, want %q; open %+v", p.operation().State, got, c.want, r.Open)
			}
		})
	}
}
