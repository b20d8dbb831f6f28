package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/storage"
)

// Put writes one item.
type Put struct {
	Namespace []string
	Key       string
	Value     any           // marshalled to a JSON object
	Index     []string      // what of it is embedded; nil: as Options.Index says
	NoIndex   bool          // nothing of it is embedded: no search by meaning ranks it
	TTL       time.Duration // 0: as Options.TTL says; Forever: none
}

// Delete removes one item.
type Delete struct {
	Namespace []string
	Key       string
}

func (p Put) prepare(m *Memory) (*act, error) {
	at, err := address(p.Namespace, p.Key)
	if err != nil {
		return nil, err
	}
	value, err := json.Marshal(p.Value)
	if err != nil {
		return nil, &InputError{"value", err.Error()}
	}
	if len(value) == 0 || value[0] != '{' {
		return nil, &InputError{"value", fmt.Sprintf("%T is no object in JSON; give a struct or a map", p.Value)}
	}
	ttl, err := m.ttl(p.TTL)
	if err != nil {
		return nil, err
	}
	body, err := m.box.Pack(itemKind, value)
	if err != nil {
		return nil, err
	}
	a := &act{at: at}
	if a.texts, err = m.texts(p, value); err != nil {
		return nil, err
	}
	w := &writing{m: m, at: at, body: body, ttl: ttl}
	a.embed = func(vectors [][]float32) { w.vectors = vectors }
	a.write, a.proven = w.write, w.proven
	return a, nil
}

// ttl is a lifetime as it is stored: whole milliseconds.
func (m *Memory) ttl(asked time.Duration) (int64, error) {
	switch {
	case asked == Forever:
		return 0, nil
	case asked < 0:
		return 0, &InputError{"ttl", fmt.Sprintf("%v is below zero", asked)}
	case asked == 0:
		asked = m.opts.TTL
	}
	return int64((asked + time.Millisecond - 1) / time.Millisecond), nil
}

// writing is one Put on its way into the database.
type writing struct {
	m       *Memory
	at      string
	body    []byte
	ttl     int64
	vectors [][]float32
	updated int64
}

func (w *writing) write(tx storage.Tx, tenant string) error {
	old, ok, err := tx.Get(itemKind, tenant, w.at)
	if err != nil {
		return err
	}
	now := tx.Now()
	created := now.UnixMicro()
	w.updated = created
	if ok && !over(old, now) {
		created = old.Fields[colCreated].(int64)
	}
	row := storage.Row{Key: []any{tenant, w.at}, Body: w.body, Fields: []any{created, w.updated, ending(now, w.ttl), w.ttl}}
	if _, err := tx.Put(itemKind, row, storage.Always()); err != nil {
		return err
	}
	if len(w.vectors) == 0 {
		_, err := tx.Delete(vectorKind, storage.Range{Prefix: []any{tenant, w.at}})
		return err
	}
	body, err := w.m.packVectors(w.vectors)
	if err != nil {
		return err
	}
	_, err = tx.Put(vectorKind, storage.Row{Key: []any{tenant, w.at}, Body: body}, storage.Always())
	return err
}

func (w *writing) proven(tx storage.Tx, tenant string) (bool, error) {
	row, ok, err := tx.Get(itemKind, tenant, w.at)
	return ok && row.Fields[colUpdated].(int64) == w.updated && bytes.Equal(row.Body, w.body), err
}

func (d Delete) prepare(*Memory) (*act, error) {
	at, err := address(d.Namespace, d.Key)
	if err != nil {
		return nil, err
	}
	return &act{at: at, write: func(tx storage.Tx, tenant string) error { return remove(tx, tenant, at) },
		proven: func(tx storage.Tx, tenant string) (bool, error) {
			_, there, err := tx.Get(itemKind, tenant, at)
			return !there, err
		}}, nil
}

func remove(tx storage.Tx, tenant, at string) error {
	for _, kind := range []string{itemKind, vectorKind} {
		if _, err := tx.Delete(kind, storage.Range{Prefix: []any{tenant, at}}); err != nil {
			return err
		}
	}
	return nil
}
