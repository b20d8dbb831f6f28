package records

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/storage"
)

// ValueRow writes one version of a channel: one byte that says how the data relates to the base, then the data. The
// value and all that it refers to must be numbered.
func (b Box) ValueRow(thread int64, v *core.Value) (storage.Row, error) {
	payload := append(append(make([]byte, headSize, headSize+1+len(v.Data)), byte(v.Op)), v.Data...)
	if v.Op == core.OpList {
		doc, err := json.Marshal(ranges(v.Parts))
		if err != nil {
			return storage.Row{}, err
		}
		payload = append(payload, doc...)
	}
	base := int64(0)
	if v.Base != nil {
		base = Place(thread, v.Base.ID)
	}
	packed, err := b.packIn(Value, payload)
	return storage.Row{
		Key: []any{Place(thread, v.ID)}, Fields: []any{base, int64(v.Size), int64(v.Cost)}, Body: packed,
	}, err
}

// ranges writes the keys of a list's parts as runs of neighbours, in order.
func ranges(parts []*core.Value) [][2]int64 {
	var out [][2]int64
	for _, p := range parts {
		n := p.ID
		if k := len(out) - 1; k >= 0 && out[k][1]+1 == n {
			out[k][1] = n
		} else {
			out = append(out, [2]int64{n, n})
		}
	}
	return out
}

// Values reads versions and keeps them, so that what two checkpoints share is read once.
type Values struct {
	Box     Box
	Thread  string // for errors
	ThreadN int64
	read    map[int64]*core.Value
}

// Load returns the version with that local number, its deltas included.
func (vs *Values) Load(tx storage.Tx, channel string, n int64) (*core.Value, error) {
	if vs.read == nil {
		vs.read = map[int64]*core.Value{}
	}
	if v := vs.read[n]; v != nil {
		return v, nil
	}
	rows, err := tx.Walk(Value, Place(vs.ThreadN, n))
	if err != nil {
		return nil, fmt.Errorf("thread %q, channel %q: %w", vs.Thread, channel, err)
	}
	var v *core.Value
	for i := len(rows) - 1; i >= 0; i-- {
		key := Local(rows[i].Key[0].(int64))
		if known := vs.read[key]; known != nil {
			v = known
			continue
		}
		if v, err = vs.one(tx, channel, rows[i], v); err != nil {
			return nil, err
		}
		vs.read[key] = v
	}
	return v, nil
}

func (vs *Values) one(tx storage.Tx, channel string, row storage.Row, base *core.Value) (*core.Value, error) {
	id := Local(row.Key[0].(int64))
	where := fmt.Sprintf("%d of thread %q, channel %q", id, vs.Thread, channel)
	payload, err := vs.Box.Unpack(Value, where, row.Body)
	if err != nil {
		return nil, err
	}
	if len(payload) == 0 {
		return nil, &DamagedError{Kind: Value, Where: where, Err: errors.New("it is empty")}
	}
	v := &core.Value{
		ID: id, Base: base, Op: core.Op(payload[0]), Data: payload[1:],
		Size: int(row.Fields[1].(int64)), Cost: int(row.Fields[2].(int64)),
	}
	switch v.Op {
	case core.OpSet:
		v.Base = nil
	case core.OpAdd, core.OpMerge:
	case core.OpList:
		v.Data = nil
		return v, vs.parts(tx, channel, where, payload[1:], v)
	default:
		return nil, &DamagedError{Kind: Value, Where: where, Err: fmt.Errorf("it has the unknown form %q", payload[:1])}
	}
	return v, nil
}

func (vs *Values) parts(tx storage.Tx, channel, where string, doc []byte, v *core.Value) error {
	var runs [][2]int64
	if err := json.Unmarshal(doc, &runs); err != nil {
		return &DamagedError{Kind: Value, Where: where, Err: err}
	}
	if len(runs) == 0 {
		return &DamagedError{Kind: Value, Where: where, Err: errors.New("it lists nothing")}
	}
	for _, r := range runs {
		if r[0] < 1 || r[1] < r[0] || r[1] != Local(r[1]) {
			return &DamagedError{Kind: Value, Where: where, Err: fmt.Errorf("it lists the impossible range %v", r)}
		}
		rows, err := tx.List(Value, storage.Query{Range: storage.Range{
			From: Place(vs.ThreadN, r[0]), To: Place(vs.ThreadN, r[1]+1),
		}})
		if err != nil {
			return err
		}
		if int64(len(rows)) != r[1]-r[0]+1 {
			return &storage.MissingError{Kind: Value, ID: Place(vs.ThreadN, r[0])}
		}
		for _, row := range rows {
			p, err := vs.one(tx, channel, row, v.Base)
			if err != nil {
				return err
			}
			vs.read[p.ID] = p
			v.Parts = append(v.Parts, p)
		}
	}
	return nil
}
