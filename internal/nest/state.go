package nest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/pawl-dev/pawl"
)

// value is a channel of any kind.
type value interface {
	json.Marshaler
	json.Unmarshaler
	IsZero() bool
}

// channels are those of a state, in the order of its fields.
func channels(state reflect.Value) (all []value) {
	for i := range state.NumField() {
		if v, ok := state.Field(i).Addr().Interface().(value); ok {
			all = append(all, v)
		} else if state.Type().Field(i).Anonymous {
			all = append(all, channels(state.Field(i))...)
		}
	}
	return all
}

// changes are what an edit writes, as a JSON object.
func changes[S any](edit func(*S) error) ([]byte, error) {
	s := new(S)
	if edit != nil {
		if err := edit(s); err != nil {
			return nil, err
		}
	}
	doc, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(doc, &members); err != nil {
		return nil, err
	}
	for i, v := range channelsOf(s) {
		if tag, _, _ := strings.Cut(reflect.TypeFor[S]().Field(i).Tag.Get("json"), ","); v.IsZero() {
			delete(members, tag)
		}
	}
	return json.Marshal(members)
}

func channelsOf[S any](s *S) []value { return channels(reflect.ValueOf(s).Elem()) }

// handed is a literal of all that a state holds.
func handed[S any](s *S) *S {
	out := new(S)
	to := channelsOf(out)
	for i, from := range channelsOf(s) {
		if err := add(from, to[i]); err != nil {
			panic(err)
		}
	}
	return out
}

func add(from, to value) error {
	if from.IsZero() {
		return nil
	}
	doc, err := from.MarshalJSON()
	if err != nil {
		return err
	}
	return to.UnmarshalJSON(doc)
}

// taken writes to a state what a run of a child that was handed it did: what it added, and what it took away.
func taken[S any](s *S, r *pawl.Result[S]) error {
	added, err := r.Added()
	if err != nil {
		return err
	}
	ends, more := channelsOf(r.State), channelsOf(added)
	for i, to := range channelsOf(s) {
		err := add(more[i], to)
		if err == nil {
			err = takeAway(ends[i], to)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// takeAway makes a channel what a child left of it, where adding does not.
func takeAway(end, to value) error {
	want, err := end.MarshalJSON()
	if err != nil {
		return err
	}
	have, err := to.MarshalJSON()
	if err != nil || bytes.Equal(want, have) {
		return err
	}
	live := reflect.ValueOf(to)
	if take := live.MethodByName("Take"); take.IsValid() && end.IsZero() {
		take.Call(nil)
		return nil
	}
	if put := live.MethodByName("Delete"); put.IsValid() {
		return dropped(live, put, want, have)
	}
	if replace := live.MethodByName("Replace"); replace.IsValid() {
		items := reflect.New(replace.Type().In(0))
		if err := json.Unmarshal(want, items.Interface()); err != nil {
			return err
		}
		replace.CallSlice([]reflect.Value{items.Elem()})
	}
	return nil
}

// dropped deletes the keys that a child deleted.
func dropped(live, del reflect.Value, want, have []byte) error {
	var left, all map[string]json.RawMessage
	if err := json.Unmarshal(want, &left); err != nil {
		return err
	}
	if err := json.Unmarshal(have, &all); err != nil {
		return fmt.Errorf("%v: %w", live.Type(), err)
	}
	for key := range all {
		if _, ok := left[key]; !ok {
			del.Call([]reflect.Value{reflect.ValueOf(key).Convert(del.Type().In(0))})
		}
	}
	return nil
}
