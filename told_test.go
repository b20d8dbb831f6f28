package pawl_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/storage"
)

// mixture has a channel of every kind.
type mixture struct {
	Last  pawl.Last[string]         `json:"last"`
	List  pawl.Append[string]       `json:"list"`
	Map   pawl.Map[string, int]     `json:"map"`
	Whole pawl.Sum[int64]           `json:"whole"`
	Count pawl.Sum[uint64]          `json:"count"`
	Part  pawl.Sum[float64]         `json:"part"`
	Max   pawl.Fold[int64, largest] `json:"max"`
	Flash pawl.Ephemeral[string]    `json:"flash"`
	Pass  pawl.Once[string]         `json:"pass"`
	Long  pawl.Append[string]       `json:"long"`
}

type largest struct{}

func (largest) Fold(old, in int64) int64 { return max(old, in) }

// scribbles writes to some channels, often what they hold already.
func scribbles(r *rand.Rand, s *mixture) {
	word := strings.Repeat("x", r.IntN(40))
	for _, write := range []func(){
		func() { s.Last.Set(word) }, func() { s.List.Add(word) }, func() { s.List.Replace(word) },
		func() { s.Map.Set(fmt.Sprint(r.IntN(3)), r.IntN(3)) }, func() { s.Map.Delete("1") },
		func() { s.Whole.Add(r.Int64N(5) - 2) }, func() { s.Count.Add(r.Uint64N(3)) }, func() { s.Part.Add(r.Float64()) },
		func() { s.Max.Add(r.Int64N(9)) }, func() { s.Flash.Set(word) }, func() { s.Pass.Put(word) }, func() { s.Pass.Take() },
		func() { s.Long.Add(strings.Repeat("long", 300)) },
	} {
		if r.IntN(5) == 0 {
			write()
		}
	}
}

// What a task wrote is stored once: where the difference of two checkpoints tells it, nothing more is. Graphs of random
// tasks, some beside each other, some that wait, show that what is read back is what was told while it happened.
func TestWhatADifferenceTells(t *testing.T) {
	t.Parallel()
	told, listed := 0, 0
	for seed := range uint64(60) {
		db, err := memdb.Open(pawl.Kinds()...)
		if err != nil {
			t.Fatal(err)
		}
		eng, err := pawl.NewEngine(db, nil)
		if err != nil {
			t.Fatal(err)
		}
		th := eng.Thread(scribbler(t, eng, seed), "t")
		streamed := streamedRun(t, th, `{"last":"x","whole":1}`)
		for range 8 {
			s, err := th.State(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if s.Status != pawl.Waiting {
				break
			}
			streamed = append(streamed, streamedVerb(t, th.Resume, pawl.AnswerWith("", "yes"))...)
		}
		stored := factsUpTo(t, th, streamed[len(streamed)-1].Seq)
		asStored(t, streamed, stored)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		a, b := howMerged(t, db)
		told, listed = told+a, listed+b
		if err := errors.Join(eng.Close(), db.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if told < 100 || listed < 100 {
		t.Errorf("%d checkpoints tell by their difference, %d list what was written; the graphs are to need both", told, listed)
	}
}

// scribbler registers a graph of random tasks: a circle of which some nodes have company, and one asks.
func scribbler(t *testing.T, eng *pawl.Engine, seed uint64) string {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 0))
	node := func(name string, only bool) func(context.Context, *mixture) error {
		turn := uint64(0)
		return func(ctx context.Context, s *mixture) error {
			if name == "n2" {
				if _, err := okay.Ask(ctx, "go on?", pawl.Key(fmt.Sprint(len(logOf(&s.Long))))); err != nil {
					return err
				}
			}
			turn++
			if only {
				scribbles(rand.New(rand.NewPCG(seed, turn<<8|uint64(name[1]))), s)
			} else if turn%2 == 0 {
				s.Whole.Add(1)
			}
			s.Long.Add(name)
			return nil
		}
	}
	b := pawl.New[mixture]("scribbler").Edge(pawl.Start, "n0")
	for i := range 4 {
		name := fmt.Sprintf("n%d", i)
		b.Node(name, node(name, true), pawl.Uses(okay))
		if i > 0 && r.IntN(3) == 0 {
			company := fmt.Sprintf("o%d", i)
			b.Node(company, node(company, false)).Edge(fmt.Sprintf("n%d", i-1), company)
		}
		if i < 3 {
			b.Edge(name, fmt.Sprintf("n%d", i+1))
		}
	}
	b.Route("n3", func(s *mixture) []pawl.Next {
		if len(logOf(&s.Long)) > 20 {
			return pawl.To(pawl.End)
		}
		return pawl.To("n0")
	}, "n0", pawl.End)
	g := must(t, b)
	if err := eng.Register(g); err != nil {
		t.Fatal(err)
	}
	return g.Name()
}

// factsUpTo are the stored facts up to a number.
func factsUpTo(t *testing.T, th *pawl.Thread, last int64) (out []pawl.Event) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for e, err := range th.Watch(ctx, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if out = append(out, e); e.Seq >= last {
			break
		}
	}
	return out
}

// howMerged counts the checkpoints that tell what their task wrote by their difference, and those that list it.
func howMerged(t *testing.T, db *memdb.DB) (told, listed int) {
	t.Helper()
	err := db.View(t.Context(), func(_ context.Context, tx storage.Tx) error {
		rows, err := tx.List(records.Checkpoint, storage.Query{})
		for _, row := range rows {
			if bytes.Contains(row.Body, []byte(`"u":1}`)) {
				told++
			} else if bytes.Contains(row.Body, []byte(`"u":[`)) {
				listed++
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return told, listed
}
