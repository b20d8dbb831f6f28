package records

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/storage"
)

// Ref says where a checkpoint's version of a channel is: in a row of its own, by number, or in the checkpoint itself.
type Ref struct {
	N    int64
	Data []byte // the whole version, in place; nil: by number
}

// inPlace is the most bytes of a version in place. Every later checkpoint that still has the version repeats them, so
// they must be about as few as a number takes.
const inPlace = 24

// InPlace says whether a version needs no row of its own: it is whole, short, and nothing stored refers to it. A
// super-step that changes only such channels writes one row.
func InPlace(v *core.Value) bool {
	if v == nil || v.ID != 0 || v.Op != core.OpSet || v.Base != nil || len(v.Data) > inPlace || !json.Valid(v.Data) {
		return false
	}
	whole := core.NewSet(v.Data)
	return v.Size == whole.Size && v.Cost == whole.Cost && len(bytes.TrimSpace(v.Data)) == len(v.Data)
}

// at returns the version that a checkpoint refers to.
func (vs *Values) at(tx storage.Tx, channel string, ref Ref) (*core.Value, error) {
	if ref.Data != nil {
		return core.NewSet(ref.Data), nil
	}
	return vs.Load(tx, channel, ref.N)
}

// UnmarshalJSON reads a number, or an array that holds the version.
func (r *Ref) UnmarshalJSON(doc []byte) error {
	if !bytes.HasPrefix(doc, []byte("[")) {
		return json.Unmarshal(doc, &r.N)
	}
	var held []json.RawMessage
	if err := json.Unmarshal(doc, &held); err != nil || len(held) != 1 {
		return errors.New("a version in place is no single value")
	}
	r.Data = held[0]
	return nil
}

// appendCheckpoint writes a checkpoint's body. By hand, because encoding/json would cost a super-step more than any of
// its statements, and would escape what is kept byte by byte.
func appendCheckpoint(out []byte, cp *core.Checkpoint, t *core.Topology) ([]byte, error) {
	out = append(out, '{')
	if cp.Parent != 0 {
		out = append(strconv.AppendInt(append(out, `"p":`...), cp.Parent, 10), ',')
	}
	out = strconv.AppendInt(append(out, `"r":`...), cp.Run, 10)
	out = appendText(append(out, `,"s":`...), string(cp.Source))
	if cp.Graph != 0 {
		out = strconv.AppendInt(append(out, `,"g":`...), int64(cp.Graph), 10)
	}
	out, err := appendVersions(out, cp, t)
	if err == nil {
		out, err = appendDue(out, cp.Due)
	}
	before := `,"l":[`
	for _, node := range cp.Later {
		out = appendText(append(out, before...), node)
		before = ","
	}
	if before == "," {
		out = append(out, ']')
	}
	if err == nil && len(cp.Joins) > 0 {
		var joins []byte
		joins, err = json.Marshal(cp.Joins)
		out = append(append(out, `,"j":`...), joins...)
	}
	if seen := bitmap(cp.Visited, t); seen != "" {
		out = appendText(append(out, `,"z":`...), seen)
	}
	if cp.Quiet {
		out = append(out, `,"q":true`...)
	}
	if err == nil {
		out, err = appendMerged(out, cp, t)
	}
	return append(out, '}'), err
}

func appendVersions(out []byte, cp *core.Checkpoint, t *core.Topology) ([]byte, error) {
	before := `,"v":{`
	for c, v := range cp.Values {
		if !v.Has() {
			continue
		}
		out = append(appendText(append(out, before...), t.Channels[c].Name), ':')
		before = ","
		switch {
		case v.ID != 0:
			out = strconv.AppendInt(out, v.ID, 10)
		case InPlace(v):
			out = append(append(append(out, '['), v.Data...), ']')
		default:
			return nil, fmt.Errorf("the version of channel %q has no number", t.Channels[c].Name)
		}
	}
	if before == "," {
		out = append(out, '}')
	}
	return out, nil
}

// appendDue writes what UnmarshalJSON of a dueBody reads.
func appendDue(out []byte, due []core.Due) ([]byte, error) {
	before := `,"d":[`
	for _, d := range due {
		out = append(out, before...)
		before = ","
		if !d.Send {
			out = appendText(out, d.Node)
			continue
		}
		arg := orNull(d.Arg)
		if !json.Valid(arg) {
			return nil, fmt.Errorf("what is sent to %q is no JSON", d.Node)
		}
		out = append(append(appendText(append(out, '['), d.Node), ','), arg...)
		if d.Timeout != 0 {
			out = strconv.AppendInt(append(out, ','), int64(d.Timeout), 10)
		}
		out = append(out, ']')
	}
	if before == "," {
		out = append(out, ']')
	}
	return out, nil
}

// appendText writes a JSON string.
func appendText(out []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			doc, _ := json.Marshal(s) // every string has a form
			return append(out, doc...)
		}
	}
	return append(append(append(out, '"'), s...), '"')
}
