package audit

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"

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

func pack(r Row) ([]byte, error) {
	doc, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("audit: %w; nothing was written", err)
	}
	body := append(make([]byte, head, head+len(doc)), doc...)
	body[0] = format
	binary.BigEndian.PutUint32(body[1:], sum(doc))
	return body, nil
}

func unpack(row storage.Row) (Row, error) {
	r := Row{Tenant: row.Key[0].(string), Thread: row.Key[1].(string), N: row.Key[2].(int64), Operation: row.Fields[0].(string)}
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
	if r.At.UnixMilli() != row.Fields[1].(int64) || r.Action == "" {
		return fail(errors.New("its time or its action does not fit"))
	}
	return r, nil
}

func sum(doc []byte) uint32 { return crc32.Checksum(doc, crc32.MakeTable(crc32.Castagnoli)) }
