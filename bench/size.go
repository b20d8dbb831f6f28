package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/pawl-dev/pawl"
)

// bytes measures what a conversation adds to a database file beside what was said in it: two channels are written a
// message, the list and a counter. The empty file, a page for each table and index, is printed and subtracted.
func bytes(l *lab) {
	db, path := l.file()
	with(db, nil, func(eng *pawl.Engine) { run(eng, ring(1, nil), "warm", 1) })
	empty := size(path)
	l.note("a database with one thread of one step", fmt.Sprintf("%d KB", empty/1024))
	for _, c := range []struct {
		size  int
		ratio float64
	}{{1024, 1.5}, {100, 3}} {
		at := map[int]float64{}
		for _, n := range []int{500, 1_000} {
			db, path := l.file()
			message := text(c.size)
			with(db, unlimited(), func(eng *pawl.Engine) {
				run(eng, ring(n, func(s *state) { s.Messages.Add(message) }), "t", n)
			})
			at[n] = float64(size(path)-empty) / float64(n*c.size)
		}
		l.line(fmt.Sprintf("1,000 messages of %d bytes in one thread", c.size),
			fmt.Sprintf("%.2f times what was said (%.2f at 500)", at[1_000], at[500]),
			fmt.Sprintf("%.1f times, linear", c.ratio), at[1_000] <= c.ratio && at[1_000] <= 1.2*at[500] && at[500] <= 1.2*at[1_000])
	}
}

// size is what a database takes on disk, its log included.
func size(path string) int64 {
	total := int64(0)
	for _, p := range []string{path, path + "-wal"} {
		info, err := os.Stat(p)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		total += must(info, err).Size()
	}
	return total
}

// depth measures reading the head and forking from the middle of histories of growing length.
func depth(l *lab) {
	load, fork := map[int]time.Duration{}, map[int]time.Duration{}
	depths := []int{10, 1_000, 10_000}
	for _, n := range depths {
		db, _ := l.file()
		with(db, unlimited(), func(eng *pawl.Engine) {
			g := ring(n, func(s *state) { s.Note.Set(text(1000)) })
			run(eng, g, "t", n)
			th := g.Thread(eng, "t")
			ctx := context.Background()
			load[n] = l.median(func() time.Duration {
				begin := time.Now()
				for range 20 {
					must(th.State(ctx))
				}
				return time.Since(begin) / 20
			})
			page := must(th.History(ctx, pawl.Page{Limit: n / 2}))
			middle := pawl.Checkpoint(page[len(page)-1].Checkpoint)
			fork[n] = l.median(func() time.Duration {
				begin := time.Now()
				for range 20 {
					must(th.Replay(ctx, middle, pawl.Hold()))
				}
				return time.Since(begin) / 20
			})
		})
	}
	show := func(m map[int]time.Duration) string {
		return fmt.Sprintf("%v / %v / %v", m[10].Round(time.Microsecond), m[1_000].Round(time.Microsecond), m[10_000].Round(time.Microsecond))
	}
	flat := func(m map[int]time.Duration) bool { return m[10_000] <= 2*m[10] && m[1_000] <= 2*m[10] }
	l.line("load at 10 / 1,000 / 10,000 checkpoints", show(load), "flat within 2 times", flat(load))
	l.line("fork at 10 / 1,000 / 10,000 checkpoints", show(fork), "flat within 2 times", flat(fork))
}
