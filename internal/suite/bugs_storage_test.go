package suite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/app"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
	"github.com/pawl-dev/pawl/store"
)

// bugsStorage are those of storage and of stored values.
func bugsStorage() []scenario {
	return []scenario{
		{id: "120", run: manyWriters},
		{id: "121", run: threadsDoNotQueue},
		{id: "122", run: each(changedWhileSaved)},
		{id: "124", run: misspeltFilters},
		{id: "125", run: hostileNames},
		{id: "126", run: each(hostileRows, textLikeARow)},
		{id: "129", run: all(refusedWhenBuilt, savedBeforeItFailed)},
	}
}

const writers, stepsEach = 100, 50

type crowding struct{ Path, Name string }

// crowdChild is a process whose goroutines each run a thread of many steps on one file.
func crowdChild(doc []byte) {
	c := args[crowding](doc)
	eng := childEngine(c.Path, nil)
	g := must(pawl.New[mortalState]("steps").Node("a", func(ctx context.Context, s *mortalState) error {
		for i := range stepsEach {
			n, err := pawl.Step(ctx, "step", func(context.Context) (int, error) { return 1, nil }, pawl.Key(fmt.Sprint(i)))
			if err != nil {
				return err
			}
			s.Calls.Add(n)
		}
		return nil
	}).Edge(pawl.Start, "a").Build())
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			out := must(g.Thread(eng, fmt.Sprint(c.Name, i)).Run(context.Background(), &mortalState{}))
			if n := out.State.Calls.Get(); n != stepsEach {
				must(0, fmt.Errorf("%d steps", n))
			}
		})
	}
	all.Wait()
	fmt.Println(eng.Stats().Most > 0)
	must(0, eng.Close())
}

// manyWriters is 120: two processes with a hundred goroutines each write ten thousand steps to one file. None fails, none is
// lost, and how long writes took is told.
func manyWriters(t *testing.T, _ *report) {
	h := onDisk(t)
	db := h.open(t)
	var processes []*child
	for _, name := range []string{"x", "y"} {
		processes = append(processes, spawn(t, "bug-crowd", crowding{h.path, name}))
	}
	for _, c := range processes {
		same(t, "latency is told", c.wait(t), "true")
	}
	eng := engine(t, db, nil)
	threads, err := eng.Threads(t.Context(), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	done := slices.DeleteFunc(threads, func(i pawl.ThreadInfo) bool { return i.Status != pawl.Done })
	same(t, "threads that are done", len(done), 2*writers)
	err = db.View(t.Context(), func(_ context.Context, tx storage.Tx) error {
		rows, err := tx.List("step", storage.Query{NoBody: true})
		same(t, "steps", len(rows), 2*writers*stepsEach)
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// threadsDoNotQueue is 121: 500 threads of one process are inside their nodes at once, and their writes, each of which takes
// its time, do not wait for each other.
func threadsDoNotQueue(t *testing.T, _ *report) {
	const threads, write = 500, time.Second
	for _, path := range []string{"", newFile(t)} {
		synctest.Test(t, func(t *testing.T) {
			h := moneyHome(t, path)
			var inside atomic.Int64
			everybody := make(chan struct{})
			g := build(t, pawl.New[mortalState]("meets").Node("a", func(ctx context.Context, s *mortalState) error {
				if inside.Add(1) == threads {
					close(everybody)
				}
				<-everybody
				_, err := pawl.Step(ctx, "step", func(context.Context) (int, error) { return 0, nil })
				return err
			}).Edge(pawl.Start, "a"))
			eng, began := engine(t, fault.Wrap(h.open(t), fault.Plan{Delay: write}), nil, g), time.Now()
			var all sync.WaitGroup
			for i := range threads {
				all.Go(func() {
					out, err := g.Thread(eng, fmt.Sprint(i)).Run(t.Context(), &mortalState{})
					mustBeDone(t, out, err)
				})
			}
			all.Wait()
			if took := time.Since(began); took > 4*write {
				t.Errorf("%d threads of three writes took %v, of %v each", threads, took, write)
			}
		})
	}
}

type thing struct {
	Name string `json:"name"`
}

// heapState holds what a node can keep a reference to.
type heapState struct {
	List  pawl.Last[[]string]       `json:"list"`
	Map   pawl.Last[map[string]int] `json:"map"`
	Thing pawl.Last[*thing]         `json:"thing"`
	Raw   pawl.Last[[]byte]         `json:"raw"`
	Items pawl.Append[*thing]       `json:"items"`
}

// changedWhileSaved is 122: a node keeps references to what it wrote, and another changes it while the first one's
// checkpoint is being saved behind its back.
func changedWhileSaved(t *testing.T, h *home) {
	for _, mode := range []pawl.Durability{pawl.Sync, pawl.Async, pawl.Exit} {
		saving, saved, kept := fault.NewGate(), atomic.Bool{}, heapOf()
		db := fault.Wrap(h.open(t), fault.Plan{At: func(p fault.Point) fault.Action {
			if saved.Load() && p.Op == fault.Update && p.Place == fault.Before {
				return fault.Hold(saving)
			}
			return fault.Action{}
		}})
		seen := ""
		g := build(t, pawl.New[heapState]("heap").Node("a", func(_ context.Context, s *heapState) error {
			kept.into(s)
			saved.Store(mode == pawl.Async)
			return nil
		}).Node("b", func(context.Context, *heapState) error {
			if mode == pawl.Async {
				<-saving.Reached()
			}
			kept.spoil()
			saving.Release()
			return nil
		}).Node("c", func(_ context.Context, s *heapState) error {
			seen = fmt.Sprintf("%v %v %s %s %s", s.List.Get(), s.Map.Get(), s.Thing.Get().Name, s.Raw.Get(), s.Items.At(0).Name)
			return nil
		}).Path(pawl.Start, "a", "b", "c"))
		th := g.Thread(engine(t, db, nil, g), string(mode))
		out, err := th.Run(t.Context(), &heapState{}, pawl.WithDurability(mode))
		const whole = `{"list":["one","two"],"map":{"a":1},"thing":{"name":"thing"},"raw":"cmF3","items":[{"name":"item"}]}`
		same(t, string(mode)+": state", mustBeDone(t, out, err), whole)
		same(t, string(mode)+": a later node read", seen, "[one two] map[a:1] thing raw item")
		for _, s := range history(t, g.Thread(engine(t, h.open(t), nil, g), string(mode))) {
			if v := string(s.Values); v != whole && v != `{}` {
				t.Errorf("%s: step %d is stored as %s", mode, s.Step, v)
			}
		}
	}
}

// references are what a node has in its hands.
type references struct {
	list  []string
	table map[string]int
	thing *thing
	raw   []byte
	item  *thing
}

func heapOf() *references {
	return &references{[]string{"one", "two"}, map[string]int{"a": 1}, &thing{"thing"}, []byte("raw"), &thing{"item"}}
}

func (r *references) into(s *heapState) {
	s.List.Set(r.list)
	s.Map.Set(r.table)
	s.Thing.Set(r.thing)
	s.Raw.Set(r.raw)
	s.Items.Add(r.item)
}

func (r *references) spoil() {
	r.list[0], r.table["a"], r.table["b"], r.thing.Name, r.raw[0], r.item.Name = "changed", 7, 8, "changed", 'X', "changed"
}

// misspeltFilters is 124: a filter that means nothing is refused or finds nothing; it never finds everything, and nothing
// of another tenant.
func misspeltFilters(t *testing.T, _ *report) {
	onEachMoney(t, func(t *testing.T, h *home) {
		target, o, mem := pawltest.NewTarget(pawltest.TargetOpaque), firmIn(t, h), must(store.New(store.Options{}))
		g := build(t, payGraph(approvedWire(target)))
		for _, tenant := range []string{"t1", "other"} {
			out, err := g.Thread(o.of(tenant).eng, "of "+tenant).Run(t.Context(), orderFor("17"))
			mustWaitFor(t, out, err, 1)
			if err := mem.Of(o.of(tenant).eng, o.db).Put(t.Context(), []string{"n"}, "k", map[string]string{"of": tenant}); err != nil {
				t.Fatal(err)
			}
		}
		for name, n := range map[string]int{
			"approvals, empty": len(o.requests(t)), "effects, empty": len(o.operations(t)),
			"threads": len(must(o.eng.Threads(t.Context(), "", 0))), "questions": len(must(o.eng.Questions(t.Context(), 0))),
			"memory, empty": len(must(mem.Of(o.eng, o.db).Search(t.Context(), store.Search{Prefix: []string{"n"}}))),
		} {
			same(t, name, n, 1)
		}
		for name, n := range map[string]int{
			"approvals": len(must(o.approvals.List(t.Context(), approval.Filter{State: "requestd"}))),
			"to":        len(must(o.approvals.List(t.Context(), approval.Filter{To: "financ"}))),
			"thread":    len(must(o.approvals.List(t.Context(), approval.Filter{Thread: "of other"}))),
			"effects":   len(must(o.effects.List(t.Context(), effect.Filter{State: "reservd"}))),
			"effect":    len(must(o.effects.List(t.Context(), effect.Filter{Effect: "bank.transfr"}))),
			"trail":     len(must(audit.List(t.Context(), o.db, "t1", "of other", 0, 0))),
			"memory":    len(must(mem.Of(o.eng, o.db).Search(t.Context(), store.Search{Prefix: []string{"n"}, Filter: store.Filter{"off": "other"}}))),
		} {
			same(t, "misspelt: "+name, n, 0)
		}
		if _, err := mem.Of(o.eng, o.db).Search(t.Context(), store.Search{Prefix: []string{"n"}, Filter: store.Filter{"of": store.Cond{"$eqq": "t1"}}}); err == nil {
			t.Error("an unknown operator was ignored")
		}
		if h.path == "" {
			return
		}
		for _, line := range []string{"threads list --statu waiting", "threads list --status waitin", "approvals list --state requestd", "approvals list --stat requested",
			"effects list --state reservd", "effects list --of 17", "audit list --limits 3"} {
			if code, out, talk := typed(h.path, strings.Fields(line)...); code != 2 || out != "" || talk == "" {
				t.Errorf("pawl %s: exit %d, %q, %q", line, code, out, talk)
			}
		}
	})
}

// typed runs the command line on a file of tenant t1.
func typed(path string, words ...string) (code int, out, talk string) {
	return typedAs("t1", path, words...)
}

func typedAs(tenant, path string, words ...string) (code int, out, talk string) {
	var printed, said bytes.Buffer
	env := app.Env{Name: "pawl", Stdin: strings.NewReader(""), Stdout: &printed, Stderr: &said, User: "ops", Getenv: func(name string) string {
		return map[string]string{"PAWL_DB": path, "PAWL_TENANT": tenant}[name]
	}}
	code = app.Run(context.Background(), env, words)
	return code, printed.String(), said.String()
}

var hostile = []string{
	`'`, `"`, `''`, `' OR '1'='1`, `x' OR 1=1 --`, `'); DROP TABLE thread; --`, `%`, `_`, `*`, `$.a`, `$[0]`, `$["a"]`, `a.b`, `a[*]`, `\`, `;`, `?`, `:1`, `@p`,
	`{"$ne":1}`, "\x01", "\U0010ffff", "a\nb", "NULL", "0",
}

// hostileNames is 125: whatever stands in a name or a filter is text. Every door says the same on each home, and only about
// what has that very name.
func hostileNames(t *testing.T, _ *report) {
	var told []string
	onEachMoney(t, func(t *testing.T, h *home) {
		var b strings.Builder
		o, mem := firmIn(t, h), must(store.New(store.Options{}))
		g := build(t, pawl.New[mortalState]("g").Node("a", asks(newLedger(t), "a"), pawl.Uses(gate)).Edge(pawl.Start, "a"))
		ids := map[string]string{}
		for _, name := range hostile {
			tenant := o.of(name)
			out, err := g.Thread(tenant.eng, name).Run(t.Context(), &mortalState{})
			if err != nil {
				t.Fatalf("%q: %v", name, err)
			}
			ids[name] = out.Waiting[0].ID
			items := mem.Of(tenant.eng, o.db)
			fmt.Fprintln(&b, name, items.Put(t.Context(), []string{name, "n"}, name, map[string]any{name: name, "n": 1}))
		}
		before := everything(t, o.db)
		for _, name := range hostile {
			eng := o.of(name).eng
			threads := must(eng.Threads(t.Context(), "", 0))
			if len(threads) != 1 || threads[0].Thread != name {
				t.Errorf("tenant %q has %+v", name, threads)
			}
			fmt.Fprintln(&b, len(must(eng.Threads(t.Context(), name, 0))), must(eng.Questions(t.Context(), 9))[0].ID == ids[name])
			found, err := eng.FindQuestions(t.Context(), name, 0) // by the beginning of an id, which may be so by chance
			fmt.Fprintln(&b, len(found) == 1 == strings.HasPrefix(ids[name], name), err)
			_, err = eng.Answer(t.Context(), name, "x")
			fmt.Fprintln(&b, errors.Is(err, pawl.ErrNotFound))
			items := mem.Of(eng, o.db)
			for _, filter := range []store.Filter{{name: name}, {name: store.Gte(name)}, {name: "other"}, {"n": 1, name: store.Ne("other")}} {
				hits, err := items.Search(t.Context(), store.Search{Prefix: []string{name}, Filter: filter})
				fmt.Fprintln(&b, name, len(hits), err)
			}
			spaces, err := items.Namespaces(t.Context(), store.List{Prefix: []string{name}})
			fmt.Fprintln(&b, len(spaces), err)
			for _, f := range []approval.Filter{{Thread: name}, {To: name}, {State: approval.State(name)}} {
				all, err := o.of(name).approvals.List(t.Context(), f)
				fmt.Fprintln(&b, len(all), err)
			}
			for _, f := range []effect.Filter{{Effect: name}, {State: effect.State(name)}} {
				all, err := o.of(name).effects.List(t.Context(), f)
				fmt.Fprintln(&b, len(all), err)
			}
		}
		unchanged(t, o.db, before)
		told = append(told, b.String())
	})
	if len(told) == 2 && told[0] != told[1] {
		t.Errorf("memory says\n%s\nSQLite says\n%s", told[0], told[1])
	}
}

// hostileRows is the first half of 126: each row of a thread that waits is replaced in turn by what an attacker or a broken
// disk would leave. The thread goes on as it was, or nothing runs.
func hostileRows(t *testing.T, h *home) {
	manglers := map[string]func([]byte) []byte{
		"nothing": func([]byte) []byte { return nil }, "null": func(b []byte) []byte { return []byte("null") },
		"an object": func([]byte) []byte { return []byte("{}") }, "half": func(b []byte) []byte { return b[:len(b)/2] },
		"a type": func(b []byte) []byte {
			return append(b[:min(1, len(b)):min(1, len(b))], `{"$type":"os/exec.Cmd","Path":"/bin/sh"}`...)
		},
		"zeros": func(b []byte) []byte { return make([]byte, len(b)) },
		"a bit": func(b []byte) []byte { b = slices.Clone(b); b[len(b)/2] ^= 1; return b },
	}
	l, n := newLedger(t), 0
	inner := build(t, pawl.New[kin]("inner").Node("one", logs(l, "one")).Node("two", asksAs(l, "two"), pawl.Uses(okay)).Path(pawl.Start, "one", "two"))
	g := build(t, pawl.New[kin]("outer").Node("step", func(ctx context.Context, s *kin) error {
		text, err := pawl.Step(ctx, "text", func(context.Context) (string, error) { return strings.Repeat("long enough for a row ", 9), nil })
		s.Log.Add(text)
		return err
	}).Add(pawl.Sub(inner.Child("child"), nothingIn, logOut)).Node("last", func(_ context.Context, s *kin) error {
		if all := logged(s); len(all) != 3 || len(all[0]) < 100 || all[1] != "one" || all[2] != "two:yes" {
			l.add("hollow")
		}
		return nil
	}).Path(pawl.Start, "step", "child", "last"))
	for name, mangle := range maps.All(manglers) {
		for place := 0; ; place++ {
			mine := memory(t)
			if h.path != "" {
				mine = onDisk(t)
			}
			db := mine.open(t)
			eng := engine(t, db, nil, g)
			out, err := g.Thread(eng, "t").Run(t.Context(), &kin{})
			q := mustWaitFor(t, out, err, 1)[0]
			eng.Close()
			kind, more := mangled(t, db, place, mangle)
			if !more {
				break
			}
			n++
			before := l.count("two")
			th := g.Thread(engine(t, db, nil, g), "t")
			out, err = th.Resume(t.Context(), okay.Answer(q.ID, "yes"))
			switch {
			case err == nil && out.Status == pawl.Done:
			case err == nil:
				t.Errorf("%s in row %d, %s: it is %s without an error", name, place, kind, out.Status)
			case out == nil && l.count("two") != before:
				t.Errorf("%s in row %d, %s: a node ran, and %v", name, place, kind, err)
			}
			if h.path != "" && place > 4 {
				break // the rest is memory's: the rows are the same
			}
		}
	}
	if l.count("hollow") > 0 || n < 20 {
		t.Errorf("%d of %d mangled rows ended in a hollow state", l.count("hollow"), n)
	}
}

// mangled changes the body of one row of a home, counted over all kinds.
func mangled(t *testing.T, db storage.DB, place int, mangle func([]byte) []byte) (kind string, more bool) {
	err := db.Update(t.Context(), func(_ context.Context, tx storage.Tx) error {
		n := 0
		for _, k := range pawl.Kinds() {
			rows, err := tx.List(k.Name, storage.Query{})
			if err != nil {
				return err
			}
			for _, row := range rows {
				if len(row.Body) == 0 {
					continue
				}
				if n++; n == place+1 {
					kind, more = k.Name, true
					row.Body = mangle(row.Body)
					_, err = tx.Put(k.Name, row, storage.Always())
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return kind, more
}

type textState struct {
	Any  pawl.Last[any]           `json:"any"`
	Text pawl.Append[string]      `json:"text"`
	Map  pawl.Map[string, any]    `json:"map"`
	Last pawl.Last[[]byte]        `json:"last"`
	Once pawl.Once[[]interface{}] `json:"once"`
}

// textLikeARow is the second half: what users write may look like what is stored. It comes back as it was.
func textLikeARow(t *testing.T, h *home) {
	texts := []string{`{"$type":"os/exec.Cmd"}`, `{"op":"append","base":1}`, "\x01{}", `{"lc":2,"type":"constructor","id":["os","system"]}`, `__error__`, "gASVIAAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjAVpZCA="}
	seen := ""
	g := build(t, pawl.New[textState]("text").Node("a", func(_ context.Context, s *textState) error {
		s.Any.Set(map[string]any{"$type": "os/exec.Cmd", "op": "set", "w": []any{texts[0]}, "lc": 1.0})
		for _, text := range texts {
			s.Text.Add(text)
			s.Map.Set(text, map[string]any{text: text})
		}
		s.Last.Set([]byte(texts[1]))
		return nil
	}).Node("ask", func(ctx context.Context, s *textState) error { _, err := gate.Ask(ctx, texts[0]); return err }, pawl.Uses(gate)).
		Node("b", func(_ context.Context, s *textState) error {
			seen = fmt.Sprintf("%T %v %q %s", s.Any.Get(), s.Any.Get(), items(s.Text.All()), s.Last.Get())
			return nil
		}).Path(pawl.Start, "a", "ask", "b"))
	out, err := g.Thread(engine(t, h.open(t), nil, g), "t").Run(t.Context(), &textState{})
	q, before := mustWaitFor(t, out, err, 1)[0], string(out.Values)
	th := g.Thread(engine(t, h.open(t), nil, g), "t")
	out, err = th.Resume(t.Context(), gate.Answer(q.ID, texts[2]))
	same(t, "state", mustBeDone(t, out, err), before)
	same(t, "read", seen, fmt.Sprintf("map[string]interface {} map[$type:os/exec.Cmd lc:1 op:set w:[%s]] %q %s", texts[0], texts, texts[1]))
	same(t, "answer", string(must(engine(t, h.open(t), nil, g).FindQuestions(t.Context(), q.ID, 1))[0].Answer), compact(texts[2]))
}

// refusedWhenBuilt is the first half of 129: what cannot be stored is refused when the graph is built, with the way to it.
func refusedWhenBuilt(t *testing.T, _ *report) {
	type deep struct {
		Inner map[string][]struct {
			Callback func() `json:"callback"`
		} `json:"inner"`
	}
	type bad struct {
		Fine pawl.Last[string] `json:"fine"`
		Deep pawl.Last[deep]   `json:"deep"`
	}
	_, err := pawl.New[bad]("bad").Node("a", noop[bad]).Edge(pawl.Start, "a").Build()
	if err == nil {
		t.Fatal("it was built")
	}
	says(t, err.Error(), "bad.Deep", "inner[][].callback", "func()")
}

// savedBeforeItFailed is the second half: an effect was sent, and then the state cannot be saved because of a value deep
// inside. The effect is on record, the error says where the value is, and going on does not send again.
func savedBeforeItFailed(t *testing.T, _ *report) {
	onEachMoney(t, func(t *testing.T, h *home) {
		target, broken := pawltest.NewTarget(pawltest.TargetOpaque), true
		e := wire(target)
		g := build(t, pawl.New[textState]("pays").Node("pay", func(ctx context.Context, s *textState) error {
			if _, err := payRef(ctx, e, "7"); err != nil {
				return err
			}
			var odd any = "fine"
			if broken {
				odd = make(chan int)
			}
			s.Any.Set(map[string]any{"list": []any{1, map[string]any{"odd": odd}}})
			return nil
		}, pawl.Uses(e)).Edge(pawl.Start, "pay"))
		th := g.Thread(firmIn(t, h).eng, "t")
		_, err := th.Run(t.Context(), &textState{})
		if err == nil {
			t.Fatal("it was saved")
		}
		says(t, err.Error(), `"any"`, `"pay"`, "at list[1].odd", "chan int")
		same(t, "operation", firmIn(t, h).operation(t).State, effect.StateCommitted)
		broken = false
		out, err := th.Resume(t.Context())
		same(t, "state", mustBeDone(t, out, err), `{"any":{"list":[1,{"odd":"fine"}]}}`)
		saw(t, target, 1, 0, 1)
	})
}
