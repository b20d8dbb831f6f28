package audit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/pawl-dev/pawl/audit/proof"
	"github.com/pawl-dev/pawl/storage"
)

// Sequencer gives the rows of a tenant their places in its log, after they are committed. Any number of them may work on
// one database: one at a time does, for each tenant, and another takes over a second after it fell silent. Nothing
// depends on one: without it rows stay pending. It is a source of package worker, and safe for concurrent use.
type Sequencer struct {
	db storage.DB
	id string
}

// NewSequencer makes a sequencer.
func NewSequencer(db storage.DB) *Sequencer { return &Sequencer{db: db, id: uuid.NewString()} }

const (
	tenure = time.Second // how long a sequencer keeps a tenant after its last batch
	batch  = 500         // rows in one Update
)

// Name is "audit".
func (s *Sequencer) Name() string { return "audit" }

// Due orders what is pending of all tenants, about limit rows (0: all), and says how many it ordered. next is when to
// come again though nothing changed: another sequencer has a tenant until then.
func (s *Sequencer) Due(ctx context.Context, limit int) (done int, next time.Time, err error) {
	tenants, err := s.tenants(ctx)
	if err != nil {
		return 0, time.Time{}, err
	}
	for _, tenant := range tenants {
		for limit <= 0 || done < limit {
			n, until, err := s.order(ctx, tenant)
			if err != nil {
				return done, next, err
			}
			if done += n; !until.IsZero() && (next.IsZero() || until.Before(next)) {
				next = until
			}
			if n < batch {
				break
			}
		}
	}
	return done, next, nil
}

// tenants lists those with pending rows.
func (s *Sequencer) tenants(ctx context.Context) (out []string, err error) {
	err = s.db.View(ctx, func(_ context.Context, tx storage.Tx) error {
		var found []string
		for q := (storage.Query{Limit: 1, NoBody: true}); ; {
			rows, err := tx.List(dueKind, q)
			if err != nil || len(rows) == 0 {
				out = found
				return err
			}
			t := rows[0].Key[0].(string)
			found = append(found, t)
			q.Range.From = t + "\x00"
		}
	})
	return out, err
}

// head is the end of a tenant's log.
type logHead struct {
	size  int64
	head  Hash
	owner string
	until time.Time
}

func readHead(tx storage.Tx, tenant string) (logHead, error) {
	row, ok, err := tx.Get(headKind, tenant)
	if err != nil || !ok {
		return logHead{}, err
	}
	return logHead{
		size: row.Fields[0].(int64), head: hashAt(row.Fields, 1), owner: row.Fields[2].(string), until: time.UnixMilli(row.Fields[3].(int64)).UTC(),
	}, nil
}

// placed is a row that gets a place.
type placed struct {
	thread string
	n, at  int64
	leaf   Hash
}

// order puts a batch into a tenant's log, or says until when another sequencer has it.
func (s *Sequencer) order(ctx context.Context, tenant string) (done int, until time.Time, err error) {
	err = s.db.Update(ctx, func(_ context.Context, tx storage.Tx) error {
		done, until = 0, time.Time{}
		h, err := readHead(tx, tenant)
		if err != nil {
			return err
		}
		if h.owner != s.id && tx.Now().Before(h.until) {
			until = h.until
			return nil
		}
		rows, err := take(tx, tenant)
		if err != nil || len(rows) == 0 {
			return err
		}
		for _, r := range rows {
			h.size++
			h.head = proof.Head(h.head, h.size, r.leaf)
			held, err := tx.Put(logKind, storage.Row{
				Key: []any{tenant, h.size}, Fields: []any{r.thread, r.n, r.leaf[:], slices.Clone(h.head[:])},
			}, storage.Absent())
			if err == nil && !held {
				err = fmt.Errorf("audit: position %d of the log of tenant %q is taken, and its head says that it is not; nothing was ordered; run pawl audit verify", h.size, tenant)
			}
			if err != nil {
				return err
			}
		}
		_, err = tx.Put(headKind, storage.Row{
			Key: []any{tenant}, Fields: []any{h.size, h.head[:], s.id, tx.Now().Add(tenure).UnixMilli()},
		}, storage.Always())
		done = len(rows)
		return err
	})
	return done, until, err
}

// take takes a batch of pending rows off the chains that have some, in the order of their times where the chains allow.
func take(tx storage.Tx, tenant string) ([]placed, error) {
	due, err := tx.List(dueKind, storage.Query{Range: storage.Range{Prefix: []any{tenant}}, Limit: batch, NoBody: true})
	if err != nil {
		return nil, err
	}
	var out []placed
	for _, mark := range due {
		left := batch - len(out)
		if left == 0 {
			break
		}
		thread, from := mark.Key[1].(string), mark.Fields[0].(int64)
		rows, err := tx.List(kind, storage.Query{
			Range: storage.Range{Prefix: []any{tenant, thread}, From: from}, Limit: left + 1, NoBody: true,
		})
		if err != nil {
			return nil, err
		}
		more := len(rows) > left
		rows = rows[:min(len(rows), left)]
		if len(rows) == 0 {
			continue // it was there when the mark was made: the mark stays, as a witness
		}
		for i, row := range rows {
			p := placed{thread: thread, n: row.Key[2].(int64), at: row.Fields[1].(int64), leaf: proof.Leaf(hashAt(row.Fields, 2))}
			if i > 0 { // a clock that went back does not turn a chain round
				p.at = max(p.at, out[len(out)-1].at)
			}
			out = append(out, p)
		}
		if more {
			mark.Fields = []any{rows[len(rows)-1].Key[2].(int64) + 1}
			_, err = tx.Put(dueKind, mark, storage.Always())
		} else {
			_, err = tx.Delete(dueKind, storage.Range{Prefix: []any{tenant, thread}})
		}
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.thread, b.thread), cmp.Compare(a.n, b.n))
	})
	return out, nil
}
