package memdb_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/storage"
)

var step = storage.Kind{
	Name:   "step",
	Key:    []storage.Field{{Name: "id", Type: storage.Int}},
	Fields: []storage.Field{{Name: "thread", Type: storage.Int}},
}

var named = storage.Kind{
	Name:    "named",
	Key:     []storage.Field{{Name: "tenant", Type: storage.Text}, {Name: "id", Type: storage.Text}},
	Fields:  []storage.Field{{Name: "at", Type: storage.Int}},
	Indexes: []storage.Index{{Name: "by_at", Fields: []string{"at"}}},
}

// BenchmarkUpdate is the smallest useful commit of a run: numbers and two rows.
func BenchmarkUpdate(b *testing.B) {
	db, err := memdb.Open(step)
	if err != nil {
		b.Fatal(err)
	}
	ctx, body, thread := context.Background(), make([]byte, 100), int64(7)
	b.ReportAllocs()
	for b.Loop() {
		err := db.Update(ctx, func(_ context.Context, tx storage.Tx) error {
			first, _, err := tx.Seq(thread, storage.AnyEpoch, 2)
			if err != nil {
				return err
			}
			for i := range int64(2) {
				row := storage.Row{Key: []any{first + i}, Fields: []any{thread}, Body: body}
				if _, err := tx.Put("step", row, storage.Absent()); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkUpdateView is a commit and then a snapshot of it, which makes the next commit copy nodes.
func BenchmarkUpdateView(b *testing.B) {
	db, err := memdb.Open(step, named)
	if err != nil {
		b.Fatal(err)
	}
	ctx, id := context.Background(), int64(0)
	b.ReportAllocs()
	for b.Loop() {
		id++
		err := db.Update(ctx, func(_ context.Context, tx storage.Tx) error {
			_, err := tx.Put("step", storage.Row{Key: []any{id}, Fields: []any{id}}, storage.Absent())
			return err
		})
		if err == nil {
			err = db.View(ctx, func(_ context.Context, tx storage.Tx) error {
				_, _, err := tx.Get("step", id)
				return err
			})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRandomKeys fills a kind with 100,000 rows in random order, with an index.
func BenchmarkRandomKeys(b *testing.B) {
	ctx := context.Background()
	for b.Loop() {
		db, err := memdb.Open(named)
		if err != nil {
			b.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		for range 1000 {
			err := db.Update(ctx, func(_ context.Context, tx storage.Tx) error {
				for range 100 {
					row := storage.Row{Key: []any{"tenant", randomText(rng)}, Fields: []any{rng.Int64()}}
					if _, err := tx.Put("named", row, storage.Always()); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func randomText(rng *rand.Rand) string {
	b := make([]byte, 16)
	for i := range b {
		b[i] = 'a' + byte(rng.IntN(26))
	}
	return string(b)
}
