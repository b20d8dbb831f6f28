package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl/storage"
)

// The hot path of a run: a sequence number, a value and a checkpoint of 300 bytes each.
var (
	benchKinds = []storage.Kind{
		{Name: "value", Key: []storage.Field{{Name: "id", Type: storage.Int}}, Fields: []storage.Field{
			{Name: "thread", Type: storage.Int}, {Name: "base", Type: storage.Int}, {Name: "channel", Type: storage.Text},
		}},
		{Name: "checkpoint", Key: []storage.Field{{Name: "id", Type: storage.Int}}, Fields: []storage.Field{
			{Name: "thread", Type: storage.Int}, {Name: "parent", Type: storage.Int}, {Name: "node", Type: storage.Text},
		}},
	}
	benchBody = make([]byte, 300)
)

func openBench(b *testing.B) *DB {
	b.Helper()
	db, err := Open(filepath.Join(b.TempDir(), "bench.db"), benchKinds...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	return db
}

// BenchmarkRaw is the floor: the same bytes in one row of one table.
func BenchmarkRaw(b *testing.B) {
	db := openBench(b)
	c, err := db.dial()
	if err != nil {
		b.Fatal(err)
	}
	defer c.close()
	if err := c.once("CREATE TABLE raw(id INTEGER PRIMARY KEY, body BLOB)"); err != nil {
		b.Fatal(err)
	}
	body := make([]byte, 2*len(benchBody))
	for i := 0; b.Loop(); i++ {
		mustDo(b, c, "BEGIN IMMEDIATE")
		mustDo(b, c, "INSERT INTO raw VALUES(?,?)", int64(i), body)
		mustDo(b, c, "COMMIT")
		if i%walPages == 0 {
			mustDo(b, c, "PRAGMA wal_checkpoint(PASSIVE)")
		}
	}
	perSecond(b)
}

// BenchmarkHandWritten is the three statements as a program without a generic Tx would write them.
func BenchmarkHandWritten(b *testing.B) {
	db := openBench(b)
	c, err := db.dial()
	if err != nil {
		b.Fatal(err)
	}
	defer c.close()
	for i := 0; b.Loop(); i++ {
		mustDo(b, c, "BEGIN IMMEDIATE")
		var seq int64
		err := c.rows("INSERT INTO lease(thread,seq) VALUES(?,?) ON CONFLICT(thread) DO UPDATE SET seq=seq+excluded.seq RETURNING seq",
			[]any{int64(1), int64(2)}, func(row []any) error { seq = row[0].(int64); return nil })
		if err != nil {
			b.Fatal(err)
		}
		mustDo(b, c, "INSERT INTO k_value(id,thread,base,channel,body) VALUES(?,?,?,?,?)", seq, int64(1), int64(0), "messages", benchBody)
		mustDo(b, c, "INSERT INTO k_checkpoint(id,thread,parent,node,body) VALUES(?,?,?,?,?)", seq-1, int64(1), int64(0), "agent", benchBody)
		mustDo(b, c, "COMMIT")
		if i%(walPages/4) == 0 {
			mustDo(b, c, "PRAGMA wal_checkpoint(PASSIVE)")
		}
	}
	perSecond(b)
}

// BenchmarkGenericTx is the same through a Tx, without the writer: what it costs that kinds are data.
func BenchmarkGenericTx(b *testing.B) {
	db := openBench(b)
	c, err := db.dial()
	if err != nil {
		b.Fatal(err)
	}
	defer c.close()
	fn := benchUpdate(func(seq int64) int64 { return seq }, 1)
	for i := 0; b.Loop(); i++ {
		mustDo(b, c, "BEGIN IMMEDIATE")
		t := &tx{db: db, conn: c, writable: true}
		if err := t.end(call(inside(b.Context()), t, fn)); err != nil {
			b.Fatal(err)
		}
		mustDo(b, c, "COMMIT")
		if i%(walPages/4) == 0 {
			mustDo(b, c, "PRAGMA wal_checkpoint(PASSIVE)")
		}
	}
	perSecond(b)
}

func mustDo(b *testing.B, c *conn, sql string, args ...any) {
	if _, err := c.do(sql, args...); err != nil {
		b.Fatal(sql, err)
	}
}

// perSecond reports transactions a second.
func perSecond(b *testing.B) {
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tx/s")
}

func benchUpdate(place func(seq int64) int64, thread int64) func(context.Context, storage.Tx) error {
	return func(_ context.Context, tx storage.Tx) error {
		seq, _, err := tx.Seq(thread, storage.AnyEpoch, 2)
		if err != nil {
			return err
		}
		if _, err := tx.Put("value", storage.Row{Key: []any{place(seq)}, Fields: []any{thread, int64(0), "messages"}, Body: benchBody}, storage.Absent()); err != nil {
			return err
		}
		_, err = tx.Put("checkpoint", storage.Row{Key: []any{place(seq)}, Fields: []any{thread, int64(0), "agent"}, Body: benchBody}, storage.Absent())
		return err
	}
}

// BenchmarkUpdate runs callers of threads of their own. Rows of one thread lie together, as the engine's do: then 64
// callers dirty 128 leaves of 4 KiB in one commit. Rows in the order of writing show what that costs.
func BenchmarkUpdate(b *testing.B) {
	for _, c := range []struct {
		callers int
		apart   bool
	}{{1, true}, {8, true}, {64, true}, {64, false}} {
		b.Run(fmt.Sprintf("callers=%d/threads-apart=%v", c.callers, c.apart), func(b *testing.B) {
			db := openBench(b)
			var threads, last atomic.Int64
			caller := func(next func() bool) {
				thread := threads.Add(1)
				place := func(seq int64) int64 { return thread<<32 | seq }
				if !c.apart {
					place = func(int64) int64 { return last.Add(1) }
				}
				fn := benchUpdate(place, thread)
				for next() {
					if err := db.Update(b.Context(), fn); err != nil {
						b.Error(err)
						return
					}
				}
			}
			if c.callers == 1 {
				caller(b.Loop)
			} else {
				b.SetParallelism((c.callers + 1) / runtime.GOMAXPROCS(0))
				b.RunParallel(func(pb *testing.PB) { caller(pb.Next) })
			}
			perSecond(b)
		})
	}
}

// BenchmarkView reads one row, and a chain of 100, each in a View of its own.
func BenchmarkView(b *testing.B) {
	db := openBench(b)
	err := db.Update(b.Context(), func(_ context.Context, tx storage.Tx) error {
		for i := range int64(10_000) {
			base := i
			if i%100 == 0 {
				base = 0
			}
			if _, err := tx.Put("value", storage.Row{Key: []any{i + 1}, Fields: []any{int64(1), base, "messages"}, Body: benchBody}, storage.Absent()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	for name, read := range map[string]func(storage.Tx) error{
		"get":  func(tx storage.Tx) error { _, _, err := tx.Get("value", int64(5000)); return err },
		"walk": func(tx storage.Tx) error { _, err := tx.Walk("value", 5000); return err },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := db.View(b.Context(), func(_ context.Context, tx storage.Tx) error { return read(tx) }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
