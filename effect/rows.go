package effect

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/storage"
)

const (
	operations = "operation"
	attempts   = "attempt"
	evidence   = "evidence"
	uses       = "operation_use" // which tasks of which threads had to do with an operation
)

// Kinds are the record kinds of this package: give them to the driver's Open, with those of approval and audit.
func Kinds() []storage.Kind {
	text := func(name string) storage.Field { return storage.Field{Name: name, Type: storage.Text} }
	number := func(name string) storage.Field { return storage.Field{Name: name, Type: storage.Int} }
	return []storage.Kind{
		{
			Name: operations, Key: []storage.Field{text("tenant"), text("effect"), text("ref"), number("revision")},
			Fields: []storage.Field{text("op"), text("state"), number("updated")},
			Indexes: []storage.Index{
				{Name: "by_op", Fields: []string{"tenant", "op"}, Unique: true},
				{Name: "by_state", Fields: []string{"tenant", "state", "updated"}},
			},
			Revised: true,
		},
		{Name: attempts, Key: []storage.Field{text("tenant"), text("op"), number("n")}},
		{Name: evidence, Key: []storage.Field{text("tenant"), text("op"), number("n")}},
		{
			Name: uses, Key: []storage.Field{text("tenant"), text("thread"), text("op"), text("task")},
			Indexes: []storage.Index{{Name: "by_op", Fields: []string{"tenant", "op"}}},
		},
		{Name: restored, Key: []storage.Field{text("tenant"), text("what"), number("n")}},
	}
}

// DamagedError is a row that cannot be read. It was left as it is, and nothing was sent.
type DamagedError struct {
	Kind, ID string
	Err      error
}

// Error says which row it is.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("effect: the %s row of %s cannot be read: %v; it was left as it is and nothing was sent", e.Kind, e.ID, e.Err)
}

// Unwrap returns the cause.
func (e *DamagedError) Unwrap() error { return e.Err }

// A body is a format byte, a checksum of the rest, and a JSON object.
const (
	format = 1
	head   = 5
)

func pack(v any) ([]byte, error) {
	doc, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("effect: %w; nothing was written", err)
	}
	body := append(make([]byte, head, head+len(doc)), doc...)
	body[0] = format
	binary.BigEndian.PutUint32(body[1:], checksum(doc))
	return body, nil
}

func unpack(kind, id string, body []byte, v any) error {
	var err error
	switch {
	case len(body) < head:
		err = errors.New("it is truncated")
	case body[0] != format:
		err = fmt.Errorf("it has the unknown format %d", body[0])
	case binary.BigEndian.Uint32(body[1:]) != checksum(body[head:]):
		err = errors.New("its checksum does not fit")
	default:
		d := json.NewDecoder(bytes.NewReader(body[head:]))
		d.DisallowUnknownFields()
		err = d.Decode(v)
	}
	if err != nil {
		return &DamagedError{Kind: kind, ID: id, Err: err}
	}
	return nil
}

func checksum(doc []byte) uint32 { return crc32.Checksum(doc, crc32.MakeTable(crc32.Castagnoli)) }

// stored is an operation as its body holds it.
type stored struct {
	Operation
	Schema  json.RawMessage `json:"schema,omitempty"`
	Input   json.RawMessage `json:"input,omitempty"`
	Fields  []string        `json:"fields,omitempty"`
	Lag     time.Duration   `json:"lag,omitempty"`
	Params  []byte          `json:"params"`
	Outcome []byte          `json:"outcome,omitempty"`
}

func readOperation(row storage.Row) (*Operation, error) {
	key := row.Fields[0].(string)
	var s stored
	if err := unpack(operations, key, row.Body, &s); err != nil {
		return nil, err
	}
	o := s.Operation
	o.Tenant, o.Effect, o.Ref, o.Revision = row.Key[0].(string), row.Key[1].(string), parseRef(row.Key[2].(string)), row.Key[3].(int64)
	o.Key, o.State, o.Updated = key, State(row.Fields[1].(string)), time.UnixMilli(row.Fields[2].(int64)).UTC()
	o.schema, o.input, o.fields, o.lag, o.params, o.outcome, o.rev = s.Schema, s.Input, s.Fields, s.Lag, s.Params, s.Outcome, row.Rev
	if !o.State.known() {
		return nil, &DamagedError{Kind: operations, ID: key, Err: fmt.Errorf("it is in the unknown state %q", o.State)}
	}
	return &o, nil
}

// put writes an operation if it is still as it was read, or not there yet.
func (o *Operation) put(tx storage.Tx) error {
	if err := o.unspend(tx); err != nil {
		return err
	}
	body, err := pack(stored{*o, o.schema, o.input, o.fields, o.lag, o.params, o.outcome})
	if err != nil {
		return err
	}
	cond := storage.Absent()
	if o.rev > 0 {
		cond = storage.AtRev(o.rev)
	}
	held, err := tx.Put(operations, storage.Row{
		Key:    []any{o.Tenant, o.Effect, o.Ref.String(), o.Revision},
		Fields: []any{o.Key, string(o.State), o.Updated.UnixMilli()}, Body: body,
	}, cond)
	if err == nil && !held {
		err = errMoved
	}
	if err == nil {
		o.rev++
	}
	return err
}

// errMoved: a row is not as it was read. Look again.
var errMoved = errors.New("effect: the operation changed meanwhile; nothing was changed")

// newestOf reads the newest revision of what is done for a reference; nil: none.
func newestOf(tx storage.Tx, tenant, effect string, ref Reference) (*Operation, error) {
	rows, err := tx.List(operations, storage.Query{Range: storage.Range{Prefix: []any{tenant, effect, ref.String()}}, Desc: true, Limit: 1})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return readOperation(rows[0])
}

// inForce reads the operation that stands for a reference: the newest revision, or the one that it was to redo, when the
// redo was given up, denied or refused before anything happened. The task that asked for the redo is still told so.
func inForce(tx storage.Tx, tenant, effect string, ref Reference, by *pawl.TaskInfo) (*Operation, error) {
	op, err := newestOf(tx, tenant, effect, ref)
	for err == nil && op != nil && op.Redoes != "" && !op.Doubt {
		if op.State != StateVoided && op.State != StateDenied && op.State != StateRejected {
			break
		}
		if by != nil && op.Task == by.Task && op.State != StateVoided {
			break
		}
		op, err = operationOf(tx, tenant, op.Redoes)
	}
	return op, err
}

// operationOf reads an operation by its key; nil: there is none.
func operationOf(tx storage.Tx, tenant, key string) (*Operation, error) {
	rows, err := tx.List(operations, storage.Query{Index: "by_op", Range: storage.Range{Prefix: []any{tenant, key}}, Limit: 1})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return readOperation(rows[0])
}

func attemptOf(tx storage.Tx, tenant, key string, n int64) (*Attempt, error) {
	row, ok, err := tx.Get(attempts, tenant, key, n)
	if err != nil || !ok {
		return nil, err
	}
	return readAttempt(row)
}

func readAttempt(row storage.Row) (*Attempt, error) {
	a := Attempt{}
	err := unpack(attempts, row.Key[1].(string), row.Body, &a)
	a.Operation, a.N = row.Key[1].(string), row.Key[2].(int64)
	return &a, err
}

func (a *Attempt) put(tx storage.Tx, tenant string) error {
	body, err := pack(a)
	if err != nil {
		return err
	}
	_, err = tx.Put(attempts, storage.Row{Key: []any{tenant, a.Operation, a.N}, Body: body}, storage.Always())
	return err
}

// put adds evidence, numbered after what is there.
func (e *Evidence) put(tx storage.Tx, tenant string) error {
	rows, err := tx.List(evidence, storage.Query{Range: storage.Range{Prefix: []any{tenant, e.Operation}}, Desc: true, Limit: 1, NoBody: true})
	if err != nil {
		return err
	}
	if e.N = 1; len(rows) > 0 {
		e.N = rows[0].Key[2].(int64) + 1
	}
	e.At = tx.Now().UTC()
	body, err := pack(e)
	if err != nil {
		return err
	}
	_, err = tx.Put(evidence, storage.Row{Key: []any{tenant, e.Operation, e.N}, Body: body}, storage.Absent())
	return err
}

// used notes that a task had to do with an operation.
func used(tx storage.Tx, info pawl.TaskInfo, key string) error {
	_, err := tx.Put(uses, storage.Row{Key: []any{info.Tenant, info.Thread, key, info.Task}}, storage.Absent())
	return err
}

func isUsed(tx storage.Tx, info pawl.TaskInfo, key string) (bool, error) {
	_, ok, err := tx.Get(uses, info.Tenant, info.Thread, key, info.Task)
	return ok, err
}

// note adds a line about an operation to the trail of a thread.
func (o *Operation) note(tx storage.Tx, at pawl.TaskInfo, actor pawl.Actor, action string, was State, reason string) error {
	return audit.Write(tx, audit.Row{
		Tenant: o.Tenant, Thread: at.Thread, Lineage: at.Lineage, Run: at.Run, Attempt: at.Attempt, Operation: o.Key, Approval: o.Grant,
		Effect: o.Effect, Ref: o.Ref.String(), Actor: actor, Action: "effect." + action, Before: string(was), After: string(o.State),
		Digest: o.Call, Receipt: o.Receipt, Reason: reason,
	})
}
