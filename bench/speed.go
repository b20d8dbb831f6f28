package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
)

// memory measures one super-step of one task without a disk. What else the machine does can only add to such a time, so the
// best of several runs is the figure; the middle one stands beside it.
func memory(l *lab) {
	measure := func(db func() storage.DB) (best float64, text string, allocations int64) {
		var all []float64
		for range max(l.rounds, 7) {
			r := superSteps(db)
			all, allocations = append(all, us(r)), r.AllocsPerOp()
		}
		best = slices.Min(all)
		return best, fmt.Sprintf("%.2f us (middle run %.2f), %d allocations", best, middle(all), allocations), allocations
	}
	best, text, allocations := measure(func() storage.DB { return nil })
	l.line("super-step, no storage", text, "2 us, 15 allocations", best <= 2 && allocations <= 15)
	_, text, _ = measure(l.inMemory)
	l.note("super-step, memory storage", text)
}

// superSteps runs one thread round a ring of one node.
func superSteps(db func() storage.DB) testing.BenchmarkResult {
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

func us(r testing.BenchmarkResult) float64 { return float64(r.NsPerOp()) / 1000 }

// commits measures super-steps on SQLite with FULL beside a raw begin, insert, commit of the same bytes. All take turns,
// and ratios are of one turn, so that a disk that is slower for a while is slower for all.
func commits(l *lab) {
	const n, callers, each = 2000, 64, 200
	var raw, hand, one, many, ofRaw, ofOne []float64
	for range max(l.rounds, 7) {
		r, o, m := l.raw(n, insertRow), l.steps(1, n), l.steps(callers, each)
		raw, one, many = append(raw, r), append(one, o), append(many, m)
		hand = append(hand, l.raw(n, "UPDATE lease SET seq=seq+1 WHERE thread=1 AND epoch=1", insertRow))
		ofRaw, ofOne = append(ofRaw, o/r), append(ofOne, m/o)
	}
	l.note("raw: begin, insert, commit (FULL)", fmt.Sprintf("%.0f/s", middle(raw)))
	l.note("by hand: begin, fence and number, insert, commit", fmt.Sprintf("%.0f/s, %.2f of raw", middle(hand), middle(hand)/middle(raw)))
	l.line("super-steps, SQLite FULL, one caller", fmt.Sprintf("%.0f/s, %.2f of raw", middle(one), middle(ofRaw)), "0.65 of raw", middle(ofRaw) >= 0.65)
	l.line("super-steps, SQLite FULL, 64 callers", fmt.Sprintf("%.0f/s, %.1f times one caller", middle(many), middle(ofOne)), "5 times one, 15,000/s",
		middle(ofOne) >= 5 && middle(many) >= 15_000)
}

// middle is the median.
func middle(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

// steps runs that many super-steps on each of several threads at once, and returns how many there were a second.
func (l *lab) steps(callers, each int) (second float64) {
	db, _ := l.file()
	with(db, unlimited(), func(eng *pawl.Engine) {
		g := ring(each, nil)
		begin := time.Now()
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() { run(eng, g, fmt.Sprint("t", i), each) })
		}
		wg.Wait()
		second = float64(callers*each) / time.Since(begin).Seconds()
	})
	return second
}

// insertRow writes about the bytes of a super-step.
var insertRow = "INSERT INTO r (body) VALUES ('" + text(200) + "')"

// raw commits n transactions of these statements and returns how many there were a second.
func (l *lab) raw(n int, statements ...string) float64 {
	path := filepath.Join(must(os.MkdirTemp(l.dir, "raw")), "raw.db")
	db := must(sql.Open("sqlite", "file:"+path+"?_pragma=page_size(4096)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"))
	defer db.Close()
	db.SetMaxOpenConns(1)
	ctx := context.Background()
	must(db.ExecContext(ctx, `CREATE TABLE r (id INTEGER PRIMARY KEY, body BLOB NOT NULL);
		CREATE TABLE lease (thread INTEGER PRIMARY KEY, owner TEXT, epoch INTEGER, seq INTEGER); INSERT INTO lease VALUES (1, 'x', 1, 0)`))
	conn := must(db.Conn(ctx))
	defer conn.Close()
	var prepared []*sql.Stmt
	for _, s := range append(append([]string{"BEGIN IMMEDIATE"}, statements...), "COMMIT") {
		prepared = append(prepared, must(conn.PrepareContext(ctx, s)))
	}
	begin := time.Now()
	for range n {
		for _, s := range prepared {
			must(s.ExecContext(ctx))
		}
	}
	return float64(n) / time.Since(begin).Seconds()
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
