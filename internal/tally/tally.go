// Package tally counts what was used of a limit within a time that slides: amounts of money, calls, decisions. The count
// is rows of the home, changed in the Update that uses something, so that no process can use what another has used
// already. The home's clock judges.
package tally

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pawl-dev/pawl/storage"
)

const kind = "tally"

// parts is into how many parts the time of a limit is cut: what was used counts at most one such part too long.
const parts = 60

// Never is the time until which something counts that counts for ever.
const Never = math.MaxInt64

// Kind is the record kind of the counters: one row for what ends to count at one time.
func Kind() storage.Kind {
	return storage.Kind{Name: kind, Key: []storage.Field{
		{Name: "tenant", Type: storage.Text}, {Name: "name", Type: storage.Text}, {Name: "until", Type: storage.Int},
	}}
}

// Limit is at most Max within Per. Per 0: for ever.
type Limit struct {
	Max int64
	Per time.Duration
}

// Fault is what is wrong with a limit; nil: nothing.
func (l Limit) Fault() error {
	switch {
	case l.Max <= 0:
		return fmt.Errorf("it allows at most %d, so nothing; give it a maximum above zero", l.Max)
	case l.Per < 0 || l.Per > 0 && l.Per < time.Second:
		return fmt.Errorf("it is over %v; give it a second or more, or 0 for ever", l.Per)
	}
	return nil
}

// Count is what was used of a limit.
type Count struct {
	Used  int64
	Fits  bool
	Frees time.Time // when the wanted amount will fit, if it does not; zero: never
}

// Look says whether amount fits.
func Look(tx storage.Tx, tenant, name string, amount int64, l Limit) (Count, error) {
	rows, err := tx.List(kind, storage.Query{Range: storage.Range{Prefix: []any{tenant, name}, From: tx.Now().UnixMilli() + 1}})
	if err != nil {
		return Count{}, err
	}
	c := Count{}
	for _, row := range rows {
		n, err := amountOf(row)
		if err != nil {
			return Count{}, err
		}
		if c.Used += n; c.Used < 0 {
			return Count{}, fmt.Errorf("tally: the count of %q is beyond 64 bits; nothing was used", name)
		}
	}
	if amount > l.Max {
		return c, nil
	}
	room := l.Max - amount
	if c.Fits = c.Used <= room; c.Fits {
		return c, nil
	}
	left := c.Used
	for _, row := range rows { // the first to end comes first
		n, _ := amountOf(row)
		if left -= n; left <= room {
			if until := row.Key[2].(int64); until != Never {
				c.Frees = time.UnixMilli(until).UTC()
			}
			break
		}
	}
	return c, nil
}

// Add counts an amount and says until when. What ended to count is removed.
func Add(tx storage.Tx, tenant, name string, amount int64, l Limit) (until int64, err error) {
	now := tx.Now().UnixMilli()
	until = Never
	if l.Per > 0 {
		part := l.Per.Milliseconds() / parts
		until = (now/part+1)*part + l.Per.Milliseconds()
	}
	if _, err := tx.Delete(kind, storage.Range{Prefix: []any{tenant, name}, To: now + 1}); err != nil {
		return 0, err
	}
	return until, change(tx, tenant, name, until, amount)
}

// Back takes back what was counted until then, because it was not used after all.
func Back(tx storage.Tx, tenant, name string, until, amount int64) error {
	if _, ok, err := tx.Get(kind, tenant, name, until); err != nil || !ok {
		return err
	}
	return change(tx, tenant, name, until, -amount)
}

func change(tx storage.Tx, tenant, name string, until, amount int64) error {
	row, ok, err := tx.Get(kind, tenant, name, until)
	if err != nil {
		return err
	}
	if ok {
		n, err := amountOf(row)
		if err != nil {
			return err
		}
		amount += n
	}
	if amount < 0 {
		return fmt.Errorf("tally: the count of %q would be %d; nothing was changed", name, amount)
	}
	_, err = tx.Put(kind, storage.Row{Key: []any{tenant, name, until}, Body: binary.BigEndian.AppendUint64(nil, uint64(amount))}, storage.Always())
	return err
}

func amountOf(row storage.Row) (int64, error) {
	if len(row.Body) == 8 {
		if n := int64(binary.BigEndian.Uint64(row.Body)); n >= 0 {
			return n, nil
		}
	}
	return 0, fmt.Errorf("tally: a count of %q cannot be read: %w; it was left as it is", row.Key[1], errors.ErrUnsupported)
}
