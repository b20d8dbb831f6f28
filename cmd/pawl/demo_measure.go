package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/approval"
)

func (s statement) String() string {
	return several(s.Requests, "payment request") + ", " + several(len(s.Rows), "payment")
}

func several(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// mark is how far everything was at a moment.
type mark struct {
	ledger statement
	asked  int
	count  tally // of the first thread
}

func (t *tour) mark(ctx context.Context) (m mark, err error) {
	ledger, err := t.provider.statement(ctx)
	if err != nil {
		return m, err
	}
	asked, err := t.Approvals().List(ctx, approval.Filter{})
	if err != nil {
		return m, err
	}
	count, err := t.counts.of(demoThread)
	return mark{ledger, len(asked), count}, err
}

// growth is what came after a mark.
type growth struct {
	payments, mails, asked int // requests
	count                  tally
}

func (t *tour) since(ctx context.Context, m mark) (growth, error) {
	now, err := t.mark(ctx)
	payments, _, mails := now.ledger.since(m.ledger)
	return growth{payments, mails, now.asked - m.asked, now.count.since(m.count)}, err
}

// receipt is that of a thread's head; empty: it has none.
func (t *tour) receipt(ctx context.Context, thread string) (string, error) {
	th := t.thread(thread)
	state, err := th.State(ctx)
	if err != nil {
		return "", err
	}
	s, err := th.Read(state.Head)
	if err != nil {
		return "", err
	}
	return s.Receipt.Get(), nil
}

// paymentsOfAPlainReplay is how often the line of an approved payment was reached: each time it would have been a
// request.
func (t *tour) paymentsOfAPlainReplay() (int, error) {
	n := 0
	for thread, before := range t.approved {
		count, err := t.counts.of(thread)
		if err != nil {
			return 0, err
		}
		n += count[countLine]["pay"] - before
	}
	return n, nil
}

// measure reads what the report says of the whole run.
func (t *tour) measure(ctx context.Context) error {
	r := &t.report
	all, err := t.Approvals().List(ctx, approval.Filter{})
	if err != nil {
		return err
	}
	r.Asked = len(all)
	for _, a := range all {
		if a.State == approval.Granted || a.State == approval.Consumed {
			r.Approved++
		}
	}
	told, err := t.provider.statement(ctx)
	if err != nil {
		return err
	}
	kept, err := ledgerOf(t.dir).read()
	if err != nil {
		return err
	}
	r.Rows, r.Requests, r.Mails, r.payments = len(kept.Rows), told.Requests, len(told.Mails), kept.Rows
	r.ledgersAgree = told.Requests == kept.Requests && slices.Equal(told.Rows, kept.Rows)
	ops, err := t.Effects().List(ctx, effectsOfPay)
	if err != nil {
		return err
	}
	for _, op := range ops {
		r.operations = append(r.operations, op.Key)
	}
	plain, err := t.paymentsOfAPlainReplay()
	r.Plain = plain
	return errors.Join(err, r.readAnswers(ctx, t.Engine), r.readHistory(ctx, t.thread(demoThread)))
}
