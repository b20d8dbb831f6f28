package pawl

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

type chatter struct {
	Messages Append[string] `json:"messages"`
	Topic    Last[string]   `json:"topic,omitzero"`
}

type Shared struct {
	chatter
	Mood Ephemeral[string] `json:"mood"`
}

type office struct {
	Order Last[purchase] `json:"order"`
	Shared
	Spent Sum[int] `json:"spent,omitzero"`
}

func officeLayout(t testing.TB) *layout {
	t.Helper()
	l, err := layoutOf(reflect.TypeFor[office]())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestEmbeddedStructsFlatten(t *testing.T) {
	t.Parallel()
	l := officeLayout(t)
	want := []core.Channel{
		{Name: "order", Merge: core.MergeLast, Type: "{cents:int,id:string,tags?:[]string}"},
		{Name: "messages", Merge: core.MergeAppend, Type: "[]string"},
		{Name: "topic", Merge: core.MergeLast, Type: "string", Optional: true},
		{Name: "mood", Merge: core.MergeEphemeral, Type: "string"},
		{Name: "spent", Merge: core.MergeSum, Type: "int", Number: core.Signed, Optional: true},
	}
	if got := l.channels(); !reflect.DeepEqual(got, want) {
		t.Errorf("channels\n%+v, want\n%+v", got, want)
	}
	body := `{"order":{"id":"1","cents":2},"messages":["hi"],"topic":"refund","mood":"calm","spent":3}`
	writes, err := l.decode([]byte(body))
	if err != nil || len(writes) != 5 {
		t.Fatalf("wrote %v, %v", writes, err)
	}
	s := &office{}
	if err := json.Unmarshal([]byte(body), s); err != nil {
		t.Fatal(err)
	}
	if doc, err := json.Marshal(s); err != nil || string(doc) != body {
		t.Errorf("shown %s, %v", doc, err)
	}
	values := mustMerge(t, l, nil, func(s *office) { s.Messages.Add("hi"); s.Mood.Set("calm"); s.Spent.Add(1) })
	if got := stateJSON(t, l, values); got != `{"messages":["hi"],"mood":"calm","spent":1}` {
		t.Errorf("state %s", got)
	}
}

func TestEveryChannelNamesItsMergeAndShape(t *testing.T) {
	t.Parallel()
	var got []string
	for _, c := range deskLayout(t).channels() {
		got = append(got, fmt.Sprintf("%s %s %s %s", c.Name, c.Merge, c.Number, c.Type))
	}
	want := []string{
		"order last  {cents:int,id:string,tags?:[]string}", "name last  string", "boss last  ?{cents:int,id:string,tags?:[]string}",
		"notes append  []string", "lines append  []{cents:int,id:string,tags?:[]string}", "spent sum int int", "load sum float number",
		"files map  {*:{cents:int,id:string,tags?:[]string}}", "peak fold  int", "seen fold  {*:int}", "pass once  string", "hint ephemeral  string",
	}
	if !slices.Equal(got, want) {
		t.Errorf("channels %q, want %q", got, want)
	}
}

func TestAllFaultsOfAStateTypeAtOnce(t *testing.T) {
	t.Parallel()
	type inner struct {
		Twin  Last[int] `json:"twin"`
		Plain string    `json:"plain"`
	}
	type Named struct {
		A Last[int] `json:"a"`
	}
	type broken struct {
		Twin     Last[string] `json:"twin"`
		Nameless Last[string]
		Dashed   Last[string] `json:"-"`
		Only     Append[int]  `json:",omitzero"`
		hidden   Last[string]
		Total    float64                   `json:"total"`
		Ref      *Last[int]                `json:"ref"`
		Bytes    Append[byte]              `json:"bytes"`
		Func     Last[func()]              `json:"func"`
		Deep     Last[map[string]chan int] `json:"deep"`
		Named    `json:"named"`
		*Shared
		Last[int] `json:"last"`
		inner
	}
	new(broken).hidden.Get() // reads as any other, outside of a graph
	_, err := layoutOf(reflect.TypeFor[broken]())
	if err == nil {
		t.Fatal("no error")
	}
	want := []string{
		`broken.Nameless has no json name; add one, for instance ` + "`json:\"nameless\"`",
		`broken.Dashed has no json name`,
		`broken.Only has no json name`,
		`broken.hidden is a channel and not exported`,
		`broken.Total is a float64, and every field of a state is a channel`,
		`broken.Ref is a *pawl.Last[int], and`,
		`broken.Bytes would be a list of bytes`,
		`broken.Func: func() is a func(), which JSON cannot hold`,
		`broken.Deep: map[string]chan int[] is a chan int, which JSON cannot hold`,
		`broken.Named is embedded`,
		`broken.Shared is a *pawl.Shared, and`,
		`broken.Last is an embedded channel`,
		`broken.inner.Plain is a string, and`,
		`broken.Twin and broken.inner.Twin have the same json name "twin"`,
	}
	lines := strings.Split(err.Error(), "\n")
	for i, w := range want {
		if i >= len(lines) || !strings.HasPrefix(lines[i], w) {
			t.Errorf("fault %d is %q, want %q", i, lines[min(i, len(lines)-1)], w)
		}
	}
	if len(lines) != len(want) {
		t.Errorf("%d faults, want %d:\n%v", len(lines), len(want), err)
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[int](), reflect.TypeFor[*office](), reflect.TypeFor[map[string]any]()} {
		if _, err := layoutOf(typ); err == nil || !strings.Contains(err.Error(), "is not a struct") {
			t.Errorf("%s: %v", typ, err)
		}
	}
}

func TestDecodeRefusesByName(t *testing.T) {
	t.Parallel()
	l := deskLayout(t)
	tests := map[string]struct {
		body string
		want []string
	}{
		"no JSON":             {`{"name":`, []string{"the state is not JSON"}},
		"empty":               {` `, []string{"the state is empty"}},
		"no object":           {`[1]`, []string{"the state is an array, want an object"}},
		"null":                {`null`, []string{"the state is null, want an object"}},
		"trailing data":       {`{"name":"a"} {}`, []string{"not JSON"}},
		"a key twice":         {`{"name":"a","name":"b"}`, []string{`"name" stands twice`}},
		"unknown keys":        {`{"nmae":"a","Name":"b","name":"c"}`, []string{`channel "nmae" not found`, `channel "Name" not found`, `"order" "name" "boss"`}},
		"a wrong type":        {`{"name":5}`, []string{`channel "name": is an integer, want a string`}},
		"wrong types":         {`{"name":5,"spent":"x","notes":"y"}`, []string{`channel "name"`, `channel "spent": "x" is not a number that int64 holds`, `channel "notes": is a string, want an array`}},
		"a wrong field":       {`{"order":{"id":"1","cents":"2"}}`, []string{`channel "order": cents: is a string, want an integer`}},
		"an unknown field":    {`{"order":{"id":"1","cents":2,"Tags":[]}}`, []string{`channel "order": Tags: unknown field`}},
		"a missing field":     {`{"lines":[{"id":"1","cents":1},{"id":"2"}]}`, []string{`channel "lines": [1].cents: missing field`}},
		"a doubled field":     {`{"order":{"id":"1","id":"2","cents":2}}`, []string{`id: stands twice`}},
		"inside a map":        {`{"files":{"a":{"id":1,"cents":1}}}`, []string{`channel "files": a.id: is an integer`}},
		"too large":           {`{"order":{"id":"1","cents":99999999999999999999}}`, []string{`channel "order"`}},
		"faults of each kind": {`{"nmae":1,"order":{},"name":null}`, []string{`"nmae"`, `id: missing field`, `cents: missing field`, `"name": is null`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			writes, err := l.decode([]byte(tt.body))
			if err == nil || writes != nil {
				t.Fatalf("wrote %v, %v", writes, err)
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %v, want %q in it", err, w)
				}
			}
		})
	}
}

func TestWhatIsStoredAndUnreadableIsAnError(t *testing.T) {
	t.Parallel()
	l := deskLayout(t)
	tests := map[string]struct {
		channel, stored string
		read            func(*desk)
	}{
		"no JSON":            {"name", `"a`, func(s *desk) { s.Name.Get() }},
		"empty":              {"name", ``, func(s *desk) { s.Name.Get() }},
		"a wrong type":       {"name", `5`, func(s *desk) { s.Name.Lookup() }},
		"a missing field":    {"order", `{"id":"1"}`, func(s *desk) { s.Order.Get() }},
		"an unknown field":   {"order", `{"id":"1","cents":1,"vat":2}`, func(s *desk) { s.Order.Get() }},
		"another field name": {"order", `{"ID":"1","cents":1}`, func(s *desk) { s.Order.Get() }},
		"no list":            {"notes", `{"a":1}`, func(s *desk) { s.Notes.Len() }},
		"a wrong item":       {"lines", `[{"id":"1","cents":"x"}]`, func(s *desk) { s.Lines.At(0) }},
		"no number":          {"spent", `"5"`, func(s *desk) { s.Spent.Get() }},
		"too large a number": {"spent", `99999999999999999999`, func(s *desk) { s.Spent.Add(1) }},
		"no map":             {"files", `[]`, func(s *desk) { s.Files.Delete("a") }},
		"no fold":            {"peak", `"x"`, func(s *desk) { s.Peak.Get() }},
		"a grant":            {"pass", `5`, func(s *desk) { s.Pass.Take() }},
		"a passing value":    {"hint", `5`, func(s *desk) { s.Hint.Get() }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			values := make([]*core.Value, len(l.fields))
			i := slices.Index(l.names, tt.channel)
			values[i] = core.NewSet([]byte(tt.stored))
			_, err := mergeTasks(t, l, values, tt.read)
			var failed *StateError
			if !errors.As(err, &failed) || failed.Channel != tt.channel || failed.Node != "n00" || !strings.Contains(err.Error(), "cannot be read") {
				t.Errorf("error %v, want one of channel %q", err, tt.channel)
			}
			if err := l.load(&desk{}, values); !errors.As(err, &failed) || failed.Channel != tt.channel {
				t.Errorf("load: %v", err)
			}
			s := &desk{}
			l.bind(s, values, newSeal("n", nil))
			if doc, err := json.Marshal(s); err == nil {
				t.Errorf("shown as %s", doc)
			}
			if _, err := mergeTasks(t, l, values, func(s *desk) {}); err != nil {
				t.Errorf("nobody read it: %v", err)
			}
		})
	}
}

func TestADeltaThatIsUnreadable(t *testing.T) {
	t.Parallel()
	l := deskLayout(t)
	for channel, v := range map[string]*core.Value{
		"notes": {Base: core.NewSet([]byte(`["a"]`)), Op: core.OpAdd, Data: []byte(`[5]`)},
		"files": {Base: core.NewSet([]byte(`{}`)), Op: core.OpMerge, Data: []byte(`{"s":{"a":{"id":"1"}}}`)},
		"name":  {Base: core.NewSet([]byte(`"a"`)), Op: core.OpAdd, Data: []byte(`["b"]`)},
	} {
		values := make([]*core.Value, len(l.fields))
		values[slices.Index(l.names, channel)] = v
		var failed *StateError
		if err := l.load(&desk{}, values); !errors.As(err, &failed) || failed.Channel != channel {
			t.Errorf("%s: %v", channel, err)
		}
	}
}

func TestLoadReportsEveryUnreadableChannel(t *testing.T) {
	t.Parallel()
	l := deskLayout(t)
	values := []*core.Value{core.NewSet([]byte(`{}`)), core.NewSet([]byte(`1`))}
	err := l.load(&desk{}, values)
	if err == nil || !strings.Contains(err.Error(), `"order"`) || !strings.Contains(err.Error(), `"name"`) {
		t.Errorf("load: %v", err)
	}
}

type untold struct{ Fail bool }

func (u untold) MarshalJSON() ([]byte, error) {
	if u.Fail {
		panic("no words")
	}
	return nil, errors.New("cannot be told")
}

type grump struct{}

func (grump) Fold(int, int) int { panic("no fold") }

func TestWhatCannotBeWritten(t *testing.T) {
	t.Parallel()
	type dumb struct {
		A Last[untold]        `json:"a"`
		B Append[untold]      `json:"b"`
		C Map[string, untold] `json:"c"`
		D Fold[untold, first] `json:"d"`
		E Fold[int, grump]    `json:"e"`
	}
	l, err := layoutOf(reflect.TypeFor[dumb]())
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		do      func(*dumb)
		channel string
		want    string
	}{
		"a value":           {func(s *dumb) { s.A.Set(untold{}) }, "a", "cannot be told"},
		"a value, by panic": {func(s *dumb) { s.A.Set(untold{true}) }, "a", "no words"},
		"an item":           {func(s *dumb) { s.B.Add(untold{}) }, "b", "cannot be told"},
		"a key":             {func(s *dumb) { s.C.Set("k", untold{}) }, "c", `key "k"`},
		"an input":          {func(s *dumb) { s.D.Add(untold{}) }, "d", "cannot be told"},
		"a fold":            {func(s *dumb) { s.E.Add(1); s.E.Get() }, "e", "no fold"},
		"the first of two":  {func(s *dumb) { s.C.Set("k", untold{}); s.A.Set(untold{}) }, "a", "cannot be told"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := mergeTasks(t, l, nil, tt.do)
			var failed *StateError
			if !errors.As(err, &failed) || failed.Channel != tt.channel || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want channel %q and %q", err, tt.channel, tt.want)
			}
		})
	}
}

type first struct{}

func (first) Fold(have, in untold) untold { return in }

func TestFoldOfTheLayout(t *testing.T) {
	t.Parallel()
	type rules struct {
		Peak  Fold[int, highest] `json:"peak"`
		Grump Fold[int, grump]   `json:"grump"`
		Name  Last[string]       `json:"name"`
	}
	l, err := layoutOf(reflect.TypeFor[rules]())
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		channel, old, items, want, fault string
	}{
		"first inputs":    {channel: "peak", items: `[3,1]`, want: `3`},
		"into the zero":   {channel: "peak", items: `[-3]`, want: `0`},
		"into what is":    {channel: "peak", old: `7`, items: `[3,9]`, want: `9`},
		"no inputs":       {channel: "peak", old: `7`, items: `[]`, want: `7`},
		"unreadable":      {channel: "peak", old: `"x"`, items: `[1]`, fault: "cannot unmarshal"},
		"unreadable item": {channel: "peak", items: `["x"]`, fault: "cannot unmarshal"},
		"a panic":         {channel: "grump", items: `[1]`, fault: "panic: no fold"},
		"no fold":         {channel: "name", items: `[1]`, fault: `no fold channel "name"`},
		"no channel":      {channel: "nmae", items: `[1]`, fault: `no fold channel "nmae"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var old []byte
			if tt.old != "" {
				old = []byte(tt.old)
			}
			got, err := l.fold(tt.channel, old, []byte(tt.items))
			if tt.fault != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fault) || !strings.Contains(err.Error(), tt.channel) {
					t.Errorf("error %v, want %q", err, tt.fault)
				}
			} else if err != nil || string(got) != tt.want {
				t.Errorf("folded to %s, %v; want %s", got, err, tt.want)
			}
		})
	}
}

func TestRefusedWrites(t *testing.T) {
	t.Parallel()
	l := deskLayout(t)
	tests := map[string]struct {
		inside []string
		want   string
	}{
		"in a step":        {[]string{"step rate"}, "inside step rate did not happen: return the value and set it after the step"},
		"in All":           {[]string{"All"}, "inside All did not happen: collect results in variables and write them after All returned"},
		"in a step in All": {[]string{"All", "step rate"}, "write them after All returned"},
		"in a route":       {[]string{"route"}, "inside route did not happen"},
		"in a question":    {[]string{"question"}, "inside question did not happen"},
	}
	writes := map[string]func(*desk){
		"name":  func(s *desk) { s.Name.Set("x") },
		"notes": func(s *desk) { s.Notes.Add("x"); s.Notes.Replace("x") },
		"spent": func(s *desk) { s.Spent.Add(1) },
		"files": func(s *desk) { s.Files.Set("x", purchase{}); s.Files.Delete("x") },
		"peak":  func(s *desk) { s.Peak.Add(1) },
		"pass":  func(s *desk) { s.Pass.Take(); s.Pass.Put("x") },
		"hint":  func(s *desk) { s.Hint.Set("x") },
		"order": func(s *desk) { _ = s.Order.UnmarshalJSON([]byte(`{"id":"1","cents":1}`)) },
	}
	for name, tt := range tests {
		for channel, write := range writes {
			t.Run(name+" to "+channel, func(t *testing.T) {
				t.Parallel()
				g := newSeal("pay", func(err error) { t.Errorf("late: %v", err) })
				s := &desk{}
				b := l.bind(s, nil, g)
				s.Boss.Set(nil)
				for _, what := range tt.inside {
					g.Enter(what)
				}
				write(s)
				for range tt.inside {
					g.Leave()
				}
				s.Lines.Add(purchase{})
				got, err := b.writes()
				if err != nil || len(got) != 2 || got[0].Channel != "boss" || got[1].Channel != "lines" {
					t.Errorf("wrote %v, %v", got, err)
				}
				var refused *StateError
				if err := g.Close(); !errors.As(err, &refused) || refused.Channel != channel || refused.Node != "pay" || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("close: %v, want channel %q and %q", err, channel, tt.want)
				}
			})
		}
	}
}

func TestTheFirstRefusedWriteFailsTheTask(t *testing.T) {
	t.Parallel()
	l := deskLayout(t)
	g := newSeal("pay", nil)
	s := &desk{}
	l.bind(s, nil, g)
	g.Enter("step a")
	s.Name.Set("x")
	s.Spent.Add(1)
	g.Leave()
	g.Leave() // one too many does no harm
	s.Name.Set("allowed again")
	if err := g.Close(); err == nil || !strings.Contains(err.Error(), `channel "name"`) {
		t.Errorf("close: %v", err)
	}
	if s.Name.Get() != "allowed again" {
		t.Errorf("name %q", s.Name.Get())
	}
	quiet := newSeal("pay", nil)
	l.bind(&desk{}, nil, quiet)
	if err := quiet.Close(); err != nil {
		t.Errorf("close of a task that did nothing: %v", err)
	}
}

func TestLateWrites(t *testing.T) {
	t.Parallel()
	l := deskLayout(t)
	var mu sync.Mutex
	var late []error
	g := newSeal("pay", func(err error) { mu.Lock(); defer mu.Unlock(); late = append(late, err) })
	s := &desk{}
	b := l.bind(s, nil, g)
	s.Name.Set("in time")
	returned, wrote := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(wrote)
		<-returned
		s.Name.Set("late")
		s.Notes.Add("late")
	}()
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	close(returned)
	<-wrote
	writes, err := b.writes()
	if err != nil || len(writes) != 1 || string(writes[0].Data) != `"in time"` {
		t.Errorf("wrote %v, %v", writes, err)
	}
	if len(late) != 2 || !strings.Contains(late[0].Error(), `node "pay": channel "name"`) || !strings.Contains(late[0].Error(), "a goroutine outlived the node") {
		t.Errorf("late: %v", late)
	}
	newSeal("nobody listens", nil).Close()
	deaf := newSeal("deaf", nil)
	d := &desk{}
	l.bind(d, nil, deaf)
	deaf.Close()
	d.Name.Set("x")
	if _, ok := d.Name.Lookup(); ok {
		t.Error("a late write happened")
	}
}

// TestRacyNodesAreMemorySafe lets branches read and write one state at once: which write wins is theirs to know, but no
// memory is corrupted, as the race detector sees.
func TestRacyNodesAreMemorySafe(t *testing.T) {
	t.Parallel()
	l := deskLayout(t)
	values := mustMerge(t, l, nil, func(s *desk) { s.Notes.Add("0"); s.Files.Set("0", purchase{}); s.Peak.Add(1); s.Pass.Put("key") })
	g := newSeal("racy", func(error) {})
	s := &desk{}
	b := l.bind(s, values, g)
	var wg sync.WaitGroup
	var took sync.Map
	for i := range 8 {
		wg.Go(func() {
			for range 50 {
				s.Name.Set(fmt.Sprint(i, s.Name.Get()))
				s.Notes.Add("x")
				for range s.Notes.All() {
				}
				s.Spent.Add(1)
				s.Spent.Get()
				s.Files.Set(fmt.Sprint(i), purchase{})
				for range s.Files.All() {
				}
				s.Files.Delete("0")
				s.Peak.Add(i)
				s.Peak.Get()
				s.Hint.Lookup()
				if _, ok := s.Pass.Take(); ok {
					took.Store(i, true)
				}
				if _, err := json.Marshal(s); err != nil {
					t.Error(err)
				}
				s.Name.Set("")
			}
			g.Enter("step")
			s.Name.Set("refused")
			g.Leave()
		})
	}
	wg.Wait()
	n := 0
	took.Range(func(any, any) bool { n++; return true })
	writes, err := b.writes()
	if err != nil || n != 1 || s.Spent.Get() != 400 || s.Notes.Len() != 401 {
		t.Errorf("%d writes, %v; %d took; spent %d, %d notes", len(writes), err, n, s.Spent.Get(), s.Notes.Len())
	}
	if g.Close() == nil {
		t.Error("refused writes are not told")
	}
}

func TestStrictModeSeesChangesInPlace(t *testing.T) {
	t.Parallel()
	type loose struct {
		Ref   Last[*purchase]             `json:"ref"`
		Dict  Last[map[string]int]        `json:"dict"`
		Items Append[[]int]               `json:"items"`
		Files Map[string, map[string]int] `json:"files"`
		Pass  Once[*purchase]             `json:"pass"`
		Hint  Ephemeral[[]string]         `json:"hint"`
		Spent Sum[int]                    `json:"spent"`
	}
	l, err := layoutOf(reflect.TypeFor[loose]())
	if err != nil {
		t.Fatal(err)
	}
	stored := []*core.Value{
		core.NewSet([]byte(` { "cents": 5, "id": "1" } `)), // as another program may write it
		core.NewSet([]byte(`{"b":1,"a":2}`)),
		core.NewSet([]byte(`[[1],[2]]`)),
		core.NewSet([]byte(`{"x":{"a":1}}`)),
		core.NewSet([]byte(`{"id":"1","cents":5}`)),
		core.NewSet([]byte(`["a"]`)),
		core.NewSet([]byte(`5`)),
	}
	tests := map[string]struct {
		do   func(*loose)
		want string
	}{
		"nothing": {func(s *loose) {}, ""},
		"reads": {func(s *loose) {
			s.Ref.Get()
			s.Dict.Get()
			s.Items.Len()
			s.Files.Len()
			s.Pass.Take()
			s.Hint.Get()
			s.Spent.Get()
		}, ""},
		"writes": {func(s *loose) {
			s.Ref.Get()
			s.Ref.Set(&purchase{})
			s.Items.Add([]int{3})
			s.Files.Set("x", nil)
			s.Spent.Add(1)
		}, ""},
		"a pointer":          {func(s *loose) { s.Ref.Get().Cents = 6 }, "ref"},
		"a map":              {func(s *loose) { s.Dict.Get()["a"] = 3 }, "dict"},
		"an item":            {func(s *loose) { s.Items.At(1)[0] = 9 }, "items"},
		"a map's value":      {func(s *loose) { v, _ := s.Files.Get("x"); v["a"] = 2 }, "files"},
		"what was taken":     {func(s *loose) { v, _ := s.Pass.Take(); v.ID = "2" }, "pass"},
		"a passing value":    {func(s *loose) { s.Hint.Get()[0] = "b" }, "hint"},
		"then set":           {func(s *loose) { p := s.Ref.Get(); p.Cents = 6; s.Ref.Set(p) }, "ref"},
		"and back":           {func(s *loose) { s.Dict.Get()["a"] = 3; s.Dict.Get()["a"] = 2 }, ""},
		"the first of two":   {func(s *loose) { s.Hint.Get()[0] = "b"; s.Dict.Get()["a"] = 3 }, "dict"},
		"what it set itself": {func(s *loose) { p := &purchase{}; s.Ref.Set(p); p.Cents = 1 }, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &loose{}
			b := l.bind(s, coldValues(stored), newSeal("n", nil))
			tt.do(s)
			if got := b.mutated(); got != tt.want {
				t.Errorf("mutated %q, want %q", got, tt.want)
			}
			if _, err := b.writes(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestLoadedStatesAreForReading(t *testing.T) {
	t.Parallel()
	l := deskLayout(t)
	values := mustMerge(t, l, nil, func(s *desk) { s.Name.Set("a"); s.Notes.Add("n"); s.Files.Set("f", purchase{ID: "f"}); s.Peak.Add(2) })
	s := &desk{}
	if err := l.load(s, values); err != nil {
		t.Fatal(err)
	}
	s.Name.Set("b")
	s.Notes.Add("m")
	if s.Name.Get() != "a" || s.Notes.Len() != 1 || s.Peak.Get() != 2 {
		t.Error("a write to an outcome's state happened")
	}
	if _, err := l.literal(s); err == nil || !strings.Contains(err.Error(), "is no input") {
		t.Errorf("as an input: %v", err)
	}
	if err := l.load(&office{}, values); err == nil {
		t.Error("another type is loaded")
	}
}

func TestLiteralsOfTheWrongKind(t *testing.T) {
	t.Parallel()
	l := deskLayout(t)
	for name, state := range map[string]any{"nil": nil, "a nil state": (*desk)(nil), "an empty state": &desk{}} {
		if writes, err := l.literal(state); err != nil || len(writes) > 0 {
			t.Errorf("%s: %v, %v", name, writes, err)
		}
	}
	for name, state := range map[string]any{"a number": 5, "another state": &office{}, "JSON": json.RawMessage(`{}`)} {
		if writes, err := l.literal(state); err == nil || writes != nil {
			t.Errorf("%s: %v, %v", name, writes, err)
		}
	}
}

func TestShortValues(t *testing.T) {
	t.Parallel()
	l := deskLayout(t)
	values := []*core.Value{nil, core.NewSet([]byte(`"a"`)), {Op: core.OpClear}}
	s := &desk{}
	if err := l.load(s, values); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Boss.Lookup(); ok || s.Name.Get() != "a" || s.Notes.Len() != 0 {
		t.Error("values that end early are read wrong")
	}
	if got := stateJSON(t, l, values); got != `{"name":"a"}` {
		t.Errorf("state %s", got)
	}
	if _, err := l.encode([]*core.Value{{Base: core.NewSet([]byte(`5`)), Op: core.OpAdd, Data: []byte(`[1]`)}}); err == nil || !strings.Contains(err.Error(), `"order"`) {
		t.Errorf("an unreadable value is shown: %v", err)
	}
}

func TestValuesOfManyKinds(t *testing.T) {
	t.Parallel()
	type money int64
	type kinds struct {
		Bool   Last[bool]          `json:"bool"`
		Int    Last[int]           `json:"int"`
		Int64  Last[int64]         `json:"int64"`
		Uint64 Last[uint64]        `json:"uint64"`
		Small  Last[int8]          `json:"small"`
		Float  Last[float64]       `json:"float"`
		String Last[string]        `json:"string"`
		Bytes  Last[[]byte]        `json:"bytes"`
		Time   Last[time.Time]     `json:"time"`
		Any    Last[any]           `json:"any"`
		Named  Last[money]         `json:"named"`
		Cents  Sum[money]          `json:"cents"`
		Keys   Map[colour, colour] `json:"keys"`
	}
	l, err := layoutOf(reflect.TypeFor[kinds]())
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{
		`{"bool":true,"int":-1,"int64":9223372036854775807,"uint64":18446744073709551615,"small":-128,"float":0.1,"string":"a","bytes":"AQI=","time":"2026-01-02T03:04:05Z","any":{"a":[1,"x",null]},"named":7,"cents":8,"keys":{"blue":"red"}}`,
		`{"bool":false,"int":0,"int64":-9223372036854775808,"uint64":0,"small":127,"float":1e+30,"string":"a\"\\\n\u2028é\u003c","bytes":"","time":"0001-01-01T00:00:00Z","any":null,"named":-7,"cents":-8,"keys":{"":""}}`,
		`{"float":-1e-9,"string":""}`,
		`{"float":100000000000000000000,"string":"日本"}`,
	} {
		writes, err := l.decode([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		values := mustMerge(t, l, nil, func(s *kinds) {
			if err := json.Unmarshal([]byte(body), s); err != nil {
				t.Error(err)
			}
		})
		if got := stateJSON(t, l, values); got != body {
			t.Errorf("stored\n%s, want\n%s", got, body)
		}
		s := &kinds{}
		if err := l.load(s, coldValues(values)); err != nil {
			t.Errorf("load: %v", err)
		}
		if len(writes) == 0 {
			t.Error("nothing was written")
		}
	}
	for _, body := range []string{
		`{"small":128}`, `{"int":1.0}`, `{"int":1e2}`, `{"int64":9223372036854775808}`, `{"uint64":-1}`, `{"bool":1}`, `{"bool":"true"}`,
		`{"float":"1"}`, `{"float":1e999}`, `{"bytes":"?"}`, `{"time":"yesterday"}`, `{"named":"7"}`, `{"cents":9223372036854775808}`, `{"string":true}`,
	} {
		if writes, err := l.decode([]byte(body)); err == nil {
			t.Errorf("%s is taken as %v", body, writes)
		}
	}
}

type colour string
