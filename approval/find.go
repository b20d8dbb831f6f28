package approval

import (
	"iter"

	"github.com/pawl-dev/pawl/storage"
)

// Of returns the newest request of an operation, of whichever task, as the clock shows it.
func Of(tx storage.Tx, tenant, operation string) (*Request, bool, error) {
	return first(tx, tenant, operation, func(*Request) bool { return true })
}

// OfTask returns the newest request that one task made for an operation, as the clock shows it. A fork runs other tasks,
// so it does not find what was asked before it.
func OfTask(tx storage.Tx, tenant, operation, task string) (*Request, bool, error) {
	return first(tx, tenant, operation, func(r *Request) bool { return r.Task == task })
}

// Remembered returns the denial of a call, if there is one: the same effect, reference and digest, in whatever thread,
// task or operation. It does not age.
func Remembered(tx storage.Tx, tenant, effect, ref, call string) (*Request, bool, error) {
	found, err := list(tx, storage.Query{
		Index: "by_intent", Range: storage.Range{Prefix: []any{tenant, intent(effect, ref, call), string(Denied)}}, Limit: 1,
	})
	if err != nil || len(found) == 0 {
		return nil, false, err
	}
	return found[0], true, nil
}

func first(tx storage.Tx, tenant, operation string, is func(*Request) bool) (*Request, bool, error) {
	for r, err := range newest(tx, tenant, operation) {
		if err != nil {
			return nil, false, err
		}
		if is(r) {
			seen := r.seen(tx.Now())
			return &seen, true, nil
		}
	}
	return nil, false, nil
}

// newest walks an operation's requests, the newest first, as they are stored. There are few.
func newest(tx storage.Tx, tenant, operation string) iter.Seq2[*Request, error] {
	return func(yield func(*Request, error) bool) {
		all, err := list(tx, storage.Query{Index: "by_operation", Range: storage.Range{Prefix: []any{tenant, operation}}, Desc: true})
		if err != nil {
			yield(nil, err)
			return
		}
		for _, r := range all {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// Spent returns all grants of a tenant that were consumed and not given back.
func Spent(tx storage.Tx, tenant string) ([]Request, error) {
	found, err := list(tx, storage.Query{Index: "by_state", Range: storage.Range{Prefix: []any{tenant, string(Consumed)}}})
	if err != nil {
		return nil, err
	}
	out := make([]Request, 0, len(found))
	for _, r := range found {
		out = append(out, *r)
	}
	return out, nil
}

// Get returns a request as the clock shows it. An id that the tenant does not have matches [pawl.ErrNotFound].
func Get(tx storage.Tx, tenant, id string) (*Request, error) {
	r, err := get(tx, tenant, id)
	if err != nil {
		return nil, err
	}
	seen := r.seen(tx.Now())
	return &seen, nil
}
