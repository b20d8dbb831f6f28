package effect

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/approval"
)

// matching joins the target's rows to operations.
type matching struct {
	desk     *Desk
	books    *books
	options  ReportOptions
	report   *Report
	keys     map[string]*entry
	refs     map[string][]*entry // by reference, newest revision first
	receipts map[string]*entry   // by a text that only one receipt holds; nil for one that several do; not made until it is needed
}

func (m *matching) index() {
	m.keys, m.refs = map[string]*entry{}, map[string][]*entry{}
	for _, e := range m.books.all {
		for _, form := range []KeyForm{KeyRaw, KeyUUID, KeyUUID4} {
			m.keys[Profile{Form: form}.Key(Op{Key: e.Key})] = e
		}
		ref := e.Ref.String()
		m.refs[ref] = append([]*entry{e}, m.refs[ref]...)
	}
}

// add finds the operation of a row.
func (m *matching) add(row TargetRow) {
	m.report.Rows++
	if e := m.find(row); e != nil {
		e.rows = append(e.rows, row)
		m.compare(e, row)
		return
	}
	if !row.At.IsZero() && !m.options.covers(row.At) {
		m.report.Outside++
		return
	}
	f := Finding{
		Kind: FindStray, Effect: row.Effect, Ref: row.Ref, Rows: []string{row.String()},
		Text: fmt.Sprintf("the target has a %s that no operation explains", row),
		Next: "find out at the target who sent it; it did not come through this ledger",
	}
	if near := m.refs[row.Ref]; len(near) > 0 {
		f.Text += fmt.Sprintf("; %s is operation %.12s, which is %s and has another key", row.Ref, near[0].Key, near[0].State)
	}
	m.report.Findings = append(m.report.Findings, f)
}

func (m *matching) find(row TargetRow) *entry {
	if key := strings.Trim(strings.TrimSpace(row.Key), `"`); key != "" {
		if e := m.keys[strings.ToLower(key)]; e != nil {
			return e
		}
	}
	if row.Receipt != "" {
		m.readReceipts()
		if e := m.receipts[row.Receipt]; e != nil && (row.Effect == "" || row.Effect == e.Effect) {
			return e
		}
	}
	if row.Key != "" {
		return nil
	}
	var best *entry
	for _, e := range m.refs[row.Ref] {
		if row.Effect != "" && row.Effect != e.Effect {
			continue
		}
		if best == nil || rank(e) > rank(best) {
			best = e
		}
	}
	return best
}

// rank prefers, for a row without a key, what happened and has no row yet over what may have happened.
func rank(e *entry) int {
	switch {
	case e.reported() == happened && len(e.rows) == 0:
		return 3
	case e.reported() == undecided && len(e.rows) == 0:
		return 2
	case e.reported() == happened:
		return 1
	}
	return 0
}

// readReceipts indexes what the receipts of operations that happened hold.
func (m *matching) readReceipts() {
	if m.receipts != nil {
		return
	}
	m.receipts = map[string]*entry{}
	for _, e := range m.books.all {
		if e.reported() != happened || len(e.outcome) == 0 {
			continue
		}
		doc, err := m.desk.led.ring.open(e.Operation, outcomeOf)
		if err != nil {
			e.unread = err
			continue
		}
		for _, leaf := range leaves(doc) {
			if was, taken := m.receipts[leaf]; taken && was != e {
				m.receipts[leaf] = nil
				continue
			}
			m.receipts[leaf] = e
		}
	}
}

// leaves are the texts and numbers of a JSON document.
func leaves(doc []byte) (out []string) {
	v, _ := decodedTree(doc)
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, in := range v {
				walk(in)
			}
		case []any:
			for _, in := range v {
				walk(in)
			}
		case string:
			out = append(out, v)
		case json.Number:
			out = append(out, v.String())
		}
	}
	walk(v)
	return out
}

// compare looks whether a row is the call that its operation made.
func (m *matching) compare(e *entry, row TargetRow) {
	if len(row.Fields) > 0 && len(e.params) > 0 {
		var params map[string]json.RawMessage
		doc, err := m.desk.led.ring.open(e.Operation, paramsOf)
		if err != nil {
			e.unread = err
		} else if json.Unmarshal(doc, &params) == nil {
			for name, is := range row.Fields {
				if was, known := params[name]; known && !sameValue(was, is) {
					e.differs = append(e.differs, name)
				}
			}
		}
	}
	if row.Receipt == "" || e.reported() != happened || len(e.outcome) == 0 {
		return
	}
	m.readReceipts()
	if of, known := m.receipts[row.Receipt]; e.unread == nil && (!known || of != nil && of != e) {
		e.differs = append(e.differs, "the receipt")
	}
}

func sameValue(a, b json.RawMessage) bool {
	x, errX := hashed(a)
	y, errY := hashed(b)
	return errX == nil && errY == nil && x == y
}

// verdictOn is what an operation claims about the target.
type verdictOn int

const (
	never     verdictOn = iota // it did nothing
	undecided                  // nobody knows, or it goes on
	happened
)

// reported is what an operation claims. What this program does not know counts as undecided.
func (o *Operation) reported() verdictOn {
	state := o.State
	if state == StateTombstone {
		state = o.Final
	}
	switch {
	case state.happened():
		return happened
	case state == StateVoided && o.Doubt: // abandoned by a person, who did not know
		return undecided
	case state == StateReserved, state == StateRejected, state == StateVoided, state == StateDenied:
		return never
	}
	return undecided
}

// judge looks at each operation, dispatch and grant with its rows.
func (m *matching) judge() {
	for _, e := range m.books.all {
		switch {
		case len(e.rows) == 1 && len(e.differs) == 0 && e.unread == nil && e.reported() != never:
			m.report.Matched++
		case len(e.rows) > 1:
			m.name(e, FindTwice, fmt.Sprintf("the target has %d rows for one operation", len(e.rows)),
				"one of them is a duplicate: undo it at the target")
		}
		if e.unread != nil {
			m.name(e, FindUnreadable, e.unread.Error(), "give the ledger its key file and ask again")
		}
		m.judgeRows(e)
		m.judgeDispatch(e)
	}
	for _, a := range m.books.orphans {
		m.report.Findings = append(m.report.Findings, Finding{
			Kind: FindOrphan, Operation: a.Operation, Thread: a.Thread, Run: a.Run, Approval: a.Grant,
			Text: fmt.Sprintf("attempt %d was dispatched by thread %q for operation %.12s, which is not there", a.N, a.Thread, a.Operation),
			Next: "the ledger is incomplete: restore it, and ask the target for the key",
		})
	}
	m.judgeGrants()
}

func (m *matching) judgeRows(e *entry) {
	switch claim := e.reported(); {
	case len(e.rows) > 0 && claim == never:
		m.name(e, FindUnexpected, "the target has it, and the operation is "+string(e.State), "settle at the target which of them is right")
	case len(e.rows) == 1 && len(e.differs) > 0: // two rows have two receipts
		slices.Sort(e.differs)
		m.name(e, FindOther, "the target has it with other values: "+strings.Join(slices.Compact(e.differs), ", "), "compare the row with pawl effects show")
	case len(e.rows) == 0 && claim == happened && e.Target != "inside" && m.options.covers(e.Last):
		m.name(e, FindMissing, "it is recorded as done, and the target has no row of it", "ask the target for the receipt; the rows may be incomplete")
	}
	if e.reported() != undecided || e.State == StateVoided && len(e.rows) == 0 {
		return
	}
	f := m.finding(e, FindOpen, "it is not known whether it happened; the target has no row of it", "resume the thread, or say at the effect desk that it was not applied")
	if len(e.rows) > 0 {
		f.Text, f.Next = "it is not known here whether it happened; the target has its row", "resume the thread, or say at the effect desk that it was applied, with the row's receipt"
	}
	m.report.Open = append(m.report.Open, f)
}

// judgeDispatch looks whether what was sent was recorded and allowed.
func (m *matching) judgeDispatch(e *entry) {
	if e.reported() == happened && len(e.attempts) == 0 {
		m.name(e, FindUnsent, "it is recorded as done, and no dispatch of it is", "the ledger was changed from outside: compare it with the audit trail")
	}
	if len(e.attempts) == 0 || e.reported() == never && e.State != StateRejected {
		return
	}
	last := e.attempts[len(e.attempts)-1]
	spent := slices.ContainsFunc(m.books.grants, func(r approval.Request) bool {
		return r.ID == last.Grant && r.UsedBy == e.Key && r.Call == last.Call
	})
	if (last.Grant != "" || e.asked) && last.Permit == "" && !spent {
		m.name(e, FindUngranted, fmt.Sprintf("attempt %d was dispatched without its grant", last.N), "find out in the audit trail who sent it")
	}
}

func (m *matching) judgeGrants() {
	for _, r := range m.books.grants {
		e := m.books.byKey[r.UsedBy]
		if e != nil && slices.ContainsFunc(e.attempts, func(a *Attempt) bool { return a.Grant == r.ID }) {
			continue
		}
		m.report.Findings = append(m.report.Findings, Finding{
			Kind: FindGrant, Effect: r.Effect, Ref: r.Ref, Operation: r.UsedBy, Thread: r.Thread, Run: r.Run, Approval: r.ID,
			Text: fmt.Sprintf("grant %s of %s %s is spent, and no dispatch used it", r.ID, r.Effect, r.Ref),
			Next: "find out in the audit trail who spent it",
		})
	}
}

func (m *matching) name(e *entry, kind FindingKind, text, next string) {
	m.report.Findings = append(m.report.Findings, m.finding(e, kind, text, next))
}

func (m *matching) finding(e *entry, kind FindingKind, text, next string) Finding {
	f := Finding{
		Kind: kind, Effect: e.Effect, Ref: e.Ref.String(), Operation: e.Key, State: e.State, Thread: e.Thread, Run: e.Run, Approval: e.Grant,
		Text: fmt.Sprintf("operation %.12s (%s %s, %s): %s", e.Key, e.Effect, e.Ref, e.State, text), Next: next,
	}
	for _, row := range e.rows {
		f.Rows = append(f.Rows, row.String())
	}
	return f
}
