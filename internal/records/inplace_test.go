package records

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/storage"
)

func TestWhatIsHeldInPlace(t *testing.T) {
	t.Parallel()
	set := func(doc string) *core.Value { return core.NewSet([]byte(doc)) }
	numbered, delta, counted := set("5"), set("[5]"), set("5")
	numbered.ID, delta.Base, counted.Cost = 7, set("[4]"), 4000
	delta.Op = core.OpAdd
	for _, c := range []struct {
		name string
		v    *core.Value
		want bool
	}{
		{"a number", set("5"), true},
		{"null", set("null"), true},
		{"a list that looks like a reference", set("[[5]]"), true},
		{"text that encoding/json would escape", set(`"<é>"`), true},
		{"as long as may be", set(`"` + strings.Repeat("x", inPlace-2) + `"`), true},
		{"longer", set(`"` + strings.Repeat("x", inPlace-1) + `"`), false},
		{"no version", nil, false},
		{"cleared", &core.Value{Op: core.OpClear}, false},
		{"stored already", numbered, false},
		{"a delta", delta, false},
		{"with a cost of its own", counted, false},
		{"no JSON", set("{"), false},
		{"nothing", set(""), false},
		{"space around it", set(" 5"), false},
	} {
		if got := InPlace(c.v); got != c.want {
			t.Errorf("%s: in place: %v", c.name, got)
			continue
		}
		if !c.want {
			continue
		}
		for name, b := range boxes() {
			cp := withValues(&core.Checkpoint{N: 1, ID: "01890a5d-ac96-774b-bcce-b302099a8057", Source: core.SourceLoop, Run: 1}, c.v)
			row, err := b.CheckpointRow(threadN, cp, graph())
			row = must(t, row, err)
			s, err := b.ReadCheckpoint(threadID, row)
			if err != nil {
				t.Errorf("%s, %s: %v", c.name, name, err)
				continue
			}
			got, err := (&Values{Box: b}).at(noValues{}, "n", s.Refs["n"])
			if err != nil || !bytes.Equal(got.Data, c.v.Data) || got.Size != c.v.Size || got.Cost != c.v.Cost || got.ID != 0 || got.Base != nil {
				t.Errorf("%s, %s: came back as %+v, %v", c.name, name, got, err)
			}
		}
	}
}

// A version that the host was to number and did not is refused before it is written.
func TestAVersionWithoutANumber(t *testing.T) {
	t.Parallel()
	cp := withValues(&core.Checkpoint{N: 1, ID: "01890a5d-ac96-774b-bcce-b302099a8057", Source: core.SourceLoop, Run: 1},
		core.NewSet([]byte(`"`+strings.Repeat("x", 100)+`"`)))
	if _, err := (Box{}).CheckpointRow(threadN, cp, graph()); err == nil || !strings.Contains(err.Error(), `"n"`) {
		t.Errorf("it was written, or its channel is not named: %v", err)
	}
}

// What encoding/json wrote before checkpoints were written by hand is read as ever, and written the same.
func TestABodyReadsAsEncodingJSONHasIt(t *testing.T) {
	t.Parallel()
	for _, s := range samples(t, Box{}) {
		if s.kind != Checkpoint {
			continue
		}
		want := `{"p":4,"r":3,"s":"fork","g":1,"v":{"n":9},"d":["ping",["pong",{"a":1.50}],["pong",null]],"l":["pong"],"j":{"ping+pong\u003epong":["ping"]},"z":"e"` +
			`,"q":true,"u":[["ping","n"],["pong",1,true,["list","a",[["a"]]],["n","ct"],["list","a",8]]]}`
		if got := string(s.row.Body[5:]); got != want {
			t.Errorf("written as\n%s\nwant\n%s", got, want)
		}
	}
	for _, name := range []string{"plain", `a "quoted" \ name`, "é\u2028<&>", "line\nbreak\x00", string([]byte{0xff})} {
		got, want := "", ""
		doc, _ := json.Marshal(name)
		if json.Unmarshal(appendText(nil, name), &got) != nil || json.Unmarshal(doc, &want) != nil || got != want {
			t.Errorf("%q came back as %q", name, got)
		}
	}
}

func TestDamageInPlace(t *testing.T) {
	t.Parallel()
	for _, held := range []string{`[]`, `[5,6]`, `[`, `{}`, `"5"`, `5.5`, `[5}`} {
		body := sealed(formatPlain, []byte(`{"r":1,"s":"loop","v":{"n":`+held+`}}`)...)
		row := storage.Row{Key: []any{Place(threadN, 1)}, Fields: []any{make([]byte, 16), int64(1), int64(0)}, Body: body}
		s, err := Box{}.ReadCheckpoint(threadID, row)
		var d *DamagedError
		if s != nil || !errors.As(err, &d) || d.Kind != Checkpoint {
			t.Errorf("%s was read as %+v, %v", held, s, err)
		}
	}
	bad := withValues(&core.Checkpoint{N: 1, ID: "01890a5d-ac96-774b-bcce-b302099a8057", Source: core.SourceLoop, Run: 1,
		Due: []core.Due{{Node: "pong", Send: true, Arg: []byte("{")}}})
	if _, err := (Box{}).CheckpointRow(threadN, bad, graph()); err == nil || !strings.Contains(err.Error(), `"pong"`) {
		t.Errorf("a send of no JSON: %v", err)
	}
}

// A position is filled from both: what has a row and what is in place.
func TestFillTakesBoth(t *testing.T) {
	t.Parallel()
	db, top := home(t), graph()
	list := &core.Value{ID: 9, Op: core.OpSet, Data: []byte(`["x"]`), Size: 5, Cost: 45}
	storeValues(t, db, Box{}, list)
	run := &core.Run{N: 1, ID: "run", Status: core.StatusDone, Graphs: []string{core.GraphDigest(top)}}
	cp := withValues(&core.Checkpoint{N: 10, ID: "01890a5d-ac96-774b-bcce-b302099a8057", Source: core.SourceLoop, Run: 1},
		core.NewSet([]byte("5")), list)
	update(t, db, func(tx storage.Tx) error {
		for kind, write := range map[string]func() (storage.Row, error){
			Run:        func() (storage.Row, error) { return Box{}.RunRow(threadN, run) },
			Graph:      func() (storage.Row, error) { return Box{}.GraphRow(top) },
			Checkpoint: func() (storage.Row, error) { return Box{}.CheckpointRow(threadN, cp, top) },
		} {
			row, err := write()
			if err != nil {
				return err
			}
			if _, err := tx.Put(kind, row, storage.Always()); err != nil {
				return err
			}
		}
		return nil
	})
	err := db.View(context.Background(), func(_ context.Context, tx storage.Tx) error {
		r := NewReader(Box{}, tx, &ThreadInfo{ID: threadID, N: threadN})
		s, err := r.Head()
		if err != nil {
			return err
		}
		if err := r.Fill(s, top, nil); err != nil {
			return err
		}
		var got []string
		for _, v := range s.Checkpoint.Values {
			if v.Has() {
				got = append(got, string(v.Data))
			}
		}
		if want := []string{"5", `["x"]`}; !reflect.DeepEqual(got, want) {
			t.Errorf("filled with %q, want %q", got, want)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A checkpoint that tells by its difference what its task did stores no more than that. What listed it before is read as
// ever.
func TestToldByTheDifference(t *testing.T) {
	t.Parallel()
	cp := withValues(&core.Checkpoint{N: 2, ID: "01890a5d-ac96-774b-bcce-b302099a8057", Parent: 1, Source: core.SourceLoop, Run: 1, Told: true},
		core.NewSet([]byte("5")))
	cp.Merged = []core.Result{{Task: core.Task{Node: "ping", Index: -1}, Writes: []core.Write{{Channel: "n", Op: core.OpAdd, Data: []byte("4")}}}}
	row, err := Box{}.CheckpointRow(threadN, cp, graph())
	if got, want := string(must(t, row, err).Body[5:]), `{"p":1,"r":1,"s":"loop","v":{"n":[5]},"u":1}`; got != want {
		t.Errorf("written as %s; want %s", got, want)
	}
	for body, want := range map[string]mergedList{
		`1`: {{told: true}}, `[["ping"]]`: {{node: "ping", index: -1, writes: []mergedWrite{}}}, `2`: nil, `{}`: nil, `[1]`: nil,
	} {
		row.Body = sealed(formatPlain, []byte(`{"r":1,"s":"loop","u":`+body+`}`)...)
		s, err := Box{}.ReadCheckpoint(threadID, row)
		if want == nil {
			var d *DamagedError
			if s != nil || !errors.As(err, &d) {
				t.Errorf("%s was read: %v", body, err)
			}
		} else if err != nil || !reflect.DeepEqual(s.merged, []mergedBody(want)) {
			t.Errorf("%s came back as %+v, %v", body, s, err)
		}
	}
}
