package suite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/internal/house"
	"github.com/pawl-dev/pawl/internal/nest"
	"github.com/pawl-dev/pawl/sqlite"
)

// risky is a home and a world in which a turn may die.
type risky struct {
	Path, Ledger string
	Both         bool   // the turn calls B, then A; else A alone
	Die          string // where the process ends: "accepted", "entered", "received", "committed"
}

const (
	callA = "delete_files(folder=/finance)"
	callB = "send_email(to=all-staff)"
)

// graphs are "early", which calls B, and "agent", whose turn calls B, then A. at is called before A and around its row.
func (a risky) graphs(l nest.Level, at func(point string)) []*nest.Graph[found] {
	if at == nil {
		at = func(string) {}
	}
	world := &ledger{a.Ledger}
	b := turn{financed(world.tool("send_email", nil)), "1", allStaff}
	risk := turn{financed(world.tool("delete_files", at)), "1", finance}
	node := func(ctx context.Context, s *found) error {
		if a.Both {
			if err := b.do(ctx, s); err != nil {
				return err
			}
		}
		at("entered")
		return risk.do(ctx, s)
	}
	return []*nest.Graph[found]{
		must(atLevel(l, pawl.New[found]("early").Node("act", b.do, pawl.Uses(b.tool)).Edge(pawl.Start, "act"))),
		must(atLevel(l, pawl.New[found]("agent").Node("act", node, pawl.Uses(b.tool, risk.tool)).Edge(pawl.Start, "act"))),
	}
}

// riskChild says yes, if that is where it dies, or resumes the thread and dies on the way.
func riskChild(doc []byte) {
	a := args[risky](doc)
	led, parts, err := staff()
	must(led, err)
	db := must(sqlite.Open(a.Path, house.Kinds()...))
	eng := must(pawl.NewEngine(db, &pawl.Options{Parts: parts}))
	for _, g := range a.graphs(levelHere(), func(point string) {
		if point == a.Die {
			killSelf()
		}
	}) {
		must(0, eng.Register(g))
	}
	ctx := context.Background()
	if a.Die == "accepted" {
		desk := approval.NewDesk(eng, db)
		open := must(desk.List(ctx, approval.Filter{State: approval.Requested}))
		must(desk.Approve(cfo(ctx), open[0].ID, approval.Decision{Digest: open[0].Call}))
		killSelf()
	}
	must(eng.Thread("agent", "t").Resume(ctx))
}

// open opens the home with the turn's graphs.
func (a risky) open(t testing.TB, h *home) *office {
	t.Helper()
	o := openOffice(t, h.open(t))
	for _, g := range a.graphs(levelFor(t), nil) {
		if err := o.eng.Register(g); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// early commits B in a thread of its own.
func (o *office) early(t testing.TB) {
	t.Helper()
	out, err := start(o.eng.Thread("early", "e"))
	o.yes(t, paused(t, out, err, 1)[0])
	out, err = resume(o.eng.Thread("early", "e"))
	finished(t, out, err, `{"used":["receipt-1"]}`)
}

// asked counts the requests for an effect.
func (o *office) asked(t testing.TB, name string) (n int) {
	t.Helper()
	for _, r := range o.requests(t) {
		if r.Effect == name {
			n++
		}
	}
	return n
}

func duplicateSpendsNothing(t *testing.T, _ *report) {
	t.Run("killed between B and A", func(t *testing.T) { three(t, killedBetweenBAndA) })
	t.Run("committed by another thread", func(t *testing.T) { onEach(t, committedElsewhere) })
}

func killedBetweenBAndA(t *testing.T) string {
	h, world := onDisk(t), newLedger(t)
	a := risky{Path: h.path, Ledger: world.path, Both: true, Die: "entered"}
	o := a.open(t, h)
	o.early(t)
	th := o.eng.Thread("agent", "t")
	out, err := start(th)
	q := paused(t, out, err, 1)[0]
	same(t, "asked about", shownCall(t, q), callA)
	before := history(t, th)
	grant := o.yes(t, q)

	killed(t, "000-risk", a)
	same(t, "status", statusOf(t, th).Status, pawl.Crashed)
	same(t, "ran", world.rows(), []string{callB})
	same(t, "the grant for A", o.again(t, grant), grant)
	same(t, "dispatches of A", len(o.attempts(t, o.operation(t, "delete_files"))), 0)
	same(t, "dispatches of B", len(o.attempts(t, o.operation(t, "send_email"))), 1)

	out, err = resume(th)
	finished(t, out, err, `{"used":["receipt-1","receipt-2"]}`)
	same(t, "ran", world.rows(), []string{callB, callA})
	same(t, "asked about A", o.asked(t, "delete_files"), 1)
	same(t, "asked about B", o.asked(t, "send_email"), 1)
	same(t, "the grant was used by", o.again(t, grant).UsedBy, o.operation(t, "delete_files").Key)
	same(t, "dispatches of A", len(o.attempts(t, o.operation(t, "delete_files"))), 1)
	same(t, "dispatches of B", len(o.attempts(t, o.operation(t, "send_email"))), 1)
	o.explained(t, world.rows(), 2)
	atEnd(t, th, before)
	return fmt.Sprint(world.rows(), o.asked(t, "delete_files"), o.asked(t, "send_email"), o.again(t, grant).State)
}

// committedElsewhere has A committed by another thread between the yes and the dispatch.
func committedElsewhere(t *testing.T, h *home) {
	world := newLedger(t)
	a := risky{Path: h.path, Ledger: world.path, Both: true}
	o := a.open(t, h)
	o.early(t)
	th, other := o.eng.Thread("agent", "t"), o.eng.Thread("agent", "u")
	out, err := start(th)
	grant := o.yes(t, paused(t, out, err, 1)[0])
	before := history(t, th)
	out, err = start(other)
	o.yes(t, paused(t, out, err, 1)[0])
	out, err = resume(other)
	finished(t, out, err, `{"used":["receipt-1","receipt-2"]}`)

	asked := len(o.requests(t))
	out, err = resume(th)
	finished(t, out, err, `{"used":["receipt-1","receipt-2"]}`)
	same(t, "asked", len(o.requests(t)), asked)
	op := o.operation(t, "delete_files")
	for _, at := range o.attempts(t, op) {
		same(t, "dispatched by", at.Thread, "u")
	}
	same(t, "dispatches", len(o.attempts(t, op)), 1)
	unused := o.again(t, grant)
	same(t, "the grant", []string{string(unused.State), unused.UsedBy, unused.Unused},
		[]string{string(approval.Lapsed), "", "unused: duplicate of operation " + op.Key})
	same(t, "the grant was spent", o.trail(t, "t")["approval.consumed"], 0)
	o.explained(t, world.rows(), 2)
	atEnd(t, th, before)
}

// diesAfterYes: what is left at the death is the grant as it then stands, and how often A was dispatched; at the end A
// was dispatched so often. A look-up tells whether the lost dispatch arrived.
func diesAfterYes(t *testing.T, _ *report) {
	for _, c := range []struct {
		at         string
		grant      approval.State
		sent, rows int // at the death
		dispatches int // at the end
	}{
		{"accepted", approval.Granted, 0, 0, 1},
		{"entered", approval.Granted, 0, 0, 1},
		{"received", approval.Consumed, 1, 0, 2},
		{"committed", approval.Consumed, 1, 1, 1},
	} {
		t.Run(c.at, func(t *testing.T) {
			three(t, func(t *testing.T) string {
				h, world := onDisk(t), newLedger(t)
				a := risky{Path: h.path, Ledger: world.path, Die: c.at}
				o := a.open(t, h)
				th := o.eng.Thread("agent", "t")
				out, err := start(th)
				q := paused(t, out, err, 1)[0]
				before := history(t, th)
				if c.at != "accepted" {
					o.yes(t, q)
				}
				killed(t, "000-risk", a)
				grant := o.request(t, q)
				same(t, "the grant at the death", grant.State, c.grant)
				same(t, "dispatches at the death", len(o.attempts(t, o.operation(t, "delete_files"))), c.sent)
				same(t, "rows at the death", len(world.rows()), c.rows)
				settled(t, statusOf(t, th))

				out, err = resume(th)
				finished(t, out, err, `{"used":["receipt-1"]}`)
				same(t, "ran", world.rows(), []string{callA})
				same(t, "asked", len(o.requests(t)), 1)
				op := o.operation(t, "delete_files")
				same(t, "dispatches", len(o.attempts(t, op)), c.dispatches)
				grant = o.again(t, grant)
				same(t, "the grant", []string{string(grant.State), grant.UsedBy}, []string{string(approval.Consumed), op.Key})
				trail := o.trail(t, "t")
				same(t, "consumed, less what was given back", trail["approval.consumed"]-trail["approval.returned"], 1)
				o.explained(t, world.rows(), 1)
				atEnd(t, th, before)
				return fmt.Sprint(world.rows(), grant.State, trail)
			})
		})
	}
}

// aNoHolds has a model that proposes the same call three times, each under a new id of its own.
func aNoHolds(t *testing.T, _ *report) {
	onEach(t, func(t *testing.T, h *home) {
		world := newLedger(t)
		deletion := turn{financed(world.tool("delete_files", nil)), "1", finance}
		proposals := func(s *found) int { return strings.Count(compact(s), "call_") }
		g := atDepth(t, pawl.New[found]("agent").
			Node("act", func(ctx context.Context, s *found) error {
				id := fmt.Sprintf("call_%d", proposals(s)+1)
				_, err := pawl.Step(ctx, id, func(context.Context) (string, error) { return "the model's message", nil })
				if err != nil {
					return err
				}
				err = deletion.do(ctx, s)
				denied := (*effect.DeniedError)(nil)
				if !errors.As(err, &denied) {
					return err
				}
				s.Got.Set(id, denied.By+": "+denied.Reason)
				return nil
			}, pawl.Uses(deletion.tool)).
			Edge(pawl.Start, "act").
			Route("act", func(s *found) []pawl.Next {
				if proposals(s) < 3 {
					return pawl.To("act")
				}
				return pawl.To(pawl.End)
			}, "act", pawl.End))
		o := openOffice(t, h.open(t), g)
		th := o.eng.Thread("agent", "t")
		out, err := start(th)
		q := paused(t, out, err, 1)[0]
		same(t, "asked about", shownCall(t, q), callA)
		before := history(t, th)
		o.no(t, q, "the auditors need them")
		out, err = resume(th)
		const told = `{"got":{"call_1":"cfo: the auditors need them","call_2":"cfo: the auditors need them","call_3":"cfo: the auditors need them"}}`
		finished(t, out, err, told)

		out, err = start(o.eng.Thread("agent", "another"))
		finished(t, out, err, told)
		same(t, "asked", len(o.requests(t)), 1)
		same(t, "the request", o.again(t, o.requests(t)[0]).State, approval.Denied)
		same(t, "refusals in the trail", []int{o.trail(t, "t")["effect.refused"], o.trail(t, "another")["effect.refused"]}, []int{2, 3})
		same(t, "the operation", o.operation(t, "delete_files").State, effect.StateDenied)
		o.explained(t, world.rows(), 0)
		atEnd(t, th, before)
	})
}
