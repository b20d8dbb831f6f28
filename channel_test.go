package pawl

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
)

type purchase struct {
	ID    string   `json:"id"`
	Cents int      `json:"cents"`
	Tags  []string `json:"tags,omitempty"`
}

// highest keeps the largest input.
type highest struct{}

func (highest) Fold(have, in int) int { return max(have, in) }

// union changes what it is given, which it may.
type union struct{}

func (union) Fold(have, in map[string]int) map[string]int {
	if have == nil {
		have = map[string]int{}
	}
	for k, v := range in {
		have[k] += v
	}
	return have
}

type desk struct {
	Order Last[purchase]              `json:"order"`
	Name  Last[string]                `json:"name"`
	Boss  Last[*purchase]             `json:"boss"`
	Notes Append[string]              `json:"notes"`
	Lines Append[purchase]            `json:"lines"`
	Spent Sum[int64]                  `json:"spent"`
	Load  Sum[float64]                `json:"load"`
	Files Map[string, purchase]       `json:"files"`
	Peak  Fold[int, highest]          `json:"peak"`
	Seen  Fold[map[string]int, union] `json:"seen"`
	Pass  Once[string]                `json:"pass"`
	Hint  Ephemeral[string]           `json:"hint"`
}

func deskLayout(t testing.TB) *layout {
	t.Helper()
	l, err := layoutOf(reflect.TypeFor[desk]())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// mergeTasks runs functions as the tasks of one super-step on one snapshot and merges what they wrote.
func mergeTasks[S any](t testing.TB, l *layout, values []*core.Value, fns ...func(*S)) ([]*core.Value, error) {
	t.Helper()
	top := &core.Topology{Graph: "test", Channels: l.channels()}
	var results []core.Result
	for i, fn := range fns {
		name := fmt.Sprintf("n%02d", i)
		top.Nodes = append(top.Nodes, core.Node{Name: name})
		s := new(S)
		b := l.bind(s, values, newSeal(name, nil))
		fn(s)
		writes, err := b.writes()
		if err != nil {
			return nil, err
		}
		results = append(results, core.Result{Task: core.Task{ID: name, Node: name}, Writes: writes})
	}
	if values == nil {
		values = make([]*core.Value, len(top.Channels))
	}
	cp, err := core.Apply(&core.Checkpoint{Values: values}, top, l.fold, results)
	if err != nil {
		return nil, err
	}
	return cp.Values, nil
}

func mustMerge[S any](t testing.TB, l *layout, values []*core.Value, fns ...func(*S)) []*core.Value {
	t.Helper()
	next, err := mergeTasks(t, l, values, fns...)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// coldValues returns values as another process reads them: without what is decoded.
func coldValues(values []*core.Value) []*core.Value {
	out := make([]*core.Value, len(values))
	var chill func(v *core.Value) *core.Value
	chill = func(v *core.Value) *core.Value {
		if v == nil {
			return nil
		}
		c := &core.Value{Base: chill(v.Base), Op: v.Op, Data: v.Data, Size: v.Size, Cost: v.Cost}
		for _, p := range v.Parts {
			c.Parts = append(c.Parts, chill(p))
		}
		return c
	}
	for i, v := range values {
		out[i] = chill(v)
	}
	return out
}

func listOf[T any](a *Append[T]) []T {
	var out []T
	for i, v := range a.All() {
		if i != len(out) {
			panic("All counts wrong")
		}
		out = append(out, v)
	}
	return out
}

func stateJSON(t testing.TB, l *layout, values []*core.Value) string {
	t.Helper()
	doc, err := l.encode(values)
	if err != nil {
		t.Fatal(err)
	}
	return string(doc)
}

func TestUnboundChannelsHoldWhatIsSet(t *testing.T) {
	t.Parallel()
	s := &desk{}
	if _, ok := s.Order.Lookup(); ok || s.Order.Get().ID != "" || s.Spent.Get() != 0 || s.Notes.Len() != 0 || s.Files.Len() != 0 {
		t.Error("the zero state holds something")
	}
	s.Order.Set(purchase{ID: "17"})
	s.Notes.Add("a", "b")
	s.Notes.Add("c")
	s.Spent.Add(3)
	s.Spent.Add(4)
	s.Load.Add(0.5)
	s.Files.Set("x", purchase{ID: "x"})
	s.Files.Set("y", purchase{ID: "y"})
	s.Files.Delete("x")
	s.Files.Delete("unknown")
	s.Peak.Add(3)
	s.Peak.Add(9)
	s.Peak.Add(2)
	s.Seen.Add(map[string]int{"a": 1})
	s.Seen.Add(map[string]int{"a": 2})
	s.Pass.Put("key")
	s.Hint.Set("warm")
	if got := s.Order.Get().ID; got != "17" {
		t.Errorf("order %q", got)
	}
	if got := listOf(&s.Notes); !slices.Equal(got, []string{"a", "b", "c"}) || s.Notes.At(2) != "c" || s.Notes.Len() != 3 {
		t.Errorf("notes %q", got)
	}
	if s.Spent.Get() != 7 || s.Load.Get() != 0.5 {
		t.Errorf("spent %d, load %g", s.Spent.Get(), s.Load.Get())
	}
	if _, ok := s.Files.Get("x"); ok || s.Files.Len() != 1 {
		t.Errorf("files: %d", s.Files.Len())
	}
	if s.Peak.Get() != 9 || s.Seen.Get()["a"] != 3 {
		t.Errorf("peak %d, seen %v", s.Peak.Get(), s.Seen.Get())
	}
	if v, ok := s.Pass.Take(); !ok || v != "key" {
		t.Errorf("took %q, %v", v, ok)
	}
	if v, ok := s.Pass.Take(); ok {
		t.Errorf("took %q twice", v)
	}
	if v, ok := s.Hint.Lookup(); !ok || v != "warm" || s.Hint.Get() != "warm" {
		t.Errorf("hint %q", v)
	}
	s.Notes.Replace("z")
	if got := listOf(&s.Notes); !slices.Equal(got, []string{"z"}) {
		t.Errorf("replaced notes %q", got)
	}
}

func TestABoundStateReadsTheCheckpointAndItsOwnWrites(t *testing.T) {
	t.Parallel()
	l := deskLayout(t)
	values := mustMerge(t, l, nil, func(s *desk) {
		s.Order.Set(purchase{ID: "1", Cents: 100})
		s.Notes.Add("first")
		s.Spent.Add(10)
		s.Load.Add(1e300)
		s.Files.Set("a", purchase{ID: "a"})
		s.Files.Set("b", purchase{ID: "b"})
		s.Peak.Add(5)
		s.Seen.Add(map[string]int{"x": 1})
		s.Pass.Put("key")
		s.Hint.Set("warm")
	})
	check := func(s *desk) {
		t.Helper()
		if s.Order.Get().Cents != 100 || s.Notes.At(0) != "first" || s.Spent.Get() != 10 || s.Load.Get() != 1e300 {
			t.Errorf("order %v, spent %d", s.Order.Get(), s.Spent.Get())
		}
		if f, ok := s.Files.Get("a"); !ok || f.ID != "a" || s.Files.Len() != 2 || s.Peak.Get() != 5 || s.Seen.Get()["x"] != 1 || s.Hint.Get() != "warm" {
			t.Errorf("files %v", f)
		}
	}
	change := func(s *desk) {
		check(s)
		s.Order.Set(purchase{ID: "2"})
		s.Notes.Add("second")
		s.Spent.Add(5)
		s.Files.Delete("a")
		s.Files.Set("c", purchase{ID: "c"})
		s.Peak.Add(7)
		s.Seen.Add(map[string]int{"x": 1, "y": 1})
		var keys []string
		for k, f := range s.Files.All() {
			if k != f.ID {
				t.Errorf("key %q holds %v", k, f)
			}
			keys = append(keys, k)
		}
		if !slices.Equal(keys, []string{"b", "c"}) || s.Files.Len() != 2 {
			t.Errorf("keys %q", keys)
		}
		if s.Order.Get().ID != "2" || s.Notes.Len() != 2 || s.Notes.At(1) != "second" || s.Spent.Get() != 15 || s.Peak.Get() != 7 || s.Seen.Get()["x"] != 2 {
			t.Error("own writes are not seen")
		}
	}
	mustMerge(t, l, values, change)
	mustMerge(t, l, coldValues(values), change)
	mustMerge(t, l, values, check) // what another task wrote is not seen
}

func TestWritesInChannelOrder(t *testing.T) {
	t.Parallel()
	l := deskLayout(t)
	values := mustMerge(t, l, nil, func(s *desk) {
		s.Files.Set("old", purchase{})
		s.Pass.Put("key")
		s.Spent.Add(1)
	})
	tests := map[string]struct {
		do   func(*desk)
		want []string
	}{
		"nothing":                    {func(s *desk) { s.Notes.Add(); s.Spent.Add(0); s.Files.Delete("unknown"); s.Spent.Get() }, nil},
		"set":                        {func(s *desk) { s.Name.Set("x"); s.Name.Set("y") }, []string{`name s "y"`}},
		"set to the zero value":      {func(s *desk) { s.Name.Set("") }, []string{`name s ""`}},
		"a nil pointer":              {func(s *desk) { s.Boss.Set(nil) }, []string{`boss s null`}},
		"add":                        {func(s *desk) { s.Notes.Add("a"); s.Notes.Add("<b>") }, []string{`notes a ["a","\u003cb\u003e"]`}},
		"replace, then add":          {func(s *desk) { s.Notes.Add("x"); s.Notes.Replace("a"); s.Notes.Add("b") }, []string{`notes s ["a","b"]`}},
		"replace by nothing":         {func(s *desk) { s.Notes.Replace() }, []string{`notes s []`}},
		"add to a sum":               {func(s *desk) { s.Spent.Add(3); s.Spent.Add(-5) }, []string{`spent a -2`}},
		"add and take back":          {func(s *desk) { s.Spent.Add(3); s.Spent.Add(-3) }, nil},
		"patch":                      {func(s *desk) { s.Files.Set("b", purchase{}); s.Files.Set("a", purchase{}); s.Files.Delete("old") }, []string{`files m {"s":{"a":{"id":"","cents":0},"b":{"id":"","cents":0}},"d":["old"]}`}},
		"set and delete a new key":   {func(s *desk) { s.Files.Set("new", purchase{}); s.Files.Delete("new") }, nil},
		"delete and set an old key":  {func(s *desk) { s.Files.Delete("old"); s.Files.Set("old", purchase{}) }, []string{`files m {"s":{"old":{"id":"","cents":0}}}`}},
		"fold":                       {func(s *desk) { s.Peak.Add(1); s.Peak.Get(); s.Peak.Add(2) }, []string{`peak a [1,2]`}},
		"take":                       {func(s *desk) { s.Pass.Take(); s.Pass.Take() }, []string{`pass c  took`}},
		"take, then put":             {func(s *desk) { s.Pass.Take(); s.Pass.Put("new") }, []string{`pass s "new" took`}},
		"take, put, take":            {func(s *desk) { s.Pass.Take(); s.Pass.Put("new"); s.Pass.Take() }, []string{`pass c  took`}},
		"put over what nobody took":  {func(s *desk) { s.Pass.Put("new") }, []string{`pass s "new"`}},
		"ephemeral":                  {func(s *desk) { s.Hint.Set("h") }, []string{`hint s "h"`}},
		"in the order of the fields": {func(s *desk) { s.Hint.Set("h"); s.Name.Set("n"); s.Spent.Add(1) }, []string{`name s "n"`, `spent a 1`, `hint s "h"`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &desk{}
			b := l.bind(s, values, newSeal("n", nil))
			tt.do(s)
			writes, err := b.writes()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, w := range writes {
				line := fmt.Sprintf("%s %c %s", w.Channel, w.Op, w.Data)
				if w.Took {
					line += " took"
				}
				got = append(got, line)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("wrote %q, want %q", got, tt.want)
			}
		})
	}
}

func TestMergesOfOneSuperStep(t *testing.T) {
	t.Parallel()
	l := deskLayout(t)
	start := mustMerge(t, l, nil, func(s *desk) { s.Pass.Put("key"); s.Notes.Add("0"); s.Files.Set("a", purchase{}) })
	tests := map[string]struct {
		a, b     func(*desk)
		conflict string
		want     string // a part of the state
	}{
		"adds follow in the order of the tasks": {
			a: func(s *desk) { s.Notes.Add("1", "2") }, b: func(s *desk) { s.Notes.Add("3") }, want: `"notes":["0","1","2","3"]`},
		"sums":  {a: func(s *desk) { s.Spent.Add(2) }, b: func(s *desk) { s.Spent.Add(3) }, want: `"spent":5`},
		"folds": {a: func(s *desk) { s.Peak.Add(2) }, b: func(s *desk) { s.Peak.Add(9); s.Peak.Add(1) }, want: `"peak":9`},
		"keys of a map": {
			a: func(s *desk) { s.Files.Set("b", purchase{}) }, b: func(s *desk) { s.Files.Delete("a") }, want: `"files":{"b":{"id":"","cents":0}}`},
		"one key of a map":    {a: func(s *desk) { s.Files.Set("b", purchase{}) }, b: func(s *desk) { s.Files.Set("b", purchase{}) }, conflict: "files"},
		"two writers":         {a: func(s *desk) { s.Name.Set("a") }, b: func(s *desk) { s.Name.Set("a") }, conflict: "name"},
		"two that replace":    {a: func(s *desk) { s.Notes.Replace("a") }, b: func(s *desk) { s.Notes.Add("b") }, conflict: "notes"},
		"two that take":       {a: func(s *desk) { s.Pass.Take() }, b: func(s *desk) { s.Pass.Take() }, conflict: "pass"},
		"two ephemeral":       {a: func(s *desk) { s.Hint.Set("a") }, b: func(s *desk) { s.Hint.Set("b") }, conflict: "hint"},
		"one takes":           {a: func(s *desk) { s.Pass.Take() }, b: func(s *desk) { s.Name.Set("b") }, want: `{"name":"b","notes":["0"]`},
		"nobody takes":        {a: func(s *desk) { s.Name.Set("a") }, b: func(s *desk) {}, want: `"pass":"key"`},
		"one takes, one puts": {a: func(s *desk) { s.Pass.Take() }, b: func(s *desk) { s.Pass.Put("new") }, conflict: "pass"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			next, err := mergeTasks(t, l, coldValues(start), tt.a, tt.b)
			var conflict *ConflictError
			if errors.As(err, &conflict) {
				if conflict.Channel != tt.conflict || !slices.Equal(conflict.Nodes, []string{"n00", "n01"}) {
					t.Errorf("conflict %v, want on %q", err, tt.conflict)
				}
				return
			}
			if err != nil || tt.conflict != "" {
				t.Fatalf("error %v, want a conflict on %q", err, tt.conflict)
			}
			if got := stateJSON(t, l, next); !strings.Contains(got, tt.want) {
				t.Errorf("state %s, want %s in it", got, tt.want)
			}
		})
	}
}

func TestOnceIsTakenOnce(t *testing.T) {
	t.Parallel()
	l := deskLayout(t)
	values := mustMerge(t, l, nil, func(s *desk) { s.Pass.Put("key") })
	takes := func(want bool) func(*desk) {
		return func(s *desk) {
			if v, ok := s.Pass.Take(); ok != want || ok && v != "key" {
				t.Errorf("took %q, %v; want %v", v, ok, want)
			}
		}
	}
	values = mustMerge(t, l, values, func(s *desk) { s.Name.Set("a turn that does not take it leaves it") })
	s := &desk{}
	l.bind(s, values, newSeal("fails", nil))
	takes(true)(s) // its writes are discarded, so it is back
	values = mustMerge(t, l, values, takes(true))
	mustMerge(t, l, values, takes(false))
}

func TestAnEphemeralLivesForOneSuperStep(t *testing.T) {
	t.Parallel()
	l := deskLayout(t)
	values := mustMerge(t, l, nil, func(s *desk) { s.Hint.Set("warm") })
	values = mustMerge(t, l, values, func(s *desk) {
		if s.Hint.Get() != "warm" {
			t.Error("the next super-step does not see it")
		}
	})
	mustMerge(t, l, values, func(s *desk) {
		if v, ok := s.Hint.Lookup(); ok {
			t.Errorf("%q is still there", v)
		}
	})
}

func TestAbsentNullAndZero(t *testing.T) {
	t.Parallel()
	type slate struct {
		Word Last[string]                `json:"word"`
		Made Last[bool]                  `json:"made,omitzero"`
		Ref  Last[*int]                  `json:"ref,omitzero"`
		Raw  Last[json.RawMessage]       `json:"raw,omitzero"`
		List Append[int]                 `json:"list,omitzero"`
		Sum  Sum[uint64]                 `json:"sum,omitzero"`
		Map  Map[string, int]            `json:"map,omitzero"`
		Peak Fold[int, highest]          `json:"peak,omitzero"`
		Seen Fold[map[string]int, union] `json:"seen,omitzero"`
		Once Once[int]                   `json:"once,omitzero"`
	}
	l, err := layoutOf(reflect.TypeFor[slate]())
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		body   string
		writes string // channel, op and data
		shown  string // the state read back as JSON
		fault  string
	}{
		"absent":          {body: `{}`, shown: `{"word":null}`},
		"zero string":     {body: `{"word":""}`, writes: `word s ""`, shown: `{"word":""}`},
		"null string":     {body: `{"word":null}`, fault: `"word": is null`},
		"false":           {body: `{"made":false}`, writes: `made s false`, shown: `{"word":null,"made":false}`},
		"null bool":       {body: `{"made":null}`, fault: `"made"`},
		"null pointer":    {body: `{"ref":null}`, writes: `ref s null`, shown: `{"word":null,"ref":null}`},
		"pointer":         {body: `{"ref":0}`, writes: `ref s 0`, shown: `{"word":null,"ref":0}`},
		"raw null":        {body: `{"raw":null}`, writes: `raw s null`, shown: `{"word":null,"raw":null}`},
		"raw object":      {body: `{"raw":{"a":[1]}}`, writes: `raw s {"a":[1]}`, shown: `{"word":null,"raw":{"a":[1]}}`},
		"empty list":      {body: `{"list":[]}`, shown: `{"word":null}`},
		"null list":       {body: `{"list":null}`, fault: `"list"`},
		"null in a list":  {body: `{"list":[1,null]}`, fault: `[1]: is null, want an integer`},
		"list":            {body: `{"list":[0]}`, writes: `list a [0]`, shown: `{"word":null,"list":[0]}`},
		"zero sum":        {body: `{"sum":0}`, shown: `{"word":null}`},
		"null sum":        {body: `{"sum":null}`, fault: `"sum"`},
		"sum":             {body: `{"sum":7}`, writes: `sum a 7`, shown: `{"word":null,"sum":7}`},
		"negative sum":    {body: `{"sum":-7}`, fault: `"sum": -7 is not a number that uint64 holds`},
		"fraction of sum": {body: `{"sum":1.5}`, fault: `"sum"`},
		"empty map":       {body: `{"map":{}}`, shown: `{"word":null}`},
		"null map":        {body: `{"map":null}`, fault: `"map"`},
		"null in a map":   {body: `{"map":{"a":null}}`, fault: `a: is null, want an integer`},
		"map":             {body: `{"map":{"b":1,"a":0}}`, writes: `map m {"s":{"a":0,"b":1}}`, shown: `{"word":null,"map":{"a":0,"b":1}}`},
		"fold":            {body: `{"peak":0}`, writes: `peak a [0]`, shown: `{"word":null,"peak":0}`},
		"null fold":       {body: `{"peak":null}`, fault: `"peak"`},
		"null map fold":   {body: `{"seen":null}`, writes: `seen a [null]`, shown: `{"word":null,"seen":{}}`},
		"once":            {body: `{"once":0}`, writes: `once s 0`, shown: `{"word":null,"once":0}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			writes, err := l.decode([]byte(tt.body))
			if tt.fault != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fault) {
					t.Fatalf("error %v, want %q in it", err, tt.fault)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, w := range writes {
				got = append(got, fmt.Sprintf("%s %c %s", w.Channel, w.Op, w.Data))
			}
			if s := strings.Join(got, "; "); s != tt.writes {
				t.Errorf("writes %s, want %s", s, tt.writes)
			}
			// The same document, unbound: it is held, shown again, and written alike.
			s := &slate{}
			if err := json.Unmarshal([]byte(tt.body), s); err != nil {
				t.Fatal(err)
			}
			if doc, err := json.Marshal(s); err != nil || string(doc) != tt.shown {
				t.Errorf("shown %s, %v; want %s", doc, err, tt.shown)
			}
			literal, err := l.literal(s)
			if err != nil || !reflect.DeepEqual(literal, writes) {
				t.Errorf("as a literal %v, %v; want %v", literal, err, writes)
			}
			// And bound, after the merge.
			values := mustMerge(t, l, nil, func(s *slate) {
				if err := json.Unmarshal([]byte(tt.body), s); err != nil {
					t.Error(err)
				}
			})
			s = &slate{}
			if err := l.load(s, coldValues(values)); err != nil {
				t.Fatal(err)
			}
			if doc, err := json.Marshal(s); err != nil || string(doc) != tt.shown {
				t.Errorf("bound %s, %v; want %s", doc, err, tt.shown)
			}
		})
	}
}

func TestUnboundJSONNullWritesNothing(t *testing.T) {
	t.Parallel()
	s := &desk{}
	doc := `{"order":null,"name":null,"notes":null,"spent":null,"files":null,"peak":null,"pass":null,"hint":null}`
	if err := json.Unmarshal([]byte(doc), s); err != nil {
		t.Fatal(err)
	}
	if writes, err := deskLayout(t).literal(s); err != nil || len(writes) > 0 {
		t.Errorf("wrote %v, %v", writes, err)
	}
}

func TestLiterals(t *testing.T) {
	t.Parallel()
	l := deskLayout(t)
	in := &desk{
		Order: Of(purchase{ID: "17"}), Notes: List("a", "b"), Spent: Total(int64(3)), Files: Pairs(map[string]purchase{"x": {ID: "x"}}),
	}
	for range 2 { // a literal can be used again
		writes, err := l.literal(in)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"order", "notes", "spent", "files"}
		if len(writes) != len(want) {
			t.Fatalf("wrote %v", writes)
		}
		for i, w := range writes {
			if w.Channel != want[i] || w.Op != []core.Op{core.OpSet, core.OpAdd, core.OpAdd, core.OpMerge}[i] {
				t.Errorf("write %d is %s %c", i, w.Channel, w.Op)
			}
		}
	}
	items := []string{"a"}
	kept := List(items...)
	items[0] = "changed"
	if kept.At(0) != "a" {
		t.Error("List keeps the caller's array")
	}
}

func TestSumsThatOverflow(t *testing.T) {
	t.Parallel()
	type sums struct {
		I Sum[int]     `json:"i"`
		S Sum[int64]   `json:"s"`
		U Sum[uint64]  `json:"u"`
		F Sum[float64] `json:"f"`
	}
	l, err := layoutOf(reflect.TypeFor[sums]())
	if err != nil {
		t.Fatal(err)
	}
	full := mustMerge(t, l, nil, func(s *sums) {
		s.I.Add(math.MaxInt)
		s.S.Add(math.MinInt64)
		s.U.Add(math.MaxUint64)
		s.F.Add(math.MaxFloat64)
	})
	tests := map[string]struct {
		values  []*core.Value
		do      func(*sums)
		channel string
	}{
		"in one task":          {nil, func(s *sums) { s.I.Add(math.MaxInt); s.I.Add(1) }, "i"},
		"with what is stored":  {full, func(s *sums) { s.I.Add(1) }, "i"},
		"downwards":            {full, func(s *sums) { s.S.Add(-1) }, "s"},
		"unsigned":             {full, func(s *sums) { s.U.Add(1) }, "u"},
		"float":                {full, func(s *sums) { s.F.Add(math.MaxFloat64) }, "f"},
		"not a number":         {nil, func(s *sums) { s.F.Add(math.NaN()) }, "f"},
		"away from the border": {full, func(s *sums) { s.I.Add(-1); s.S.Add(1); s.F.Add(-1) }, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := mergeTasks(t, l, tt.values, tt.do)
			var failed *StateError
			if tt.channel == "" {
				if err != nil {
					t.Error(err)
				}
			} else if !errors.As(err, &failed) || failed.Channel != tt.channel || failed.Node != "n00" {
				t.Errorf("error %v, want one of channel %q", err, tt.channel)
			}
		})
	}
	if _, err := mergeTasks(t, l, full, func(s *sums) {}, func(s *sums) { s.U.Add(0) }); err != nil {
		t.Error(err)
	}
	if _, err := l.literal(&sums{F: Total(math.Inf(1))}); err == nil || !strings.Contains(err.Error(), `"f"`) {
		t.Errorf("an infinite literal: %v", err)
	}
	add := func(s *sums) { s.S.Add(math.MaxInt64) }
	if _, err := mergeTasks(t, l, nil, add, add); err == nil || !strings.Contains(err.Error(), "overflows") {
		t.Errorf("two tasks together: %v", err)
	}
}

func TestAtOutsideOfTheList(t *testing.T) {
	t.Parallel()
	l := deskLayout(t)
	for _, i := range []int{-1, 2, 100} {
		_, err := mergeTasks(t, l, nil, func(s *desk) {
			s.Notes.Add("a", "b")
			if got := s.Notes.At(i); got != "" {
				t.Errorf("item %d is %q", i, got)
			}
		})
		if err == nil || !strings.Contains(err.Error(), `channel "notes"`) {
			t.Errorf("item %d: %v", i, err)
		}
	}
}

func TestLoopsSeeTheListAsItWas(t *testing.T) {
	t.Parallel()
	l := deskLayout(t)
	values := mustMerge(t, l, nil, func(s *desk) { s.Notes.Add("a", "b"); s.Files.Set("a", purchase{}) })
	values = mustMerge(t, l, values, func(s *desk) {
		for _, n := range s.Notes.All() {
			s.Notes.Add(n + n)
		}
		for k := range s.Files.All() {
			s.Files.Delete(k)
			s.Files.Set(k+k, purchase{})
		}
		for range s.Notes.All() {
			break
		}
	})
	if got := stateJSON(t, l, values); got != `{"notes":["a","b","aa","bb"],"files":{"aa":{"id":"","cents":0}}}` {
		t.Errorf("state %s", got)
	}
}

func TestFoldInputsAreKeptAsTheyWereAdded(t *testing.T) {
	t.Parallel()
	l := deskLayout(t)
	in := map[string]int{"a": 1}
	values := mustMerge(t, l, nil, func(s *desk) {
		s.Seen.Add(in)
		s.Seen.Add(map[string]int{"a": 10})
		if s.Seen.Get()["a"] != 11 || in["a"] != 1 {
			t.Errorf("folded %v, the input is now %v", s.Seen.Get(), in)
		}
		in["a"] = 99
	})
	values = mustMerge(t, l, values, func(s *desk) {
		s.Seen.Get()["a"] = 1000 // decoded for this task alone
		s.Seen.Add(map[string]int{"b": 1})
	})
	if got := stateJSON(t, l, values); got != `{"seen":{"a":11,"b":1}}` {
		t.Errorf("state %s", got)
	}
}

// TestListsShareTheirArray checks random histories of forks of forks against plain slices, decoded lists against cold
// ones, and that a reader never sees another branch's items.
func TestListsShareTheirArray(t *testing.T) {
	t.Parallel()
	type lists struct {
		Items Append[int] `json:"items"`
	}
	l, err := layoutOf(reflect.TypeFor[lists]())
	if err != nil {
		t.Fatal(err)
	}
	type point struct {
		values []*core.Value
		want   []int
	}
	verify := func(t *testing.T, p point) {
		s := &lists{}
		if err := l.load(s, p.values); err != nil {
			t.Fatal(err)
		}
		if got := listOf(&s.Items); !slices.Equal(got, p.want) {
			t.Fatalf("items %v, want %v", got, p.want)
		}
	}
	for seed := range int64(30) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewSource(seed))
			history := []point{{make([]*core.Value, 1), nil}}
			next := 0
			for range 120 {
				from := history[len(history)-1]
				if r.Intn(3) == 0 {
					from = history[r.Intn(len(history))]
				}
				want := slices.Clone(from.want)
				var fns []func(*lists)
				for range 1 + r.Intn(3) {
					var items []int
					for range r.Intn(4) {
						items = append(items, next)
						next++
					}
					replace, read := r.Intn(12) == 0 && len(fns) == 0, r.Intn(2) == 0
					if replace {
						want = nil
					}
					want = append(want, items...)
					fns = append(fns, func(s *lists) {
						if read && s.Items.Len() != len(from.want) {
							t.Errorf("%d items, want %d", s.Items.Len(), len(from.want))
						}
						if replace {
							s.Items.Replace(items...)
						} else {
							s.Items.Add(items...)
						}
					})
					if replace {
						break
					}
				}
				history = append(history, point{mustMerge(t, l, from.values, fns...), want})
				verify(t, history[r.Intn(len(history))])
			}
			var wg sync.WaitGroup
			for i, p := range history {
				wg.Go(func() { verify(t, p) })
				if i%10 == 0 {
					wg.Go(func() { verify(t, point{coldValues(p.values), p.want}) })
				}
			}
			wg.Wait()
		})
	}
}

func TestOnlyTheLongestWindowGrowsItsArray(t *testing.T) {
	t.Parallel()
	base := newWindow(make([]int, 0, 100)).grow([]int{1, 2})
	a, b := base.grow([]int{3}), base.grow([]int{4})
	if &a.items[0] != &base.items[0] {
		t.Error("the first to grow copied")
	}
	if &b.items[0] == &base.items[0] {
		t.Error("the second to grow shares the array")
	}
	if c := a.grow([]int{5}); &c.items[0] != &a.items[0] || !slices.Equal(c.items, []int{1, 2, 3, 5}) {
		t.Errorf("grown to %v", c.items)
	}
	if !slices.Equal(a.items, []int{1, 2, 3}) || !slices.Equal(b.items, []int{1, 2, 4}) || !slices.Equal(base.items, []int{1, 2}) {
		t.Errorf("windows changed: %v %v %v", base.items, a.items, b.items)
	}
}

func TestConcurrentTasksReadOneVersion(t *testing.T) {
	t.Parallel()
	l := deskLayout(t)
	values := mustMerge(t, l, nil, func(s *desk) { s.Notes.Add("0"); s.Files.Set("0", purchase{}); s.Order.Set(purchase{ID: "x"}) })
	for i := 1; i < 40; i++ {
		fns := make([]func(*desk), 4)
		var wg sync.WaitGroup
		for j := range fns {
			wg.Go(func() {
				s := &desk{}
				l.bind(s, values, newSeal("reader", nil))
				if s.Notes.Len() != i || s.Files.Len() != i || s.Order.Get().ID != "x" || s.Notes.At(i-1) != fmt.Sprint(i-1) {
					t.Errorf("reader %d sees %d notes and %d files, want %d", j, s.Notes.Len(), s.Files.Len(), i)
				}
			})
		}
		wg.Wait()
		values = mustMerge(t, l, values, func(s *desk) { s.Notes.Add(fmt.Sprint(i)); s.Files.Set(fmt.Sprint(i), purchase{}) })
	}
}

// TestMapsAgainstPlainMaps checks random histories of forks against plain maps.
func TestMapsAgainstPlainMaps(t *testing.T) {
	t.Parallel()
	type shelf struct {
		Books Map[string, int] `json:"books"`
	}
	l, err := layoutOf(reflect.TypeFor[shelf]())
	if err != nil {
		t.Fatal(err)
	}
	type point struct {
		values []*core.Value
		want   map[string]int
	}
	for seed := range int64(10) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewSource(seed))
			history := []point{{make([]*core.Value, 1), map[string]int{}}}
			for i := range 150 {
				from := history[len(history)-1]
				if r.Intn(4) == 0 {
					from = history[r.Intn(len(history))]
				}
				want := maps.Clone(from.want)
				next := mustMerge(t, l, from.values, func(s *shelf) {
					for range r.Intn(4) {
						k := fmt.Sprint(r.Intn(20))
						if r.Intn(3) == 0 {
							s.Books.Delete(k)
							delete(want, k)
						} else {
							s.Books.Set(k, i)
							want[k] = i
						}
						if got, ok := s.Books.Get(k); ok != (want[k] == i && ok) || got != want[k] || s.Books.Len() != len(want) {
							t.Errorf("key %s holds %d, %v", k, got, ok)
						}
					}
				})
				history = append(history, point{next, want})
			}
			for i, p := range history {
				s := &shelf{}
				values := p.values
				if i%2 == 0 {
					values = coldValues(values)
				}
				if err := l.load(s, values); err != nil {
					t.Fatal(err)
				}
				if got := maps.Collect(s.Books.All()); !maps.Equal(got, p.want) {
					t.Fatalf("at %d: %v, want %v", i, got, p.want)
				}
			}
		})
	}
}

func BenchmarkTask(b *testing.B) {
	type counter struct {
		N Sum[int64] `json:"n"`
	}
	l, err := layoutOf(reflect.TypeFor[counter]())
	if err != nil {
		b.Fatal(err)
	}
	values := []*core.Value{core.NewSet([]byte("41"))}
	b.ReportAllocs()
	for b.Loop() {
		s := &counter{}
		g := newSeal("n", nil)
		bound := l.bind(s, values, g)
		if s.N.Get() != 41 {
			b.Fatal("wrong")
		}
		s.N.Add(1)
		if w, err := bound.writes(); err != nil || len(w) != 1 {
			b.Fatal(err)
		}
		if err := g.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLoopOverAList adds one item a super-step to a list of the given length and reads its end.
func BenchmarkLoopOverAList(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			type chat struct {
				Lines Append[string] `json:"lines"`
			}
			l, err := layoutOf(reflect.TypeFor[chat]())
			if err != nil {
				b.Fatal(err)
			}
			values := mustMerge(b, l, nil, func(s *chat) { s.Lines.Add(slices.Repeat([]string{"a line of some length"}, n)...) })
			b.ReportAllocs()
			for b.Loop() {
				values = mustMerge(b, l, values, func(s *chat) {
					if s.Lines.At(s.Lines.Len()-1) == "" {
						b.Fatal("wrong")
					}
					s.Lines.Add("one more line of some length")
				})
			}
		})
	}
}

func TestWhatLeavesNoTrace(t *testing.T) {
	t.Parallel()
	l := deskLayout(t)
	s := &desk{}
	b := l.bind(s, nil, newSeal("n", nil))
	s.Pass.Put("key")
	s.Pass.Take() // its own: nothing was stored, so nothing was taken
	items := []string{"a"}
	s.Notes.Replace(items...)
	items[0] = "changed"
	if writes, err := b.writes(); err != nil || len(writes) != 1 || string(writes[0].Data) != `["a"]` {
		t.Errorf("wrote %v, %v", writes, err)
	}
}

func TestPatchesAreSorted(t *testing.T) {
	t.Parallel()
	l := deskLayout(t)
	keys := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	values := mustMerge(t, l, nil, func(s *desk) {
		for _, k := range keys {
			s.Files.Set(k, purchase{})
		}
	})
	s := &desk{}
	b := l.bind(s, values, newSeal("n", nil))
	for k := range s.Files.All() {
		s.Files.Delete(k)
	}
	writes, err := b.writes()
	if err != nil || len(writes) != 1 || string(writes[0].Data) != `{"d":["a","b","c","d","e","f","g","h"]}` {
		t.Errorf("wrote %v, %v", writes, err)
	}
}
