package suite

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
)

// turn is what a scripted model wants: these calls, one after the other, for one intent each.
type turn struct {
	tool tool
	ref  string
	in   params
}

func (c turn) do(ctx context.Context, s *found) error {
	receipt, err := c.tool.Do(ctx, effect.Ref("task", c.ref), c.in)
	if err == nil {
		s.Used.Add(receipt)
	}
	return err
}

// inOneNode makes all calls in one node; inALoop makes each in a super-step of its own.
func inOneNode(calls ...turn) *pawl.Builder[found] {
	return pawl.New[found]("agent").Node("act", func(ctx context.Context, s *found) error {
		for _, c := range calls {
			if err := c.do(ctx, s); err != nil {
				return err
			}
		}
		return nil
	}, usesOf(calls)).Edge(pawl.Start, "act")
}

func inALoop(calls ...turn) *pawl.Builder[found] {
	made := func(s *found) (n int) {
		for range s.Used.All() {
			n++
		}
		return n
	}
	return pawl.New[found]("agent").Node("act", func(ctx context.Context, s *found) error {
		return calls[made(s)].do(ctx, s)
	}, usesOf(calls)).
		Edge(pawl.Start, "act").
		Route("act", func(s *found) []pawl.Next {
			if made(s) < len(calls) {
				return pawl.To("act")
			}
			return pawl.To(pawl.End)
		}, "act", pawl.End)
}

func usesOf(calls []turn) pawl.NodeOption {
	var all []pawl.Usable
	seen := map[string]bool{}
	for _, c := range calls {
		if !seen[c.tool.UseName()] {
			seen[c.tool.UseName()] = true
			all = append(all, c.tool)
		}
	}
	return pawl.Uses(all...)
}

func twoRiskyCalls(t *testing.T, r *report) {
	for name, shape := range map[string]func(...turn) *pawl.Builder[found]{"one node": inOneNode, "a loop": inALoop} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, h *home) { riskyCalls(t, r, h, shape) })
		})
	}
}

func riskyCalls(t *testing.T, r *report, h *home, shape func(...turn) *pawl.Builder[found]) {
	world := newLedger(t)
	g := atDepth(t, shape(
		turn{financed(world.tool("send_email", nil)), "1", allStaff},
		turn{financed(world.tool("delete_files", nil)), "1", finance}))
	o := openOffice(t, h.open(t), g)
	th := o.eng.Thread("agent", "t")
	out, err := start(th)
	before := history(t, th)
	asked := []string{}
	for range 2 {
		q := paused(t, out, err, 1)[0]
		same(t, "ran before the question", len(world.rows()), len(asked))
		asked = append(asked, shownCall(t, q))
		// An answer to the wait is no yes: only the desk decides.
		if _, err := resume(th, q.ID, "yes"); err == nil {
			t.Fatal("the wait for an approval took an answer")
		}
		if out, err := resume(th); err != nil || out.Status != pawl.Waiting {
			t.Fatalf("without a yes: %+v, %v", out, err)
		}
		same(t, "ran before the yes", len(world.rows()), len(asked)-1)
		o.yes(t, q)
		out, err = resume(th)
		same(t, "ran after the yes", world.rows(), asked)
	}
	finished(t, out, err, `{"used":["receipt-1","receipt-2"]}`)
	same(t, "asked about", asked, []string{"send_email(to=all-staff)", "delete_files(folder=/finance)"})
	same(t, "ran", world.rows(), asked)
	spent := map[string]int{}
	for _, a := range o.requests(t) {
		same(t, "state of the grant", a.State, approval.Consumed)
		same(t, "operation of the grant", a.UsedBy, o.operation(t, a.Effect).Key)
		spent[a.UsedBy]++
	}
	same(t, "grants consumed, by operation", len(spent), 2)
	same(t, "grants consumed", len(o.requests(t)), 2)
	o.explained(t, world.rows(), 2)
	atEnd(t, th, before)
	r.line(12, "human asked about: %s", compact(asked))
	r.line(13, "              ran: %s", compact(world.rows()))
}

// oneYesOneUse has the yes for send_email(to=all-staff) in hand and presents it for everything else, first unspent and
// then spent.
func oneYesOneUse(t *testing.T, _ *report) {
	onEach(t, func(t *testing.T, h *home) {
		world := newLedger(t)
		email, deletion := financed(world.tool("send_email", nil)), financed(world.tool("delete_files", nil))
		var now turn // what the model wants
		g := atDepth(t, pawl.New[found]("agent").Node("act", func(ctx context.Context, s *found) error { return now.do(ctx, s) },
			pawl.Uses(email, deletion)).Edge(pawl.Start, "act"))
		o := openOffice(t, h.open(t), g)
		th := o.eng.Thread("agent", "t")
		now = turn{email, "1", allStaff}
		out, err := start(th)
		grant := o.yes(t, paused(t, out, err, 1)[0])
		before := history(t, th)
		p := presenting{o, world, email, deletion, grant, &now}
		p.forAnotherEffect(t, "a")
		p.forAnotherAddressee(t, th)

		now = turn{email, "1", allStaff}
		out, err = resume(th)
		finished(t, out, err, `{"used":["receipt-1"]}`)
		same(t, "ran", world.rows(), []string{"send_email(to=all-staff)"})
		same(t, "used by", o.again(t, grant).UsedBy, o.operation(t, "send_email").Key)
		p.forAnotherEffect(t, "a, spent")
		p.forAnotherAddressee(t, o.eng.Thread("agent", "b"))
		p.forTheSameIntent(t)
		p.forANewIntent(t)
		same(t, "ran", world.rows(), []string{"send_email(to=all-staff)"})
		o.explained(t, world.rows(), 1)
		atEnd(t, th, before)
	})
}

// presenting is a grant and those who would like to use it for something else.
type presenting struct {
	*office
	world           *ledger
	email, deletion tool
	grant           approval.Request
	now             *turn
}

// untouched fails unless f leaves the operation and the grant of send_email, and the world, as they were.
func (p presenting) untouched(t *testing.T, f func()) {
	t.Helper()
	was, rows := p.standing(t, "send_email"), p.world.rows()
	f()
	same(t, "operation and grant", p.standing(t, "send_email"), was)
	same(t, "ran", p.world.rows(), rows)
}

// refuses fails unless the grant is refused for an operation, and the call of the grant for another request.
func (p presenting) refuses(t *testing.T, call, operation string, other approval.Request) {
	t.Helper()
	if err := p.consume(p.grant, call, operation); !errors.As(err, new(*approval.GrantError)) {
		t.Errorf("the grant for %s: %v, want a *GrantError", operation, err)
	}
	if other.ID == "" {
		return
	}
	_, err := approval.NewDesk(p.eng, p.db).Approve(cfo(t.Context()), other.ID, approval.Decision{Digest: p.grant.Call})
	if !errors.As(err, new(*approval.DigestError)) {
		t.Errorf("the digest of what was approved, for another request: %v, want a *DigestError", err)
	}
	same(t, "the other request", p.again(t, other).State, approval.Requested)
}

// (a): there is a question of its own, and the grant is refused for it.
func (p presenting) forAnotherEffect(t *testing.T, thread string) {
	t.Helper()
	p.untouched(t, func() {
		*p.now = turn{p.deletion, thread, finance}
		th := p.eng.Thread("agent", thread)
		out, err := start(th)
		q := paused(t, out, err, 1)[0]
		same(t, "asked about", shownCall(t, q), "delete_files(folder=/finance)")
		other := p.request(t, q)
		p.refuses(t, p.grant.Call, other.Operation, other)
		p.refuses(t, other.Call, other.Operation, approval.Request{})
		if err := th.Cancel(context.Background(), "shown"); err != nil {
			t.Fatal(err)
		}
		same(t, "the other request", p.again(t, other).State, approval.Withdrawn)
	})
}

// (b): the reference stands for the call that was approved.
func (p presenting) forAnotherAddressee(t *testing.T, th *pawl.Thread) {
	t.Helper()
	p.untouched(t, func() {
		*p.now = turn{p.email, "1", board}
		out, err := resume(th)
		if errors.Is(err, pawl.ErrNotFound) || out != nil && out.Status == pawl.StatusNew {
			out, err = start(th)
		}
		changed := refusedAs[*effect.ChangedError](t, out, err)
		same(t, "first difference", changed.Path, "$.to")
		p.refuses(t, "the digest of another call", p.grant.Operation, approval.Request{})
	})
}

// (c): a new question, for a new operation.
func (p presenting) forANewIntent(t *testing.T) {
	t.Helper()
	same(t, "operations before", p.operation(t, "send_email").State, effect.StateCommitted)
	first, spent := p.operation(t, "send_email"), p.again(t, p.grant)
	*p.now = turn{p.email, "2", allStaff}
	th := p.eng.Thread("agent", "c")
	out, err := start(th)
	q := paused(t, out, err, 1)[0]
	same(t, "asked about", shownCall(t, q), "send_email(to=all-staff)")
	other := p.request(t, q)
	p.refuses(t, p.grant.Call, other.Operation, other)
	for _, op := range p.operations(t) {
		if op.Key == first.Key {
			same(t, "the first operation", op, first)
		}
	}
	same(t, "the first grant", p.again(t, p.grant), spent)
	settled(t, statusOf(t, th))
}

// (d): the receipt.
func (p presenting) forTheSameIntent(t *testing.T) {
	t.Helper()
	asked := len(p.requests(t))
	p.untouched(t, func() {
		*p.now = turn{p.email, "1", allStaff}
		out, err := start(p.eng.Thread("agent", "d"))
		finished(t, out, err, `{"used":["receipt-1"]}`)
	})
	same(t, "asked", len(p.requests(t)), asked)
}
