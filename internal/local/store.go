// Package local is the engine's own host: one thread's run kept in a database. It owns the order of durability: a
// thread has one ordered queue, and nothing that names a task is on disk before the checkpoint that the task hangs
// from.
package local

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
)

var (
	// ErrFenced: the thread has another owner by now; nothing was written.
	ErrFenced = errors.New("pawl: the thread was taken over by another owner; nothing more was written here")
	// ErrMoved: the thread is not as it was seen; nothing was written. Look again and decide again.
	ErrMoved = errors.New("pawl: the thread changed meanwhile; nothing was written")
	// ErrTooMany: the limit of open questions is reached.
	ErrTooMany = errors.New("too many open questions")
)

// Store is a database as the engine uses it.
type Store struct {
	DB     storage.DB
	Box    records.Box
	Member string
	Stats  Stats

	mu   sync.Mutex
	owed map[int64]int64 // threads that are to be let go, by number, and the epochs that they were held at
}

// Stats measures durable writes.
type Stats struct {
	mu     sync.Mutex
	writes int
	least  time.Duration
	most   time.Duration
	recent [1024]time.Duration
	behind time.Duration
}

// Figures is a reading of Stats.
type Figures struct {
	Writes              int
	Least, Median, Most time.Duration // latency of durable writes; the median is of the last 1,024
	Window              time.Duration // longest time that finished work of a relaxed run waited for the disk
}

func (s *Stats) took(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writes == 0 || d < s.least {
		s.least = d
	}
	s.most = max(s.most, d)
	s.recent[s.writes%len(s.recent)] = d
	s.writes++
}

func (s *Stats) window(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behind = max(s.behind, d)
}

// Read returns the figures so far.
func (s *Stats) Read() Figures {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := Figures{Writes: s.writes, Least: s.least, Most: s.most, Window: s.behind}
	if n := min(s.writes, len(s.recent)); n > 0 {
		sorted := slices.Clone(s.recent[:n])
		slices.Sort(sorted)
		f.Median = sorted[n/2]
	}
	return f
}

// Update is DB.Update, measured, for functions that call nobody.
func (s *Store) Update(ctx context.Context, fn func(tx storage.Tx) error) error {
	return s.UpdateIn(ctx, func(_ context.Context, tx storage.Tx) error { return fn(tx) })
}

// UpdateIn is DB.Update, measured.
func (s *Store) UpdateIn(ctx context.Context, fn func(ctx context.Context, tx storage.Tx) error) error {
	begin := time.Now()
	err := s.DB.Update(ctx, fn)
	if err == nil {
		s.Stats.took(time.Since(begin))
	}
	return err
}

// View is DB.View.
func (s *Store) View(ctx context.Context, fn func(tx storage.Tx) error) error {
	return s.DB.View(ctx, func(_ context.Context, tx storage.Tx) error { return fn(tx) })
}

// Seen is where a thread stands, as read.
type Seen struct {
	Info                      *records.ThreadInfo // nil: there is no such thread
	Lease                     storage.Lease
	Status                    core.Status // crashed and new included
	Run                       *core.Run   // the current attempt; nil: none
	Head                      *records.Stored
	Topology                  *core.Topology // of the head
	Met                       *core.Topology // that, and in children that are not done those of their heads
	Inside                    []string       // paths of the nodes that ran, or are due, in children that are not done
	Open                      []core.Question
	checkpoints, values, runs int64         // highest numbers taken
	stamp                     time.Time     // of the newest checkpoint
	Now                       time.Time     // by the database's clock, when it was read
	ahead                     time.Duration // of that clock before this process's, in whole seconds
}

// Peek reads where a thread stands.
func (s *Store) Peek(ctx context.Context, tenant, thread string) (*Seen, error) {
	var out *Seen
	err := s.View(ctx, func(tx storage.Tx) error {
		seen, err := s.PeekTx(tx, tenant, thread)
		out = seen
		return err
	})
	return out, err
}

// PeekTx is Peek inside a Tx.
func (s *Store) PeekTx(tx storage.Tx, tenant, thread string) (*Seen, error) {
	now := tx.Now()
	seen := &Seen{Status: core.StatusNew, Now: now, ahead: time.Until(now).Truncate(time.Second)}
	info, err := s.Box.FindThread(tx, tenant, thread)
	if err != nil || info == nil {
		return seen, err
	}
	seen.Info = info
	if seen.Lease, _, err = tx.Lease(info.N, storage.Look, ""); err != nil {
		return nil, err
	}
	seen.Status = StatusOf(info, seen.Lease)
	r := records.NewReader(s.Box, tx, info)
	if info.Run > 0 {
		if seen.Run, err = r.Run(info.Run); err != nil {
			return nil, err
		}
	}
	if seen.Head, err = r.Head(); err != nil {
		return nil, err
	}
	if seen.Head != nil {
		if seen.Topology, err = r.Topology(seen.Head.Checkpoint); err != nil {
			return nil, err
		}
		if seen.Met = seen.Topology; len(seen.Topology.Children) > 0 {
			var at core.Position
			if at.Children, err = r.Children(seen.Head.Checkpoint.N); err != nil {
				return nil, err
			}
			seen.Inside = at.Past()
			if seen.Met, err = r.Met(seen.Topology, at.Children); err != nil {
				return nil, err
			}
		}
	}
	if seen.Open, err = r.Open(); err != nil {
		return nil, err
	}
	for _, kind := range []string{records.Checkpoint, records.Nested} {
		rows, err := tx.List(kind, storage.Query{Range: records.Places(info.N), Desc: true, Limit: 1, NoBody: true})
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			if id, err := uuid.FromBytes(row.Fields[0].([]byte)); err == nil {
				seen.stamp = later(seen.stamp, StampOf(id.String()))
			}
			seen.checkpoints = max(seen.checkpoints, records.Local(row.Key[0].(int64)))
		}
	}
	if seen.values, err = newest(tx, records.Value, info.N); err != nil {
		return nil, err
	}
	seen.runs, err = newestRun(tx, info.N)
	return seen, err
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// StatusOf is a thread's status: what is stored, unless its owner died while it ran.
func StatusOf(info *records.ThreadInfo, lease storage.Lease) core.Status {
	if info.Status == core.StatusRunning && !lease.Alive {
		return core.StatusCrashed
	}
	return info.Status
}

func newest(tx storage.Tx, kind string, thread int64) (int64, error) {
	rows, err := tx.List(kind, storage.Query{Range: records.Places(thread), Desc: true, Limit: 1, NoBody: true})
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	return records.Local(rows[0].Key[0].(int64)), nil
}

func newestRun(tx storage.Tx, thread int64) (int64, error) {
	rows, err := tx.List(records.Run, storage.Query{Range: records.ByThread(thread), Desc: true, Limit: 1, NoBody: true})
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	return rows[0].Key[1].(int64), nil
}
