// Package audit keeps what was done around outside actions: who asked, who decided, what was dispatched, and what was
// refused. A row is written in the Update that makes the change, so there is no change without its row, and no row of a
// change that was undone. Rows are only added: they survive the deletion of their thread.
//
// Rows hold names, digests and reasons, never the parameters of a call.
//
// The rows of a thread are a chain: each carries the hash of the one before it. So do the acts without a thread, of each
// tenant. A [Sequencer] orders the rows of all chains of a tenant into one log, which is chained too. [Verify] finds what
// was changed, taken out or put in; [Export] writes the trail for a check elsewhere (program pawl-verify). An [Anchor] that
// is kept elsewhere shows that the end was cut off, which nothing inside the database can.
package audit

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
)

// Row is one line of the trail. Only Tenant and Action are always there.
type Row struct {
	Tenant    string     `json:"-"`
	Thread    string     `json:"-"` // empty: of no thread, such as an attempt on something that is not there
	Lineage   string     `json:"lineage,omitempty"`
	Run       string     `json:"run,omitempty"`
	Attempt   string     `json:"attempt,omitempty"`
	Operation string     `json:"-"`
	Approval  string     `json:"approval,omitempty"`
	Effect    string     `json:"effect,omitempty"`
	Ref       string     `json:"ref,omitempty"`
	Question  string     `json:"question,omitempty"`
	Actor     pawl.Actor `json:"actor,omitzero"` // zero: the engine itself
	Action    string     `json:"action"`         // "approval.granted", "effect.dispatched"
	Before    string     `json:"before,omitempty"`
	After     string     `json:"after,omitempty"`   // equal to Before: an attempt that was refused
	Digest    string     `json:"digest,omitempty"`  // of the exact call
	View      string     `json:"view,omitempty"`    // digest of what was shown
	Receipt   string     `json:"receipt,omitempty"` // its id or digest
	Reason    string     `json:"reason,omitempty"`
	At        time.Time  `json:"at"`            // the database's clock
	N         int64      `json:"-"`             // counts from 1 within (tenant, thread), without gaps
	Prev      Hash       `json:"prev,omitzero"` // hash of the row before it in its chain; zero: the chain starts here
	Hash      Hash       `json:"-"`             // of all other fields; zero: written before there were chains
}

// Write adds a row in the Update that makes the change. N, At, Prev and Hash are filled in; those of r are ignored. An
// error is to end the Update. It is one indexed read and two writes; a third where the row has a receipt.
func Write(tx storage.Tx, r Row) error {
	if r.Action == "" {
		return fmt.Errorf("audit: a row of thread %q without an action; nothing was written", r.Thread)
	}
	last, err := tx.List(kind, storage.Query{
		Range: storage.Range{Prefix: []any{r.Tenant, r.Thread}}, Desc: true, Limit: 1, NoBody: true,
	})
	if err != nil {
		return err
	}
	r.N, r.At, r.Prev = 1, tx.Now().UTC(), Hash{}
	if len(last) > 0 {
		r.N, r.Prev = last[0].Key[2].(int64)+1, hashAt(last[0].Fields, 2)
	}
	r.clean()
	p := r.proof()
	r.Hash = p.Sum()
	row, err := pack(r)
	if err != nil {
		return err
	}
	held, err := tx.Put(kind, row, storage.Absent())
	if err == nil && !held {
		err = fmt.Errorf("audit: row %d of thread %q is there already; nothing was written", r.N, r.Thread)
	}
	if err != nil {
		return err
	}
	if r.Receipt != "" && r.Operation != "" {
		if _, err := tx.Put(receiptKind, storage.Row{Key: []any{r.Tenant, receiptDigest(r.Receipt), r.Operation}}, storage.Absent()); err != nil {
			return err
		}
	}
	_, err = tx.Put(dueKind, storage.Row{Key: []any{r.Tenant, r.Thread}, Fields: []any{r.N}}, storage.Absent())
	return err
}

// List returns the rows of a thread in the order of writing, those after the given N, at most limit (0: all). The thread
// need not exist any more.
func List(ctx context.Context, db storage.DB, tenant, thread string, after int64, limit int) ([]Row, error) {
	if after == math.MaxInt64 {
		return nil, nil
	}
	return list(ctx, db, storage.Query{
		Range: storage.Range{Prefix: []any{tenant, thread}, From: after + 1}, Limit: max(limit, 0),
	})
}

// Of returns the rows of one operation, over all threads that had to do with it, oldest first, at most limit (0: all).
// Rows of one millisecond are in the order of their threads.
func Of(ctx context.Context, db storage.DB, tenant, operation string, limit int) ([]Row, error) {
	return list(ctx, db, storage.Query{
		Index: "by_operation", Range: storage.Range{Prefix: []any{tenant, operation}}, Limit: max(limit, 0),
	})
}

// Between returns a tenant's rows with from <= At < to, oldest first, at most limit (0: all). A zero time is open.
func Between(ctx context.Context, db storage.DB, tenant string, from, to time.Time, limit int) ([]Row, error) {
	r := storage.Range{Prefix: []any{tenant}}
	if !from.IsZero() {
		r.From = from.UnixMilli()
	}
	if !to.IsZero() {
		r.To = to.UnixMilli()
	}
	return list(ctx, db, storage.Query{Index: "by_time", Range: r, Limit: max(limit, 0)})
}

func list(ctx context.Context, db storage.DB, q storage.Query) ([]Row, error) {
	var rows []storage.Row
	err := db.View(ctx, func(_ context.Context, tx storage.Tx) error {
		got, err := tx.List(kind, q)
		rows = got
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make([]Row, 0, len(rows))
	for _, row := range rows {
		r, err := unpack(row)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}
