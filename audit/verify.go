package audit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit/proof"
	"github.com/pawl-dev/pawl/storage"
)

// Verify checks the trail of a tenant as it stands in the database: that no row was changed, taken out, put in or moved,
// in its chain and in the log. The report's findings name the places; none: the trail is honest, as far as its notes say.
// Nothing inside the database shows that the newest rows were cut off, or that all of it was written anew: only an anchor
// does that was kept elsewhere. Verify writes nothing and may run beside anything. An error: it could not be read.
func Verify(ctx context.Context, db storage.DB, tenant string, anchors ...Anchor) (*Report, error) {
	c := proof.New(tenant, anchors...)
	f := &feed{db: db, tenant: tenant, emit: func(l proof.Line) error { c.Take(l); return ctx.Err() }}
	if err := f.open(ctx); err != nil {
		return nil, err
	}
	if err := f.run(ctx); err != nil {
		return nil, err
	}
	f.witness(c.Find)
	return c.End(), nil
}

// Export writes the trail of a tenant as lines of JSON, which pawl-verify checks without the database. A row that cannot
// be read is exported as such, so that the check names it. It returns the anchor of what was exported: keep it elsewhere.
func Export(ctx context.Context, db storage.DB, tenant string, w io.Writer) (Anchor, error) {
	var out *proof.Writer
	f := &feed{db: db, tenant: tenant, emit: func(l proof.Line) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return out.Write(l)
	}}
	if err := f.open(ctx); err != nil {
		return Anchor{}, err
	}
	a := Anchor{Tenant: tenant, Size: f.head.size, Head: f.head.head, At: time.Now().UTC()}
	var err error
	if out, err = proof.NewWriter(w, proof.Header{Tenant: tenant, Size: a.Size, Head: a.Head, At: a.At}); err != nil {
		return Anchor{}, err
	}
	if err := f.run(ctx); err != nil {
		return Anchor{}, fmt.Errorf("audit: the export of tenant %q is not whole: %w", tenant, err)
	}
	return a, out.End()
}

// Head is the anchor of a tenant's log as it stands, unchecked.
func Head(ctx context.Context, db storage.DB, tenant string) (a Anchor, err error) {
	err = db.View(ctx, func(_ context.Context, tx storage.Tx) error {
		h, err := readHead(tx, tenant)
		a = Anchor{Tenant: tenant, Size: h.size, Head: h.head, At: tx.Now().UTC()}
		return err
	})
	return a, err
}

// Trail returns all rows, oldest first, of the operation that a receipt is of: who asked, who was shown which view, who
// decided, which attempt was sent and what came back. receipt is as in Row.Receipt. An unknown one is a
// *pawl.NotFoundError.
func Trail(ctx context.Context, db storage.DB, tenant, receipt string) ([]Row, error) {
	var operations []storage.Row
	err := db.View(ctx, func(_ context.Context, tx storage.Tx) error {
		found, err := tx.List(receiptKind, storage.Query{Range: storage.Range{Prefix: []any{tenant, receiptDigest(receipt)}}, NoBody: true})
		operations = found
		return err
	})
	if err != nil {
		return nil, err
	}
	var out []Row
	for _, op := range operations {
		rows, err := Of(ctx, db, tenant, op.Key[2].(string), 0)
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	if out == nil {
		return nil, &pawl.NotFoundError{What: "receipt", ID: receipt, Hint: "pawl effects show names the receipt of an operation; receipts of an earlier version are found by their operation"}
	}
	return out, nil
}

// receiptDigest stands for a receipt in an index, which is stored in the clear.
func receiptDigest(receipt string) string {
	sum := sha256.Sum256([]byte("pawl.audit.receipt.1\n" + receipt))
	return hex.EncodeToString(sum[:])
}
