package approval

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/storage"
)

const (
	kind   = "approval"
	views  = "approval_view" // who looked at which request
	format = 1               // then a checksum of the rest, and a JSON object
	head   = 5
)

// The fields that queries read without a body.
const (
	colThread = 3
	colState  = 4
	colEnds   = 5
)

// DamagedError is a row that cannot be read. It was left as it is, and nothing was decided or dispatched.
type DamagedError struct {
	ID  string
	Err error
}

// Error says which row it is.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("approval: the row of %s cannot be read: %v; it was left as it is", e.ID, e.Err)
}

// Unwrap returns the cause.
func (e *DamagedError) Unwrap() error { return e.Err }

// intent is what a denial is remembered by, as a hash: a reference may say more about a person than a column should.
func intent(effect, ref, call string) string { return core.ID("intent", effect, ref, call) }

// ends is when the clock next makes something else of what the row holds, in milliseconds, rounded up.
func (r *Request) ends() int64 {
	at := r.Due
	switch {
	case r.State != Requested:
		at = r.Until
	case r.Escalated < len(r.Levels)-1:
		at = r.Levels.reached(r.Requested, r.Escalated+1)
	}
	if at.IsZero() {
		return math.MaxInt64
	}
	return at.Add(time.Millisecond - 1).UnixMilli()
}

func pack(r *Request) (storage.Row, error) {
	doc, err := json.Marshal(r)
	if err != nil {
		return storage.Row{}, fmt.Errorf("approval: %w; nothing was written", err)
	}
	body := append(make([]byte, head, head+len(doc)), doc...)
	body[0] = format
	binary.BigEndian.PutUint32(body[1:], sum(doc))
	return storage.Row{
		Key: []any{r.Tenant, r.ID}, Body: body,
		Fields: []any{r.Operation, int64(r.N), intent(r.Effect, r.Ref, r.Call), r.Thread, string(r.State), r.ends(), r.To, r.Lineage, r.Graph},
	}, nil
}

func unpack(row storage.Row) (*Request, error) {
	id := row.Key[1].(string)
	fail := func(err error) (*Request, error) { return nil, &DamagedError{ID: id, Err: err} }
	switch b := row.Body; {
	case len(b) < head:
		return fail(errors.New("it is truncated"))
	case b[0] != format:
		return fail(fmt.Errorf("it has the unknown format %d", b[0]))
	case binary.BigEndian.Uint32(b[1:]) != sum(b[head:]):
		return fail(errors.New("its checksum does not fit"))
	}
	var r Request
	if err := json.Unmarshal(row.Body[head:], &r); err != nil {
		return fail(err)
	}
	switch {
	case r.ID != id || r.Tenant != row.Key[0].(string):
		return fail(errors.New("it is the body of another"))
	case string(r.State) != row.Fields[colState].(string) || r.Call == "":
		return fail(errors.New("its state or its call does not fit"))
	}
	if len(r.Levels) == 0 { // written when there was one level
		r.Levels = Levels{{To: r.To}}
		if !r.Due.IsZero() {
			r.Levels[0].For = r.Due.Sub(r.Requested)
		}
	}
	r.Rev = row.Rev
	return &r, nil
}

func sum(doc []byte) uint32 { return crc32.Checksum(doc, crc32.MakeTable(crc32.Castagnoli)) }

// get reads a request as it is stored.
func get(tx storage.Tx, tenant, id string) (*Request, error) {
	row, ok, err := tx.Get(kind, tenant, id)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, notFound(id)
	}
	return unpack(row)
}

func list(tx storage.Tx, q storage.Query) ([]*Request, error) {
	rows, err := tx.List(kind, q)
	if err != nil {
		return nil, err
	}
	out := make([]*Request, 0, len(rows))
	for _, row := range rows {
		r, err := unpack(row)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// change is one step of a request, and its line in the trail.
func change(tx storage.Tx, was *Request, to State, actor pawl.Actor, edit func(*Request)) (*Request, error) {
	r, err := put(tx, was, to, edit)
	if err != nil {
		return nil, err
	}
	why := r.Unused
	if to == Granted || to == Denied {
		why = r.Reason
	}
	return r, note(tx, r, actor, "approval."+string(to), was.State, why)
}

// put writes the new row under the condition that the old one still stands.
func put(tx storage.Tx, was *Request, to State, edit func(*Request)) (*Request, error) {
	r := *was
	r.State = to
	edit(&r)
	row, err := pack(&r)
	if err != nil {
		return nil, err
	}
	held, err := tx.Put(kind, row, storage.AtRev(was.Rev))
	if err == nil && !held {
		err = fmt.Errorf("approval: %s is not as it was read any more; nothing was changed; try again", r.ID)
	}
	r.Rev++
	return &r, err
}

// notice writes what the clock made of a request: that levels were reached, that it expired, that its grant lapsed. Each is
// written once, by whoever is first, with the time at which it became so.
func notice(tx storage.Tx, r *Request) (*Request, error) {
	now := r.seen(tx.Now())
	if from := r.Escalated; r.State == Requested && now.Level-1 > from {
		var err error
		if r, err = put(tx, r, Requested, func(r *Request) { r.Escalated = now.Level - 1 }); err != nil {
			return nil, err
		}
		for i := from + 1; i < now.Level; i++ {
			why := fmt.Sprintf("nobody decided by %s: level %d, %q, is asked too", stamp(r.Levels.reached(r.Requested, i)), i+1, r.Levels[i].To)
			if i < len(r.Levels)-1 || !r.Due.IsZero() {
				why += ", until " + stamp(r.Levels.reached(r.Requested, i+1))
			}
			if err := note(tx, r, pawl.Actor{}, "approval.escalated", Requested, why); err != nil {
				return nil, err
			}
		}
	}
	if r.State == now.State {
		return r, nil
	}
	return change(tx, r, now.State, pawl.Actor{}, func(r *Request) { r.Unused = now.Unused })
}

// note adds a line about a request to the trail.
func note(tx storage.Tx, r *Request, actor pawl.Actor, action string, was State, why string) error {
	return audit.Write(tx, audit.Row{
		Tenant: r.Tenant, Thread: r.Thread, Lineage: r.Lineage, Run: r.Run, Attempt: r.Attempt, Operation: r.Operation, Approval: r.ID,
		Effect: r.Effect, Ref: r.Ref, Actor: actor, Action: action, Before: string(was), After: string(r.State),
		Digest: r.Call, View: r.ViewDigest, Reason: why,
	})
}
