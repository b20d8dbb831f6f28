package local

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
)

// checkpointID makes a UUIDv7 that carries the checkpoint's number: 48 bits of milliseconds, 12 bits of the time
// below, 32 bits of number, 30 random ones. Text order is order of writing, whatever the clock does, as long as the
// caller never lets stamp fall.
func checkpointID(stamp time.Time, n int64) string {
	var id uuid.UUID
	ms := uint64(stamp.UnixMilli())
	below := uint64(stamp.Nanosecond()%1e6) * 4096 / 1e6
	binary.BigEndian.PutUint64(id[:8], ms<<16|7<<12|below)
	binary.BigEndian.PutUint64(id[8:], 2<<62|uint64(n)<<30|rand.Uint64N(1<<30))
	return id.String()
}

// NumberOf reads the number that a checkpoint id carries; false: it is no checkpoint id.
func NumberOf(id string) (int64, bool) {
	u, err := uuid.Parse(id)
	if err != nil || u.Version() != 7 {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(u[8:]) << 2 >> 32), true
}

// StampOf reads the time of an id, rounded up: an id made of it never falls below.
func StampOf(id string) time.Time {
	u, err := uuid.Parse(id)
	if err != nil {
		return time.Time{}
	}
	head := binary.BigEndian.Uint64(u[:8])
	return time.UnixMilli(int64(head >> 16)).Add(time.Duration(((head&0xfff)*1e6 + 4095) / 4096))
}
