package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
)

// memory measures one super-step of one task without a disk.
func memory(l *lab) {
	measure := func(db func() storage.DB) testing.BenchmarkResult {
		return testing.Benchmark(func(b *testing.B) {
			b.ReportAllocs()
			g := count(b.N)
			with(db(), unlimited(), func(eng *pawl.Engine) {
				out, err := g.Thread(eng, "t").Run(context.Background(), &counter{})
				if err != nil || out.State.N.Get() != int64(b.N) {
					fail(fmt.Errorf("%d super-steps: %v, %v", b.N, out, err))
				}
			})
		})
	}
	r := measure(func() storage.DB { return nil })
	l.line("super-step, no storage", fmt.Sprintf("%.2f us, %d allocations", us(r), r.AllocsPerOp()), "2 us, 15 allocations",
		us(r) <= 2 && r.AllocsPerOp() <= 15)
	r = measure(l.inMemory)
	l.note("super-step, memory storage", fmt.Sprintf("%.2f us, %d allocations", us(r), r.AllocsPerOp()))
}

func us(r testing.BenchmarkResult) float64 { return float64(r.NsPerOp()) / 1000 }

// commits measures super-steps on SQLite with FULL beside a raw begin, insert, commit of the same bytes.
func commits(l *lab) {
	const n = 2000
	raw := perSecond(n, l.median(func() time.Duration { return l.raw(n) }))
	one := perSecond(n, l.median(func() time.Duration {
		db, _ := l.file()
		var took time.Duration
		with(db, unlimited(), func(eng *pawl.Engine) {
			g := ring(n, nil)
			begin := time.Now()
			run(eng, g, "t", n)
			took = time.Since(begin)
		})
		return took
	}))
	const callers, each = 64, 200
	many := perSecond(callers*each, l.median(func() time.Duration {
		db, _ := l.file()
		var took time.Duration
		with(db, unlimited(), func(eng *pawl.Engine) {
			g := ring(each, nil)
			begin := time.Now()
			var wg sync.WaitGroup
			for i := range callers {
				wg.Go(func() { run(eng, g, fmt.Sprint("t", i), each) })
			}
			wg.Wait()
			took = time.Since(begin)
		})
		return took
	}))
	l.note("raw: begin, insert, commit (FULL)", fmt.Sprintf("%.0f/s", raw))
	l.line("super-steps, SQLite FULL, one caller", fmt.Sprintf("%.0f/s, %.2f of raw", one, one/raw), "0.65 of raw", one/raw >= 0.65)
	l.line("super-steps, SQLite FULL, 64 callers", fmt.Sprintf("%.0f/s, %.1f times one caller", many, many/one), "5 times one, 15,000/s",
		many/one >= 5 && many >= 15_000)
}

func perSecond(n int, d time.Duration) float64 { return float64(n) / d.Seconds() }

// raw commits n rows of about the bytes of a super-step, one transaction each.
func (l *lab) raw(n int) time.Duration {
	path := filepath.Join(must(os.MkdirTemp(l.dir, "raw")), "raw.db")
	db := must(sql.Open("sqlite", "file:"+path+"?_pragma=page_size(4096)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"))
	defer db.Close()
	db.SetMaxOpenConns(1)
	ctx := context.Background()
	must(db.ExecContext(ctx, "CREATE TABLE r (id INTEGER PRIMARY KEY, body BLOB NOT NULL)"))
	conn := must(db.Conn(ctx))
	defer conn.Close()
	insert := must(conn.PrepareContext(ctx, "INSERT INTO r (body) VALUES (?)"))
	body := []byte(text(200))
	begin := time.Now()
	for range n {
		must(conn.ExecContext(ctx, "BEGIN IMMEDIATE"))
		must(insert.ExecContext(ctx, body))
		must(conn.ExecContext(ctx, "COMMIT"))
	}
	return time.Since(begin)
}

// sends measures a fan-out of 1,000 and 10,000 tasks in memory.
func sends(l *lab) {
	per := map[int]float64{}
	for _, n := range []int{1_000, 10_000} {
		want := int64(n) * int64(n-1) / 2
		d := l.median(func() time.Duration {
			var took time.Duration
			with(l.inMemory(), unlimited(), func(eng *pawl.Engine) {
				g := fan(n)
				begin := time.Now()
				out, err := g.Thread(eng, "t").Run(context.Background(), &state{})
				took = time.Since(begin)
				if err != nil || out.State.N.Get() != want {
					fail(fmt.Errorf("fan of %d: %v, %v", n, out, err))
				}
			})
			return took
		})
		per[n] = float64(d.Microseconds()) / float64(n)
	}
	l.line("10,000 sends, memory storage", fmt.Sprintf("%.1f us a task (%.1f at 1,000)", per[10_000], per[1_000]),
		"10 us a task, linear", per[10_000] <= 10 && per[10_000] <= 2*per[1_000])
}
