package local

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
)

// cancelEvery is how often, at most, an engine that runs something looks for cancel requests.
const cancelEvery = 100 * time.Millisecond

// WatchCancels pays what is owed, and tells each request to cancel an attempt to each, until tick says to rest, or stop. It looks when
// something changed or tick says so. What cannot be read is told to trouble, and looked for again.
func (s *Store) WatchCancels(stop <-chan struct{}, tick func() (rest, look bool), each func(tenant, thread string, attempt int64, reason string), trouble func(error)) {
	var since uint64
	missed := false
	for {
		now, wake := s.DB.Changed(since)
		since = now
		timer := time.NewTimer(cancelEvery)
		select {
		case <-timer.C:
		case <-stop:
			timer.Stop()
			return
		}
		if s.Owes() {
			_ = s.PayUp(context.Background()) // looked at again at the next tick
		}
		rest, look := tick()
		if rest {
			return
		}
		select {
		case <-wake:
			look = true
		default:
		}
		if !look && !missed {
			continue
		}
		err := s.cancels(each)
		if missed = err != nil; missed && !errors.Is(err, storage.ErrClosed) {
			trouble(err)
		}
	}
}

func (s *Store) cancels(each func(tenant, thread string, attempt int64, reason string)) error {
	var asked []*records.ThreadInfo
	err := s.View(context.Background(), func(tx storage.Tx) error {
		rows, err := tx.List(records.Thread, storage.Query{Index: "by_cancel", Range: storage.Range{From: "\x00"}})
		if err != nil {
			return err
		}
		asked = nil
		for _, row := range rows {
			info, err := s.Box.ReadThread(row)
			if err != nil {
				return err
			}
			asked = append(asked, info)
		}
		return nil
	})
	for _, info := range asked {
		each(info.Tenant, info.ID, info.Run, info.Cancel)
	}
	return err
}
