package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl/storage"
)

// TestNumbersAreTheRows: what a process remembers of a thread's last number is only a guess. Whoever wrote meanwhile, and
// whatever was undone, the next number is what the row says, and none is given to who lost the lease.
func TestNumbersAreTheRows(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "home.db")
	mine, other := open(t, path, nil), open(t, path, nil) // two homes on one file know as little of each other as two processes
	ctx, boom := context.Background(), errors.New("boom")
	const thread = 7
	lease := func(db *DB, op storage.LeaseOp, member string) (epoch int64) {
		if err := db.Update(ctx, func(_ context.Context, tx storage.Tx) error {
			l, _, err := tx.Lease(thread, op, member)
			epoch = l.Epoch
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return epoch
	}
	// numbers takes one number a call in one Update, which end ends.
	numbers := func(db *DB, epoch int64, end error, calls int) (out []int64) {
		err := db.Update(ctx, func(_ context.Context, tx storage.Tx) error {
			out = nil
			for range calls {
				n, ok, err := tx.Seq(thread, epoch, 1)
				if err != nil {
					return err
				}
				if !ok {
					n = -1
				}
				out = append(out, n)
			}
			return end
		})
		if !errors.Is(err, end) {
			t.Fatal(err)
		}
		return out
	}
	expect := func(when string, got []int64, want ...int64) {
		t.Helper()
		if len(got) != len(want) {
			t.Fatalf("%s: %v, want %v", when, got, want)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("%s: %v, want %v", when, got, want)
			}
		}
	}
	if _, err := mine.Join(ctx); err != nil {
		t.Fatal(err)
	}
	epoch := lease(mine, storage.Take, "gone") // no member: another may take it over
	expect("at first", numbers(mine, epoch, nil, 2), 1, 2)
	expect("again", numbers(mine, epoch, nil, 2), 3, 4)
	expect("undone", numbers(mine, epoch, boom, 2), 5, 6)
	expect("after what was undone", numbers(mine, epoch, nil, 1), 5)
	expect("another home, whoever owns the thread", numbers(other, storage.AnyEpoch, nil, 1), 6)
	expect("after the other's", numbers(mine, epoch, nil, 2), 7, 8)
	expect("an epoch that is over", numbers(mine, epoch-1, nil, 1), -1)
	taken := lease(other, storage.Take, "heir")
	expect("a zombie", numbers(mine, epoch, nil, 1), -1)
	expect("the heir", numbers(other, taken, nil, 1), 9)
	lease(other, storage.Drop, "heir")
	expect("let go", numbers(other, taken, nil, 1), -1)
	expect("let go, the zombie", numbers(mine, epoch, nil, 1), -1)
	back := lease(mine, storage.Take, "gone")
	expect("taken back", numbers(mine, back, nil, 1), 10)
	lease(other, storage.Forget, "")
	expect("forgotten", numbers(mine, back, nil, 1), -1)
	expect("anew", numbers(mine, storage.AnyEpoch, nil, 1), 1)
}
