package approval_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/storage"
)

func TestLevels(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		levels approval.Levels
		says   string
	}{
		{"one", approval.Levels{{To: "finance", For: time.Hour}}, ""},
		{"for ever, to anybody", approval.Levels{{}}, ""},
		{"none", nil, "no level"},
		{"two", approval.Levels{{To: "finance", For: time.Hour}, {To: "cfo", Valid: time.Minute, Self: true}}, ""},
		{"the second is never asked", approval.Levels{{To: "finance"}, {To: "cfo"}}, `level "finance" has no limit, so level "cfo" would never be asked`},
		{"a grant that is over", approval.Levels{{To: "finance", Valid: -1}}, `a grant of level "finance"`},
		{"a rate of nothing", approval.Levels{{To: "finance", Rate: approval.Rate{Per: time.Hour}}}, `the rate of level "finance": it allows at most 0`},
		{"a rate over an instant", approval.Levels{{To: "finance", Rate: approval.Rate{N: 1, Per: 1}}}, `the rate of level "finance": it is over 1ns`},
		{"backwards", approval.Levels{{To: "finance", For: -1}}, `level "finance"`},
	} {
		err := c.levels.Check()
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// How long a request and then its grant may be there: what keeps operations must keep them longer.
func TestLife(t *testing.T) {
	t.Parallel()
	const forever = time.Duration(1<<63 - 1)
	for _, c := range []struct {
		l    approval.Levels
		life time.Duration
		ends bool
	}{
		{nil, 0, true},
		{approval.Levels{{For: time.Hour}}, 2 * time.Hour, true},
		{approval.Levels{{For: time.Hour, Valid: time.Minute}, {For: time.Hour}}, 3 * time.Hour, true},
		{approval.Levels{{}}, 0, false},
		{approval.Levels{{Valid: time.Hour}}, 0, false},
		{approval.Levels{{For: time.Hour, Valid: forever}}, 0, false},
	} {
		if life, ends := c.l.Life(); ends != c.ends || ends && life != c.life {
			t.Errorf("%+v: %s, %t", c.l, life, ends)
		}
	}
}

// The tenant leads every key, and what was asked is in no column: a row's columns are stored in the clear.
func TestColumns(t *testing.T) {
	t.Parallel()
	for _, k := range approval.Kinds() {
		if err := k.Check(); err != nil || k.Key[0].Name != "tenant" || k.Name == "approval" && !k.Revised {
			t.Errorf("kind %q: %v", k.Name, err)
		}
	}
	p := (&shop{}).open(t, memory(t), nil)
	r := p.ask("t", "call", "canary-17")
	if _, err := p.desk.Reject(as(t, "cfo"), r.ID, approval.Decision{Reason: "canary"}); err != nil {
		t.Fatal(err)
	}
	row := stored(t, p.db, r.ID)
	for i, f := range row.Fields {
		if s := fmt.Sprint(f); strings.Contains(s, "canary") && s != r.Operation {
			t.Errorf("column %d is %q", i, s)
		}
	}
}

func stored(t *testing.T, db storage.DB, id string) (row storage.Row) {
	t.Helper()
	err := db.View(t.Context(), func(_ context.Context, tx storage.Tx) (err error) {
		row, _, err = tx.Get("approval", "", id)
		return err
	})
	if err != nil || row.Body == nil {
		t.Fatalf("%s: %v", id, err)
	}
	return row
}

// A damaged row decides nothing and dispatches nothing.
func TestDamage(t *testing.T) {
	t.Parallel()
	p := (&shop{}).open(t, memory(t), nil)
	r := p.ask("t", "call", "1")
	p.approve(r, "cfo")
	row := stored(t, p.db, r.ID)
	put := func(r storage.Row) {
		p.update(func(tx storage.Tx) error {
			_, err := tx.Put("approval", r, storage.Always())
			return err
		})
	}
	check := func(what string) {
		t.Helper()
		for door, err := range map[string]error{
			"show":    second(p.desk.Show(t.Context(), r.ID)),
			"list":    second(p.desk.List(t.Context(), approval.Filter{})),
			"approve": second(p.desk.Approve(as(t, "cfo"), r.ID, approval.Decision{Digest: "call"})),
			"consume": p.db.Update(t.Context(), func(_ context.Context, tx storage.Tx) error {
				return approval.Consume(tx, "", r.ID, "call", "op-1")
			}),
		} {
			bad := (*approval.DamagedError)(nil)
			if !errors.As(err, &bad) || bad.ID != r.ID || errors.Unwrap(bad) == nil || !strings.Contains(err.Error(), r.ID) {
				t.Errorf("%s, %s: %v", what, door, err)
			}
		}
	}
	for i := range row.Body {
		bad := row
		bad.Body = bytes.Clone(row.Body)
		bad.Body[i] ^= 0x20
		put(bad)
		check(fmt.Sprintf("byte %d", i))
	}
	for _, n := range []int{0, 4, 5, len(row.Body) - 1} {
		bad := row
		bad.Body = row.Body[:n]
		put(bad)
		check(fmt.Sprintf("cut to %d bytes", n))
	}
	bad := row
	bad.Fields = append([]any{}, row.Fields...)
	bad.Fields[4] = string(approval.Requested)
	put(bad)
	check("another state in the column")
	other := p.ask("other", "call", "2")
	bad = row
	bad.Body = stored(t, p.db, other.ID).Body
	put(bad)
	check("the body of another")
}

// What people read says what did not happen, and what to do next.
func TestMessages(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		err  error
		want string
	}{
		{&approval.DecidedError{ID: "a1", State: approval.Granted, By: "cfo", At: at, Reason: "fine"},
			`approval: a1 is granted by "cfo" at 2030-01-02T03:04:05Z (fine); nothing was changed`},
		{&approval.DecidedError{ID: "a1", State: approval.Withdrawn}, `approval: a1 is withdrawn; nothing was changed`},
		{&approval.ExpiredError{ID: "a1", At: at},
			`approval: a1 was to be decided by 2030-01-02T03:04:05Z; nothing was decided; resume the thread, which asks anew or goes on without it`},
		{&approval.ExpiredError{ID: "a1", At: at, Grant: true},
			`approval: the grant a1 could be used until 2030-01-02T03:04:05Z and lapsed; nothing was dispatched; resume the thread, and it is asked for again`},
		{&approval.DigestError{ID: "a1", Given: "x", Call: "y"},
			`approval: a1 is for the call y, and the decision names "x"; nothing was changed; look at the request again and approve what it shows`},
		{&approval.ForbiddenError{ID: "a1", To: "finance", Actor: pawl.Actor{ID: "eve"}, Why: "why"},
			`approval: a1, which is for "finance", cannot be decided by "eve": why; nothing was changed`},
		{&approval.DeniedError{Request: approval.Request{Effect: "pay", Ref: "17", By: "cfo", Decided: at, Reason: "no"}},
			`approval: pay of "17" was denied by "cfo" at 2030-01-02T03:04:05Z (no); it was not asked again and nothing was dispatched`},
		{&approval.GrantError{ID: "a1", State: approval.Consumed, Why: "why"},
			`approval: a1 is consumed and does not cover this: why; nothing was dispatched and it stays as it was`},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
