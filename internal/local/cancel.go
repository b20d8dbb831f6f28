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

// WatchCancels tells each cancel request to each, as long as not resting and not stopped. What cannot be read is told
// to trouble, and looked for again.
func (s *Store) WatchCancels(stop <-chan struct{}, resting func() bool, each func(tenant, thread, reason string), trouble func(error)) {
	var since uint64
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
		if resting() {
			return
		}
		select {
		case <-wake:
			if err := s.cancels(each); err != nil && !errors.Is(err, storage.ErrClosed) {
				trouble(err)
			}
		default:
		}
	}
}

func (s *Store) cancels(each func(tenant, thread, reason string)) error {
	var asked []*records.ThreadInfo
	err := s.View(context.Background(), func(tx storage.Tx) error {
		rows, err := tx.List(records.Thread, storage.Query{Index: "by_cancel", Range: storage.Range{From: "\x01"}})
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
		each(info.Tenant, info.ID, info.Cancel)
	}
	return err
}
