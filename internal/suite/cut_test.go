package suite

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
)

// TestCut takes copies of the database and its WAL while a process writes, as a power cut leaves them, and cuts their
// WALs short: at each length the copy opens as it was at some earlier moment, and a whole one has all that was reported
// before it was taken.
func TestCut(t *testing.T) {
	t.Parallel()
	h, l := onDisk(t), newLedger(t)
	d := rand.New(rand.NewPCG(3, 0))
	dir, whole := t.TempDir(), []string{}
	cuts, refused := 0, 0
	for round := range 2 {
		k := spawn(t, "chaos", chaosProgram{Path: h.path, Ledger: l.path, Name: fmt.Sprint("p", round), Seed: uint64(round)})
		k.line()
		for range 2 {
			<-time.After(time.Duration(d.Int64N(int64(600 * time.Millisecond))))
			k.cmd.Process.Signal(syscall.SIGSTOP)
			stopped(t, k.cmd.Process.Pid)
			path := filepath.Join(dir, fmt.Sprintf("%d.db", len(whole)))
			copyHome(t, h.path, path, -1)
			whole = append(whole, path)
			n, r := (&cutHome{t: t, facts: (&chaos{t: t, ledger: l}).facts(), full: path}).check(d)
			cuts, refused = cuts+n, refused+r
			k.cmd.Process.Signal(syscall.SIGCONT)
		}
		k.kill()
	}
	t.Logf("%d copies, %d cuts of their WALs, %d of them refused", len(whole), cuts, refused)
}

// stopped waits until a process stands still.
func stopped(t *testing.T, pid int) {
	t.Helper()
	for range 1000 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Skipf("whether a process is stopped cannot be seen here: %v", err)
		}
		if _, rest, _ := strings.Cut(string(stat), ") "); strings.HasPrefix(rest, "T") {
			return
		}
		<-time.After(time.Millisecond)
	}
	t.Fatal("the process does not stop")
}

// copyHome copies a database and the first bytes of its WAL; -1: all of it.
func copyHome(t *testing.T, from, to string, wal int) {
	t.Helper()
	for _, end := range []string{"", "-wal"} {
		data, err := os.ReadFile(from + end)
		if end == "-wal" && errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil && end == "-wal" && wal >= 0 {
			data = data[:min(wal, len(data))]
		}
		if err == nil {
			err = os.WriteFile(to+end, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// cutHome is one copy, and what had been reported when it was taken.
type cutHome struct {
	t     *testing.T
	facts [][]string
	full  string
}

// check opens the whole copy, and copies of it with shorter WALs.
func (c *cutHome) check(d *rand.Rand) (cuts, refused int) {
	wal, err := os.ReadFile(c.full + "-wal")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		c.t.Fatal(err)
	}
	lengths := []int{0, 16, 32}
	if len(wal) > 32 {
		frame := 24 + int(binary.BigEndian.Uint32(wal[8:]))
		frames := (len(wal) - 32) / frame
		for range 8 {
			lengths = append(lengths, 32+frame*d.IntN(frames+1), d.IntN(len(wal)))
		}
	}
	short := c.full + "-short"
	var all []string
	for i, n := range append([]int{-1}, lengths...) {
		copyHome(c.t, c.full, short, n)
		db, err := sqlite.Open(short, pawl.Kinds()...)
		if refusal := (*storage.OpenError)(nil); errors.As(err, &refusal) && i > 0 {
			refused++
		} else if err != nil {
			c.t.Fatalf("cut at %d of %d: %v", n, len(wal), err)
		} else {
			have := c.contents(db, n)
			if i == 0 {
				all = have
				c.reported(db)
			}
			c.prefix(all, have, n)
			db.Close()
		}
		for _, end := range []string{"", "-wal", "-shm"} {
			os.Remove(short + end)
		}
	}
	return len(lengths), refused
}

// contents reads everything there is. Checkpoints come as text, in order.
func (c *cutHome) contents(db *sqlite.DB, cut int) (out []string) {
	if err := db.Check(c.t.Context()); err != nil {
		c.t.Errorf("cut at %d: %v", cut, err)
	}
	eng, err := pawl.NewEngine(db, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	defer eng.Close()
	g := (&chaosWorker{}).graph(1)
	for _, name := range chaosThreads[:2] {
		th := g.Thread(eng, name)
		s := statusOf(c.t, th)
		if s.Status == pawl.Running {
			c.t.Errorf("cut at %d: thread %s runs, and nobody is there", cut, name)
		}
		settled(c.t, s)
		for _, id := range checkpointsOf(c.t, db, name) {
			s, err := th.Snapshot(c.t.Context(), id)
			if err != nil {
				c.t.Errorf("cut at %d: %v", cut, err)
				continue
			}
			out = append(out, fmt.Sprintf("%s %08d %s", name, s.Seq, fixed(s)))
		}
	}
	slices.Sort(out)
	return out
}

// checkpointsOf lists all checkpoints of a thread, also those of attempts that were set aside.
func checkpointsOf(t *testing.T, db storage.DB, thread string) (ids []string) {
	t.Helper()
	err := db.View(t.Context(), func(_ context.Context, tx storage.Tx) error {
		ids = nil
		row, ok, err := tx.Get("thread", "", thread)
		if err != nil || !ok {
			return err
		}
		n := row.Fields[0].(int64)
		rows, err := tx.List("checkpoint", storage.Query{Range: storage.Range{From: n << 32, To: (n + 1) << 32}, NoBody: true})
		for _, row := range rows {
			id, bad := uuid.FromBytes(row.Fields[0].([]byte))
			ids, err = append(ids, id.String()), errors.Join(err, bad)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return ids
}

// prefix: what is there of a thread is what was written first.
func (c *cutHome) prefix(all, have []string, cut int) {
	for _, name := range chaosThreads[:2] {
		of := func(list []string) (out []string) {
			for _, s := range list {
				if strings.HasPrefix(s, name+" ") {
					out = append(out, s)
				}
			}
			return out
		}
		a, h := of(all), of(have)
		if len(h) > len(a) || !slices.Equal(a[:len(h)], h) {
			c.t.Errorf("cut at %d: thread %s has %d checkpoints that are not the first of %d", cut, name, len(h), len(a))
		}
	}
}

// reported: what a process was told before the copy was taken is in it.
func (c *cutHome) reported(db *sqlite.DB) {
	eng, err := pawl.NewEngine(db, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	defer eng.Close()
	steps := map[string]bool{}
	g := (&chaosWorker{}).graph(1)
	for _, f := range c.facts {
		switch {
		case f[0] == "taken" && f[2] != "gone":
			q, err := eng.FindQuestions(c.t.Context(), f[3], 2)
			if err != nil || len(q) != 1 || q[0].State != "answered" {
				c.t.Errorf("the answer to %s was taken; there is %+v, %v", f[3], q, err)
			}
		case f[0] == "end" && f[2] != "gone":
			s, err := g.Thread(eng, f[2]).Snapshot(c.t.Context(), f[4])
			if err != nil || string(s.Values) != f[6] {
				c.t.Errorf("run %s ended at %s; there is %+v, %v", f[3], f[4], s, err)
			}
		case f[0] == "rec":
			steps[f[2]] = true
		}
	}
	if len(steps) == 0 && len(c.facts) > 50 {
		c.t.Error("no step was ever reported")
	}
}
