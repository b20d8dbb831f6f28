package effect

import (
	"fmt"

	"github.com/pawl-dev/pawl"
)

// standing says how a thread's operations stand, for people who decide what to do with a run that is refused.
func (l *Ledger) standing(ops []*Operation) []pawl.Note {
	var out []pawl.Note
	for _, op := range ops {
		means := ""
		switch op.State {
		case StateCommitted, StateCompensating, StateCompensated, StateCompensationFailed:
			means = " and will not be sent again"
		case StateReserved:
			means = " and was not sent"
		case StateDispatched, StateInDoubt, StateQuarantined:
			means = ": it may have happened"
		case StateReleased:
			means = " to be sent once more"
		}
		out = append(out, pawl.Note{Part: l.Name(), Text: fmt.Sprintf("Operation %.12s (%s %s) is %s%s", op.Key, op.Effect, op.Ref, op.State, means)})
	}
	return out
}
