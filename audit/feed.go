package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/audit/proof"
	"github.com/pawl-dev/pawl/storage"
)

// page is how many rows one View reads: views have a limited life.
const page = 500

// feed reads a tenant's whole trail in the order that a checker takes. What is written meanwhile is left out or pending.
type feed struct {
	db     storage.DB
	tenant string
	emit   func(proof.Line) error
	seen   map[string]int64 // the newest row of each chain that was emitted
	bare   map[string]int64 // the newest row at a chain's start that has no hash

	head  logHead
	top   int64            // the log's newest position
	marks map[string]int64 // from which row on chains wait for the log
}

func (f *feed) view(ctx context.Context, fn func(tx storage.Tx) error) error {
	return f.db.View(ctx, func(_ context.Context, tx storage.Tx) error { return fn(tx) })
}

// open reads where the log ends.
func (f *feed) open(ctx context.Context) error {
	f.seen, f.bare = map[string]int64{}, map[string]int64{}
	return f.view(ctx, func(tx storage.Tx) (err error) {
		f.top, f.marks = 0, map[string]int64{}
		if f.head, err = readHead(tx, f.tenant); err != nil {
			return err
		}
		mine := storage.Range{Prefix: []any{f.tenant}}
		last, err := tx.List(logKind, storage.Query{Range: mine, Desc: true, Limit: 1, NoBody: true})
		if err != nil {
			return err
		}
		for _, row := range last {
			f.top = row.Key[1].(int64)
		}
		due, err := tx.List(dueKind, storage.Query{Range: mine, NoBody: true})
		for _, row := range due {
			f.marks[row.Key[1].(string)] = row.Fields[0].(int64)
		}
		return err
	})
}

func (f *feed) run(ctx context.Context) error {
	if err := f.threads(ctx, f.old); err != nil {
		return err
	}
	if err := f.log(ctx); err != nil {
		return err
	}
	return f.threads(ctx, f.pending)
}

// threads calls do with each chain.
func (f *feed) threads(ctx context.Context, do func(ctx context.Context, thread string) error) error {
	from := any(nil)
	for {
		var found []string
		err := f.view(ctx, func(tx storage.Tx) error {
			list, at := []string{}, from
			for len(list) < page {
				rows, err := tx.List(kind, storage.Query{Range: storage.Range{Prefix: []any{f.tenant}, From: at}, Limit: 1, NoBody: true})
				if err != nil {
					return err
				}
				if len(rows) == 0 {
					break
				}
				list = append(list, rows[0].Key[1].(string))
				at = list[len(list)-1] + "\x00"
			}
			found = list
			return nil
		})
		if err != nil {
			return err
		}
		for _, thread := range found {
			if err := do(ctx, thread); err != nil {
				return err
			}
		}
		if len(found) < page {
			return nil
		}
		from = found[page-1] + "\x00"
	}
}

// chain emits rows of a chain from one number on, as long as go says so.
func (f *feed) chain(ctx context.Context, thread string, from any, on func(row storage.Row) bool) error {
	for {
		var rows []storage.Row
		err := f.view(ctx, func(tx storage.Tx) (err error) {
			rows, err = tx.List(kind, storage.Query{Range: storage.Range{Prefix: []any{f.tenant, thread}, From: from}, Limit: page})
			return err
		})
		if err != nil {
			return err
		}
		for _, row := range rows {
			if !on(row) {
				return nil
			}
			n := row.Key[2].(int64)
			f.seen[thread] = n
			l := proof.Line{}
			if l.Row, l.Damaged = read(row); l.Row == nil {
				l.Row = &proof.Row{Thread: thread, N: n}
			}
			if err := f.emit(l); err != nil {
				return err
			}
			from = n + 1
		}
		if len(rows) < page {
			return nil
		}
	}
}

// old emits the rows at a chain's start that have no hash, and any that stand before the first.
func (f *feed) old(ctx context.Context, thread string) error {
	return f.chain(ctx, thread, nil, func(row storage.Row) bool {
		n, bare := row.Key[2].(int64), hashAt(row.Fields, 2).IsZero()
		if bare {
			f.bare[thread] = n
		}
		return bare || n < 1
	})
}

// pending emits the rows of a chain that are not in the log.
func (f *feed) pending(ctx context.Context, thread string) error {
	from := any(nil)
	if n, ok := f.seen[thread]; ok {
		from = n + 1
	}
	return f.chain(ctx, thread, from, func(storage.Row) bool { return true })
}

// log emits the log's entries with their rows.
func (f *feed) log(ctx context.Context) error {
	for after := int64(0); after < f.top; {
		var lines []proof.Line
		err := f.view(ctx, func(tx storage.Tx) error {
			rows, err := tx.List(logKind, storage.Query{
				Range: storage.Range{Prefix: []any{f.tenant}, From: after + 1, To: f.top + 1}, Limit: page, NoBody: true,
			})
			if err != nil {
				return err
			}
			list := make([]proof.Line, len(rows))
			for i, row := range rows {
				if list[i], err = f.logged(tx, row); err != nil {
					return err
				}
			}
			lines = list
			return nil
		})
		if err != nil {
			return err
		}
		if len(lines) == 0 {
			return nil
		}
		for _, l := range lines {
			after = l.Log.Pos
			f.seen[l.Log.Thread] = max(f.seen[l.Log.Thread], l.Log.N)
			if err := f.emit(l); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *feed) logged(tx storage.Tx, entry storage.Row) (proof.Line, error) {
	l := proof.Line{Log: &proof.Entry{
		Pos: entry.Key[1].(int64), Thread: entry.Fields[0].(string), N: entry.Fields[1].(int64),
		Leaf: hashAt(entry.Fields, 2), Head: hashAt(entry.Fields, 3),
	}}
	row, ok, err := tx.Get(kind, f.tenant, l.Log.Thread, l.Log.N)
	if err == nil && ok {
		l.Row, l.Damaged = read(row)
	}
	return l, err
}

// read takes a row only as it was written, byte for byte; else it says what is wrong with it.
func read(row storage.Row) (*proof.Row, string) {
	r, err := unpack(row)
	if bad := (*DamagedError)(nil); errors.As(err, &bad) {
		return nil, bad.Err.Error()
	}
	if again, err := pack(r); err != nil || !bytes.Equal(again.Body, row.Body) {
		return nil, "its body is not spelled as it was written"
	}
	return r.proof(), ""
}

// witness finds what the database's own notes contradict.
func (f *feed) witness(find func(Finding)) {
	if f.top != f.head.size {
		find(Finding{Pos: f.top + 1, Text: fmt.Sprintf("the log ends at position %d, and its head says %d: its end was cut off or added to", f.top, f.head.size)})
	}
	for thread, n := range f.marks {
		switch {
		case f.seen[thread] < n:
			find(Finding{Thread: thread, N: n, Text: "it waited for its place in the log and is gone"})
		case f.bare[thread] >= n:
			find(Finding{Thread: thread, N: n, Field: "hash", Text: "its hash was taken away: it waits for its place in the log"})
		}
	}
}
