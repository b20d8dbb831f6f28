package effect_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/storage/fault"
)

// Functions quote in their errors what they were given. What is told of them, at once and to who asks again, hides what
// the view of the call hides, and the cause is still found below it.
func TestErrorsAreToldWithoutSecrets(t *testing.T) {
	t.Parallel()
	for name, mark := range map[string]func(error) error{
		"not sent": effect.NotSent, "rejected": effect.Rejected, "unknown": func(err error) error { return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := mark(fmt.Errorf("acme does not know CANARY-1: %w", errTest))
			e := effect.New("bank.transfer", func(context.Context, effect.Op, transfer) (receipt, error) { return receipt{}, said }).
				Material("to", "amount", "currency").
				Lookup(func(context.Context, effect.Op, transfer) (receipt, bool, error) {
					return receipt{}, false, errors.New("nobody knows CANARY-1")
				})
			p := start(t, memory(t), fault.Plan{})
			o := hundred
			o.APIKey = "CANARY-1"
			_, err := p.thread(e, "t").Run(t.Context(), order(o))
			for range 2 {
				if err == nil || strings.Contains(err.Error(), "CANARY") || !strings.Contains(err.Error(), "know") || !strings.Contains(err.Error(), "[hidden]") {
					t.Fatalf("got %v", err)
				}
				if name != "unknown" && !errors.Is(err, errTest) {
					t.Errorf("the cause is lost: %v", err)
				}
				_, again := p.thread(e, "t").Resume(t.Context())
				if name == "rejected" {
					again = errors.Join(again, errTest) // a later attempt knows the words only
				}
				err = again
			}
			if rows := dump(t, p.db, "run", "ended", "audit", "operation"); strings.Contains(rows, fmt.Sprintf("%x", "CANARY")) {
				t.Errorf("it is stored: %s", rows)
			}
		})
	}
}
