package approval_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
)

func kinds() []storage.Kind {
	return append(append(pawl.Kinds(), audit.Kinds()...), approval.Kinds()...)
}

func memory(t testing.TB) storage.DB {
	t.Helper()
	db, err := memdb.Open(kinds()...)
	return opened(t, db, err)
}

func opened(t testing.TB, db storage.DB, err error) storage.DB {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func onBoth(t *testing.T, test func(t *testing.T, db storage.DB)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { t.Parallel(); test(t, memory(t)) })
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		db, err := sqlite.Open(filepath.Join(t.TempDir(), "a.db"), kinds()...)
		test(t, opened(t, db, err))
	})
}

type state struct {
	Call   pawl.Last[string]   `json:"call"` // digest of the call to make
	Ref    pawl.Last[string]   `json:"ref"`
	Result pawl.Append[string] `json:"result"`
}

type named string

func (n named) UseName() string { return string(n) }

// shop is a program whose one node sends a call once somebody approved it, in the way of an effect: the operation is
// named by the reference, and the grant is consumed in the Update that counts as the dispatch.
type shop struct {
	to     string
	due    time.Duration
	levels approval.Levels // instead of to and due
	sent   atomic.Int64    // calls that left, by way of memory: for homes that do not die
}

func (s *shop) graph(t testing.TB) *pawl.Graph[state] {
	t.Helper()
	g, err := pawl.New[state]("shop").Node("pay", s.pay, pawl.Uses(named("pay"))).Edge(pawl.Start, "pay").Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func (s *shop) request(call, ref string) approval.Request {
	return approval.Request{
		Effect: "pay", Ref: ref, Operation: "op-" + ref, Call: call, Levels: s.asked(), Redaction: "policy-1",
		View: json.RawMessage(fmt.Sprintf(`{"pay":%q}`, ref)),
	}
}

func (s *shop) asked() approval.Levels {
	if s.levels != nil {
		return s.levels
	}
	return approval.Levels{{To: s.to, For: s.due}}
}

func (s *shop) pay(ctx context.Context, st *state) error {
	task, _ := pawl.TaskFrom(ctx)
	ref := st.Ref.Get()
	if _, err := task.Address(ctx, "effect", "pay", pawl.Key(ref)); err != nil {
		return err
	}
	var got approval.Request
	no := (*approval.DeniedError)(nil)
	sent := false
	err := task.Update(ctx, func(ctx context.Context, tx storage.Tx) error {
		r := s.request(st.Call.Get(), ref)
		if old, found, err := approval.OfTask(tx, task.Info().Tenant, r.Operation, task.Info().Task); err != nil || found && old.UsedBy != "" {
			got, sent = deref(old), err == nil // dispatched before a crash
			return err
		}
		opened, err := approval.Open(ctx, tx, task, r)
		if refused := (*approval.DeniedError)(nil); errors.As(err, &refused) {
			no = refused
			return nil
		}
		if err == nil && opened.State == approval.Granted {
			err = approval.Consume(tx, opened.Tenant, opened.ID, r.Call, r.Operation)
			sent = err == nil
		}
		got = opened
		return err
	})
	switch {
	case err != nil:
		return err
	case no != nil:
		st.Result.Add("denied: " + no.Request.Reason)
		return nil
	case sent:
		s.sent.Add(1)
		st.Result.Add("sent " + got.Call)
		return nil
	}
	task.Awaits(ctx, "approval", "pay", pawl.Key(ref))
	return task.Closed(ctx)
}

func deref(r *approval.Request) approval.Request {
	if r == nil {
		return approval.Request{}
	}
	return *r
}

// place is one process with the shop open.
type place struct {
	t    testing.TB
	db   storage.DB
	eng  *pawl.Engine
	g    *pawl.Graph[state]
	shop *shop
	desk *approval.Desk
}

func (s *shop) open(t testing.TB, db storage.DB, options *pawl.Options) *place {
	t.Helper()
	eng, err := pawl.NewEngine(db, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	p := &place{t: t, db: db, eng: eng, g: s.graph(t), shop: s}
	if err := eng.Register(p.g); err != nil {
		t.Fatal(err)
	}
	p.desk = approval.NewDesk(eng, db)
	return p
}

// as is the context of somebody in finance.
func as(t testing.TB, id string) context.Context {
	return pawl.WithActor(t.Context(), pawl.Actor{ID: id, Groups: []string{"finance"}, Kind: "person"})
}

// ask runs a thread to its request.
func (p *place) ask(thread, call, ref string) approval.Request {
	p.t.Helper()
	out, err := p.g.Thread(p.eng, thread).Run(p.t.Context(), &state{Call: pawl.Of(call), Ref: pawl.Of(ref)})
	if err != nil || out.Status != pawl.Waiting || len(out.Waiting) != 1 || out.Waiting[0].Kind != "approval" {
		p.t.Fatalf("thread %s: got %+v, %v", thread, out, err)
	}
	return p.only(approval.Filter{Thread: thread, State: approval.Requested})
}

// resume goes on with a thread.
func (p *place) resume(thread string) *pawl.OutcomeOf[state] {
	p.t.Helper()
	out, err := p.g.Thread(p.eng, thread).Resume(p.t.Context())
	if err != nil {
		p.t.Fatalf("thread %s: %v", thread, err)
	}
	return out
}

func (p *place) list(f approval.Filter) []approval.Request {
	p.t.Helper()
	list, err := p.desk.List(p.t.Context(), f)
	if err != nil {
		p.t.Fatal(err)
	}
	return list
}

func (p *place) only(f approval.Filter) approval.Request {
	p.t.Helper()
	list := p.list(f)
	if len(list) != 1 {
		p.t.Fatalf("want one request of %+v, have %d", f, len(list))
	}
	return list[0]
}

func (p *place) show(id string) approval.Request {
	p.t.Helper()
	r, err := p.desk.Show(p.t.Context(), id)
	if err != nil {
		p.t.Fatal(err)
	}
	return *r
}

func (p *place) approve(r approval.Request, who string) {
	p.t.Helper()
	if _, err := p.desk.Approve(as(p.t, who), r.ID, approval.Decision{Digest: r.Call}); err != nil {
		p.t.Fatal(err)
	}
}

// update runs fn in an Update that must succeed.
func (p *place) update(fn func(tx storage.Tx) error) {
	p.t.Helper()
	if err := p.db.Update(p.t.Context(), func(_ context.Context, tx storage.Tx) error { return fn(tx) }); err != nil {
		p.t.Fatal(err)
	}
}

// trail is a thread's audit rows in short.
func (p *place) trail(tenant, thread string) string {
	p.t.Helper()
	rows, err := audit.List(p.t.Context(), p.db, tenant, thread, 0, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	var out []string
	for i, r := range rows {
		if r.N != int64(i)+1 {
			p.t.Errorf("the trail of %q has a gap before row %d", thread, r.N)
		}
		out = append(out, strings.TrimPrefix(r.Action, "approval."))
	}
	return strings.Join(out, " ")
}

func (p *place) last(thread string) audit.Row {
	p.t.Helper()
	rows, err := audit.List(p.t.Context(), p.db, "", thread, 0, 0)
	if err != nil || len(rows) == 0 {
		p.t.Fatalf("the trail of %q: %v, %v", thread, rows, err)
	}
	return rows[len(rows)-1]
}
