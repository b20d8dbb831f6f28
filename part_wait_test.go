package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/storage"
)

// What one thread does settles the wait of another, in one Update; the other tenant's waits are out of reach.
func TestATaskSettlesAnothersWait(t *testing.T) {
	t.Parallel()
	db, err := memdb.Open(pawl.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	eng, err := pawl.NewEngine(db, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	theirs := ""
	g, err := pawl.New[partState]("waits").Node("ask", func(ctx context.Context, s *partState) error {
		task, _ := pawl.TaskFrom(ctx)
		if q, ok := task.Awaits(ctx, "approval", "pay"); ok && q.State == "answered" {
			s.Result.Set(string(q.Answer))
			return nil
		}
		return errors.Join(task.Update(ctx, func(ctx context.Context, tx storage.Tx) error {
			_, err := task.Wait(ctx, tx, pawl.Wait{Kind: "approval", Name: "pay", Digest: "d"})
			return err
		}), task.Closed(ctx))
	}).Edge(pawl.Start, "ask").Build()
	if err != nil {
		t.Fatal(err)
	}
	settle, err := pawl.New[partState]("settles").Node("do", func(ctx context.Context, s *partState) error {
		task, _ := pawl.TaskFrom(ctx)
		return task.Update(ctx, func(_ context.Context, tx storage.Tx) error {
			_, err := task.AnswerTx(tx, theirs, pawl.Answer{Value: json.RawMessage(`"settled"`), Reason: "done already"})
			return err
		})
	}).Edge(pawl.Start, "do").Build()
	if err != nil {
		t.Fatal(err)
	}
	out, err := g.Thread(eng, "a").Run(t.Context(), &partState{})
	if err != nil || len(out.Waiting) != 1 {
		t.Fatalf("got %+v, %v", out, err)
	}
	theirs = out.Waiting[0].ID
	if eng.TenantName() != "" || eng.Tenant("x").TenantName() != "x" {
		t.Error("a view of the engine has another tenant's name")
	}
	if _, err := settle.Thread(eng.Tenant("x"), "b").Run(t.Context(), &partState{}); !errors.Is(err, pawl.ErrNotFound) {
		t.Errorf("another tenant's task: %v", err)
	}
	if out, err := settle.Thread(eng, "b").Run(t.Context(), &partState{}); err != nil || out.Status != pawl.Done {
		t.Fatalf("got %+v, %v", out, err)
	}
	if refused := (*pawl.AnswerError)(nil); !errors.As(second(settle.Thread(eng, "c").Run(t.Context(), &partState{})), &refused) {
		t.Error("a wait was settled twice")
	}
	out, err = g.Thread(eng, "a").Resume(t.Context())
	if err != nil || out.State.Result.Get() != `"settled"` {
		t.Errorf("got %+v, %v", out, err)
	}
}

// At the instant at which a wait is due nobody decides it any more.
func TestAWaitThatIsDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, err := memdb.Open(pawl.Kinds()...)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		eng, err := pawl.NewEngine(db, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer eng.Close()
		g, err := pawl.New[partState]("due").Node("ask", func(ctx context.Context, s *partState) error {
			task, _ := pawl.TaskFrom(ctx)
			return errors.Join(task.Update(ctx, func(ctx context.Context, tx storage.Tx) error {
				_, err := task.Wait(ctx, tx, pawl.Wait{Kind: "approval", Name: "pay", Digest: "d", Due: tx.Now().Add(time.Hour)})
				return err
			}), task.Closed(ctx))
		}).Edge(pawl.Start, "ask").Build()
		if err != nil {
			t.Fatal(err)
		}
		out, err := g.Thread(eng, "a").Run(t.Context(), &partState{})
		if err != nil || len(out.Waiting) != 1 {
			t.Fatalf("got %+v, %v", out, err)
		}
		<-time.After(time.Hour)
		err = db.Update(t.Context(), func(_ context.Context, tx storage.Tx) error {
			_, err := eng.AnswerTx(tx, out.Waiting[0].ID, pawl.Answer{})
			return err
		})
		if e := (*pawl.AnswerError)(nil); !errors.As(err, &e) || e.Reason != pawl.ReasonExpired || !e.At.Equal(out.Waiting[0].Due) {
			t.Errorf("too late: %v", err)
		}
	})
}

func second[T any](_ T, err error) error { return err }

// Two branches open waits at once, the second while the first comes back from its Update: each knows that it waits.
func TestWaitsOfTwoBranches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		home, saved := hooked(t), make(chan struct{})
		told := map[string]error{}
		open := func(ctx context.Context, name string) error {
			task, _ := pawl.TaskFrom(ctx)
			err := task.Update(ctx, func(ctx context.Context, tx storage.Tx) error {
				_, err := task.Wait(ctx, tx, pawl.Wait{Kind: "approval", Name: name, Digest: "d"})
				return err
			})
			return errors.Join(err, task.Closed(ctx))
		}
		g := single(t, func(ctx context.Context, _ *note) error {
			return pawl.All(ctx, func(ctx context.Context) error {
				after := func() { close(saved); synctest.Wait() } // the other stands in front of its Update then
				home.after.Store(&after)
				told["first"] = open(ctx, "first")
				return told["first"]
			}, func(ctx context.Context) error { <-saved; return open(ctx, "second") })
		})
		out, err := g.Thread(opened(t, home, nil), "t").Run(t.Context(), nil)
		if err != nil || out.Status != pawl.Waiting || len(out.Waiting) != 2 {
			t.Errorf("%+v, %v", out, err)
		}
		if !errors.Is(told["first"], pawl.ErrWaiting) {
			t.Errorf("the first branch does not know that it waits: %v", told["first"])
		}
	})
}
