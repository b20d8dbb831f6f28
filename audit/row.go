package audit

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/audit/proof"
	"github.com/pawl-dev/pawl/storage"
)

// A body is a format byte, a checksum of the rest, and a JSON object.
const (
	format = 1
	head   = 5
)

// DamagedError is a row that cannot be read. It was left as it is.
type DamagedError struct {
	Tenant, Thread string
	N              int64
	Err            error
}

// Error says which row it is.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("audit: row %d of thread %q cannot be read: %v; it was left as it is", e.N, e.Thread, e.Err)
}

// Unwrap returns the cause.
func (e *DamagedError) Unwrap() error { return e.Err }

func pack(r Row) (storage.Row, error) {
	doc, err := json.Marshal(r)
	if err != nil {
		return storage.Row{}, fmt.Errorf("audit: %w; nothing was written", err)
	}
	body := append(make([]byte, head, head+len(doc)), doc...)
	body[0] = format
	binary.BigEndian.PutUint32(body[1:], sum(doc))
	return storage.Row{
		Key: []any{r.Tenant, r.Thread, r.N}, Fields: []any{r.Operation, r.At.UnixMilli(), hashBytes(r.Hash)}, Body: body,
	}, nil
}

func unpack(row storage.Row) (Row, error) {
	r := Row{
		Tenant: row.Key[0].(string), Thread: row.Key[1].(string), N: row.Key[2].(int64),
		Operation: row.Fields[0].(string), Hash: hashAt(row.Fields, 2),
	}
	fail := func(err error) (Row, error) {
		return Row{}, &DamagedError{Tenant: r.Tenant, Thread: r.Thread, N: r.N, Err: err}
	}
	switch b := row.Body; {
	case len(b) < head:
		return fail(errors.New("it is truncated"))
	case b[0] != format:
		return fail(fmt.Errorf("it has the unknown format %d", b[0]))
	case binary.BigEndian.Uint32(b[1:]) != sum(b[head:]):
		return fail(errors.New("its checksum does not fit"))
	}
	if err := json.Unmarshal(row.Body[head:], &r); err != nil {
		return fail(err)
	}
	if r.At.UnixMilli() != row.Fields[1].(int64) {
		return fail(errors.New("field at: the time in its index is not its own"))
	}
	if r.Action == "" {
		return fail(errors.New("field action: it has none"))
	}
	return r, nil
}

// hashAt reads a hash column. A row of an earlier version has none.
func hashAt(fields []any, i int) (h Hash) {
	if i < len(fields) {
		b, _ := fields[i].([]byte)
		copy(h[:], b)
	}
	return h
}

func hashBytes(h Hash) []byte {
	if h.IsZero() {
		return nil
	}
	return h[:]
}

// clean makes all text valid UTF-8, as which it is stored: what is hashed is what is read back.
func (r *Row) clean() {
	for _, s := range []*string{
		&r.Lineage, &r.Run, &r.Attempt, &r.Operation, &r.Approval, &r.Effect, &r.Ref, &r.Question, &r.Actor.ID, &r.Actor.Kind, &r.Actor.Door,
		&r.Action, &r.Before, &r.After, &r.Digest, &r.View, &r.Receipt, &r.Reason,
	} {
		*s = strings.ToValidUTF8(*s, "\ufffd")
	}
	if slices.ContainsFunc(r.Actor.Groups, func(g string) bool { return !utf8.ValidString(g) }) {
		groups := make([]string, len(r.Actor.Groups))
		for i, g := range r.Actor.Groups {
			groups[i] = strings.ToValidUTF8(g, "\ufffd")
		}
		r.Actor.Groups = groups
	}
}

// proof is the row as it is hashed and exported.
func (r *Row) proof() *proof.Row {
	return &proof.Row{
		Tenant: r.Tenant, Thread: r.Thread, N: r.N, Lineage: r.Lineage, Run: r.Run, Attempt: r.Attempt, Operation: r.Operation,
		Approval: r.Approval, Effect: r.Effect, Ref: r.Ref, Question: r.Question, Actor: proof.Actor(r.Actor), Action: r.Action, Before: r.Before,
		After: r.After, Digest: r.Digest, View: r.View, Receipt: r.Receipt, Reason: r.Reason, At: r.At, Prev: r.Prev, Hash: r.Hash,
	}
}

func sum(doc []byte) uint32 { return crc32.Checksum(doc, crc32.MakeTable(crc32.Castagnoli)) }
