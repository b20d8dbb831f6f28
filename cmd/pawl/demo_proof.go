package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/internal/house"
)

// operation tells how the ledger has an operation.
func (t *tour) operation(op *effect.Operation, more string) {
	t.tell("\n      operation  %.12s  %s %s\n      state      %s, %s%s\n", op.Key, op.Effect, op.Ref, op.State, several(int(op.Attempts), "attempt"), more)
}

// confirmed tells what became of an operation whose outcome was unknown.
func (t *tour) confirmed(ctx context.Context, key string) error {
	s, err := t.Effects().Show(ctx, key)
	if err != nil {
		return err
	}
	for _, e := range s.Evidence {
		t.report.Confirmed = e.Kind
	}
	t.operation(&s.Operation, fmt.Sprintf(", confirmed by a %s, receipt %.16s…", t.report.Confirmed, s.Operation.Receipt))
	return nil
}

// preview tells what a fork would do.
func (t *tour) preview(p *pawl.Preview) {
	t.say("The preview of the fork, before anything is done:")
	t.tell("")
	for _, task := range p.Enter {
		t.tell("      enter      %s, from its first line", task.Node)
	}
	for _, n := range p.Notes {
		t.tell("      %-9s  %s", n.Part, n.Text)
	}
	t.tell("")
}

// books compares what the provider has with what the database says was done.
func (t *tour) books(ctx context.Context) error {
	provider, err := ledgerOf(t.dir).read()
	if err != nil {
		return err
	}
	rows, err := provider.targetRows()
	if err != nil {
		return err
	}
	if err := os.WriteFile(targetOf(t.dir), rows, 0o600); err != nil {
		return err
	}
	r, err := t.Effects().Report(ctx, effect.ReadTargetRows(bytes.NewReader(rows)), effect.ReportOptions{})
	if err != nil {
		return err
	}
	t.report.Unexplained = r.Unexplained
	t.title("The provider's books against the ledger")
	t.say("Rows of the provider: %d, each explained by one operation: %d. Operations: %d, dispatches: %d, grants spent: %d. Unexplained: %d.",
		r.Rows, r.Matched, r.Operations, r.Attempts, r.Grants, r.Unexplained)
	return nil
}

// targetRows are the rows of a statement as effects report reads them.
func (s statement) targetRows() ([]byte, error) {
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	for _, p := range s.Rows {
		row := effect.TargetRow{Effect: "provider.pay", Ref: p.Ref, Receipt: p.ID, Fields: map[string]json.RawMessage{"cents": fmt.Append(nil, p.Cents)}}
		if err := lines.Encode(row); err != nil {
			return nil, err
		}
	}
	for _, key := range s.Mails {
		if err := lines.Encode(effect.TargetRow{Effect: "post.mail", Key: key}); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// proved checks the trail, and a copy of it in which one byte is another.
func (t *tour) proved(ctx context.Context) error {
	if _, _, err := audit.NewSequencer(t.DB).Due(ctx, 0); err != nil {
		return err
	}
	r, err := audit.Verify(ctx, t.DB, "")
	if err != nil {
		return err
	}
	t.report.Honest = r.Honest()
	verdict := "not as it was written"
	if r.Honest() {
		verdict = "honest"
	}
	t.title("The trail, and one byte of it")
	t.say("Who asked, who decided, what was sent: %d entries in %d chains and one log, head %.8s. Verified: %s.", r.Rows, r.Chains, r.Head.String(), verdict)
	db, ok := t.DB.(interface {
		Backup(ctx context.Context, path string) error
	})
	if !ok {
		return errors.New("this database makes no copy")
	}
	if err := db.Backup(ctx, flippedOf(t.dir)); err != nil {
		return err
	}
	at, err := t.flipped(ctx)
	if err != nil {
		return err
	}
	found := t.report.Finding
	if found == "" {
		found = "nothing"
	}
	t.say("A copy of the file, with byte %d changed by one bit. Found: %s.", at, found)
	return nil
}

// flipped changes one byte of a row in the copy, and verifies it.
func (t *tour) flipped(ctx context.Context) (at int64, err error) {
	const inRow = `"action":"approval.`
	copied := flippedOf(t.dir)
	all, err := places(copied, inRow)
	if err != nil {
		return 0, err
	}
	for _, at = range slices.Backward(all) {
		at += int64(len(inRow)) - 2
		if err := flip(copied, at); err != nil {
			return at, err
		}
		r, err := verifyFile(ctx, copied)
		if err != nil {
			return at, err
		}
		if t.report.Flip = !r.Honest(); t.report.Flip {
			t.report.Finding = r.Findings[0].String()
			return at, nil
		}
		if err := flip(copied, at); err != nil { // free space, and no row
			return at, err
		}
	}
	return at, nil
}

func verifyFile(ctx context.Context, path string) (*audit.Report, error) {
	db, err := house.OpenFile(path)
	if err != nil {
		return nil, err
	}
	r, err := audit.Verify(ctx, db, "")
	return r, errors.Join(err, db.Close())
}

func targetOf(dir string) string  { return filepath.Join(dir, "target.jsonl") }
func flippedOf(dir string) string { return filepath.Join(dir, "flipped.db") }
