package suite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/nest"
)

// keys are the task keys that nodes told their ledger, one an entry.
func keys(l *ledger) []string {
	var out []string
	for _, row := range l.rows() {
		if key, ok := strings.CutPrefix(row, "key="); ok {
			out = append(out, key)
		}
	}
	return out
}

func distinct(list []string) int { return len(slices.Compact(slices.Sorted(slices.Values(list)))) }

// isKeyOf says whether a path names this node at the root, and nothing else.
func isKeyOf(node, path string) bool {
	id, ok := strings.CutPrefix(path, node+":")
	return ok && id != "" && !strings.ContainsAny(id, ":|")
}

// rounds is a node that runs in three super-steps.
func rounds(t testing.TB, told func(key string)) *nest.Graph[loops] {
	return atDepth(t, pawl.New[loops]("rounds").
		Node("round", func(ctx context.Context, s *loops) error {
			told(pawl.TaskKey(ctx))
			s.Rounds.Add(1)
			return nil
		}).
		Edge(pawl.Start, "round").
		Route("round", again(3), "round", pawl.End))
}

// answerAll runs a thread that asks until it is done, and returns what it looked like at its last pause.
func answerAll(t testing.TB, th *pawl.Thread) []*pawl.Snapshot {
	t.Helper()
	out, err := th.Run(context.Background(), []byte("{}"))
	var before []*pawl.Snapshot
	for err == nil && out.Status == pawl.Waiting {
		before = history(t, th)
		out, err = th.Resume(context.Background(), pawl.AnswerWith(out.Waiting[0].ID, "yes"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return before
}

func taskKeys(t *testing.T, r *report) {
	onEach(t, func(t *testing.T, h *home) {
		eng := engine(t, h.open(t), nil)
		resumed := newLedger(t)
		th := two(t, resumed).Thread(eng, "t")
		before := answerAll(t, th.Thread)
		same(t, "entries", len(keys(resumed)), 3)
		same(t, "distinct keys", distinct(keys(resumed)), 1)
		key := keys(resumed)[0]
		same(t, "the key names the node "+key, isKeyOf("two_questions", innermost(key)), true)
		stand(t, th, pawl.Done, 3, before)

		looped := newLedger(t)
		if _, err := rounds(t, func(key string) { looped.add("key=" + key) }).Thread(eng, "l").Run(t.Context(), &loops{}); err != nil {
			t.Fatal(err)
		}
		same(t, "entries of the loop", len(keys(looped)), 3)
		same(t, "distinct keys of the loop", distinct(keys(looped)), 3)
		r.line(5, "task keys: two resumes %d distinct, three loop rounds %d distinct", distinct(keys(resumed)), distinct(keys(looped)))

		answerAll(t, eng.Thread("two", "another"))
		same(t, "distinct keys of two threads", distinct(keys(resumed)), 2)

		if _, err := th.Fork(t.Context(), pawl.Before("two_questions"), nil); err != nil {
			t.Fatal(err)
		}
		same(t, "distinct keys after a fork", distinct(keys(resumed)), 3)
		grew(t, before, history(t, th))
	})
	t.Run("an operation's key", func(t *testing.T) { onEach(t, operationKeyIsNoTaskKey) })
	t.Run("tries", keysOverTries)
	t.Run("in children", keysInChildren)
	t.Run("workers", keysOfWorkers)
	t.Run("killed between the answers", keysOverADeath)
}

func keysOverTries(t *testing.T) {
	onEach(t, func(t *testing.T, h *home) {
		counts := newLedger(t)
		th := two(t, counts, pawl.Tries(2), pawl.Backoff(0, 0)).Thread(engine(t, h.open(t), nil), "t")
		before := answerAll(t, th.Thread)
		same(t, "entries", len(keys(counts)), 4)
		same(t, "distinct keys", distinct(keys(counts)), 1)
		stand(t, th, pawl.Done, 3, before)
	})
}

func keysOfWorkers(t *testing.T) {
	onEach(t, func(t *testing.T, h *home) {
		counts := newLedger(t)
		w := pawl.NewWorker("worker", func(ctx context.Context, _ *loops, _ int) error {
			counts.add("key=" + pawl.TaskKey(ctx))
			return nil
		})
		g := atDepth(t, pawl.New[loops]("fan").Add(w).
			Route(pawl.Start, func(*loops) []pawl.Next { return w.Each([]int{7, 7}) }, "worker").
			Edge("worker", pawl.End))
		th := g.Thread(engine(t, h.open(t), nil), "t")
		if _, err := th.Run(t.Context(), &loops{}); err != nil {
			t.Fatal(err)
		}
		same(t, "entries", len(keys(counts)), 2)
		same(t, "distinct keys", distinct(keys(counts)), 2)
		for _, k := range keys(counts) {
			same(t, "the key names the worker "+k, isKeyOf("worker", innermost(k)), true)
		}
		stand(t, th, pawl.Done, 3, nil)
	})
}

func keysOverADeath(t *testing.T) {
	three(t, func(t *testing.T) string {
		h, counts := onDisk(t), newLedger(t)
		c := spawn(t, "000-keys", []string{h.path, counts.path})
		same(t, "the process waits", c.line(), "second?")
		c.kill()
		th := two(t, counts).Thread(engine(t, h.open(t), nil), "t")
		before := history(t, th)
		if _, err := th.Resume(t.Context(), pawl.AnswerWith("", "yes")); err != nil {
			t.Fatal(err)
		}
		same(t, "entries", len(keys(counts)), 3)
		same(t, "distinct keys", distinct(keys(counts)), 1)
		stand(t, th, pawl.Done, 3, before)
		return fmt.Sprint(len(keys(counts)), distinct(keys(counts)))
	})
}

// keysThenWait runs S000-3's graph up to its second question, and waits for its death.
func keysThenWait(doc []byte) {
	a := args[[]string](doc)
	t := &inChild{}
	eng := childEngine(a[0], nil)
	th := two(t, &ledger{a[1]}).Thread(eng, "t")
	must(th.Run(context.Background(), &job{}))
	out := must(th.Resume(context.Background(), pawl.AnswerWith("", "yes")))
	fmt.Println(strings.Trim(string(out.Waiting[0].Body), `"`))
	select {}
}

// inChild lets a child use what tests use to build graphs; a failure ends it.
type inChild struct{ testing.TB }

// Name is that of the test that spawned it.
func (*inChild) Name() string { return os.Getenv("PAWL_SUITE_TEST") }

func (*inChild) Helper()        {}
func (*inChild) Fatal(v ...any) { must(0, errors.New(fmt.Sprint(v...))) }

// uniqueTable is a user's own table, in a database of its own.
type uniqueTable struct{ *sql.DB }

func newUniqueTable(t *testing.T) uniqueTable {
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "user.db"))
	if err == nil {
		_, err = db.Exec("CREATE TABLE job (key TEXT NOT NULL UNIQUE)")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return uniqueTable{db}
}

// insert says whether the key was new.
func (u uniqueTable) insert(key string) bool {
	_, err := u.Exec("INSERT INTO job (key) VALUES (?)", key)
	return err == nil
}

func (u uniqueTable) rows(t *testing.T) (n int) {
	if err := u.QueryRow("SELECT count(*) FROM job").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func keyInUsersTable(t *testing.T, _ *report) {
	onEach(t, func(t *testing.T, h *home) {
		eng := engine(t, h.open(t), nil)
		first, second := pawl.Interrupt[string, string]{Name: "first"}, pawl.Interrupt[string, string]{Name: "second"}
		asks, refused := newUniqueTable(t), 0
		g := atDepth(t, pawl.New[job]("asks").
			Node("two_questions", func(ctx context.Context, s *job) error {
				if !asks.insert(pawl.TaskKey(ctx)) {
					refused++
				}
				if _, err := first.Ask(ctx, "first?"); err != nil {
					return err
				}
				_, err := second.Ask(ctx, "second?")
				return err
			}, pawl.Uses(first, second)).
			Path(pawl.Start, "two_questions", pawl.End))
		th := g.Thread(eng, "t")
		before := answerAll(t, th.Thread)
		same(t, "rows", asks.rows(t), 1)
		same(t, "refused inserts", refused, 2)
		stand(t, th, pawl.Done, 3, before)

		looped, refused := newUniqueTable(t), 0
		loop := rounds(t, func(key string) {
			if !looped.insert(key) {
				refused++
			}
		}).Thread(eng, "l")
		if _, err := loop.Run(t.Context(), &loops{}); err != nil {
			t.Fatal(err)
		}
		same(t, "rows of the loop", looped.rows(t), 3)
		same(t, "refused inserts of the loop", refused, 0)
		stand(t, loop, pawl.Done, 5, nil)
	})
}
