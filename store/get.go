package store

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl/storage"
)

// Get asks for one item.
type Get struct {
	Namespace []string
	Key       string
	Refresh   *bool // begin its time anew; nil: as Options.Refresh says
}

func (g Get) prepare(m *Memory) (*act, error) {
	at, err := address(g.Namespace, g.Key)
	if err != nil {
		return nil, err
	}
	return &act{read: func(r *reader) (Result, error) {
		item, err := r.get(at, m.refreshes(g.Refresh))
		return Result{Item: item}, err
	}}, nil
}

func (m *Memory) refreshes(asked *bool) bool {
	if asked != nil {
		return *asked
	}
	return m.opts.Refresh
}

// get reads an item that has not ended; nil: there is none.
func (r *reader) get(at string, refresh bool) (*Item, error) {
	row, ok, err := r.tx.Get(itemKind, r.tenant, at)
	if err != nil || !ok || over(row, r.tx.Now()) {
		return nil, err
	}
	if refresh && row.Fields[colTTL].(int64) != 0 {
		r.refresh = append(r.refresh, at)
	}
	return r.item(row)
}

// extend begins the time of items anew, and tells it in what was read.
func extend(tx storage.Tx, tenant string, refresh []string, told []Result) error {
	slices.Sort(refresh)
	for _, at := range slices.Compact(refresh) {
		row, ok, err := tx.Get(itemKind, tenant, at)
		if err != nil {
			return err
		}
		if !ok || over(row, tx.Now()) {
			continue
		}
		ends := ending(tx.Now(), row.Fields[colTTL].(int64))
		row.Fields[colEnds] = ends
		if _, err := tx.Put(itemKind, row, storage.Always()); err != nil {
			return err
		}
		tell := func(i *Item) {
			if i != nil && span(i.Namespace)+sep+i.Key == at {
				i.Ends = time.UnixMilli(ends).UTC()
			}
		}
		for _, r := range told {
			tell(r.Item)
			for h := range r.Hits {
				tell(&r.Hits[h].Item)
			}
		}
	}
	return nil
}
