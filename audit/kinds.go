package audit

import (
	"github.com/pawl-dev/pawl/audit/proof"
	"github.com/pawl-dev/pawl/storage"
)

// The words of a check, which needs no database, are those of package proof.
type (
	// Hash is a SHA-256 sum.
	Hash = proof.Hash
	// Anchor is what of a log is kept elsewhere.
	Anchor = proof.Anchor
	// Report is the outcome of a check.
	Report = proof.Report
	// Finding is something that an honest trail does not have.
	Finding = proof.Finding
)

const (
	kind        = "audit"         // the rows, by chain
	logKind     = "audit_log"     // their order over all chains of a tenant
	headKind    = "audit_head"    // where that order ends, and who adds to it
	dueKind     = "audit_due"     // chains with rows that are not in the log, and from which row on
	receiptKind = "audit_receipt" // which operation a receipt is of
)

// Kinds are the record kinds of this package: give them to the driver's Open.
func Kinds() []storage.Kind {
	text := func(name string) storage.Field { return storage.Field{Name: name, Type: storage.Text} }
	number := func(name string) storage.Field { return storage.Field{Name: name, Type: storage.Int} }
	raw := func(name string) storage.Field { return storage.Field{Name: name, Type: storage.Bytes} }
	tenant, thread, n := text("tenant"), text("thread"), number("n")
	return []storage.Kind{
		{
			Name: kind, Key: []storage.Field{tenant, thread, n}, Fields: []storage.Field{text("operation"), number("at"), raw("hash")},
			Indexes: []storage.Index{
				{Name: "by_operation", Fields: []string{"tenant", "operation", "at"}},
				{Name: "by_time", Fields: []string{"tenant", "at"}},
			},
		},
		{Name: logKind, Key: []storage.Field{tenant, number("pos")}, Fields: []storage.Field{thread, n, raw("leaf"), raw("head")}},
		{Name: headKind, Key: []storage.Field{tenant}, Fields: []storage.Field{number("size"), raw("head"), text("owner"), number("until")}},
		{Name: dueKind, Key: []storage.Field{tenant, thread}, Fields: []storage.Field{n}},
		{Name: receiptKind, Key: []storage.Field{tenant, text("receipt"), text("operation")}},
	}
}
