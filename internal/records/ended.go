package records

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/storage"
)

// endedBody is how a task ended.
type endedBody struct {
	Node   string      `json:"n"`
	Index  int         `json:"i"`
	Writes []writeBody `json:"w,omitempty"`
	Next   []dueBody   `json:"d,omitempty"`
	Inside []string    `json:"z,omitempty"`
	Failed bool        `json:"f,omitempty"`
	Error  string      `json:"e,omitempty"`
	Cause  core.Cause  `json:"c,omitempty"`
	Tries  int         `json:"t,omitempty"`
	Cached bool        `json:"k,omitempty"`
	At     time.Time   `json:"at"`
	Again  bool        `json:"g,omitempty"`
}

// EndedRow writes a task that ended while its super-step went on. Values of its writes must be numbered.
func (b Box) EndedRow(thread int64, e *core.Ended) (storage.Row, error) {
	body, err := appendEnded(make([]byte, headSize, 192), e)
	if err == nil {
		body, err = b.packIn(Ended, body)
	}
	if err != nil {
		return storage.Row{}, fmt.Errorf("the end of a task of node %q: %w", e.Result.Task.Node, err)
	}
	return storage.Row{Key: []any{thread, e.Checkpoint, e.Result.Task.ID}, Fields: []any{int64(0)}, Body: body}, nil
}

// appendEnded writes an endedBody. By hand, because a fan-out writes thousands of them.
func appendEnded(out []byte, e *core.Ended) ([]byte, error) {
	r := &e.Result
	out = appendText(append(out, `{"n":`...), r.Task.Node)
	out = strconv.AppendInt(append(out, `,"i":`...), int64(r.Task.Index), 10)
	out = appendList(out, `,"w":[`, r.Writes, appendWriteBody)
	out, err := appendDue(out, r.Next)
	if err != nil {
		return nil, err
	}
	out = appendList(out, `,"z":[`, r.Inside, func(out []byte, path *string) []byte { return appendText(out, *path) })
	if e.Failed {
		out = append(out, `,"f":true`...)
	}
	if e.Error != "" {
		out = appendText(append(out, `,"e":`...), e.Error)
	}
	if e.Cause != "" {
		out = appendText(append(out, `,"c":`...), string(e.Cause))
	}
	if e.Tries != 0 {
		out = strconv.AppendInt(append(out, `,"t":`...), int64(e.Tries), 10)
	}
	if r.Cached {
		out = append(out, `,"k":true`...)
	}
	if out, err = e.At.AppendText(append(out, `,"at":"`...)); err != nil {
		return nil, err
	}
	out = append(out, '"')
	if e.Again {
		out = append(out, `,"g":true`...)
	}
	return append(out, '}'), nil
}

// appendWriteBody writes a writeBody: by the number of the version, where it has one.
func appendWriteBody(out []byte, w *core.Write) []byte {
	out = appendText(append(out, `{"c":`...), w.Channel)
	out = appendText(append(out, `,"o":`...), string(w.Op))
	switch {
	case w.Value != nil && w.Value.ID != 0:
		out = strconv.AppendInt(append(out, `,"v":`...), w.Value.ID, 10)
	case w.Value == nil && len(w.Data) > 0:
		out = append(base64.StdEncoding.AppendEncode(append(out, `,"b":"`...), w.Data), '"')
	}
	if w.Took {
		out = append(out, `,"t":true`...)
	}
	return append(out, '}')
}

// appendList writes a member of an object that is a list, or nothing of an empty one.
func appendList[T any](out []byte, open string, list []T, one func([]byte, *T) []byte) []byte {
	for i := range list {
		out = one(append(out, open...), &list[i])
		open = ","
	}
	if len(list) > 0 {
		out = append(out, ']')
	}
	return out
}

// ReadEnded reads a row back, its values included.
func (b Box) ReadEnded(tx storage.Tx, vs *Values, row storage.Row) (*core.Ended, error) {
	return b.readEnded(vs.Thread, row, func(channel string, n int64) (*core.Value, error) { return vs.Load(tx, channel, n) })
}

func (b Box) readEnded(thread string, row storage.Row, load func(channel string, n int64) (*core.Value, error)) (*core.Ended, error) {
	where := fmt.Sprintf("%v of thread %q", row.Key[2], thread)
	var body endedBody
	if err := b.unpackJSON(Ended, where, row.Body, &body); err != nil {
		return nil, err
	}
	if body.Node == "" {
		return nil, lacks(Ended, where, "node")
	}
	e := &core.Ended{
		Checkpoint: row.Key[1].(int64), Failed: body.Failed, Error: body.Error, Cause: body.Cause, Tries: body.Tries,
		Seq: row.Fields[0].(int64), At: body.At, Again: body.Again,
	}
	e.Result.Task = core.Task{ID: row.Key[2].(string), Node: body.Node, Index: body.Index}
	e.Result.Inside, e.Result.Cached = body.Inside, body.Cached
	for _, d := range body.Next {
		e.Result.Next = append(e.Result.Next, core.Due(d))
	}
	writes, err := unpackWrites(body.Writes)
	if err != nil {
		return nil, &DamagedError{Kind: Ended, Where: where, Err: err}
	}
	for i := range writes {
		if n := body.Writes[i].Value; n != 0 {
			v, err := load(writes[i].Channel, n)
			if err != nil {
				return nil, err
			}
			writes[i].Value, writes[i].Data = v, v.Data
		}
	}
	e.Result.Writes = writes
	return e, nil
}
