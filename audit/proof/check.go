// Package proof checks an audit trail: its chains, one a thread, and the log that orders the rows of all of them. It
// reads no database: it is fed by one, or by an export, and uses the standard library alone.
//
// What it can show and what it cannot is told in docs/audit.md.
package proof

import (
	"fmt"
	"strings"
	"time"
)

// Entry is a place in a tenant's log.
type Entry struct {
	Pos    int64  `json:"pos"` // counts from 1 within the tenant
	Thread string `json:"thread,omitempty"`
	N      int64  `json:"n"`
	Leaf   Hash   `json:"leaf"` // of the row's hash, see Leaf
	Head   Hash   `json:"head"` // of the log up to here, see Head
}

// Anchor is what of a log is kept elsewhere, where whoever can write to the database cannot: with it, a log that was cut
// or written anew is told from the one that was anchored.
type Anchor struct {
	Tenant string    `json:"tenant"`
	Size   int64     `json:"size"`
	Head   Hash      `json:"head"`
	At     time.Time `json:"at"` // when it was taken
}

// Finding is something that an honest trail does not have.
type Finding struct {
	Thread string `json:"thread,omitempty"` // whose chain; empty: of the acts without a thread, or of the log
	N      int64  `json:"n,omitempty"`      // the row in the chain; 0: of the log
	Pos    int64  `json:"pos,omitempty"`    // in the log
	Line   int    `json:"line,omitempty"`   // of the export
	Field  string `json:"field,omitempty"`  // where it can be told
	Text   string `json:"text"`
}

// String names the place and says what is wrong with it.
func (f Finding) String() string {
	var at []string
	if f.Line > 0 {
		at = append(at, fmt.Sprintf("line %d", f.Line))
	}
	switch {
	case f.N != 0 && f.Thread == "":
		at = append(at, fmt.Sprintf("row %d of the chain of no thread", f.N))
	case f.N != 0 || f.Thread != "":
		at = append(at, fmt.Sprintf("row %d of thread %q", f.N, f.Thread))
	}
	if f.Pos != 0 {
		at = append(at, fmt.Sprintf("log position %d", f.Pos))
	}
	if f.Field != "" {
		at = append(at, "field "+f.Field)
	}
	if at == nil {
		return f.Text
	}
	return strings.Join(at, ", ") + ": " + f.Text
}

// Most is how many findings a report lists; the others are counted.
const Most = 1000

// Report is the outcome of a check.
type Report struct {
	Tenant   string    `json:"tenant"`
	Chains   int       `json:"chains"`
	Rows     int64     `json:"rows"`    // that are chained
	Size     int64     `json:"size"`    // of the log: how many of them it has ordered
	Head     Hash      `json:"head"`    // of the log
	Pending  int64     `json:"pending"` // chained, and not in the log yet
	Old      int64     `json:"old"`     // written before there were chains: nothing shows a change of them
	Anchored int64     `json:"anchored"`
	Findings []Finding `json:"findings"`
	More     int64     `json:"more,omitempty"` // findings that are not listed
	Notes    []string  `json:"notes"`
}

// Honest says that nothing was found.
func (r *Report) Honest() bool { return len(r.Findings) == 0 }

// Anchor is what to keep elsewhere of the log that was checked.
func (r *Report) Anchor(at time.Time) Anchor {
	return Anchor{Tenant: r.Tenant, Size: r.Size, Head: r.Head, At: at.UTC()}
}

// Checker checks one tenant's trail as it is fed by [Checker.Take]: first the rows without hashes, then the log in its
// order, then, by chain, the rows that are not in it. It keeps a few bytes for each thread. It is not safe for
// concurrent use.
type Checker struct {
	report  Report
	at      int // line of an export, for findings; 0: none
	anchors []Anchor
	chains  map[string]*link
	last    time.Time // of the newest row in the log
	since   time.Time // of the first row after the newest anchor
}

// link is the end of a chain as far as it was checked.
type link struct {
	n     int64
	leaf  Hash // of the last row, by which the next one's Prev is known
	begun bool // a row with a hash was there
}

// New makes a checker. Anchors of other tenants are findings.
func New(tenant string, anchors ...Anchor) *Checker {
	c := &Checker{report: Report{Tenant: tenant, Findings: []Finding{}, Notes: []string{}}, anchors: anchors, chains: map[string]*link{}}
	for _, a := range anchors {
		switch {
		case a.Tenant != tenant:
			c.Find(Finding{Text: fmt.Sprintf("the anchor of size %d is of tenant %q; this is the trail of tenant %q", a.Size, a.Tenant, tenant)})
		case a.Size < 0:
			c.Find(Finding{Text: fmt.Sprintf("an anchor has the size %d", a.Size)})
		default:
			c.report.Anchored = max(c.report.Anchored, a.Size)
		}
	}
	return c
}

// Find adds a finding.
func (c *Checker) Find(f Finding) {
	if len(c.report.Findings) == Most {
		c.report.More++
		return
	}
	if f.Line == 0 {
		f.Line = c.at
	}
	c.report.Findings = append(c.report.Findings, f)
}

// Take takes the next line of the trail.
func (c *Checker) Take(l Line) {
	if l.Row != nil {
		l.Row.Tenant = c.report.Tenant
	}
	switch {
	case l.Log != nil && l.Row != nil && (l.Row.Thread != l.Log.Thread || l.Row.N != l.Log.N):
		c.logged(*l.Log, nil, fmt.Sprintf("row %d of thread %q stands in its place", l.Row.N, l.Row.Thread))
	case l.Log != nil:
		c.logged(*l.Log, l.Row, l.Damaged)
	case l.Row == nil:
		c.Find(Finding{Text: "a line without a row"})
	case l.Damaged != "":
		c.Find(Finding{Thread: l.Row.Thread, N: l.Row.N, Text: l.Damaged})
		k := c.chain(l.Row.Thread)
		k.n, k.leaf, k.begun = max(k.n, l.Row.N), Hash{}, true
	case l.Row.Hash.IsZero() && !c.chain(l.Row.Thread).begun:
		c.old(l.Row.Thread, l.Row.N)
	default:
		c.pending(l.Row)
	}
}

func (c *Checker) chain(thread string) *link {
	k := c.chains[thread]
	if k == nil {
		k = &link{}
		c.chains[thread] = k
	}
	return k
}

// old takes a row that was written before there were chains.
func (c *Checker) old(thread string, n int64) {
	k := c.chain(thread)
	if n != k.n+1 {
		c.Find(Finding{Thread: thread, N: n, Field: "n", Text: fmt.Sprintf("it follows row %d: rows without hashes count from 1", k.n)})
	}
	k.n = n
	c.report.Old++
}

// logged takes the next entry of the log with its row. A row that is not there, or cannot be read, is nil, and why says
// what is wrong with it.
func (c *Checker) logged(e Entry, row *Row, why string) {
	c.place(e)
	k := c.chain(e.Thread)
	if !c.follows(k, e.Thread, e.N, e.Pos) {
		k.leaf = Hash{}
	}
	at := Finding{Thread: e.Thread, N: e.N, Pos: e.Pos}
	if row == nil {
		if at.Text = why; why == "" {
			at.Text = "it was deleted: the log has it and the chain does not"
		}
		c.Find(at)
	} else {
		c.report.Rows++
		c.whole(row, k, at, &e.Leaf)
		c.last = row.At
		if e.Pos > c.report.Anchored && c.since.IsZero() {
			c.since = row.At
		}
	}
	k.n, k.leaf, k.begun = e.N, e.Leaf, true
}

// place checks where an entry stands in the log.
func (c *Checker) place(e Entry) {
	at, size := Finding{Thread: e.Thread, N: e.N, Pos: e.Pos}, c.report.Size
	if c.report.Pending > 0 {
		at.Text = "it stands behind rows that are not in the log: lines were moved"
		c.Find(at)
	}
	switch {
	case e.Pos == size+1:
		if e.Head != Head(c.report.Head, e.Pos, e.Leaf) {
			at.Field, at.Text = "head", "the log's own chain breaks here: an entry was changed, inserted or moved"
			c.Find(at)
		}
	case e.Pos > size+1:
		at.Text = fmt.Sprintf("the log's positions %d to %d are missing before it", size+1, e.Pos-1)
		c.Find(at)
	default:
		at.Text = fmt.Sprintf("it stands after position %d: the log was reordered", size)
		c.Find(at)
	}
	c.report.Size, c.report.Head = max(size, e.Pos), e.Head
	for _, a := range c.anchors {
		if a.Tenant == c.report.Tenant && a.Size == e.Pos && a.Head != e.Head {
			c.Find(Finding{Pos: e.Pos, Field: "head", Text: fmt.Sprintf("it is not the log that was anchored: the anchor of %s has the head %s, the log %s",
				a.At.UTC().Format(time.RFC3339), a.Head, e.Head)})
		}
	}
}

// follows says whether a row is the next of its chain.
func (c *Checker) follows(k *link, thread string, n, pos int64) bool {
	at := Finding{Thread: thread, N: n, Pos: pos, Field: "n"}
	switch {
	case n == k.n+1:
		return true
	case n > k.n+1 && pos == 0:
		at.Text = fmt.Sprintf("rows %d to %d of its chain are missing before it", k.n+1, n-1)
	case n > k.n+1:
		at.Text = fmt.Sprintf("rows %d to %d of its chain are not in the log before it", k.n+1, n-1)
	default:
		at.Text = fmt.Sprintf("it follows row %d: it was inserted or moved", k.n)
	}
	c.Find(at)
	return false
}

// pending takes a row of a chain that is not in the log.
func (c *Checker) pending(row *Row) {
	k := c.chain(row.Thread)
	c.report.Rows++
	c.report.Pending++
	if c.since.IsZero() || row.At.Before(c.since) {
		c.since = row.At
	}
	if !c.follows(k, row.Thread, row.N, 0) {
		k.leaf = Hash{}
	}
	c.whole(row, k, Finding{Thread: row.Thread, N: row.N}, nil)
	k.n, k.leaf, k.begun = max(k.n, row.N), Leaf(row.Hash), true
}

// whole checks a row by itself, against the log's leaf where it has one, and against the row before it.
func (c *Checker) whole(row *Row, k *link, at Finding, leaf *Hash) {
	sum := row.Sum()
	logged := leaf == nil || Leaf(row.Hash) == *leaf
	switch {
	case sum == row.Hash && logged:
	case sum == row.Hash:
		at.Text = "it is not the row that the log has: it was replaced, with its hash"
		c.Find(at)
		return
	case row.Hash.IsZero():
		at.Field, at.Text = "hash", "its hash was taken away"
		c.Find(at)
		return
	case leaf != nil && Leaf(sum) == *leaf:
		at.Field, at.Text = "hash", "its hash was changed; the rest is as it was"
		c.Find(at)
		return
	default:
		at.Field, at.Text = c.changed(row)
		c.Find(at)
		return
	}
	switch {
	case !k.begun && !row.Prev.IsZero():
		at.Field, at.Text = "prev", "it names a row before it, and the chain starts here"
	case k.begun && !k.leaf.IsZero() && Leaf(row.Prev) != k.leaf:
		at.Field, at.Text = "prev", fmt.Sprintf("it was written after another row %d than the one that is there", row.N-1)
	default:
		return
	}
	c.Find(at)
}

// near is how far from its place a moved row is looked for.
const near = 64

// changed says what of a row was changed, as far as trying can tell.
func (c *Checker) changed(row *Row) (field, text string) {
	moved := *row
	for d := int64(1); d <= near; d++ {
		for _, n := range []int64{row.N - d, row.N + d} {
			if moved.N = n; moved.Sum() == row.Hash {
				return "n", fmt.Sprintf("it was written as row %d: rows were reordered", n)
			}
		}
	}
	return "", "it is not what was written: its hash does not fit"
}

// End returns the report. The checker is done with.
func (c *Checker) End() *Report {
	r := &c.report
	r.Chains = len(c.chains)
	for _, a := range c.anchors {
		if a.Tenant == r.Tenant && a.Size > r.Size {
			c.Find(Finding{Pos: r.Size + 1, Text: fmt.Sprintf("the log ends at position %d; the anchor of %s has %d: its end was cut off",
				r.Size, a.At.UTC().Format(time.RFC3339), a.Size)})
		}
	}
	if r.Old > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d rows were written before there were chains: nothing shows a change of them", r.Old))
	}
	if r.Pending > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d rows are pending: the log has not ordered them yet", r.Pending))
	}
	if r.Size+r.Pending > r.Anchored {
		r.Notes = append(r.Notes, fmt.Sprintf("unanchored since log position %d (%s): whoever can write to the database can cut off or rewrite what comes after without a trace; "+
			"keep an anchor elsewhere", r.Anchored+1, c.since.UTC().Format(time.RFC3339)))
	}
	return r
}
