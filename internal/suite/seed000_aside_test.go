package suite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// everyRow is a database byte for byte: the rows of every kind of the engine, and who holds which thread.
func everyRow(t testing.TB, db storage.DB) string {
	t.Helper()
	var text string
	err := db.View(context.Background(), func(_ context.Context, tx storage.Tx) error {
		var b strings.Builder
		for _, kind := range pawl.Kinds() {
			rows, err := tx.List(kind.Name, storage.Query{})
			if err != nil {
				return err
			}
			for _, row := range rows {
				fmt.Fprintf(&b, "%s %q %q %d %q\n", kind.Name, row.Key, row.Fields, row.Rev, row.Body)
				if kind.Name != records.Thread {
					continue
				}
				lease, _, err := tx.Lease(row.Fields[0].(int64), storage.Look, "")
				if err != nil {
					return err
				}
				fmt.Fprintf(&b, "lease %+v\n", lease)
			}
		}
		text = b.String()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// retriesRefused retries where that is not allowed: the database stays as it was, byte for byte.
func retriesRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		column string
		retry  func(*stage) error
		want   func(*testing.T, error)
	}{
		{"by somebody who does not own it", "failed: error", func(s *stage) error {
			mine := func(_ context.Context, v pawl.VerbInfo) error {
				if v.Actor.ID != "owner" {
					return errors.New("this thread is the owner's")
				}
				return nil
			}
			eng := engine(s.t, s.db, &pawl.Options{Allow: mine})
			_, err := s.graph.Thread(eng, "t").Retry(pawl.WithActor(s.t.Context(), pawl.Actor{ID: "somebody"}))
			return err
		}, wantIs(pawl.ErrDenied)},
		{"of another tenant", "failed: error", func(s *stage) error {
			eng := engine(s.t, s.db, nil, s.graph)
			_, err := eng.Tenant("another").Thread("deeds", "t").Retry(s.t.Context())
			return err
		}, wantIs(pawl.ErrNotFound)},
		{"waiting", "waiting", justRetry, wantVerb},
		{"done", "done", justRetry, wantVerb},
		{"while another worker holds it", "failed: concluded", func(s *stage) error {
			s.hold(func() error { _, err := s.th.Retry(context.Background()); return err })
			rows := everyRow(s.t, s.db)
			_, err := s.graph.Thread(engine(s.t, s.db, nil), "t").Retry(s.t.Context())
			same(s.t, "the database", everyRow(s.t, s.db), rows)
			return err
		}, wantIs(pawl.ErrBusy)},
	} {
		t.Run("refused, "+c.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, h *home) {
				s := newStage(t, h)
				s.reach(c.column)
				rows, entries := everyRow(t, s.db), len(s.counts.rows())
				c.want(t, c.retry(s))
				if s.held != nil {
					return // compared while it was held
				}
				same(t, "the database", everyRow(t, s.db), rows)
				same(t, "entries", len(s.counts.rows()), entries)
				settled(t, statusOf(t, s.th))
			})
		})
	}
}

func checksComeFirst(t *testing.T, _ *report) {
	retriesRefused(t)
	t.Run("stopped at every point of an allowed one", func(t *testing.T) {
		onEach(t, func(t *testing.T, h *home) {
			sweepRetry(t, func(t *testing.T) *home {
				if h.path == "" {
					return memory(t)
				}
				return onDisk(t)
			}, func(s *stage, point int) {
				db := fault.Wrap(s.db, fault.Plan{At: fault.At(point, fault.Stop())})
				eng := engine(s.t, db, nil)
				if _, err := s.graph.Thread(eng, "t").Retry(s.t.Context()); err == nil {
					s.t.Error("the retry did not notice that its home died")
				}
			})
		})
	})
	t.Run("killed at every point of an allowed one", func(t *testing.T) {
		three(t, func(t *testing.T) string {
			return sweepRetry(t, func(t *testing.T) *home { return onDisk(t) }, func(s *stage, point int) {
				killed(s.t, "000-retry", retryArgs{s.home.path, s.counts.path, point})
			})
		})
	})
}

func justRetry(s *stage) error { _, err := s.th.Retry(s.t.Context()); return err }

func wantIs(target error) func(*testing.T, error) {
	return func(t *testing.T, err error) {
		t.Helper()
		if !errors.Is(err, target) {
			t.Errorf("got %v, want %v", err, target)
		}
	}
}

func wantVerb(t *testing.T, err error) { t.Helper(); wantRefused(t, err, pawl.VerbRetry) }

type retryArgs struct {
	Path, Ledger string
	Point        int
}

// dieInRetry is a process that retries the thread and dies at a point of it.
func dieInRetry(doc []byte) {
	a := args[retryArgs](doc)
	db := fault.Wrap(must(sqlite.Open(a.Path, pawl.Kinds()...)), fault.Plan{At: fault.At(a.Point, fault.Do(killSelf))})
	g := must(deeds(levelHere(), &ledger{a.Ledger}, func(string) error { return nil }))
	must(g.Thread(must(pawl.NewEngine(db, nil)), "t").Retry(context.Background()))
}

// sweepRetry lets a retry die at each of its points, on a fresh home each time. Afterwards either the old attempt is
// whole and current, or the new one exists with its input. It returns which it was, point by point.
func sweepRetry(t *testing.T, home func(*testing.T) *home, die func(s *stage, point int)) string {
	whole := newStage(t, home(t))
	whole.reach("failed: concluded")
	counting := fault.Wrap(whole.db, fault.Plan{})
	if _, err := whole.graph.Thread(engine(t, counting, nil), "t").Retry(t.Context()); err != nil {
		t.Fatal(err)
	}
	var found []string
	for point := range counting.Calls() {
		t.Run(fmt.Sprint("point ", point), func(t *testing.T) {
			s := newStage(t, home(t))
			s.reach("failed: concluded")
			found = append(found, s.afterDeath(func() { die(s, point) }))
		})
	}
	if found[0] != "old" || !slices.Contains(found, "new") || !slices.IsSortedFunc(found, func(a, b string) int { return strings.Compare(b, a) }) {
		t.Errorf("the attempts that were current after each death: %q", found)
	}
	return fmt.Sprint(found)
}

// afterDeath checks what a retry left that died, and goes on from there.
func (s *stage) afterDeath(die func()) string {
	t := s.t
	was, before, rows := statusOf(t, s.th), history(t, s.th), everyRow(t, s.db)
	die()
	is := statusOf(t, s.th)
	settled(t, is)
	which, verb := "old", s.th.Retry
	if is.Attempt == was.Attempt {
		same(t, "the database", everyRow(t, s.db), rows)
		same(t, "status", is.Status, pawl.Failed)
	} else {
		which, verb = "new", s.th.Resume
		same(t, "the run", is.Run, was.Run)
		same(t, "its input is stored", is.Input, true)
		if is.Status != pawl.Crashed && is.Status != pawl.Done {
			t.Errorf("status %s, want crashed or done", is.Status)
		}
		aside, err := s.th.History(t.Context(), pawl.Page{Attempt: was.Attempt})
		if err != nil {
			t.Fatal(err)
		}
		same(t, "the old attempt", compact(aside), compact(before))
	}
	out, err := verb(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "state", string(out.Values), `{"do":"ok","rounds":1,"did":"ok"}`)
	stand(t, s.th, pawl.Done, 3, nil)
	return which
}

// Operations, their keys and the audit trail, which outlive a thread, wait for effects.
func deletingAThread(t *testing.T, _ *report) {
	t.Log("without operations and audit: waits for effects; without namespaces below the root: waits for children")
	onEach(t, func(t *testing.T, h *home) {
		db, world := h.open(t), newLedger(t)
		eng := engine(t, db, nil)
		g := submitAndWait(t, "paid", world, newLedger(t), true)
		th := g.Thread(eng, "gone")
		wait := func(th *pawl.Thread) *pawl.Outcome {
			t.Helper()
			out, err := th.Run(t.Context(), []byte("{}"))
			if err != nil || out.Status != pawl.Waiting {
				t.Fatalf("%+v, %v", out, err)
			}
			return out
		}
		neighbour, namesake := eng.Thread("paid", "gone2"), eng.Tenant("another").Thread("paid", "gone")
		wait(neighbour)
		wait(namesake)
		rows := everyRow(t, db)

		out := wait(th.Thread) // a journal, an answered question, a finished run, and an open question
		if _, err := th.Resume(t.Context(), approve().Answer(out.Waiting[0].ID, true)); err != nil {
			t.Fatal(err)
		}
		wait(th.Thread)
		if everyRow(t, db) == rows {
			t.Fatal("the thread left no row")
		}
		if err := th.Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
		same(t, "the database without the thread", everyRow(t, db), rows)
		same(t, "status", statusOf(t, th).Status, pawl.StatusNew)
		same(t, "snapshots", len(history(t, th)), 0)
		if err := eng.Thread("paid", "nobody").Delete(t.Context()); err != nil {
			t.Errorf("an unknown thread: %v", err)
		}
		same(t, "the database after a no-op", everyRow(t, db), rows)

		out = wait(th.Thread)
		same(t, "pending", bodies(out.Waiting), []string{fmt.Sprintf(`{"ask":"approve gpu-job-%d?"}`, len(world.rows()))})
		root := history(t, th)[1]
		same(t, "root", []any{root.Step, string(root.Values), root.Parent}, []any{-1, "{}", ""})
		stand(t, th, pawl.Waiting, 2, nil)
		stand(t, neighbour, pawl.Waiting, 2, nil)
		stand(t, namesake, pawl.Waiting, 2, nil)
	})
}
