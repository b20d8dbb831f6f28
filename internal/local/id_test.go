package local

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/records"
)

func TestCheckpointIDs(t *testing.T) {
	t.Parallel()
	d := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		stamp := time.Unix(d.Int64N(1<<33), d.Int64N(1e9))
		n := d.Int64N(1 << 32)
		id := checkpointID(stamp, n)
		u, err := uuid.Parse(id)
		if err != nil || u.Version() != 7 || u.Variant() != uuid.RFC4122 {
			t.Fatalf("%s is no UUIDv7: %v", id, err)
		}
		if got, ok := NumberOf(id); !ok || got != n {
			t.Fatalf("%s carries %d, %v; want %d", id, got, ok, n)
		}
		back := StampOf(id)
		if off := stamp.Sub(back); off < -time.Microsecond || off > time.Microsecond {
			t.Fatalf("%s carries the time %v; want %v", id, back, stamp)
		}
		if again := StampOf(checkpointID(back, n)); !again.Equal(back) {
			t.Fatalf("the time of %s, put into an id again, became %v; want %v", id, again, back)
		}
	}
	first, second := checkpointID(year(2026), 1), checkpointID(year(2026), 1)
	if first == second {
		t.Error("two checkpoints of one number and time have one id")
	}
}

func TestWhatIsNoCheckpointID(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "x", uuid.NewString(), "order/1"} {
		if n, ok := NumberOf(id); ok {
			t.Errorf("%q carries %d", id, n)
		}
	}
	if !StampOf("x").IsZero() {
		t.Error("a text that is no id has a time")
	}
}

// Ids order as their numbers do: within a process, and in the next one, whatever the clocks of both say.
func TestIDsNeverFall(t *testing.T) {
	t.Parallel()
	d := rand.New(rand.NewPCG(3, 4))
	clocks := []time.Time{year(1990), year(2200), time.Unix(1<<31, 123_456_789)}
	for range 2000 {
		stamp := clocks[d.IntN(len(clocks))].Add(time.Duration(d.Int64N(1e10)))
		last, n := checkpointID(stamp, 41), int64(41)
		for range 3 { // three processes, one after the other
			head := &records.Stored{Checkpoint: &core.Checkpoint{N: n, ID: last}}
			h := NewHome(&Store{}, &Seen{Head: head, checkpoints: n}, "", thread, graph(), 0)
			for range 3 {
				number, id := h.Fresh()
				if number != n+1 || id <= last {
					t.Fatalf("checkpoint %d has the id %s after %s", number, id, last)
				}
				if got, ok := NumberOf(id); !ok || got != number {
					t.Fatalf("%s carries %d", id, got)
				}
				n, last = number, id
			}
		}
	}
}
