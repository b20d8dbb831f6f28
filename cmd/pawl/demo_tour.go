package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pawl-dev/pawl"
)

const (
	demoThread  = "order-8841"
	otherThread = "order-8841-saddle"
	demoOrder   = "8841"
	firstCents  = 124_000
	moreCents   = 134_000 // the first refund, with another amount
	otherCents  = 8_900   // another refund
)

// tour is one performance of the demo. This process runs no node: it starts the others, reads, and answers.
type tour struct {
	dir    string
	tale   io.Writer
	ask    bool           // the person
	in     *bufio.Scanner // what they type
	prompt io.Writer
	acts   int
	report report

	*place
	counts   counts
	target   *process // the provider
	provider provider
	worker   *process
	approved map[string]int // threads whose payment is approved, with how often its line was reached before
	thought  time.Duration  // by the person; not the demo's time
}

// tell writes as it is told.
func (t *tour) tell(format string, args ...any) { fmt.Fprintf(t.tale, format+"\n", args...) }

// title begins the next act.
func (t *tour) title(name string) {
	t.acts++
	t.tell("\n%d. %s\n", t.acts, name)
}

// say writes a paragraph.
func (t *tour) say(format string, args ...any) {
	t.tell("%s", paragraph(fmt.Sprintf(format, args...), "   "))
}

// play runs the whole tour.
func (t *tour) play(ctx context.Context) (_ *report, err error) {
	begin := time.Now()
	t.counts, t.approved = countsOf(t.dir), map[string]int{}
	if t.target, err = start(ctx, "provider", "demo-provider", "--dir", t.dir); err != nil {
		return nil, err
	}
	defer t.target.end()
	at, err := t.target.expect(ctx, sayListening)
	if err != nil {
		return nil, err
	}
	t.provider = provider(at)
	err = withAgent(ctx, t.dir, newAgent(t.counts, t.provider), func(at *place) error {
		t.place = at
		defer func() {
			if t.worker != nil {
				t.worker.end()
			}
		}()
		t.tell(opening, t.target.pid(), t.provider)
		for _, act := range []func(context.Context) error{t.killedInTheMiddle, t.decided, t.forked, t.otherAmount, t.secondRefund, t.books, t.proved} {
			if err := act(ctx); err != nil {
				return err
			}
		}
		return t.measure(ctx)
	})
	t.report.Elapsed = (time.Since(begin) - t.thought).Milliseconds()
	return &t.report, err
}

const opening = `A refund agent: its nodes are Go functions, its state is in a SQLite file, its
worker is a process that gets killed, its model is a script.

    start -+-> order ----+
           +-> customer -+-> policy -> pay (asks you, pays) -> mail -> end
           +-> risk -----+

The payment provider is process %d at %s, with its own ledger.
It knows no idempotency keys: a request is a payment. It can be asked what it
did. "A plain replay" is an engine that runs a node again after a crash, and
has no record of what the node sent.`

// hire starts a worker.
func (t *tour) hire(ctx context.Context) (err error) {
	t.worker, err = start(ctx, "worker", "demo-worker", "--dir", t.dir, "--provider", string(t.provider))
	return err
}

// kill ends the worker with SIGKILL.
func (t *tour) kill(ctx context.Context) (pawl.Status, error) {
	killed, err := t.worker.kill()
	if err != nil {
		return "", err
	}
	if killed {
		t.report.Kills++
	}
	state, err := t.thread(demoThread).State(ctx)
	if err != nil {
		return "", err
	}
	t.report.AfterKill = append(t.report.AfterKill, state.Status)
	return state.Status, nil
}

// killedInTheMiddle: one look-up has returned and is recorded, its node has not ended, and its siblings have.
func (t *tour) killedInTheMiddle(ctx context.Context) error {
	if err := t.hire(ctx); err != nil {
		return err
	}
	err := t.worker.tell(errand{Verb: "run", Thread: demoThread, Order: demoOrder, Refund: "8841-1", Cents: firstCents, Hold: "risk"})
	if err != nil {
		return err
	}
	if _, err := t.worker.expect(ctx, sayHolding); err != nil {
		return err
	}
	if err := t.siblingsEnd(ctx); err != nil {
		return err
	}
	t.title("Killed in the middle of a super-step")
	t.say("Worker %d runs three look-ups side by side. order and customer are finished; the look-up of risk has returned, its node has not.", t.worker.pid())
	t.tell("\n   kill -9 %d\n", t.worker.pid())
	before, err := t.counts.of(demoThread)
	if err != nil {
		return err
	}
	status, err := t.kill(ctx)
	if err != nil {
		return err
	}
	t.say("The thread is %s. Nothing has to time out; any process can go on.", status)
	if err := t.hire(ctx); err != nil {
		return err
	}
	if _, err := t.worker.does(ctx, errand{Verb: "resume", Thread: demoThread}); err != nil {
		return err
	}
	now, err := t.counts.of(demoThread)
	if err != nil {
		return err
	}
	again := now.since(before)[countNode]
	t.say("Worker %d resumes. Entered again: order %d, customer %d, risk %d.", t.worker.pid(), again["order"], again["customer"], again["risk"])
	t.say("The look-up of risk comes from the journal. Calls: %d. Of a plain replay: %d.", now[countCall]["score-risk"], now[countLine]["score-risk"])
	return nil
}

// siblingsEnd waits until the database says that the other two nodes are finished.
func (t *tour) siblingsEnd(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, processTime)
	defer cancel()
	for {
		since, _ := t.DB.Changed(0)
		state, err := t.thread(demoThread).State(ctx)
		if err != nil {
			return err
		}
		ended := 0
		for _, task := range state.Head.Tasks {
			if task.State == "done" {
				ended++
			}
		}
		if ended == 2 {
			return nil
		}
		_, wake := t.DB.Changed(since)
		select {
		case <-wake:
		case <-ctx.Done():
			return fmt.Errorf("waiting for order and customer to finish: %w", context.Cause(ctx))
		}
	}
}

// decided: somebody decides, and what follows from it.
func (t *tour) decided(ctx context.Context) error {
	t.title("A person decides")
	t.say("The agent has come to the payment. The question is in the database, and waits there without a process:")
	yes, err := t.decide(ctx, demoThread)
	if err != nil {
		return err
	}
	if yes {
		t.report.Answer = "yes"
		err = t.killedAfterPaying(ctx)
	} else {
		t.report.Answer = "no"
		err = t.notPaid(ctx)
	}
	if err != nil {
		return err
	}
	state, err := t.thread(demoThread).State(ctx)
	if err != nil {
		return err
	}
	count, err := t.counts.of(demoThread)
	t.report.Status = state.Status
	t.report.StepCalls, t.report.PlainReplay, t.report.NodeRuns = count[countCall], count[countLine], count[countNode]
	return err
}

// notPaid: the person said no.
func (t *tour) notPaid(ctx context.Context) error {
	s, err := t.worker.does(ctx, errand{Verb: "resume", Thread: demoThread})
	if err != nil {
		return err
	}
	ledger, err := t.provider.statement(ctx)
	if err != nil {
		return err
	}
	t.title("Not paid")
	t.say("Worker %d resumes. The no reaches the node as an error with its reason, and the graph ends without a payment: %s.", t.worker.pid(), s.Status)
	t.say("The provider's ledger: %s.", ledger)
	t.say("Say yes to see a worker killed after it paid.")
	return nil
}

// killedAfterPaying: the provider has paid, and nobody recorded it.
func (t *tour) killedAfterPaying(ctx context.Context) error {
	if err := t.provider.holdNext(ctx); err != nil {
		return err
	}
	if err := t.worker.tell(errand{Verb: "resume", Thread: demoThread}); err != nil {
		return err
	}
	id, err := t.target.expect(ctx, sayPaid)
	if err != nil {
		return err
	}
	before, err := t.provider.statement(ctx)
	if err != nil {
		return err
	}
	t.title("Killed between the payment and its record")
	t.say("Worker %d sends the payment. The provider commits %s and has not answered yet.", t.worker.pid(), id)
	t.say("The provider's ledger: %s.", before)
	t.tell("\n   kill -9 %d\n", t.worker.pid())
	status, err := t.kill(ctx)
	if err != nil {
		return err
	}
	unknown, err := t.Effects().Unknown(ctx)
	if err != nil {
		return err
	}
	t.report.Unknown = len(unknown)
	t.say("The thread is %s. Attempts without an outcome in the database: %d. It may have happened or not, and nobody guesses.", status, len(unknown))
	for _, op := range unknown {
		t.operation(&op, ", outcome unknown")
	}
	if err := t.hire(ctx); err != nil {
		return err
	}
	if _, err := t.worker.does(ctx, errand{Verb: "resume", Thread: demoThread}); err != nil {
		return err
	}
	now, err := t.provider.statement(ctx)
	if err != nil {
		return err
	}
	count, err := t.paymentsOfAPlainReplay()
	if err != nil {
		return err
	}
	payments, lookUps, _ := now.since(before)
	t.report.LookUps = lookUps
	receipt, err := t.receipt(ctx, demoThread)
	t.say("Worker %d resumes, and asks the provider first. Look-ups: %d, payment requests: %d. It finds the payment, stores the receipt %s, and the mail goes out.",
		t.worker.pid(), lookUps, payments, receipt)
	for _, op := range unknown {
		err = errors.Join(err, t.confirmed(ctx, op.Key))
	}
	t.say("The provider's ledger: %s.", now)
	t.say("A plain replay by now: %s.", several(count, "payment"))
	return err
}

// forked goes back to before the payment.
func (t *tour) forked(ctx context.Context) error {
	old, err := t.thread(demoThread).State(ctx)
	if err != nil {
		return err
	}
	receipt, err := t.receipt(ctx, demoThread)
	if err != nil {
		return err
	}
	t.report.branch = old.Head.Checkpoint
	m, err := t.mark(ctx)
	if err != nil {
		return err
	}
	would, err := t.thread(demoThread).PreviewFork(ctx, pawl.Before("pay"))
	if err != nil {
		return err
	}
	s, err := t.worker.does(ctx, errand{Verb: "fork", Thread: demoThread})
	if err != nil {
		return err
	}
	more, err := t.since(ctx, m)
	if err != nil {
		return err
	}
	again, err := t.receipt(ctx, demoThread)
	t.report.SameReceipt = receipt != "" && again == receipt
	t.report.Fork = branch{s.Status, more.count[countCall], more.count[countNode], more.payments, more.asked}
	t.title("Forked from before the payment")
	t.preview(would)
	t.say("Worker %d enters the node of the payment again, on a branch of its own.", t.worker.pid())
	if receipt == "" {
		t.say("The no is remembered. People asked again: %d, payment requests: %d.", more.asked, more.payments)
		return err
	}
	plain, bad := t.paymentsOfAPlainReplay()
	t.say("Receipt before: %s, now: %s.", receipt, again)
	t.say("People asked: %d, payment requests: %d, mails: %d.", more.asked, more.payments, more.mails)
	t.say("A plain replay by now: %s.", several(plain, "payment"))
	return errors.Join(err, bad)
}

// otherAmount tries the same refund with another amount.
func (t *tour) otherAmount(ctx context.Context) error {
	if t.report.Answer != "yes" {
		t.report.Changed = "not tried"
		t.title("The same refund with another amount")
		t.say("Not tried: nothing was paid, so another amount would only be another question.")
		return nil
	}
	m, err := t.mark(ctx)
	if err != nil {
		return err
	}
	s, err := t.worker.does(ctx, errand{Verb: "fork", Thread: demoThread, Cents: moreCents})
	if err != nil {
		return err
	}
	more, err := t.since(ctx, m)
	if err != nil {
		return err
	}
	t.report.Changed = "not refused"
	switch {
	case more.payments > 0 || more.mails > 0:
		t.report.Changed = "sent"
	case s.Changed && s.Status == pawl.Failed:
		t.report.Changed = "refused"
	}
	t.title("The same refund with another amount")
	t.say("A fork that says %s in place of %s, as a model that changes its mind would: %s.", dollars(moreCents), dollars(firstCents), t.report.Changed)
	t.tell("\n%s\n", paragraph(s.Error, "      "))
	t.say("People asked: %d, payment requests: %d. A plain replay would have paid this amount, too.", more.asked, more.payments)
	return nil
}

// secondRefund is one on purpose: a reference of its own, an approval of its own.
func (t *tour) secondRefund(ctx context.Context) error {
	m, err := t.mark(ctx)
	if err != nil {
		return err
	}
	t.title("A second refund, on purpose")
	t.say("For the saddle of the same order: a reference of its own, so an approval of its own.")
	o := errand{Verb: "run", Thread: otherThread, Order: demoOrder, Refund: "8841-2", Cents: otherCents}
	if _, err := t.worker.does(ctx, o); err != nil {
		return err
	}
	if _, err := t.decide(ctx, otherThread); err != nil {
		return err
	}
	s, err := t.worker.does(ctx, errand{Verb: "resume", Thread: otherThread})
	if err != nil {
		return err
	}
	more, err := t.since(ctx, m)
	if err != nil {
		return err
	}
	receipt, err := t.receipt(ctx, otherThread)
	if receipt == "" {
		receipt = "none"
	}
	t.say("Worker %d resumes: %s. Payment requests: %d. Receipt: %s.", t.worker.pid(), s.Status, more.payments, receipt)
	t.report.Second = second{s.Status, more.payments}
	return err
}
