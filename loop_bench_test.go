package pawl_test

import (
	"context"
	"math"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/storage"
)

type counter struct {
	N pawl.Sum[int64] `json:"n"`
}

// ring is a graph that goes round until its counter reaches n: n super-steps of one task.
func ring(b *testing.B, n int) *pawl.Graph[counter] {
	g, err := pawl.New[counter]("ring").
		Node("tick", func(_ context.Context, s *counter) error { s.N.Add(1); return nil }).
		Edge(pawl.Start, "tick").
		Route("tick", func(s *counter) []pawl.Next {
			if s.N.Get() >= int64(n) {
				return pawl.To(pawl.End)
			}
			return pawl.To("tick")
		}, "tick", pawl.End).
		Build()
	if err != nil {
		b.Fatal(err)
	}
	return g
}

func runRing(b *testing.B, db storage.DB) {
	b.ReportAllocs()
	eng, err := pawl.NewEngine(db, &pawl.Options{Limits: pawl.Limits{Steps: math.MaxInt}})
	if err != nil {
		b.Fatal(err)
	}
	defer eng.Close()
	g := ring(b, b.N)
	th := g.Thread(eng, "t")
	b.ResetTimer()
	out, err := th.Run(b.Context(), &counter{})
	b.StopTimer()
	if err != nil || out.State.N.Get() != int64(b.N) {
		b.Fatal(out, err)
	}
}

// BenchmarkSuperStep is one super-step of one task.
func BenchmarkSuperStep(b *testing.B) {
	b.Run("unkept", func(b *testing.B) { runRing(b, nil) })
	b.Run("memory", func(b *testing.B) {
		db, err := memdb.Open(pawl.Kinds()...)
		if err != nil {
			b.Fatal(err)
		}
		defer db.Close()
		runRing(b, db)
	})
}
