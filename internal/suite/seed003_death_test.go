package suite

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/internal/nest"
	"github.com/pawl-dev/pawl/pawltest"
)

func children003() map[string]func([]byte) {
	return map[string]func([]byte){"003-bank": bankChild, "003-clerk": clerkChild, "bug-three": threeEffectsChild}
}

// death is one row of the table: where the worker dies, and requests / rows / what the run then does, in the order of
// allTargets.
type death struct {
	name  string
	state effect.State         // of the operation, where the worker dies by itself
	after bool                 // that state is on disk
	at    pawltest.TargetPoint // where the target kills it
	want  [3]string
	looks int // a target that can be asked is asked so often
}

var deaths = []death{
	{"before the operation is stored", effect.StateReserved, false, "", [3]string{"1 / 1 / done", "1 / 1 / done", "1 / 1 / done"}, 0},
	{"stored, approval not yet given", effect.StateReserved, true, "", [3]string{"1 / 1 / done", "1 / 1 / done", "1 / 1 / done"}, 0},
	{"granted, not dispatched", effect.StateDispatched, false, "", [3]string{"1 / 1 / done", "1 / 1 / done", "1 / 1 / done"}, 0},
	{"dispatched is stored, no byte sent", effect.StateDispatched, true, "", [3]string{"1 / 1 / done", "1 / 1 / done", "0 / 0 / waits"}, 1},
	{"request received, target has not committed and will not", "", false, pawltest.TargetReceived,
		[3]string{"2 / 1 / done", "2 / 1 / done", "1 / 0 / waits"}, 1},
	{"target committed, no answer read", "", false, pawltest.TargetCommitted, [3]string{"2 / 1 / done", "1 / 1 / done", "1 / 1 / waits"}, 1},
	{"answer read, not stored", effect.StateCommitted, false, "", [3]string{"2 / 1 / done", "1 / 1 / done", "1 / 1 / waits"}, 1},
	{"outcome stored, node's checkpoint not", effect.StateCommitted, true, "", [3]string{"1 / 1 / done", "1 / 1 / done", "1 / 1 / done"}, 0},
}

// everyDeath is S003-15.
func everyDeath(t *testing.T, _ *report) {
	at := startBank(t)
	for _, d := range deaths {
		for i, mode := range allTargets {
			t.Run(d.name+"/"+string(mode), func(t *testing.T) {
				three(t, func(t *testing.T) string {
					f := d.die(t, at, mode)
					got := fmt.Sprintf("%d / %d / %s", f.Requests, f.Rows, f.end)
					same(t, "requests / rows / end", got, d.want[i])
					looks := 0
					if mode == pawltest.TargetLookup {
						looks = d.looks
					}
					same(t, "look-ups", f.Lookups, looks)
					f.afterwards(t)
					return f.line()
				})
			})
		}
	}
}

// stopAfterCommit is S003-1.
func stopAfterCommit(t *testing.T, _ *report) {
	at := startBank(t)
	want := map[pawltest.TargetMode]string{
		pawltest.TargetKeys:   "requests 2 with 1 keys, look-ups 0, rows 1, receipts 1, asked 1, consumed 1, done",
		pawltest.TargetLookup: "requests 1 with 1 keys, look-ups 1, rows 1, receipts 1, asked 1, consumed 1, done",
		pawltest.TargetOpaque: "requests 1 with 1 keys, look-ups 0, rows 1, receipts 0, asked 1, consumed 1, waits",
	}
	for _, d := range deaths[5:7] {
		for _, mode := range allTargets {
			t.Run(d.name+"/"+string(mode), func(t *testing.T) {
				line := three(t, func(t *testing.T) string {
					f := d.die(t, at, mode)
					f.afterwards(t)
					return f.line()
				})
				same(t, "the line", line, want[mode])
			})
		}
	}
}

// fate is what came of a death.
type fate struct {
	pawltest.TargetCount
	keys, receipts, asked, consumed int
	end                             string

	asks, later int // how often people are asked until then, and in all
	bank        *remoteBank
	home        *home
}

func (f *fate) line() string {
	return fmt.Sprintf("requests %d with %d keys, look-ups %d, rows %d, receipts %d, asked %d, consumed %d, %s",
		f.Requests, f.keys, f.Lookups, f.Rows, f.receipts, f.asked, f.consumed, f.end)
}

// killedAt lets a worker die where the table says, on a file of its own.
func (d death) killedAt(t *testing.T, at string, mode pawltest.TargetMode) *fate {
	t.Helper()
	path := newFile(t)
	f := &fate{home: moneyHome(t, path), bank: &remoteBank{URL: at, Book: t.Name(), mode: mode}, asks: 1, later: 1}
	f.bank.plan(t, bankPlan{Kill: d.at})
	if d.state != effect.StateReserved { // the rest dies after the yes
		o := firmIn(t, f.home)
		out, err := f.thread(t, o, "t").Run(context.Background(), orderFor("17"), pawl.RunID("run-t"))
		mustWaitFor(t, out, err, 1)
		o.yes(t)
		o.eng.Close()
	}
	killed(t, "003-clerk", clerk{
		Path: path, Bank: at, Book: t.Name(), Thread: "t", Policy: "policy-1", Mode: mode, State: d.state, After: d.after,
	})
	return f
}

func (f *fate) thread(t testing.TB, o *firm, id string) *nest.Thread[payment] {
	return atDepth(t, payGraph(approvedWire(f.bank))).Thread(o.eng, id)
}

// die is killedAt and what another worker makes of it.
func (d death) die(t *testing.T, at string, mode pawltest.TargetMode) *fate {
	t.Helper()
	f := d.killedAt(t, at, mode)
	o := firmIn(t, f.home)
	th := f.thread(t, o, "t")
	same(t, "status after the death", statusOf(t, th).Status, pawl.Crashed)
	before := history(t, th)
	unknown, err := o.effects.Unknown(context.Background())
	open := d.at != "" || d.state == effect.StateDispatched && d.after || d.state == effect.StateCommitted && !d.after
	if err != nil || (len(unknown) == 1) != open {
		t.Errorf("outcomes that nobody knows: %+v, %v; want one: %v", unknown, err, open)
	}
	f.end = o.toEnd(t, th, "17")
	f.count(t, o, th)
	grew(t, before, history(t, th))
	settled(t, statusOf(t, th))
	return f
}

func (f *fate) count(t testing.TB, o *firm, threads ...*nest.Thread[payment]) {
	t.Helper()
	b := f.bank.books(t)
	f.TargetCount, f.keys, f.asked = b.Count, distinct(b.Keys), len(o.requests(t))
	f.consumed = len(o.requests(t, approval.Consumed))
	var got []string
	for _, th := range threads {
		if r := receiptIn(t, th); r != "" {
			got = append(got, r)
			if !slices.ContainsFunc(b.Rows, func(row pawltest.TargetRow) bool { return row.ID == r }) {
				t.Errorf("the receipt %s is not of the target: %v", r, b.Rows)
			}
		}
	}
	f.receipts = distinct(got)
	for _, k := range b.Keys {
		same(t, "key that the target saw", k, o.operation(t).Key)
	}
}

// afterwards checks what holds after every death: a doubt is shown as one and sends nothing, until a person settles it.
func (f *fate) afterwards(t *testing.T) {
	t.Helper()
	o := firmIn(t, f.home)
	th := f.thread(t, o, "t")
	same(t, "asked", f.asked, f.asks)
	same(t, "consumed", f.consumed, 1)
	if f.end == "done" {
		same(t, "the operation", o.operation(t).State, effect.StateCommitted)
		return
	}
	counted := f.bank.books(t).Count
	for range 2 {
		out, err := th.Resume(context.Background())
		q := mustWaitFor(t, out, err, 1)[0]
		same(t, "waits for", q.Kind, "doubt")
		says(t, string(q.Body), `"operation"`, `"reason":"the process that dispatched it is gone, and left no outcome"`)
	}
	same(t, "the operation", o.operation(t).State, effect.StateQuarantined)
	same(t, "the target saw", f.bank.books(t).Count, counted)
	id, sends := "tx-by-hand", 0
	said := effect.Applied(receipt{id})
	if f.Rows == 0 {
		said, sends = effect.NotApplied(), 1
	}
	if _, err := o.effects.Release(actor("ops"), o.operation(t).Key, said, "looked into the bank's own books"); err != nil {
		t.Fatal(err)
	}
	same(t, "after the word of a person", o.toEnd(t, th, "17"), "done")
	if sends == 0 {
		same(t, "the receipt", receiptIn(t, th), id)
	}
	b := f.bank.books(t)
	same(t, "requests after it", b.Count.Requests, counted.Requests+sends)
	same(t, "rows after it", b.Count.Rows, 1)
	same(t, "asked", len(o.requests(t)), f.later)
	if strings.Contains(fmt.Sprint(statusOf(t, th).Status), "fail") {
		t.Error("a doubt is no failure")
	}
}
