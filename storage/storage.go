// Package storage is the contract of a durable home for threads: what a driver must do, and what the engine may ask.
//
// A driver stores rows of declared kinds ([Kind]) and knows nothing of graphs. The rules of [DB.Update] hold on every
// driver and are proved by the one suite in storagetest.
package storage

import (
	"context"
	"time"
)

// MaxValue is the largest body, in bytes, that a row may carry. A larger one is refused with a [*TooLargeError]
// before anything is queued.
const MaxValue = 64 << 20

// DB is a durable home. It is safe for concurrent use.
type DB interface {
	// View runs fn on a snapshot: every read of fn sees the same state, and a commit made meanwhile is not seen.
	// Writes through its Tx fail with ErrReadOnly. The snapshot has a limited life; fn must not wait for anything.
	View(ctx context.Context, fn func(ctx context.Context, tx Tx) error) error

	// Update runs fn and makes what it wrote durable before it returns nil.
	//
	//  1. fn only reads and writes tx: no I/O, no waiting, no user code, no nested View or Update (ErrNested). It may
	//     run more than once, so it assigns captured variables last. Updates are serializable.
	//  2. ctx counts until fn starts; afterwards Update waits and reports the truth, even if ctx ends.
	//  3. The first error of a Tx method spends the Tx: the change is undone even if fn returns nil, and Update
	//     returns that first error. A missing row or a condition that does not hold is a result, not an error.
	//  4. An error, panic or Goexit of fn undoes fn alone and no other Update. A panic is returned as a *PanicError.
	//  5. nil: durable. *UnknownError: it may be durable; read back. Any other error: nothing was written.
	Update(ctx context.Context, fn func(ctx context.Context, tx Tx) error) error

	// Join makes the caller a member: an owner of leases that is alive until Close or until its process dies.
	Join(ctx context.Context) (Member, error)

	// Changed returns the current change number and a channel that is closed once a commit raises it above since.
	// Commits of this process wake it at once; commits of other processes within a fraction of a second. Numbers only
	// grow within one process; they mean nothing elsewhere.
	Changed(since uint64) (now uint64, wake <-chan struct{})

	// Info says what this home is, for people and for pawl doctor.
	Info() Info

	// Close waits for running calls, then frees everything. Calls made afterwards fail with ErrClosed. It leaves
	// members to their owners: a member not closed by then is dead.
	Close() error
}

// Info describes a home.
type Info struct {
	Driver  string // "memory", "sqlite"
	Where   string // file or address, without secrets; empty for memory
	Schema  int    // version of the layout
	Durable bool   // false: threads do not survive the process
}

// Member is one process (or one engine) that can own threads. Its liveness costs nothing per thread.
type Member interface {
	// ID is unique among all members that ever joined.
	ID() string
	// Close ends the membership. Leases that it still holds can be claimed by others from now on, exactly as if the
	// process had died.
	Close() error
}

// Tx reads and writes rows inside one View or Update. It must not be used after its function returned, nor by two
// goroutines at once. Bodies are opaque: encode before the Update, decode after it. Rows returned by a Tx belong to
// the caller; rows passed in are not kept.
type Tx interface {
	// Get returns the row of kind with that key. Missing: false, nil error.
	Get(kind string, key ...any) (Row, bool, error)

	// Put writes a row if the condition holds and says whether it did. See [If].
	Put(kind string, row Row, cond If) (bool, error)

	// Delete removes the rows of kind in a key range and returns how many. An empty [Range] is refused: it would
	// delete every row of every tenant.
	Delete(kind string, keys Range) (int, error)

	// List returns rows in the order of the query's index, at most Limit. See [Query].
	List(kind string, q Query) ([]Row, error)

	// Seq checks that thread is held at epoch and takes the next n (at least 1) sequence numbers of that thread,
	// returning the first. false: the thread has another epoch now; nothing was taken. The first number of a thread
	// is 1. Epoch AnyEpoch skips the check, for facts that come from outside the owner (answers, cancels); thread 0 is
	// the counter of the whole home, from which thread numbers are taken.
	Seq(thread, epoch int64, n int) (first int64, ok bool, err error)

	// Lease looks at, takes, drops or removes the ownership of a thread. See [LeaseOp].
	Lease(thread int64, op LeaseOp, member string) (Lease, bool, error)

	// Walk returns the rows of a kind whose key is a single Int, from id along its Int field named "base" until base
	// is 0, newest first. A missing link is a *MissingError. It is one statement on SQL drivers.
	Walk(kind string, id int64) ([]Row, error)

	// Now is the home's clock in UTC: the same at every call in one Tx. Deadlines are judged by it.
	Now() time.Time
}

// AnyEpoch makes [Tx.Seq] take numbers without owning the thread.
const AnyEpoch int64 = -1

// LeaseOp says what [Tx.Lease] does.
type LeaseOp int

const (
	// Look reads the lease; ok is false when the thread never had one.
	Look LeaseOp = iota
	// Take gives the lease to member if it is free, its owner is dead, or member has it already, and raises the epoch
	// by one. ok is false (and the current lease returned) when a living other member has it.
	Take
	// Drop frees the lease if member holds it; the epoch stays. ok says whether it did.
	Drop
	// Forget removes the lease and the thread's sequence altogether, whoever holds it: for deleting a thread.
	Forget
)

// Lease is the ownership of one thread.
type Lease struct {
	Owner string // member id, empty when free
	Epoch int64  // raised by every Take
	Seq   int64  // last sequence number taken, 0 at first
	Alive bool   // an owner is named and lives
}

// If is the condition of a [Tx.Put].
type If struct {
	mode ifMode
	rev  int64
}

type ifMode int

const (
	ifAny ifMode = iota
	ifAbsent
	ifRev
)

// Always puts whatever is there: insert or replace.
func Always() If { return If{} }

// Absent puts only when no row has that key, and no row has the values of a unique index.
func Absent() If { return If{mode: ifAbsent} }

// AtRev puts only when the row exists at that revision. The kind must be Revised.
func AtRev(rev int64) If { return If{mode: ifRev, rev: rev} }

// IsAbsent and Revision let drivers read a condition.
func (i If) IsAbsent() bool { return i.mode == ifAbsent }

// Revision returns the revision that the row must have, if the condition names one.
func (i If) Revision() (int64, bool) { return i.rev, i.mode == ifRev }

type aloneKey struct{}

// Alone asks for a transaction of its own: the Update made under this context is not folded with others.
func Alone(ctx context.Context) context.Context { return context.WithValue(ctx, aloneKey{}, true) }

// IsAlone says whether ctx came from [Alone]. For drivers.
func IsAlone(ctx context.Context) bool { v, _ := ctx.Value(aloneKey{}).(bool); return v }
