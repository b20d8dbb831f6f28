package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/agent"
	"github.com/pawl-dev/pawl/app"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/draw"
)

// desk is a database with a clerk whose model's replies are counted.
type desk struct {
	shop    shop
	path    string
	replies int
}

func newDesk(t *testing.T) *desk {
	dir := t.TempDir()
	return &desk{shop: shop{filepath.Join(dir, "refunds.jsonl")}, path: filepath.Join(dir, "pawl.db")}
}

func (d *desk) open(t *testing.T) (*app.App, *pawl.ThreadOf[agent.Chat]) {
	t.Helper()
	g, err := clerk(d.shop, agent.ModelFunc(func(ctx context.Context, r agent.Request) (agent.Message, error) {
		d.replies++
		return script.Reply(ctx, r)
	}))
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.Open(t.Context(), d.path, g)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a, g.Thread(a.Engine, "case-1")
}

func (d *desk) refunds(t *testing.T) int {
	t.Helper()
	doc, err := os.ReadFile(d.shop.file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return bytes.Count(doc, []byte("\n"))
}

// A person decides in another process than the one that asked.
func TestClerk(t *testing.T) {
	t.Parallel()
	for decision, want := range map[string]struct {
		refunds int
		told    string
	}{
		"approve": {1, "refund of order 17"},
		"reject":  {0, `denied by "sue"`},
	} {
		t.Run(decision, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			a, th := d.open(t)
			out, err := th.Run(t.Context(), agent.Ask("Order 17 came broken."))
			if err != nil || out.Status != pawl.Waiting {
				t.Fatal(out, err)
			}
			a.Close()
			a, th = d.open(t)
			asked, err := a.Approvals().List(t.Context(), approval.Filter{})
			if err != nil || len(asked) != 1 || !strings.Contains(string(asked[0].View), "4200") {
				t.Fatal(asked, err)
			}
			sue := pawl.WithActor(t.Context(), pawl.Actor{ID: "sue", Groups: []string{"support"}})
			if decision == "approve" {
				_, err = a.Approvals().Approve(sue, asked[0].ID, approval.Decision{Digest: asked[0].Call})
			} else {
				_, err = a.Approvals().Reject(sue, asked[0].ID, approval.Decision{Reason: "it was used"})
			}
			if err != nil {
				t.Fatal(err)
			}
			out, err = th.Resume(t.Context())
			if err != nil || out.Status != pawl.Done || !strings.HasPrefix(out.State.Answer.Get(), "I am sorry.") {
				t.Fatal(out, err)
			}
			if result := out.State.Messages.At(4); !strings.Contains(result.Text, want.told) || result.Failed != (want.refunds == 0) {
				t.Errorf("the model was told %+v", result)
			}
			if d.replies != 3 || d.refunds(t) != want.refunds {
				t.Errorf("%d replies and %d refunds, want 3 and %d", d.replies, d.refunds(t), want.refunds)
			}
		})
	}
}

// The picture shows one cycle and two exits.
func TestPicture(t *testing.T) {
	t.Parallel()
	g, err := clerk(shop{}, script)
	if err != nil {
		t.Fatal(err)
	}
	drawn, err := draw.Of(g, 0)
	if err != nil {
		t.Fatal(err)
	}
	picture := drawn.Mermaid()
	for _, line := range []string{"n_think -.-> n_act", "n_act --> n_think", "n_think -.-> n_finished", "n_think -.-> n_gave-20up"} {
		if !strings.Contains(picture, line) {
			t.Errorf("%s is missing:\n%s", line, picture)
		}
	}
}
