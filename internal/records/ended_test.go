package records

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

// What is written by hand is read by encoding/json, whatever texts, bytes and payloads a task left.
func TestEndedByHand(t *testing.T) {
	t.Parallel()
	at := time.Date(2024, 2, 29, 23, 59, 59, 123456789, time.FixedZone("", 2*3600))
	odd := "a \"quote\", a \\, <b>, a\nline, \u2028 and héllo"
	for name, e := range map[string]*core.Ended{
		"nothing": {At: at, Result: core.Result{Task: core.Task{Node: "a", Index: -1}}},
		"texts": {At: at, Failed: true, Error: odd, Cause: core.CauseError, Tries: 2, Result: core.Result{
			Task: core.Task{Node: odd, Index: 7}, Inside: []string{odd, "x"}, Next: []core.Due{{Node: odd}},
		}},
		"bytes": {At: at, Result: core.Result{Task: core.Task{Node: "a"}, Writes: []core.Write{
			{Channel: odd, Op: core.OpSet, Data: []byte("\x00\xff not JSON")}, {Channel: "b", Op: core.OpClear, Took: true},
			{Channel: "c", Op: core.OpAdd, Data: []byte("[1]"), Value: &core.Value{ID: 1 << 40, Data: []byte("[1]")}},
		}}},
		"sends": {At: at, Again: true, Result: core.Result{Task: core.Task{Node: "a"}, Cached: true, Next: []core.Due{
			{Node: "b", Send: true, Arg: []byte(`{"x": "<é>"}`), Timeout: time.Second}, {Node: "c", Send: true},
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doc, err := appendEnded(nil, e)
			if err != nil {
				t.Fatal(err)
			}
			var body endedBody
			if err := json.Unmarshal(doc, &body); err != nil {
				t.Fatalf("%s: %v", doc, err)
			}
			r := e.Result
			if body.Node != r.Task.Node || body.Index != r.Task.Index || body.Error != e.Error || body.Cause != e.Cause || body.Tries != e.Tries ||
				body.Failed != e.Failed || body.Again != e.Again || body.Cached != r.Cached || !body.At.Equal(at) || !reflect.DeepEqual(body.Inside, r.Inside) {
				t.Errorf("%+v came back as %+v", e, body)
			}
			for i, w := range body.Writes {
				if want := r.Writes[i]; w.Channel != want.Channel || w.Op != string(want.Op) || w.Took != want.Took ||
					(want.Value == nil && string(w.Data) != string(want.Data)) || (want.Value != nil && (w.Value != want.Value.ID || w.Data != nil)) {
					t.Errorf("write %+v came back as %+v", want, w)
				}
			}
			for i, d := range body.Next {
				if want := r.Next[i]; d.Node != want.Node || d.Send != want.Send || d.Timeout != want.Timeout || want.Send && string(d.Arg) != string(orNull(want.Arg)) {
					t.Errorf("due %+v came back as %+v", want, d)
				}
			}
			if len(body.Writes) != len(r.Writes) || len(body.Next) != len(r.Next) {
				t.Errorf("%d writes and %d due came back as %d and %d", len(r.Writes), len(r.Next), len(body.Writes), len(body.Next))
			}
		})
	}
}

// What could not be read back is not written.
func TestEndedRefused(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]*core.Ended{
		"no JSON": {Result: core.Result{Task: core.Task{Node: "ping"}, Next: []core.Due{{Node: "b", Send: true, Arg: []byte("{")}}}},
		"no year": {At: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC), Result: core.Result{Task: core.Task{Node: "ping"}}},
		"codec":   {Result: core.Result{Task: core.Task{Node: "ping"}}},
	} {
		b := Box{}
		if name == "codec" {
			b.Codec = broken{}
		}
		if _, err := b.EndedRow(1, e); err == nil || !strings.Contains(err.Error(), `"ping"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// broken is a codec that cannot encode.
type broken struct{ masked }

func (broken) Encode(string, []byte) ([]byte, error) { return nil, errors.New("the key is gone") }
