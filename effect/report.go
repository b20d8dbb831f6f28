package effect

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/storage"
)

// TargetRow is one change as the target's own books show it: a line of its statement, a row of its table.
type TargetRow struct {
	Key     string                     `json:"key,omitempty"`     // the operation's key as it was sent, in any form of Profile.Key
	Effect  string                     `json:"effect,omitempty"`  // which effect made it, where the target can tell
	Ref     string                     `json:"ref,omitempty"`     // "invoice:17"
	Receipt string                     `json:"receipt,omitempty"` // the target's id of the change, as the effect's receipt holds it
	Fields  map[string]json.RawMessage `json:"fields,omitempty"`  // what was changed, under the names of the parameters
	At      time.Time                  `json:"at,omitzero"`       // by the target's clock
}

// String names the row without its fields.
func (r TargetRow) String() string {
	s := "row"
	for _, p := range [][2]string{{"receipt", r.Receipt}, {"ref", r.Ref}, {"key", r.Key}} {
		if p[1] != "" {
			s += fmt.Sprintf(" %s %.64s", p[0], p[1])
		}
	}
	if !r.At.IsZero() {
		s += " of " + r.At.UTC().Format(time.RFC3339)
	}
	return s
}

// FindingKind is what a report found.
type FindingKind string

// What is unexplained. On honest data there is nothing of it.
const (
	FindStray      FindingKind = "stray_row"                 // a target row that no operation explains
	FindTwice      FindingKind = "two_rows"                  // more than one target row for one operation
	FindUnexpected FindingKind = "unexpected_row"            // a target row of an operation that is said not to have happened
	FindOther      FindingKind = "other_call"                // a target row with other parameters, or another receipt, than its operation
	FindMissing    FindingKind = "missing_row"               // an operation that happened, without a target row
	FindUnsent     FindingKind = "committed_without_attempt" // an operation that happened, without a dispatch
	FindGrant      FindingKind = "grant_without_dispatch"    // a consumed grant without its dispatch
	FindUngranted  FindingKind = "dispatch_without_grant"    // a dispatch that was asked about, without its consumed grant
	FindUnreadable FindingKind = "unreadable_operation"      // an operation whose parameters or receipt cannot be decrypted, so that rows cannot be compared
	FindOrphan     FindingKind = "orphan_attempt"            // a dispatch of no operation
)

// FindOpen is an operation that is not over: it waits for its outcome, or for a person. It is explained.
const FindOpen FindingKind = "open"

// Finding is one thing that a report names.
type Finding struct {
	Kind      FindingKind `json:"kind"`
	Effect    string      `json:"effect,omitempty"`
	Ref       string      `json:"ref,omitempty"`
	Operation string      `json:"operation,omitempty"`
	State     State       `json:"state,omitempty"` // of the operation
	Thread    string      `json:"thread,omitempty"`
	Run       string      `json:"run,omitempty"`
	Status    pawl.Status `json:"status,omitempty"` // of the thread, as its trace tells it
	Approval  string      `json:"approval,omitempty"`
	Rows      []string    `json:"rows,omitempty"` // the target rows, by name
	Text      string      `json:"text"`
	Next      string      `json:"next"` // what to do
}

// Report says how the books of a target, the operations and the approvals fit together.
type Report struct {
	Tenant  string    `json:"tenant,omitempty"`
	Effects []string  `json:"effects,omitempty"` // empty: all
	At      time.Time `json:"at"`                // by the home's clock

	Rows       int `json:"rows"` // of the target
	Operations int `json:"operations"`
	Attempts   int `json:"attempts"`
	Grants     int `json:"grants"`  // consumed
	Matched    int `json:"matched"` // rows that one operation explains
	Outside    int `json:"outside"` // rows of no operation that lie outside the time that was asked about

	Unexplained int       `json:"unexplained"` // how many Findings there are
	Findings    []Finding `json:"findings"`
	Open        []Finding `json:"open"`
}

// ReportOptions narrow a report. The zero value takes everything.
type ReportOptions struct {
	// Effects whose target the rows come from. A report on the rows of one target must name its effects, or the
	// operations of other targets lack their rows.
	Effects []string
	// From and Until, where set, say which time the rows cover. Operations that were not dispatched in it need no row,
	// and rows outside it need no operation. End it before now: what is on its way while the books are read is in one of
	// them only.
	From, Until time.Time
}

func (o ReportOptions) covers(at time.Time) bool {
	return (o.From.IsZero() || !at.Before(o.From)) && (o.Until.IsZero() || at.Before(o.Until))
}

// Report reconciles a target's own rows with the tenant's operations, dispatches and approvals. It changes nothing. Each
// row is explained by one operation or named, and so are operations, dispatches and grants that do not fit.
//
// A row belongs to the operation whose key it has; else, to the one whose receipt holds its receipt; else, if it has no
// key, to an operation of its reference. An error of rows ends the report.
func (d *Desk) Report(ctx context.Context, rows iter.Seq2[TargetRow, error], o ReportOptions) (*Report, error) {
	if err := d.eng.Allowed(ctx, pawl.VerbInfo{Verb: pawl.VerbRead}); err != nil {
		return nil, err
	}
	b, err := d.readBooks(ctx, o.Effects)
	if err != nil {
		return nil, err
	}
	m := &matching{desk: d, books: b, options: o, report: &Report{
		Tenant: d.eng.TenantName(), Effects: o.Effects, At: b.at, Operations: len(b.all), Attempts: b.attempts, Grants: len(b.grants),
		Findings: []Finding{}, Open: []Finding{},
	}}
	m.index()
	for row, err := range rows {
		if err != nil {
			return nil, fmt.Errorf("effect: the target's row %d cannot be read: %w; there is no report", m.report.Rows+1, err)
		}
		m.add(row)
	}
	m.judge()
	m.report.Unexplained = len(m.report.Findings)
	d.tellStatus(ctx, m.report.Findings)
	return m.report, nil
}

// books are the engine's side, from one View.
type books struct {
	at       time.Time
	all      []*entry
	byKey    map[string]*entry
	grants   []approval.Request // consumed
	orphans  []*Attempt
	attempts int
}

// entry is one operation with all that belongs to it.
type entry struct {
	*Operation
	attempts []*Attempt
	asked    bool // somebody was asked to approve it
	rows     []TargetRow
	differs  []string // names of what its rows have otherwise
	unread   error    // its body cannot be decrypted
}

func (d *Desk) readBooks(ctx context.Context, effects []string) (*books, error) {
	var out *books
	err := d.db.View(ctx, func(_ context.Context, tx storage.Tx) error {
		b := &books{at: tx.Now().UTC(), byKey: map[string]*entry{}}
		tenant := d.eng.TenantName()
		if err := b.readOperations(tx, tenant, effects); err != nil {
			return err
		}
		if err := b.readAttempts(tx, tenant, len(effects) > 0); err != nil {
			return err
		}
		spent, err := approval.Spent(tx, tenant)
		if err != nil {
			return err
		}
		for _, r := range spent {
			if len(effects) == 0 || slices.Contains(effects, r.Effect) {
				b.grants = append(b.grants, r)
			}
		}
		for _, e := range b.all {
			if _, e.asked, err = approval.Of(tx, tenant, e.Key); err != nil {
				return err
			}
		}
		out = b
		return nil
	})
	return out, err
}

func (b *books) readOperations(tx storage.Tx, tenant string, effects []string) error {
	prefixes := [][]any{{tenant}}
	if len(effects) > 0 {
		prefixes = nil
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(effects))) {
		prefixes = append(prefixes, []any{tenant, name})
	}
	for _, p := range prefixes {
		rows, err := tx.List(operations, storage.Query{Range: storage.Range{Prefix: p}})
		if err != nil {
			return err
		}
		for _, row := range rows {
			op, err := readOperation(row)
			if err != nil {
				return err
			}
			e := &entry{Operation: op}
			b.all, b.byKey[op.Key] = append(b.all, e), e
		}
	}
	return nil
}

func (b *books) readAttempts(tx storage.Tx, tenant string, some bool) error {
	rows, err := tx.List(attempts, storage.Query{Range: storage.Range{Prefix: []any{tenant}}})
	if err != nil {
		return err
	}
	for _, row := range rows {
		a, err := readAttempt(row)
		if err != nil {
			return err
		}
		switch e := b.byKey[a.Operation]; {
		case e != nil:
			e.attempts = append(e.attempts, a)
			b.attempts++
		case !some: // else it is of an effect that was not asked about
			b.orphans = append(b.orphans, a)
			b.attempts++
		}
	}
	return nil
}

// tellStatus adds what the trace of a thread says, where it can be read.
func (d *Desk) tellStatus(ctx context.Context, all []Finding) {
	for i := range all {
		f := &all[i]
		if f.Thread == "" {
			continue
		}
		s, err := d.eng.Thread("", f.Thread).State(ctx)
		if err != nil {
			continue
		}
		if f.Status = s.Status; f.Status == pawl.Done {
			f.Text += fmt.Sprintf("; the run of thread %q is done all the same", f.Thread)
		}
	}
}
