package effect

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

var states = []State{
	absent, StateReserved, StateDispatched, StateCommitted, StateRejected, StateVoided, StateDenied, StateInDoubt, StateQuarantined,
	StateReleased, StateCompensating, StateCompensated, StateCompensationFailed, StateTombstone,
}

// way is one transition, an operation that may make it, and what takes that right away, guard by guard.
type way struct {
	rule     rule
	from, to State
	has      func(*Operation) // what the operation needs to have
	grounds  grounds
	lacks    map[string]func(*Operation, *grounds) // by the words of the guard
	doubt    bool                                  // in doubt afterwards, when it was before
}

func inDoubt(o *Operation)    { o.Doubt = true }
func oneAttempt(o *Operation) { o.Attempts = 1 }
func verdict(v Verdict) func(*Operation) {
	return func(o *Operation) { o.Released, o.Permit = v, "evidence 1" }
}

type lacks = map[string]func(*Operation, *grounds)

// ways are the law as the specification has it.
func ways() []way {
	another := func(_ *Operation, f *grounds) { f.attempt = 2 }
	doubt := func(o *Operation, _ *grounds) { o.Doubt = true }
	sure := func(o *Operation, _ *grounds) { o.Doubt = false }
	unequal := func(o *Operation, _ *grounds) { o.Released = "" }
	start := grounds{allowed: true, reconciled: true, original: true}
	out := []way{
		{"T1", absent, StateReserved, nil, grounds{}, lacks{"there already": func(o *Operation, _ *grounds) { o.rev = 1 }}, true},
		{"T2", StateReserved, StateVoided, nil, grounds{}, lacks{"cannot be given up": doubt}, false},
		{"T2", StateReserved, StateDenied, nil, grounds{}, lacks{"cannot be given up": doubt}, false},
		{"T3", StateReserved, StateDispatched, nil, start, lacks{
			"as if it were new":  doubt,
			"nobody has allowed": func(_ *Operation, f *grounds) { f.allowed = false },
			"not reconciled":     func(_ *Operation, f *grounds) { f.reconciled = false },
			"does not stand":     func(_ *Operation, f *grounds) { f.original = false },
		}, false},
		{"T4", StateDispatched, StateCommitted, oneAttempt, grounds{attempt: 1}, lacks{"another attempt": another}, false},
		{"T5", StateDispatched, StateReserved, oneAttempt, grounds{attempt: 1}, lacks{"another attempt": another, "none about an earlier": doubt}, false},
		{"T6", StateDispatched, StateRejected, oneAttempt, grounds{attempt: 1}, lacks{"another attempt": another, "nothing of an earlier": doubt}, false},
		{"T7", StateDispatched, StateInDoubt, oneAttempt, grounds{attempt: 1}, lacks{
			"another attempt": another, "living process": func(_ *Operation, f *grounds) { f.alive = true },
		}, true},
		{"T8", StateInDoubt, StateDispatched, inDoubt, grounds{keyed: true, budget: true}, lacks{
			"no doubt": sure, "forgotten the key": func(_ *Operation, f *grounds) { f.keyed = false },
			"budget": func(_ *Operation, f *grounds) { f.budget = false },
		}, true},
		{"T10", StateInDoubt, StateReserved, inDoubt, grounds{evidence: true, trusted: true}, lacks{
			"evidence": func(_ *Operation, f *grounds) { f.evidence = false }, "too early": func(_ *Operation, f *grounds) { f.trusted = false },
		}, false},
		{"T11", StateInDoubt, StateQuarantined, inDoubt, grounds{hopeless: true}, lacks{
			"no doubt": sure, "can settle it": func(_ *Operation, f *grounds) { f.hopeless = false },
		}, true},
		{"T12", StateQuarantined, StateReleased, inDoubt, grounds{person: true, agreed: true}, lacks{
			"only a person": func(_ *Operation, f *grounds) { f.person = false }, "second person": func(_ *Operation, f *grounds) { f.agreed = false },
		}, true},
		{"T13", StateReleased, StateCommitted, verdict(VerdictApplied), grounds{}, lacks{"not what was decided": unequal}, false},
		{"T13", StateReleased, StateReserved, verdict(VerdictNotApplied), grounds{}, lacks{"not what was decided": unequal}, false},
		{"T13", StateReleased, StateVoided, verdict(VerdictAbandon), grounds{}, lacks{"not what was decided": unequal}, true},
		{"T13", StateReleased, StateDispatched, verdict(VerdictSendOnce), grounds{}, lacks{
			"not what was decided": unequal, "used already": func(o *Operation, _ *grounds) { o.Permit = "" },
		}, true},
		{"T16", StateTombstone, StateReserved, nil, start, lacks{"forgotten": func(*Operation, *grounds) {}}, true},
		{"T16", StateTombstone, StateDispatched, nil, start, lacks{"forgotten": func(*Operation, *grounds) {}}, true},
	}
	for _, from := range []State{StateInDoubt, StateQuarantined} {
		out = append(out, way{"T9", from, StateCommitted, inDoubt, grounds{evidence: true}, lacks{
			"evidence": func(_ *Operation, f *grounds) { f.evidence = false }, "contradicts": func(o *Operation, _ *grounds) { o.Clash = true },
		}, false})
	}
	not := lacks{"no compensation": func(_ *Operation, f *grounds) { f.original = false }}
	for _, pair := range [][2]State{
		{StateCommitted, StateCompensating}, {StateCompensationFailed, StateCompensating}, {StateCompensated, StateCompensating},
		{StateCompensating, StateCommitted}, {StateCompensating, StateCompensated}, {StateCompensating, StateCompensationFailed},
	} {
		out = append(out, way{"T14", pair[0], pair[1], nil, grounds{original: true}, not, true})
	}
	for _, from := range []State{StateCommitted, StateRejected, StateVoided, StateDenied, StateCompensated} {
		out = append(out, way{"T15", from, StateTombstone, nil, grounds{aged: true}, lacks{
			"never expires": doubt, "retention": func(_ *Operation, f *grounds) { f.aged = false },
		}, true})
	}
	for _, from := range []State{StateReserved, StateCommitted, StateRejected, StateVoided, StateDenied, StateReleased} {
		out = append(out, way{"T17", from, StateQuarantined, nil, grounds{contradicts: true}, lacks{
			"contradicts": func(_ *Operation, f *grounds) { f.contradicts = false },
		}, true})
	}
	return out
}

// Every pair of states: the rules, and nothing else.
func TestTheLawOfStates(t *testing.T) {
	t.Parallel()
	want := map[[2]State]rule{}
	for _, w := range ways() {
		want[[2]State{w.from, w.to}] = w.rule
	}
	for _, from := range states {
		for _, to := range states {
			if got := law(from, to); got != want[[2]State{from, to}] {
				t.Errorf("%q to %q is rule %q, want %q", from, to, got, want[[2]State{from, to}])
			}
			if law(from, to) != "" {
				continue
			}
			o := Operation{State: from, Attempts: 1}
			all := grounds{true, true, 1, false, true, true, true, true, true, true, true, true, true, true}
			if err := o.to(to, time.Time{}, "", all); err == nil || o.State != from {
				t.Errorf("%q went to %q: %v", from, to, err)
			}
		}
	}
}

// Each transition goes with what it needs, and not when one of it is missing; nothing is changed then.
func TestEveryGuard(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, w := range ways() {
		t.Run(fmt.Sprintf("%s %s to %s", w.rule, w.from, w.to), func(t *testing.T) {
			t.Parallel()
			fresh := func() (*Operation, grounds) {
				o := &Operation{Effect: "e", Ref: Ref("k", "1"), Key: "abc", State: w.from}
				if w.has != nil {
					w.has(o)
				}
				return o, w.grounds
			}
			if o, f := fresh(); w.rule != "T16" {
				before := o.Doubt
				if err := o.to(w.to, now, "because", f); err != nil {
					t.Fatal(err)
				}
				if o.State != w.to || o.Reason != "because" || !o.Updated.Equal(now) || before && o.Doubt != w.doubt || o.Permit != "" {
					t.Errorf("it left %+v", o)
				}
				if w.rule == "T7" && !o.Doubt || w.rule == "T17" && (!o.Doubt || !o.Clash) {
					t.Errorf("it left no doubt: %+v", o)
				}
			}
			n := 0
			o, f := fresh()
			n = len(o.guards(w.rule, w.to, f))
			if w.rule == "T13" && w.to != StateDispatched {
				n = 1
			}
			if n != len(w.lacks) {
				t.Errorf("%d guards, and the table takes away %d", n, len(w.lacks))
			}
			for words, take := range w.lacks {
				o, f := fresh()
				take(o, &f)
				state, doubt := o.State, o.Doubt
				err := o.to(w.to, now, "because", f)
				law := (*LawError)(nil)
				if !errors.As(err, &law) || !strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), "nothing was changed") {
					t.Errorf("without %q: %v", words, err)
				}
				if o.State != state || o.Doubt != doubt || o.Reason != "" {
					t.Errorf("without %q it left %+v", words, o)
				}
			}
		})
	}
}

// What a state says of itself, for all of them.
func TestStatesKnowThemselves(t *testing.T) {
	t.Parallel()
	for _, s := range states {
		happened := s == StateCommitted || s == StateCompensating || s == StateCompensated || s == StateCompensationFailed
		unknown := s == StateInDoubt || s == StateQuarantined
		if s.happened() != happened || s.Unknown() != unknown || s.open() != (unknown || s == StateDispatched) || s.known() != (s != absent) {
			t.Errorf("%q: happened %v, unknown %v, open %v, known %v", s, s.happened(), s.Unknown(), s.open(), s.known())
		}
	}
}
