package approval_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/storage"
)

// script runs steps inside one task, one entry of the node after the other.
func script(t *testing.T, db storage.DB, steps ...func(ctx context.Context, task *pawl.Task) error) *pawl.Engine {
	t.Helper()
	entry := 0
	g, err := pawl.New[state]("script").Node("node", func(ctx context.Context, s *state) error {
		task, _ := pawl.TaskFrom(ctx)
		entry++
		return steps[entry-1](ctx, task)
	}).Edge(pawl.Start, "node").Build()
	if err != nil {
		t.Fatal(err)
	}
	eng, err := pawl.NewEngine(db, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	out, err := g.Thread(eng, "t").Run(t.Context(), &state{})
	for i := 1; i < len(steps); i++ {
		if err != nil || out.Status != pawl.Waiting {
			t.Fatalf("before step %d: %+v, %v", i, out, err)
		}
		for _, q := range out.Waiting {
			if err := db.Update(t.Context(), func(_ context.Context, tx storage.Tx) error {
				_, err := eng.AnswerTx(tx, q.ID, pawl.Answer{})
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		out, err = g.Thread(eng, "t").Resume(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return eng
}

// open opens in an Update of the task.
func open(ctx context.Context, task *pawl.Task, r approval.Request) (got approval.Request, err error) {
	err = task.Update(ctx, func(ctx context.Context, tx storage.Tx) error {
		opened, err := approval.Open(ctx, tx, task, r)
		got = opened
		return err
	})
	return got, err
}

// The same call is asked about once; another call of the same task takes its place, and its wait too.
func TestAnotherCall(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db storage.DB) {
		s := &shop{to: "finance"}
		var first, same, other approval.Request
		eng := script(t, db, func(ctx context.Context, task *pawl.Task) (err error) {
			var errs [3]error
			first, errs[0] = open(ctx, task, s.request("call-1", "1"))
			same, errs[1] = open(ctx, task, s.request("call-1", "1"))
			other, errs[2] = open(ctx, task, s.request("call-2", "1"))
			if err := errors.Join(errs[:]...); err != nil {
				return err
			}
			return task.Closed(ctx)
		})
		if first.ID == "" || same.ID != first.ID || same.Wait != first.Wait || same.Rev != 1 {
			t.Errorf("asked %+v, and again %+v", first, same)
		}
		if other.ID == first.ID || other.N != 2 || other.Wait == first.Wait {
			t.Errorf("another call: %+v", other)
		}
		desk := approval.NewDesk(eng, db)
		old, err := desk.Show(t.Context(), first.ID)
		if err != nil || old.State != approval.Superseded || old.Unused == "" {
			t.Errorf("the first is %+v, %v", old, err)
		}
		open, err := eng.Questions(t.Context(), 10)
		if err != nil || len(open) != 1 || open[0].ID != other.Wait {
			t.Errorf("the open waits are %+v, %v", open, err)
		}
		if was, err := eng.FindQuestions(t.Context(), first.Wait, 1); err != nil || len(was) != 1 || was[0].State != "superseded" {
			t.Errorf("the first wait is %+v, %v", was, err)
		}
		lost := (*approval.DecidedError)(nil)
		if _, err := desk.Approve(as(t, "cfo"), first.ID, approval.Decision{Digest: "call-1"}); !errors.As(err, &lost) || lost.State != approval.Superseded {
			t.Errorf("a yes to what was replaced: %v", err)
		}
		if _, err := desk.Approve(as(t, "cfo"), other.ID, approval.Decision{Digest: "call-2"}); err != nil {
			t.Error(err)
		}
	})
}

// A grant for this call is returned as it is; for another call it stands, and nothing is asked.
func TestOpenUnderAGrant(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db storage.DB) {
		s := &shop{}
		var r approval.Request
		entered := false
		eng := script(t, db, func(ctx context.Context, task *pawl.Task) (err error) {
			if r, err = open(ctx, task, s.request("call-1", "1")); err != nil {
				return err
			}
			eng, err := pawl.NewEngine(db, nil)
			if err != nil {
				return err
			}
			defer eng.Close()
			if _, err := approval.NewDesk(eng, db).Approve(as(t, "cfo"), r.ID, approval.Decision{Digest: r.Call}); err != nil {
				return err
			}
			return task.Closed(ctx)
		}, func(ctx context.Context, task *pawl.Task) error {
			entered = true
			same, err := open(ctx, task, s.request("call-1", "1"))
			if err != nil || same.ID != r.ID || same.State != approval.Granted {
				t.Errorf("the same call: %+v, %v", same, err)
			}
			e := (*approval.GrantError)(nil)
			if other, err := open(ctx, task, s.request("call-2", "1")); !errors.As(err, &e) || e.ID != r.ID || other.ID != "" {
				t.Errorf("another call: %+v, %v", other, err)
			}
			return task.Closed(ctx)
		})
		p := &place{t: t, db: db, eng: eng, desk: approval.NewDesk(eng, db)}
		if got := p.only(approval.Filter{}); !entered || got.Rev != 2 || p.trail("", "t") != "requested granted" {
			t.Errorf("it is %+v; the trail is %q", got, p.trail("", "t"))
		}
	})
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	s := &shop{}
	script(t, memory(t), func(ctx context.Context, task *pawl.Task) error {
		for name, spoil := range map[string]func(*approval.Request){
			"no effect":            func(r *approval.Request) { r.Effect = "" },
			"no operation":         func(r *approval.Request) { r.Operation = "" },
			"no call":              func(r *approval.Request) { r.Call = "" },
			"no view":              func(r *approval.Request) { r.View = nil },
			"a view that is none":  func(r *approval.Request) { r.View = json.RawMessage(`{`) },
			"a view said in parts": func(r *approval.Request) { r.View = json.RawMessage(`{"a":1,"a":2}`) },
		} {
			r := s.request("call", "1")
			spoil(&r)
			if got, err := open(ctx, task, r); err == nil || got.ID != "" || !strings.Contains(err.Error(), "nothing was asked") {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
		r := s.request("call", "1")
		r.State, r.By, r.UsedBy, r.N, r.Tenant, r.ViewDigest = approval.Granted, "me", "me", 9, "other", "short"
		got, err := open(ctx, task, r)
		if err != nil || got.State != approval.Requested || got.By+got.UsedBy+got.Tenant != "" || got.N != 1 || len(got.ViewDigest) != 64 {
			t.Errorf("a request that decides itself became %+v, %v", got, err)
		}
		return task.Closed(ctx)
	})
}

// An Update that is given up leaves neither a request, nor a wait, nor a line.
func TestOpenAndGiveUp(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db storage.DB) {
		s := &shop{}
		no := errors.New("no")
		eng := script(t, db, func(ctx context.Context, task *pawl.Task) error {
			err := task.Update(ctx, func(ctx context.Context, tx storage.Tx) error {
				_, err := approval.Open(ctx, tx, task, s.request("call", "1"))
				return errors.Join(err, no)
			})
			if !errors.Is(err, no) {
				t.Errorf("got %v", err)
			}
			return task.Closed(ctx)
		})
		p := &place{t: t, db: db, eng: eng, desk: approval.NewDesk(eng, db)}
		open, err := eng.Questions(t.Context(), 10)
		if err != nil || len(open)+len(p.list(approval.Filter{})) != 0 || p.trail("", "t") != "" {
			t.Errorf("left: %v, %v, %q, %v", open, p.list(approval.Filter{}), p.trail("", "t"), err)
		}
	})
}
