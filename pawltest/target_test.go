package pawltest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/pawltest"
)

// sender is a target wherever it is.
type sender interface {
	Send(ctx context.Context, key, ref string, body []byte) (string, error)
	Find(ctx context.Context, ref string) (string, bool, error)
}

var targetModes = []pawltest.TargetMode{pawltest.TargetKeys, pawltest.TargetLookup, pawltest.TargetOpaque}

// What each mode promises, in process and over HTTP.
func TestTargetsKeepTheirPromises(t *testing.T) {
	t.Parallel()
	for _, mode := range targetModes {
		for _, where := range []string{"in process", "over HTTP"} {
			t.Run(string(mode)+", "+where, func(t *testing.T) {
				t.Parallel()
				target := pawltest.NewTarget(mode)
				var s sender = target
				if where == "over HTTP" {
					s = target.Serve(t)
				}
				ctx := t.Context()
				if _, found, err := s.Find(ctx, "r1"); found || (err == nil) != (mode == pawltest.TargetLookup) {
					t.Errorf("before: found %v, %v", found, err)
				}
				first, err := s.Send(ctx, "k1", "r1", []byte(`{"a":1}`))
				if err != nil || first == "" {
					t.Fatal(first, err)
				}
				again, err := s.Send(ctx, "k1", "r1", []byte(`{"a":1}`))
				if err != nil || (again == first) != (mode == pawltest.TargetKeys) {
					t.Errorf("the same again: %q after %q, %v", again, first, err)
				}
				_, err = s.Send(ctx, "k1", "r1", []byte(`{"a":2}`))
				if errors.Is(err, pawltest.ErrTargetKeyReused) != (mode == pawltest.TargetKeys) {
					t.Errorf("the key with another body: %v", err)
				}
				if _, err = s.Send(ctx, "", "r2", []byte(`{"a":2}`)); err != nil {
					t.Errorf("without a key: %v", err)
				}
				got, found, err := s.Find(ctx, "r1")
				if mode == pawltest.TargetLookup && (err != nil || !found || got != first) || mode != pawltest.TargetLookup && !errors.Is(err, pawltest.ErrTargetMode) {
					t.Errorf("found %q, %v, %v", got, found, err)
				}
				want := pawltest.TargetCount{Requests: 4, Lookups: 2, Rows: 4}
				if mode == pawltest.TargetKeys {
					want.Rows = 2
				}
				if c := target.Count(); c != want || len(target.Rows()) != want.Rows || strings.Join(target.Keys(), ",") != "k1,k1,k1," {
					t.Errorf("%s, keys %q, rows %+v", c, target.Keys(), target.Rows())
				}
			})
		}
	}
}

func TestTargetsDropRequests(t *testing.T) {
	t.Parallel()
	for point, rows := range map[pawltest.TargetPoint]int{pawltest.TargetReceived: 1, pawltest.TargetCommitted: 2} {
		for _, where := range []string{"in process", "over HTTP"} {
			t.Run(string(point)+", "+where, func(t *testing.T) {
				t.Parallel()
				target := pawltest.NewTarget(pawltest.TargetOpaque)
				var s sender = target
				target.DropAt(point, 1)
				if where == "over HTTP" {
					c := target.Serve(t)
					if err := c.Fault(t.Context(), pawltest.TargetFault{At: point, Times: 1}); err != nil {
						t.Fatal(err)
					}
					s = c
				}
				if _, err := s.Send(t.Context(), "k", "r", nil); !errors.Is(err, pawltest.ErrTargetDropped) {
					t.Errorf("the first was not dropped: %v", err)
				}
				if _, err := s.Send(t.Context(), "k", "r", nil); err != nil {
					t.Errorf("the second was dropped: %v", err)
				}
				if c := target.Count(); c.Requests != 2 || c.Rows != rows {
					t.Errorf("%s, want 2 requests and %d rows", c, rows)
				}
			})
		}
	}
}

// Many at once with one key: one row.
func TestATargetReservesItsKeys(t *testing.T) {
	t.Parallel()
	target := pawltest.NewTarget(pawltest.TargetKeys)
	c := target.Serve(t)
	var wg sync.WaitGroup
	got := make([]string, 16)
	for i := range got {
		wg.Go(func() {
			id, err := c.Send(t.Context(), "k", "r", []byte("{}"))
			if err != nil {
				t.Error(err)
			}
			got[i] = id
		})
	}
	wg.Wait()
	for _, id := range got {
		if id != got[0] {
			t.Fatalf("receipts %v", got)
		}
	}
	if n := target.Count(); n.Rows != 1 || n.Requests != 16 {
		t.Errorf("%s", n)
	}
}

// A target in a process of its own outlives the process that sends to it, and can kill it.
func TestATargetInAnotherProcess(t *testing.T) {
	const victim = "PAWL_TARGET_VICTIM"
	if at := os.Getenv(victim); at != "" {
		_, err := pawltest.NewTargetClient(at, pawltest.TargetOpaque).Send(t.Context(), "k", "r", []byte("{}"))
		t.Fatalf("the victim lives: %v", err)
	}
	c := pawltest.TargetProcess(t, pawltest.TargetOpaque)
	if err := c.Fault(t.Context(), pawltest.TargetFault{At: pawltest.TargetCommitted, Times: 1, Kill: true}); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^TestATargetInAnotherProcess$", "-test.count=1")
	cmd.Env = append(os.Environ(), victim+"="+c.URL)
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.Exited() {
		t.Fatalf("the victim was not killed: %v\n%s", err, out)
	}
	l, err := c.Ledger(t.Context())
	if err != nil || l.Count.Requests != 1 || l.Count.Rows != 1 || len(l.Rows) != 1 || l.Keys[0] != "k" {
		t.Errorf("the ledger is %+v, %v", l, err)
	}
}
