package records

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/storage"
)

// chain is a list of items: a whole value, a delta, one super-step of several writers, and a delta on that.
func chain() []*core.Value {
	whole := &core.Value{ID: 1, Op: core.OpSet, Data: []byte(`[0]`), Size: 3, Cost: 43}
	delta := &core.Value{ID: 2, Base: whole, Op: core.OpAdd, Data: []byte(`[1]`), Size: 5, Cost: 86}
	part := func(id int64, doc string) *core.Value {
		return &core.Value{ID: id, Base: delta, Op: core.OpAdd, Data: []byte(doc)}
	}
	parts := []*core.Value{part(5, `[2]`), part(3, `[3]`), part(4, `[4]`), part(9, `[5]`)}
	list := &core.Value{ID: 10, Base: delta, Op: core.OpList, Parts: parts, Size: 13, Cost: 300}
	top := &core.Value{ID: 11, Base: list, Op: core.OpAdd, Data: []byte(`[6]`), Size: 15, Cost: 343}
	return append(append([]*core.Value{whole, delta}, parts...), list, top)
}

func TestValuesAreLoadedByDeltas(t *testing.T) {
	t.Parallel()
	for name, b := range boxes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := home(t)
			vs := chain()
			storeValues(t, db, b, vs...)
			for _, want := range vs {
				got, err := load(db, b, want.ID)
				if err != nil {
					t.Fatal(err)
				}
				a, err := got.Bytes()
				if err != nil {
					t.Fatal(err)
				}
				if w, _ := want.Bytes(); string(a) != string(w) {
					t.Errorf("value %d is %s; want %s", want.ID, a, w)
				}
				if got.ID != want.ID || got.Op != want.Op || got.Size != want.Size || got.Cost != want.Cost || len(got.Parts) != len(want.Parts) {
					t.Errorf("value %d came back as %+v", want.ID, got)
				}
			}
		})
	}
}

func TestWhatTwoCheckpointsShareIsReadOnce(t *testing.T) {
	t.Parallel()
	db := home(t)
	storeValues(t, db, Box{}, chain()...)
	update(t, db, func(tx storage.Tx) error {
		vs := &Values{Thread: threadID, ThreadN: threadN}
		top, err := vs.Load(tx, "list", 11)
		if err != nil {
			return err
		}
		list, err := vs.Load(tx, "list", 10)
		if err != nil {
			return err
		}
		delta, err := vs.Load(tx, "list", 2)
		if err != nil {
			return err
		}
		if top.Base != list || list.Base != delta || list.Parts[0].Base != delta {
			return errors.New("versions were read twice")
		}
		return nil
	})
}

func TestRangesOfParts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ids  []int64
		want string
	}{{nil, "[]"}, {[]int64{4}, "[[4 4]]"}, {[]int64{1, 2, 3}, "[[1 3]]"}, {[]int64{3, 2, 1}, "[[3 3] [2 2] [1 1]]"}, {[]int64{1, 2, 9, 10, 4}, "[[1 2] [9 10] [4 4]]"}} {
		var parts []*core.Value
		for _, id := range c.ids {
			parts = append(parts, &core.Value{ID: id})
		}
		if got := fmt.Sprint(ranges(parts)); got != c.want {
			t.Errorf("%v is %s; want %s", c.ids, got, c.want)
		}
	}
}

func TestLinksThatAreMissing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		gone int64 // row that is deleted
		load []int64
	}{{1, []int64{1, 2, 3, 10, 11}}, {2, []int64{2, 3, 10, 11}}, {3, []int64{3, 10, 11}}, {4, []int64{10, 11}}, {5, []int64{10}}, {9, []int64{10}}, {10, []int64{10, 11}}} {
		db := home(t)
		storeValues(t, db, Box{}, chain()...)
		update(t, db, func(tx storage.Tx) error {
			_, err := tx.Delete(Value, storage.Range{Prefix: []any{Place(threadN, c.gone)}})
			return err
		})
		for _, n := range c.load {
			v, err := load(db, Box{}, n)
			var missing *storage.MissingError
			if v != nil || !errors.As(err, &missing) {
				t.Errorf("value %d without value %d: %+v, %v", n, c.gone, v, err)
			}
		}
	}
}

func TestDamageInAChain(t *testing.T) {
	t.Parallel()
	for _, bad := range []int64{1, 2, 4, 10, 11} {
		db := home(t)
		storeValues(t, db, Box{}, chain()...)
		update(t, db, func(tx storage.Tx) error {
			row, _, err := tx.Get(Value, Place(threadN, bad))
			if err != nil {
				return err
			}
			row.Body[len(row.Body)-1] ^= 1
			_, err = tx.Put(Value, row, storage.Always())
			return err
		})
		v, err := load(db, Box{}, 11)
		var d *DamagedError
		if v != nil || !errors.As(err, &d) || d.Kind != Value {
			t.Fatalf("with value %d damaged: %+v, %v", bad, v, err)
		}
		for _, word := range []string{fmt.Sprint(bad), threadID, `"list"`, "nothing was run"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%q does not say %s", err, word)
			}
		}
	}
}

func TestEndedTasksKeepTheirValues(t *testing.T) {
	t.Parallel()
	for name, b := range boxes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := home(t)
			vs := chain()
			storeValues(t, db, b, vs...)
			e := &core.Ended{Checkpoint: 5, Result: core.Result{
				Task:   core.Task{ID: "task", Node: "ping", Index: -1},
				Writes: []core.Write{{Channel: "list", Op: core.OpAdd, Data: []byte(`[1]`), Value: vs[1]}, {Channel: "n", Op: core.OpAdd, Data: []byte("2")}},
			}}
			row, err := b.EndedRow(threadN, e)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(row.Body), "WzFd") {
				t.Errorf("bytes that are stored as a value are stored twice: %s", row.Body)
			}
			update(t, db, func(tx storage.Tx) error {
				got, err := b.ReadEnded(tx, &Values{Box: b, Thread: threadID, ThreadN: threadN}, row)
				if err != nil {
					return err
				}
				w := got.Result.Writes
				if len(w) != 2 || string(w[0].Data) != `[1]` || w[0].Value == nil || w[0].Value.ID != 2 || w[0].Value.Base.ID != 1 {
					t.Errorf("the write of a value came back as %+v", w)
				}
				if string(w[1].Data) != "2" || w[1].Value != nil {
					t.Errorf("the write in place came back as %+v", w[1])
				}
				return nil
			})
		})
	}
}

// FuzzRecords gives the readers bodies whose checksum is right: none may panic, and what is taken must be written as
// something that is taken again.
func FuzzRecords(f *testing.F) {
	for i, s := range samples(f, Box{}) {
		f.Add(byte(i), s.row.Body[5:])
		f.Add(byte(i), []byte(`{"d":[["a",1],null,"b"],"v":{"n":-1},"z":"ffff","j":{"":null}}`))
	}
	f.Add(byte(7), []byte(`l[[9,9],[1,0],[-1,4]]`))
	f.Fuzz(func(t *testing.T, which byte, payload []byte) {
		all := samples(t, Box{})
		s := all[int(which)%len(all)]
		got, err := s.read(changed(s.row, sealed(formatPlain, payload...)))
		if err != nil {
			if got != nil {
				t.Fatalf("%v, and yet %+v", err, got)
			}
			return
		}
		again, err := rewrite(got)
		if err != nil {
			return // what was read cannot be written by this version, and says so
		}
		if got, err = s.read(changed(s.row, again)); err != nil || got == nil {
			t.Fatalf("%q was read, written as %q and refused: %v", payload, again, err)
		}
	})
}

func rewrite(v any) ([]byte, error) {
	var b Box
	var row storage.Row
	var err error
	switch v := v.(type) {
	case *core.Frame:
		row, err = b.FrameRow(0, v)
	case *ThreadInfo:
		row, err = b.ThreadRow(v)
	case *core.Run:
		row, err = b.RunRow(0, v)
	case *Stored:
		if row, err = b.CheckpointRow(0, v.Checkpoint, graph()); err == nil && slices.Equal(v.Checkpoint.Visited, []string{"deep"}) {
			row, err = b.CheckpointRow(0, v.Checkpoint, graph().Children[0].Graph)
		}
	case *core.Ended:
		row, err = b.EndedRow(0, v)
	case *core.Step:
		row, err = b.StepRow(0, v)
	case *core.Question:
		row, err = b.QuestionRow(v)
	case *core.Topology:
		row, err = b.GraphRow(v)
	case *core.Value:
		row, err = b.ValueRow(0, v)
	case *pastBody:
		row, err = b.pastRow(0, 40, *v)
	case *DrainInfo:
		row, err = b.DrainRow(v)
	case *core.Cached:
		row, err = b.CacheRow("acme", v)
	}
	return row.Body, err
}

func FuzzUnpack(f *testing.F) {
	for _, b := range boxes() {
		body, err := b.Pack(Step, []byte(`{"a":1}`))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Add([]byte{2, 0, 0, 0, 0, 255})
	f.Fuzz(func(t *testing.T, body []byte) {
		for name, b := range boxes() {
			payload, err := b.Unpack(Step, "here", body)
			var d *DamagedError
			if err != nil && (payload != nil || !errors.As(err, &d)) {
				t.Fatalf("%s: %q, %v", name, payload, err)
			}
		}
	})
}
