package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/nest"
	"github.com/pawl-dev/pawl/storage"
)

// meter counts what is written to and read from a home: bytes of bodies, keys and fields, and rows.
type meter struct {
	storage.DB
	mu      sync.Mutex
	written []int // bytes of each Update
	rows    int   // read
	read    int   // bytes of their bodies
}

func (m *meter) Update(ctx context.Context, fn func(context.Context, storage.Tx) error) error {
	var tx *metered
	err := m.DB.Update(ctx, func(ctx context.Context, inner storage.Tx) error {
		tx = &metered{Tx: inner}
		return fn(ctx, tx)
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.written = append(m.written, tx.written)
	return err
}

func (m *meter) View(ctx context.Context, fn func(context.Context, storage.Tx) error) error {
	var tx *metered
	err := m.DB.View(ctx, func(ctx context.Context, inner storage.Tx) error {
		tx = &metered{Tx: inner}
		return fn(ctx, tx)
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rows += tx.rows
	m.read += tx.read
	return err
}

// loads says what a call read.
func (m *meter) loads(call func()) (rows, read int) {
	m.mu.Lock()
	m.rows, m.read = 0, 0
	m.mu.Unlock()
	call()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rows, m.read
}

func (m *meter) total() (n int) {
	for _, w := range m.written {
		n += w
	}
	return n
}

type metered struct {
	storage.Tx
	written, rows, read int
}

func (t *metered) Put(kind string, row storage.Row, cond storage.If) (bool, error) {
	t.written += len(row.Body)
	for _, f := range slices.Concat(row.Key, row.Fields) {
		switch f := f.(type) {
		case string:
			t.written += len(f)
		case []byte:
			t.written += len(f)
		default:
			t.written += 8
		}
	}
	return t.Tx.Put(kind, row, cond)
}

func (t *metered) saw(rows ...storage.Row) {
	t.rows += len(rows)
	for _, r := range rows {
		t.read += len(r.Body)
	}
}

func (t *metered) Get(kind string, key ...any) (storage.Row, bool, error) {
	row, ok, err := t.Tx.Get(kind, key...)
	t.saw(row)
	return row, ok, err
}

func (t *metered) List(kind string, q storage.Query) ([]storage.Row, error) {
	rows, err := t.Tx.List(kind, q)
	t.saw(rows...)
	return rows, err
}

func (t *metered) Walk(kind string, id int64) ([]storage.Row, error) {
	rows, err := t.Tx.Walk(kind, id)
	t.saw(rows...)
	return rows, err
}

// growing is a loop of many super-steps. Each sets one value of a fixed size, or adds one item.
type growing struct {
	Left  pawl.Last[int]      `json:"left"`
	Fixed pawl.Last[string]   `json:"fixed"`
	Items pawl.Append[string] `json:"items"`
}

// growth loops while there is something left.
type growth struct {
	fixed, item int  // bytes that each round writes; 0: none
	recorded    bool // each round makes a recorded call
}

func (w growth) builder() *pawl.Builder[growing] {
	return pawl.New[growing]("growth").
		Node("round", func(ctx context.Context, s *growing) error {
			n := s.Left.Get() - 1
			s.Left.Set(n)
			if mark := fmt.Sprintf("%08d", n); w.fixed > 0 {
				s.Fixed.Set(mark + strings.Repeat("x", w.fixed-8))
			} else {
				s.Items.Add(mark + strings.Repeat("y", w.item-8))
			}
			if !w.recorded {
				return nil
			}
			_, err := pawl.Step(ctx, "call", func(context.Context) (int, error) { return n, nil })
			return err
		}).
		Edge(pawl.Start, "round").
		Route("round", func(s *growing) []pawl.Next {
			if s.Left.Get() > 0 {
				return pawl.To("round")
			}
			return pawl.To(pawl.End)
		}, "round", pawl.End)
}

// historyIsLinear is P8.
func historyIsLinear(t *testing.T, _ *report) {
	t.Run("bytes a step", func(t *testing.T) { flatPart(t, itsBytes); onEach(t, bytesAStep) })
	t.Run("small items", func(t *testing.T) { flatPart(t, itsBytes); onEach(t, smallItems) })
	t.Run("loading", func(t *testing.T) { flatPart(t, itsBytes); onEach(t, loadIsBounded) })
	t.Run("watched over kill -9", func(t *testing.T) { flatPart(t, ownFacts); watchedOverKills(t) })
	t.Run("forks of forks", func(t *testing.T) {
		onEach(t, func(t *testing.T, h *home) {
			for seed := range times(t, 12) {
				forksOfForks(t, h, uint64(seed), 10)
			}
		})
	})
}

// grow runs a growth of n rounds and returns what it took.
func grow(t testing.TB, h *home, id string, w growth, n int) (*meter, *nest.Thread[growing]) {
	t.Helper()
	m := &meter{DB: h.open(t)}
	g := atDepth(t, w.builder())
	th := g.Thread(engine(t, m, nil, g), id)
	out, err := th.Run(context.Background(), &growing{Left: pawl.Of(n)})
	mustBeDone(t, out, err)
	return m, th
}

// bytesAStep measures each super-step's own Update: it writes what its node wrote and a bounded rest, however long the
// history is.
func bytesAStep(t *testing.T, h *home) {
	const rounds, payload, rest = 600, 1000, 300
	for name, w := range map[string]growth{"a Last of fixed size": {fixed: payload}, "an Append": {item: payload}} {
		m, _ := grow(t, h, name, w, rounds)
		steps := m.written[2 : len(m.written)-1] // without the acceptance, the first, which says more than a difference, and the end
		if len(steps) < rounds-2 {
			t.Fatalf("%s: %d Updates for %d super-steps", name, len(steps), rounds)
		}
		least, most := slices.Min(steps), slices.Max(steps)
		if most-least > 24 { // digits of numbers that grow
			t.Errorf("%s: a super-step writes between %d and %d bytes", name, least, most)
		}
		if most > payload+rest {
			t.Errorf("%s: %d bytes for a step that wrote %d", name, most, payload)
		}
	}
}

// smallItems are where whole values are written now and then, so that loading stays bounded: the sum is linear all the
// same.
func smallItems(t *testing.T, h *home) {
	total := map[int]int{}
	for _, n := range []int{250, 500, 1000} {
		m, th := grow(t, h, fmt.Sprint("small ", n), growth{item: 10}, n)
		total[n] = m.total()
		rows, read := m.loads(func() { statusOf(t, th) })
		size := len(statusOf(t, th).Head.Values)
		if read > 2*size+4<<10+2<<10 || rows > (2*size+4<<10)/40+20 {
			t.Errorf("%d items of %d bytes in all: loading reads %d rows of %d bytes", n, size, rows, read)
		}
	}
	if a, b := total[500]-total[250], total[1000]-total[500]; b > 2*a+a/2 {
		t.Errorf("bytes written for 250, 500 and 1,000 items: %v", total)
	}
}

// loadIsBounded reads and resumes threads of one state and short and long histories.
func loadIsBounded(t *testing.T, h *home) {
	type cost struct{ state, read, fork, run int }
	costs := map[int]cost{}
	for _, n := range []int{20, 500} {
		m, th := grow(t, h, fmt.Sprint("fixed ", n), growth{fixed: 100, recorded: true}, n)
		h := history(t, th)
		var c cost
		c.state, _ = m.loads(func() { statusOf(t, th) })
		c.read, _ = m.loads(func() {
			if _, err := th.Snapshot(context.Background(), h[len(h)/2].Checkpoint); err != nil {
				t.Fatal(err)
			}
		})
		c.fork, _ = m.loads(func() {
			if _, err := th.Fork(context.Background(), pawl.Checkpoint(h[len(h)/2].Checkpoint), nil, pawl.Hold()); err != nil {
				t.Fatal(err)
			}
		})
		left := func(s *growing) error { s.Left.Set(1); return nil }
		if _, err := th.Edit(context.Background(), left); err != nil {
			t.Fatal(err)
		}
		c.run, _ = m.loads(func() {
			out, err := th.Resume(context.Background())
			mustBeDone(t, out, err)
		})
		costs[n] = c
	}
	same(t, "rows read after 500 steps and after 20", costs[500], costs[20])
}

// branching has a channel of each kind that keeps something; a round changes all of them by rules that a test can
// compute in full.
type branching struct {
	Left  pawl.Last[int]        `json:"left"`
	N     pawl.Sum[int]         `json:"n"`
	Items pawl.Append[string]   `json:"items"`
	Pairs pawl.Map[string, int] `json:"pairs"`
}

func branches() *pawl.Builder[branching] {
	item := func(who string) func(context.Context, *branching) error {
		return func(_ context.Context, s *branching) error {
			n := s.N.Get()
			s.Items.Add(fmt.Sprint(who, n))
			s.Pairs.Set(fmt.Sprint(who, n%4), n)
			if n%3 == 0 {
				s.Pairs.Delete(fmt.Sprint(who, (n+2)%4))
			}
			if n%17 == 16 && who == "x" {
				s.Pairs.Set("seventeen", n)
			}
			return nil
		}
	}
	more := func(s *branching) []pawl.Next {
		if s.Left.Get() > 0 {
			return pawl.To("x", "y", "count")
		}
		return pawl.To(pawl.End)
	}
	return pawl.New[branching]("branches").Node("x", item("x")).Node("y", item("y")).
		Node("count", func(_ context.Context, s *branching) error {
			s.Left.Set(s.Left.Get() - 1)
			s.N.Add(1)
			return nil
		}).
		Edge(pawl.Start, "x").Edge(pawl.Start, "y").Edge(pawl.Start, "count").
		Route("count", func(s *branching) []pawl.Next { return more(s) }, "x", "y", "count", pawl.End)
}

// wholeState is a branching state kept in full: the naive storage that every branch must equal.
type wholeState struct {
	Left  int            `json:"left"`
	N     int            `json:"n"`
	Items []string       `json:"items"`
	Pairs map[string]int `json:"pairs"`
}

func (w wholeState) copy() wholeState {
	w.Items, w.Pairs = slices.Clone(w.Items), maps.Clone(w.Pairs)
	return w
}

// round is one super-step, computed from the whole state. Nodes merge by name: count, x, y.
func (w wholeState) round() wholeState {
	w = w.copy()
	n := w.N
	w.Left--
	w.N++
	for _, who := range []string{"x", "y"} {
		w.Items = append(w.Items, fmt.Sprint(who, n))
		if n%3 == 0 {
			delete(w.Pairs, fmt.Sprint(who, (n+2)%4))
		}
		w.Pairs[fmt.Sprint(who, n%4)] = n
		if n%17 == 16 && who == "x" {
			w.Pairs["seventeen"] = n
		}
	}
	return w
}

// canonical is a state's JSON with nothing left out.
func (w wholeState) canonical() string {
	if w.Items == nil {
		w.Items = []string{}
	}
	if w.Pairs == nil {
		w.Pairs = map[string]int{}
	}
	return compact(w)
}

func wholeOf(t testing.TB, values []byte) string {
	t.Helper()
	var w wholeState
	d := json.NewDecoder(bytes.NewReader(values))
	d.DisallowUnknownFields()
	if err := d.Decode(&w); err != nil {
		t.Fatalf("%s: %v", values, err)
	}
	return w.canonical()
}

// forksOfForks makes branches from branches at random points with random edits. A reader with nothing in memory must
// see, at every checkpoint there ever was, the state that was computed in full.
func forksOfForks(t *testing.T, h *home, seed uint64, forks int) {
	t.Helper()
	ctx, rng := context.Background(), rand.New(rand.NewPCG(seed, 8))
	g := atDepth(t, branches())
	db, id := h.open(t), fmt.Sprint("branches ", seed)
	th := g.Thread(engine(t, db, nil, g), id)
	states := map[string]wholeState{} // by checkpoint
	var known []*pawl.Snapshot
	// learn computes what the new checkpoints hold: the first is given, each next one is a round on.
	learn := func(first wholeState) {
		h := history(t, th)
		grew(t, known, h)
		known = h
		at := first
		for i := len(h) - 1; i >= 0; i-- {
			s := h[i]
			if _, ok := states[s.Checkpoint]; ok {
				continue
			}
			if s.Source == "loop" && s.Step > 0 {
				at = states[s.Parent].round()
			}
			states[s.Checkpoint] = at.copy()
		}
	}
	start := wholeState{Left: 6 + rng.IntN(30), Pairs: map[string]int{}}
	out, err := th.Run(ctx, &branching{Left: pawl.Of(start.Left)})
	mustBeDone(t, out, err)
	learn(start)
	for range forks {
		if len(known) == 0 {
			t.Fatal("there is no history")
		}
		from := known[rng.IntN(len(known))]
		for from.Source == "input" || len(from.Next) == 0 || from.Next[0] == pawl.Start {
			from = known[rng.IntN(len(known))]
		}
		now := states[from.Checkpoint].copy()
		left, mark, key := 1+rng.IntN(4), fmt.Sprint("edit ", rng.IntN(1000)), fmt.Sprint("x", rng.IntN(4))
		replace, flat := rng.IntN(4) == 0, levelOf(t).Depth == 0 // the state of a child is edited by JSON, which only adds
		if replace = replace && flat; replace {
			now.Items = nil
		}
		now.Left, now.Items = left, append(now.Items, mark)
		if flat {
			delete(now.Pairs, key)
		}
		out, err := th.Fork(ctx, pawl.Checkpoint(from.Checkpoint), func(s *branching) error {
			if s.Left.Set(left); replace {
				s.Items.Replace(mark)
			} else {
				s.Items.Add(mark)
			}
			if flat {
				s.Pairs.Delete(key)
			}
			return nil
		})
		mustBeDone(t, out, err)
		learn(now)
		same(t, fmt.Sprintf("seed %d: the branch that just ran", seed), wholeOf(t, out.Values), states[known[0].Checkpoint].canonical())
	}
	fresh := g.Thread(engine(t, h.open(t), nil, g), id)
	for _, s := range history(t, fresh) {
		if got, want := wholeOf(t, s.Values), states[s.Checkpoint].canonical(); s.Source != "input" && got != want {
			t.Fatalf("seed %d, step %d (%s) of checkpoint %s:\n got %s\nwant %s", seed, s.Step, s.Source, s.Checkpoint, got, want)
		}
	}
}
