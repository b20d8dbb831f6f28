package effect_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/storage/fault"
)

// overHTTP pays at a served target through the client.
func overHTTP(url string, p effect.Profile) money {
	client := effect.NewClient(effect.ClientOptions{Profile: p})
	return effect.New("bank.transfer", func(ctx context.Context, op effect.Op, in transfer) (receipt, error) {
		body, err := json.Marshal(in)
		if err != nil {
			return receipt{}, effect.NotSent(err)
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/send?ref="+op.Ref.String(), bytes.NewReader(body))
		if err != nil {
			return receipt{}, effect.NotSent(err)
		}
		res, err := client.Do(req)
		if err == nil {
			err = p.Check(res)
		}
		if err != nil {
			return receipt{}, err
		}
		id, err := io.ReadAll(res.Body)
		return receipt{string(id)}, err
	})
}

// A connection that breaks after the target committed: the same key goes out again because the effect says so, not
// because net/http does.
func TestAnEffectOverHTTP(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		keys     bool
		drops    int
		requests int
		status   pawl.Status
	}{
		{"keys", true, 1, 2, pawl.Done},
		{"opaque", false, 1, 1, pawl.Waiting},
		{"nothing breaks", false, 0, 1, pawl.Done},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			target := pawltest.NewTarget(pawltest.TargetKeys)
			target.DropAt(pawltest.TargetCommitted, c.drops)
			e := overHTTP(target.Serve(t).URL, effect.Profile{})
			if c.keys {
				e = e.Keys(effect.Forever)
			}
			p := start(t, memory(t), fault.Plan{})
			out, err := p.thread(e, "t").Run(t.Context(), order(hundred))
			if err != nil || out.Status != c.status {
				t.Fatalf("%+v, %v", out, err)
			}
			wantCount(t, target, c.requests, 0, 1)
			for _, key := range target.Keys() {
				if key != p.operation().Key {
					t.Errorf("the target was sent the key %q of operation %s", key, p.operation().Key)
				}
			}
			if out.Status == pawl.Done && out.State.Receipt.Get() != target.Rows()[0].ID {
				t.Errorf("receipt %q", out.State.Receipt.Get())
			}
		})
	}
}

// Nobody listens: nothing was sent, and the grant is not spent.
func TestAnEffectThatReachesNobodyKeepsItsGrant(t *testing.T) {
	t.Parallel()
	p := start(t, memory(t), fault.Plan{})
	th := p.thread(approved(overHTTP("http://127.0.0.1:1", effect.Profile{})), "t")
	out, err := th.Run(t.Context(), order(hundred))
	if err != nil || p.yes(out) != 1 {
		t.Fatal(err)
	}
	_, err = th.Resume(t.Context())
	unsent := (*effect.NotSentError)(nil)
	if !errors.As(err, &unsent) {
		t.Fatalf("got %v", err)
	}
	if op, r := p.operation(), p.requests()[0]; op.State != effect.StateReserved || r.State != approval.Granted || r.UsedBy != "" {
		t.Errorf("operation %s, request %s used by %q", op.State, r.State, r.UsedBy)
	}
}

// What is refused for good is final.
func TestAnEffectThatTheTargetRefuses(t *testing.T) {
	t.Parallel()
	target := pawltest.NewTarget(pawltest.TargetOpaque)
	at := target.Serve(t).URL
	p := start(t, memory(t), fault.Plan{})
	th := p.thread(overHTTP(at+"/nowhere", effect.Profile{Rejected: []int{404}}), "t")
	_, err := th.Run(t.Context(), order(hundred))
	refused, status := (*effect.RejectedError)(nil), (*effect.StatusError)(nil)
	if !errors.As(err, &refused) || !errors.As(err, &status) || status.Status != 404 || p.operation().State != effect.StateRejected {
		t.Errorf("got %v, operation %s", err, p.operation().State)
	}
	wantCount(t, target, 0, 0, 0)
}

// In a plain test of a node the function has an operation, too.
func TestAClientInAPlainTest(t *testing.T) {
	t.Parallel()
	target := pawltest.NewTarget(pawltest.TargetKeys)
	e := overHTTP(target.Serve(t).URL, effect.Profile{})
	r, err := e.Do(t.Context(), effect.Ref("invoice", "17"), hundred)
	if err != nil || r.ID == "" || len(target.Keys()[0]) != 64 {
		t.Errorf("receipt %+v, keys %q, %v", r, target.Keys(), err)
	}
}
