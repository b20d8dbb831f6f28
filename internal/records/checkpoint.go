package records

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/storage"
)

// checkpointBody is short on purpose: it is written once a super-step, and history must stay close to what was
// written by the nodes. appendCheckpoint writes it, without what is zero.
type checkpointBody struct {
	Parent  int64               `json:"p"`
	Run     int64               `json:"r"`
	Source  core.Source         `json:"s"`
	Graph   int                 `json:"g"`
	Values  map[string]Ref      `json:"v"` // by channel
	Due     []dueBody           `json:"d"`
	Later   []string            `json:"l"`
	Joins   map[string][]string `json:"j"`
	Visited string              `json:"z"` // bits over the topology's nodes, hex
	Merged  mergedList          `json:"u"`
	Quiet   bool                `json:"q"`
}

// Stored is a checkpoint as read, its values still by reference.
type Stored struct {
	Checkpoint *core.Checkpoint
	Refs       map[string]Ref // by channel
	visited    string
	merged     []mergedBody
}

// CheckpointRow writes a checkpoint. Its values must be numbered, unless they are [InPlace]. The row's seq is set by the caller.
func (b Box) CheckpointRow(thread int64, cp *core.Checkpoint, t *core.Topology) (storage.Row, error) {
	return b.checkpointRow(Checkpoint, thread, cp, t)
}

func (b Box) checkpointRow(kind string, thread int64, cp *core.Checkpoint, t *core.Topology) (storage.Row, error) {
	id, err := uuid.Parse(cp.ID)
	if err != nil {
		return storage.Row{}, fmt.Errorf("checkpoint id %q: %w", cp.ID, err)
	}
	body, err := appendCheckpoint(make([]byte, headSize, 192), cp, t)
	if err != nil {
		return storage.Row{}, fmt.Errorf("encoding a %s: %w; nothing was written", kind, err)
	}
	packed, err := b.packIn(kind, body)
	return storage.Row{
		Key: []any{Place(thread, cp.N)}, Fields: []any{id[:], int64(0), int64(cp.Step)}, Body: packed,
	}, err
}

func orNull(doc []byte) []byte {
	if len(doc) == 0 {
		return []byte("null")
	}
	return doc
}

// ReadCheckpoint reads a row back.
func (b Box) ReadCheckpoint(thread string, row storage.Row) (*Stored, error) {
	return b.readCheckpoint(Checkpoint, thread, row)
}

func (b Box) readCheckpoint(kind, thread string, row storage.Row) (*Stored, error) {
	n := Local(row.Key[0].(int64))
	where := fmt.Sprintf("%d of thread %q", n, thread)
	var body checkpointBody
	if err := b.unpackJSON(kind, where, row.Body, &body); err != nil {
		return nil, err
	}
	if body.Source == "" || body.Run == 0 {
		return nil, lacks(kind, where, "source or run")
	}
	id, err := uuid.FromBytes(row.Fields[0].([]byte))
	if err != nil {
		return nil, &DamagedError{Kind: kind, Where: where, Err: err}
	}
	cp := &core.Checkpoint{
		N: n, ID: id.String(), Parent: body.Parent, Step: int(row.Fields[2].(int64)), Source: body.Source,
		Run: body.Run, Graph: body.Graph, Seq: row.Fields[1].(int64), Later: body.Later, Joins: body.Joins,
		Quiet: body.Quiet,
	}
	for _, d := range body.Due {
		cp.Due = append(cp.Due, core.Due(d))
	}
	return &Stored{Checkpoint: cp, Refs: body.Values, visited: body.Visited, merged: body.Merged}, nil
}

// dueBody is a string for a node; for a send worker and payload, and its timeout in nanoseconds where it has one. Payloads
// are kept byte by byte.
type dueBody core.Due

func (d dueBody) MarshalJSON() ([]byte, error) {
	if !d.Send {
		return json.Marshal(d.Node)
	}
	send := []any{d.Node, json.RawMessage(orNull(d.Arg))}
	if d.Timeout != 0 {
		send = append(send, d.Timeout)
	}
	return json.Marshal(send)
}

func (d *dueBody) UnmarshalJSON(doc []byte) error {
	if json.Unmarshal(doc, &d.Node) == nil && d.Node != "" {
		return nil
	}
	var send []json.RawMessage
	if err := json.Unmarshal(doc, &send); err != nil || len(send) != 2 && len(send) != 3 {
		return errors.New("what is due next is neither a node nor a send")
	}
	if d.Send, d.Arg = true, send[1]; len(send) == 3 {
		if err := json.Unmarshal(send[2], &d.Timeout); err != nil || d.Timeout <= 0 {
			return errors.New("the timeout of what is sent is no positive number")
		}
	}
	return json.Unmarshal(send[0], &d.Node)
}

// Under completes a read checkpoint with what only its graph's topology can say: the paths of the nodes that ran.
func (s *Stored) Under(t *core.Topology) error {
	paths := t.Paths()
	bits, ok := new(big.Int).SetString("0"+s.visited, 16)
	if !ok || bits.BitLen() > len(paths) {
		return &DamagedError{Kind: Checkpoint, Where: s.Checkpoint.ID, Err: errors.New("the list of nodes that ran does not fit its graph")}
	}
	s.Checkpoint.Visited = nil
	for i, path := range paths {
		if bits.Bit(i) == 1 {
			s.Checkpoint.Visited = append(s.Checkpoint.Visited, path)
		}
	}
	slices.Sort(s.Checkpoint.Visited)
	return nil
}

func bitmap(visited []string, t *core.Topology) string {
	if len(visited) == 0 {
		return ""
	}
	if len(t.Nodes) <= 64 && len(t.Children) == 0 { // most graphs, without the big number
		bits := uint64(0)
		for i := range t.Nodes {
			if _, ran := slices.BinarySearch(visited, t.Nodes[i].Name); ran {
				bits |= 1 << i
			}
		}
		return strconv.FormatUint(bits, 16)
	}
	bits := new(big.Int)
	set := func(i int, path string) {
		if _, ran := slices.BinarySearch(visited, path); ran {
			bits.SetBit(bits, i, 1)
		}
	}
	for i := range t.Nodes {
		set(i, t.Nodes[i].Name)
	}
	if len(t.Children) > 0 {
		for i, path := range t.Paths() {
			set(i, path)
		}
	}
	return bits.Text(16)
}
