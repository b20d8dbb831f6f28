package effect_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/storage/fault"
)

// answer is an error with a status.
type answer int

func (a answer) Error() string   { return fmt.Sprint("status ", int(a)) }
func (a answer) StatusCode() int { return int(a) }

// How often an operation is sent is the ledger's to say: the same for causes that pawl.Retryable tries again and for those
// that it does not. Three tries of the node send what is proven not sent three times, and all else one time.
func TestTheTableOfErrorsDecidesNoOperation(t *testing.T) {
	t.Parallel()
	causes := map[string]error{
		"404": answer(404), "503": answer(503), "429": answer(429), "unknown": errors.New("unknown"), "no file": fs.ErrNotExist,
		"no JSON": &json.SyntaxError{}, "cancelled": context.Canceled, "too late": context.DeadlineExceeded,
	}
	for _, c := range []struct {
		name string
		says func(error) error
		sent int
		ends effect.State
	}{
		{"proven not sent", effect.NotSent, 3, effect.StateReserved},
		{"refused for good", effect.Rejected, 1, effect.StateRejected},
		{"in doubt", func(err error) error { return err }, 1, effect.StateQuarantined},
	} {
		for name, cause := range causes {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				sent := 0
				e := effect.New("bank.transfer", func(context.Context, effect.Op, transfer) (receipt, error) {
					sent++
					return receipt{}, c.says(fmt.Errorf("the bank: %w", cause))
				})
				g, err := pawl.New[state]("expense").
					Node("pay", payNode(e), pawl.Uses(e), pawl.Tries(3), pawl.Backoff(0, 0)).Path(pawl.Start, "pay").Build()
				if err != nil {
					t.Fatal(err)
				}
				p := start(t, memory(t), fault.Plan{})
				out, err := g.Thread(p.eng, "t").Run(t.Context(), order(hundred))
				if op := p.operation(); sent != c.sent || op.State != c.ends {
					t.Errorf("sent %d times, the operation is %s: %v, %v", sent, op.State, out, err)
				}
			})
		}
	}
}

// A look-up settles an operation in doubt on the next try of the node, whatever the cause of the doubt was.
func TestTheTableOfErrorsDecidesNoLookup(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{"404": answer(404), "503": answer(503), "no JSON": &json.SyntaxError{}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := pawltest.NewTarget(pawltest.TargetLookup)
			sent := 0
			e := effect.New("bank.transfer", func(ctx context.Context, op effect.Op, _ transfer) (receipt, error) {
				if sent++; sent > 1 {
					return receipt{}, errors.New("sent again")
				}
				_, err := target.Send(ctx, op.Key, op.Ref.String(), nil)
				return receipt{}, errors.Join(err, cause)
			}).Lookup(func(ctx context.Context, op effect.Op, _ transfer) (receipt, bool, error) {
				id, found, err := target.Find(ctx, op.Ref.String())
				return receipt{id}, found, err
			})
			g, err := pawl.New[state]("expense").
				Node("pay", payNode(e), pawl.Uses(e), pawl.Tries(3), pawl.Backoff(0, 0)).Path(pawl.Start, "pay").Build()
			if err != nil {
				t.Fatal(err)
			}
			p := start(t, memory(t), fault.Plan{})
			out, err := g.Thread(p.eng, "t").Run(t.Context(), order(hundred))
			if err != nil || out.State.Receipt.Get() != target.Rows()[0].ID || sent != 1 || p.operation().State != effect.StateCommitted {
				t.Errorf("sent %d times: %v, %v", sent, out, err)
			}
		})
	}
}
