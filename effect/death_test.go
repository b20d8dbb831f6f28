package effect_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

var allModes = []pawltest.TargetMode{pawltest.TargetKeys, pawltest.TargetLookup, pawltest.TargetOpaque}

// The rows of the table: where the worker died, as its home and the target show it.
const (
	beforeReserve = "before the operation is stored"
	beforeYes     = "stored, approval not yet given"
	granted       = "granted, not dispatched"
	noByte        = "dispatched is stored, no byte sent"
	received      = "request received, target has not committed and will not"
	noAnswer      = "target committed, no answer read"
	notStored     = "answer read, not stored"
	stored        = "outcome stored, node's checkpoint not"
)

// deaths is the table: requests / rows / what the run then does, by mode.
var deaths = map[string]map[pawltest.TargetMode]string{
	beforeReserve: {pawltest.TargetKeys: "1 / 1 / done", pawltest.TargetLookup: "1 / 1 / done", pawltest.TargetOpaque: "1 / 1 / done"},
	beforeYes:     {pawltest.TargetKeys: "1 / 1 / done", pawltest.TargetLookup: "1 / 1 / done", pawltest.TargetOpaque: "1 / 1 / done"},
	granted:       {pawltest.TargetKeys: "1 / 1 / done", pawltest.TargetLookup: "1 / 1 / done", pawltest.TargetOpaque: "1 / 1 / done"},
	noByte:        {pawltest.TargetKeys: "1 / 1 / done", pawltest.TargetLookup: "1 / 1 / done", pawltest.TargetOpaque: "0 / 0 / waits"},
	received:      {pawltest.TargetKeys: "2 / 1 / done", pawltest.TargetLookup: "2 / 1 / done", pawltest.TargetOpaque: "1 / 0 / waits"},
	noAnswer:      {pawltest.TargetKeys: "2 / 1 / done", pawltest.TargetLookup: "1 / 1 / done", pawltest.TargetOpaque: "1 / 1 / waits"},
	notStored:     {pawltest.TargetKeys: "2 / 1 / done", pawltest.TargetLookup: "1 / 1 / done", pawltest.TargetOpaque: "1 / 1 / waits"},
	stored:        {pawltest.TargetKeys: "1 / 1 / done", pawltest.TargetLookup: "1 / 1 / done", pawltest.TargetOpaque: "1 / 1 / done"},
}

// lookups is how often a look-up target is asked then.
var lookups = map[string]int{noByte: 1, received: 1, noAnswer: 1, notStored: 1}

// Death at every durable write around an effect, before and after it, and inside the target.
func TestEveryPointOfDeath(t *testing.T) {
	t.Parallel()
	for _, mode := range allModes {
		for _, needsYes := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, approval %v", mode, needsYes), func(t *testing.T) {
				t.Parallel()
				met := map[string]int{}
				for n := 0; ; n++ {
					died := die(t, mode, needsYes, fault.Plan{At: fault.At(n, fault.Stop())}, "")
					if died == "" {
						break
					}
					met[died]++
				}
				for _, p := range []pawltest.TargetPoint{pawltest.TargetReceived, pawltest.TargetCommitted} {
					met[die(t, mode, needsYes, fault.Plan{}, p)]++
				}
				want := []string{beforeReserve, noByte, received, noAnswer, notStored, stored}
				if needsYes {
					want = append(want, beforeYes, granted)
				}
				for _, row := range want {
					if met[row] == 0 {
						t.Errorf("no death came %q: %v", row, met)
					}
				}
			})
		}
	}
}

// die lives a life that ends at a point of its home, or of the target, and then another; it names the row of the table.
func die(t *testing.T, mode pawltest.TargetMode, needsYes bool, plan fault.Plan, at pawltest.TargetPoint) string {
	t.Helper()
	target, home := pawltest.NewTarget(mode), memory(t)
	e := bank(target)
	if needsYes {
		e = approved(e)
	}
	p := start(t, home, plan)
	target.At(func(now pawltest.TargetPoint, _ pawltest.TargetRow) error {
		if now != at {
			return nil
		}
		p.db.Stop()
		return errTest
	})
	asked, end := drive(t, p, home, e)
	target.At(nil)
	if end == "done" {
		return ""
	}
	row := rowOf(t, home, target, at)
	more, end := drive(t, start(t, home, fault.Plan{}), home, e)
	c := target.Count()
	if got, want := fmt.Sprintf("%d / %d / %s", c.Requests, c.Rows, end), deaths[row][mode]; got != want {
		t.Errorf("dead %q: %s, want %s", row, got, want)
	}
	if mode == pawltest.TargetLookup && c.Lookups != lookups[row] {
		t.Errorf("dead %q: %d look-ups, want %d", row, c.Lookups, lookups[row])
	}
	if needsYes && asked+more != 1 {
		t.Errorf("dead %q: asked %d times", row, asked+more)
	}
	if keys := slices.Compact(target.Keys()); len(keys) > 1 {
		t.Errorf("dead %q: the target saw the keys %v", row, keys)
	}
	checkEnd(t, home, target, row, needsYes, end)
	return row
}

// drive goes on from wherever the thread stands until it is done, waits for what is no approval, or the home is dead.
func drive(t *testing.T, p *process, home storage.DB, e money) (asked int, end string) {
	t.Helper()
	th := p.thread(e, "t")
	people := start(t, home, fault.Plan{}) // the process in which people decide does not die
	for range 10 {
		s, err := th.State(t.Context())
		var out *pawl.OutcomeOf[state]
		switch {
		case err == nil && s.Status == pawl.Done:
			return asked, "done"
		case err != nil && !strings.Contains(err.Error(), "not found"):
			return asked, err.Error()
		case err != nil || s.Status == pawl.StatusNew:
			out, err = th.Run(t.Context(), order(hundred))
		default:
			out, err = th.Resume(t.Context())
		}
		if err != nil {
			return asked, err.Error()
		}
		if out.Status == pawl.Waiting {
			if out.Waiting[0].Kind == "doubt" {
				return asked, "waits"
			}
			asked += people.yes(out)
		}
	}
	return asked, "does not end"
}

// rowOf tells from what is left where the worker died.
func rowOf(t *testing.T, home storage.DB, target *pawltest.Target, at pawltest.TargetPoint) string {
	t.Helper()
	p := start(t, home, fault.Plan{})
	ops := p.operations()
	c := target.Count()
	switch {
	case at == pawltest.TargetReceived:
		return received
	case at == pawltest.TargetCommitted:
		return noAnswer
	case len(ops) == 0:
		return beforeReserve
	case ops[0].State == effect.StateReserved && p.requests()[0].State == "granted":
		return granted
	case ops[0].State == effect.StateReserved:
		return beforeYes
	case ops[0].State == effect.StateCommitted:
		return stored
	case c.Rows > 0:
		return notStored
	}
	return noByte
}

// checkEnd compares ledger, approvals and target at the end.
func checkEnd(t *testing.T, home storage.DB, target *pawltest.Target, row string, needsYes bool, end string) {
	t.Helper()
	p := start(t, home, fault.Plan{})
	op := p.operation()
	want := effect.StateCommitted
	if end == "waits" {
		want = effect.StateQuarantined
	}
	if op.State != want {
		t.Errorf("dead %q: the operation ends %s, want %s", row, op.State, want)
	}
	s, err := p.desk.Show(t.Context(), op.Key)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(s.Attempts)) != op.Attempts || op.Attempts < int64(target.Count().Requests) {
		t.Errorf("dead %q: %d attempt rows, %d attempts, %s", row, len(s.Attempts), op.Attempts, target.Count())
	}
	if needsYes && (s.Request == nil || s.Request.State != "consumed" || s.Request.UsedBy != op.Key) {
		t.Errorf("dead %q: the grant is %+v", row, s.Request)
	}
	if end != "waits" {
		return
	}
	// Before the decision the history says that the outcome is unknown: it waits, and is neither failed nor done.
	th := p.thread(bank(target), "t")
	st, err := th.State(t.Context())
	if err != nil || st.Status != pawl.Waiting || len(st.Waiting) != 1 || !strings.Contains(string(st.Waiting[0].Body), `"operation"`) {
		t.Errorf("dead %q: the thread is %+v, %v", row, st, err)
	}
	before := target.Count()
	for range 3 {
		if out, err := th.Resume(t.Context()); err != nil || out.Status != pawl.Waiting {
			t.Errorf("dead %q: a resume before the decision gave %+v, %v", row, out, err)
		}
	}
	if target.Count() != before {
		t.Errorf("dead %q: resuming sent or asked: %s", row, target.Count())
	}
}

// A doubt that a person settles: applied, the receipt is used; not applied, it is sent.
func TestAPersonSettlesADoubt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		say      effect.Decision
		requests int
		receipt  string
	}{
		{"applied", effect.Applied(receipt{"tx-by-hand"}), 1, "tx-by-hand"},
		{"not applied", effect.NotApplied(), 2, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			target, home := pawltest.NewTarget(pawltest.TargetOpaque), memory(t)
			e := approved(bank(target))
			p := start(t, home, fault.Plan{})
			th := p.thread(e, "t")
			target.DropAt(pawltest.TargetReceived, 1)
			out, err := th.Run(t.Context(), order(hundred))
			if err != nil || p.yes(out) != 1 {
				t.Fatal(out, err)
			}
			if out, err = th.Resume(t.Context()); err != nil || out.Status != pawl.Waiting || out.Waiting[0].Kind != "doubt" {
				t.Fatalf("got %+v, %v", out, err)
			}
			key := p.operation().Key
			unknown, err := p.desk.Unknown(t.Context())
			if err != nil || len(unknown) != 1 || unknown[0].Key != key {
				t.Fatalf("unknown are %+v, %v", unknown, err)
			}
			op, err := p.desk.Release(person(t.Context(), "ops"), key, c.say, "looked into the bank's own books")
			if err != nil {
				t.Fatal(err)
			}
			if want := map[string]effect.State{"applied": effect.StateCommitted, "not applied": effect.StateReserved}[c.name]; op.State != want {
				t.Errorf("the operation is %s, want %s", op.State, want)
			}
			if out, err = th.Resume(t.Context()); err != nil || out.Status != pawl.Done {
				t.Fatalf("got %+v, %v", out, err)
			}
			wantCount(t, target, c.requests, 0, c.requests-1)
			if c.receipt != "" && out.State.Receipt.Get() != c.receipt {
				t.Errorf("the receipt is %q", out.State.Receipt.Get())
			}
			s, err := p.desk.Show(t.Context(), key[:12])
			if err != nil || len(s.Evidence) != 1 || s.Evidence[0].By != "ops" || s.Evidence[0].Kind != "person" {
				t.Errorf("the evidence is %+v, %v", s, err)
			}
			if n := len(p.requests()); n != 1 {
				t.Errorf("asked for approval %d times", n)
			}
		})
	}
}
