package core

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestBytes(t *testing.T) {
	t.Parallel()
	delta := func(base *Value, op Op, data string) *Value { return &Value{Base: base, Op: op, Data: []byte(data)} }
	list := func(base *Value, op Op, parts ...string) *Value {
		v := &Value{Base: base, Op: OpList}
		for _, p := range parts {
			v.Parts = append(v.Parts, delta(base, op, p))
		}
		return v
	}
	whole := NewSet([]byte(`[1]`))
	object := NewSet([]byte(`{"a":1}`))
	for _, c := range []struct {
		name string
		v    *Value
		want string
	}{
		{"never written", nil, ""},
		{"cleared", &Value{Op: OpClear}, ""},
		{"whole", NewSet([]byte(`"x"`)), `"x"`},
		{"additions to nothing", delta(delta(nil, OpAdd, `[1]`), OpAdd, `[2,3]`), `[1,2,3]`},
		{"additions to a list", delta(delta(whole, OpAdd, `[]`), OpAdd, "[2]"), `[1,2]`},
		{"additions to an empty list", delta(NewSet([]byte(" [ ] ")), OpAdd, " [ 2 ] "), `[2]`},
		{"a list of additions", delta(list(whole, OpAdd, `[2]`, `[]`, `[3]`), OpAdd, `[4]`), `[1,2,3,4]`},
		{"patches of nothing", delta(nil, OpMerge, `{"s":{"b":2}}`), `{"b":2}`},
		{"patches of a map", delta(delta(object, OpMerge, `{"s":{"b":2}}`), OpMerge, `{"s":{"b":3},"d":["a","z"]}`), `{"b":3}`},
		{"a list of patches", list(object, OpMerge, `{"s":{"b":2}}`, `{"d":["a"]}`), `{"b":2}`},
		{"patches of null", delta(NewSet([]byte(`null`)), OpMerge, `{"s":{"b":2}}`), `{"b":2}`},
		{"additions after a clearing", delta(&Value{Base: whole, Op: OpClear}, OpAdd, `[2]`), `[2]`},
		{"patches after a clearing", delta(&Value{Base: object, Op: OpClear}, OpMerge, `{"s":{"b":2}}`), `{"b":2}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := c.v.Bytes()
			if err != nil || string(got) != c.want {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
			if c.v.Has() != (c.want != "") {
				t.Errorf("Has is %v", c.v.Has())
			}
		})
	}
	for name, v := range map[string]*Value{
		"no list":            delta(whole, OpAdd, `{}`),
		"a list of no lists": list(whole, OpAdd, `[2]`, `3`),
		"on no list":         delta(NewSet([]byte(`null`)), OpAdd, `[2]`),
		"no patch":           delta(object, OpMerge, `[]`),
		"on no map":          delta(whole, OpMerge, `{"s":{}}`),
		"a bracket":          delta(whole, OpAdd, `[`),
	} {
		if got, err := v.Bytes(); err == nil {
			t.Errorf("%s: got %q; want an error", name, got)
		}
	}
}

// counter decodes lists of numbers and counts what it was asked.
type counter struct {
	mu            sync.Mutex
	wholes, steps int
}

func (c *counter) whole(data []byte) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wholes++
	var out []int
	if data == nil {
		return out, nil
	}
	err := json.Unmarshal(data, &out)
	return out, err
}

func (c *counter) step(base any, data []byte) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steps++
	var more []int
	err := json.Unmarshal(data, &more)
	return slices.Concat(base.([]int), more), err
}

func TestLiveDecodesOnce(t *testing.T) {
	t.Parallel()
	c := &counter{}
	v := NewSet([]byte(`[0]`))
	var versions []*Value
	for i := 1; i <= 5; i++ {
		v = &Value{Base: v, Op: OpAdd, Data: fmt.Appendf(nil, "[%d]", i)}
		versions = append(versions, v)
	}
	read := func(v *Value, n, wholes, steps int) {
		t.Helper()
		got, err := v.Live(c.whole, c.step)
		if err != nil || len(got.([]int)) != n {
			t.Fatalf("got %v, %v; want %d numbers", got, err, n)
		}
		if c.wholes != wholes || c.steps != steps {
			t.Fatalf("decoded %d whole values and %d deltas; want %d and %d", c.wholes, c.steps, wholes, steps)
		}
	}
	read(versions[2], 4, 1, 3)
	read(versions[2], 4, 1, 3)
	read(versions[4], 6, 1, 5)
	read(versions[0], 2, 2, 6)
	read(&Value{Base: versions[4], Op: OpList, Parts: []*Value{{Op: OpAdd, Data: []byte(`[6]`)}, {Op: OpAdd, Data: []byte(`[7]`)}}}, 8, 2, 8)
	read(&Value{Base: versions[4], Op: OpClear}, 0, 3, 8)
	read(&Value{Op: OpAdd, Data: []byte(`[1]`)}, 1, 4, 9)
}

func TestLiveKeepsNoFailure(t *testing.T) {
	t.Parallel()
	c := &counter{}
	v := &Value{Base: NewSet([]byte(`[0]`)), Op: OpAdd, Data: []byte(`[1]`)}
	failing := errors.New("not now")
	if _, err := v.Live(c.whole, func(any, []byte) (any, error) { return nil, failing }); !errors.Is(err, failing) {
		t.Fatalf("got %v", err)
	}
	if _, err := v.Live(func([]byte) (any, error) { return nil, failing }, c.step); !errors.Is(err, failing) {
		t.Fatalf("got %v", err)
	}
	if _, err := (&Value{Op: OpAdd, Data: []byte(`[1]`)}).Live(func([]byte) (any, error) { return nil, failing }, c.step); !errors.Is(err, failing) {
		t.Fatalf("got %v", err)
	}
	if got, err := v.Live(c.whole, c.step); err != nil || len(got.([]int)) != 2 {
		t.Errorf("after the failures got %v, %v", got, err)
	}
}

func TestLiveForManyReaders(t *testing.T) {
	t.Parallel()
	c := &counter{}
	v := NewSet([]byte(`[]`))
	for i := range 50 {
		v = &Value{Base: v, Op: OpAdd, Data: fmt.Appendf(nil, "[%d]", i)}
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			got, err := v.Live(c.whole, c.step)
			if err != nil || len(got.([]int)) != 50 {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	wg.Wait()
}

// A version is written in full when rebuilding it would read more than twice its size and 4 KiB.
func TestWhenAVersionIsWrittenInFull(t *testing.T) {
	t.Parallel()
	top := board()
	list := top.Channel("list")
	cp := first(top, nil)
	longest, full := 0, 0
	for i := range 1000 {
		cp = mustApply(t, cp, top, wrote("a", add("list", fmt.Sprintf("[%d]", i))))
		v := cp.Values[list]
		if v.Cost > 2*v.Size+4096 {
			t.Fatalf("version %d costs %d bytes for %d", i, v.Cost, v.Size)
		}
		if v.Op == OpSet {
			full++
			longest = 0
		} else if longest++; longest > 400 {
			t.Fatalf("version %d hangs from %d others", i, longest)
		}
	}
	if full == 0 {
		t.Error("nothing was ever written in full")
	}
	doc, err := cp.Values[list].Bytes()
	if err != nil {
		t.Fatal(err)
	}
	var have []int
	if err := json.Unmarshal(doc, &have); err != nil || len(have) != 1000 || have[999] != 999 {
		t.Errorf("the list is %.60s, %v", doc, err)
	}
}

func TestLongItemsStayDeltas(t *testing.T) {
	t.Parallel()
	top := board()
	cp := first(top, nil)
	written := 0
	item := `["` + strings.Repeat("x", 1000) + `"]`
	for range 500 {
		cp = mustApply(t, cp, top, wrote("a", add("list", item)), wrote("b", add("list", item)))
		v := cp.Values[top.Channel("list")]
		if v.Op == OpSet {
			written += len(v.Data)
		} else {
			written += 2 * len(item)
		}
	}
	if whole := 1000 * len(item); written > whole*3/2 {
		t.Errorf("%d bytes were written for %d of content", written, whole)
	}
}

// A map whose one key is written over and over holds little and would cost ever more.
func TestMapsThatAreOverwritten(t *testing.T) {
	t.Parallel()
	top := board()
	table := top.Channel("map")
	cp := first(top, nil)
	full := 0
	for i := range 500 {
		cp = mustApply(t, cp, top,
			wrote("a", merged("map", fmt.Sprintf(`{"s":{"k":%d}}`, i))), wrote("b", merged("map", fmt.Sprintf(`{"s":{"x%d":1},"d":["x%d"]}`, i, i-1))))
		v := cp.Values[table]
		if v.Cost > 2*v.Size+4096 {
			t.Fatalf("version %d costs %d bytes for %d", i, v.Cost, v.Size)
		}
		doc, err := v.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf(`{"k":%d,"x%d":1}`, i, i); string(doc) != want {
			t.Fatalf("the map is %s; want %s", doc, want)
		}
		if v.Size > 3*len(doc)+16 {
			t.Fatalf("version %d of %d bytes says that it has %d", i, len(doc), v.Size)
		}
		if v.Op == OpSet {
			full++
		}
	}
	if full < 5 {
		t.Errorf("%d versions were written in full", full)
	}
}

// The sizes that a map's newest version carries move on; a fork from an older one counts again, to the same end.
func TestSizesOfForks(t *testing.T) {
	t.Parallel()
	top := board()
	table := top.Channel("map")
	cp := mustApply(t, first(top, nil), top, wrote("a", merged("map", `{"s":{"x":1,"y":22}}`)))
	patch := func() Result { return wrote("a", merged("map", `{"s":{"z":3},"d":["x"]}`)) }
	one := mustApply(t, cp, top, patch())
	two := mustApply(t, cp, top, patch())
	loaded := first(top, nil)
	loaded.Values[table] = cold(cp.Values[table])
	three := mustApply(t, loaded, top, patch())
	for i, fork := range []*Checkpoint{two, three} {
		if a, b := one.Values[table], fork.Values[table]; a.Size != b.Size || a.Cost != b.Cost {
			t.Errorf("fork %d has size %d and cost %d; the first has %d and %d", i, b.Size, b.Cost, a.Size, a.Cost)
		}
		if a, b := texts(t, top, one), texts(t, top, fork); a["map"] != b["map"] {
			t.Errorf("fork %d holds %s; want %s", i, b["map"], a["map"])
		}
	}
}

func TestAdoptIsDoneOnce(t *testing.T) {
	t.Parallel()
	top := board()
	cp := first(top, map[string]string{"list": `[0]`})
	r := wrote("a", set("last", `1`), add("list", `[1]`), add("int", `1`), add("fold", `["x"]`), taken("once"), set("fold", `"x"`))
	if err := Adopt(cp, top, &r); err != nil {
		t.Fatal(err)
	}
	var values []*Value
	for _, w := range r.Writes {
		values = append(values, w.Value)
	}
	if values[0] == nil || values[1] == nil || values[1].Base != cp.Values[top.Channel("list")] || values[5] == nil {
		t.Errorf("what can stand as a version has none: %v", values)
	}
	if values[2] != nil || values[3] != nil || values[4] != nil {
		t.Errorf("sums, folds and takes are versions: %v", values)
	}
	if err := Adopt(cp, top, &r); err != nil {
		t.Fatal(err)
	}
	for i, w := range r.Writes {
		if w.Value != values[i] {
			t.Errorf("write %d has another value the second time", i)
		}
	}
	bad := wrote("a", set("nobody", `1`))
	if err := Adopt(cp, top, &bad); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("an unknown channel gives %v", err)
	}
}

// A host may be storing a delta while its super-step is merged, so the merge finds it measured and leaves it alone.
func TestDeltasAreMeasuredWhenTheyAreMade(t *testing.T) {
	t.Parallel()
	top := board()
	list, table := top.Channel("list"), top.Channel("map")
	for name, before := range map[string]*Checkpoint{
		"on nothing": first(top, nil),
		"on values":  first(top, map[string]string{"list": `["x","y"]`, "map": `{"x":1,"y":2}`}),
		"on deltas":  mustApply(t, first(top, nil), top, wrote("a", add("list", `["x"]`), merged("map", `{"s":{"x":1,"z":3}}`))),
	} {
		r := wrote("a", add("list", `["a","b"]`), merged("map", `{"s":{"a":1,"y":22},"d":["x"]}`))
		if err := Adopt(before, top, &r); err != nil {
			t.Fatal(err)
		}
		for i, c := range []int{list, table} {
			v := r.Writes[i].Value
			size, cost := v.Size, v.Cost
			next := mustApply(t, before, top, r)
			if next.Values[c] != v || v.Size != size || v.Cost != cost {
				t.Errorf("%s, channel %q: the merge changed size %d and cost %d to %d and %d", name, top.Channels[c].Name, size, cost, v.Size, v.Cost)
			}
			doc, err := v.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			if size < len(doc) || size > len(doc)+len(doc)/2+4 || cost < len(v.Data)+rowCost {
				t.Errorf("%s, channel %q: %d bytes have the size %d and the cost %d", name, top.Channels[c].Name, len(doc), size, cost)
			}
		}
	}
}

func TestPatchKeys(t *testing.T) {
	t.Parallel()
	p := Patch{Set: map[string]json.RawMessage{"b": nil, "a": nil}, Delete: []string{"c", "aa"}}
	if got := p.Keys(); !slices.Equal(got, []string{"a", "aa", "b", "c"}) {
		t.Errorf("keys are %v", got)
	}
	if p.Delete[0] != "c" {
		t.Error("the patch itself was sorted")
	}
}

func FuzzValue(f *testing.F) {
	f.Add([]byte(`[1]`), []byte(`[2]`), []byte(`[]`), byte('a'))
	f.Add([]byte(`{"a":1}`), []byte(`{"s":{"b":2},"d":["a"]}`), []byte(`{"d":["b"]}`), byte('m'))
	f.Add([]byte(`null`), []byte(`{"s":{"b":2}}`), []byte(`{"s":null}`), byte('m'))
	f.Add([]byte(`]`), []byte(`[`), []byte(`[`), byte('a'))
	f.Fuzz(func(t *testing.T, base, one, two []byte, op byte) {
		v := &Value{Base: NewSet(base), Op: Op(op), Data: one}
		if op == byte(OpList) {
			v = &Value{Base: NewSet(base), Op: OpList, Parts: []*Value{{Op: OpAdd, Data: one}, {Op: OpMerge, Data: two}}}
		}
		top := &Value{Base: v, Op: Op(op), Data: two}
		for _, at := range []*Value{v, top} {
			doc, err := at.Bytes()
			again, err2 := cold(at).Bytes()
			if (err == nil) != (err2 == nil) || !bytes.Equal(doc, again) {
				t.Fatalf("rebuilt as %q, %v and as %q, %v", doc, err, again, err2)
			}
		}
	})
}
