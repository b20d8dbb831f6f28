package records

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/storage"
)

// ThreadInfo is a thread's own row: where it stands.
type ThreadInfo struct {
	Tenant  string
	ID      string
	N       int64
	Graph   string
	Status  core.Status // as stored: running may mean crashed
	Updated time.Time
	Run     int64  // number of the current attempt, 0 for none
	Cancel  string // why somebody wants it cancelled; empty: nobody does
	Lineage string
}

type threadBody struct {
	Lineage string `json:"lineage"`
}

// ThreadRow writes it.
func (b Box) ThreadRow(t *ThreadInfo) (storage.Row, error) {
	packed, err := b.packJSON(Thread, threadBody{t.Lineage})
	return storage.Row{
		Key:    []any{t.Tenant, t.ID},
		Fields: []any{t.N, t.Graph, string(t.Status), t.Updated.UnixMilli(), t.Run, t.Cancel}, Body: packed,
	}, err
}

// ReadThread reads a row back.
func (b Box) ReadThread(row storage.Row) (*ThreadInfo, error) {
	t := &ThreadInfo{
		Tenant: row.Key[0].(string), ID: row.Key[1].(string), N: row.Fields[0].(int64), Graph: row.Fields[1].(string),
		Status: core.Status(row.Fields[2].(string)), Updated: time.UnixMilli(row.Fields[3].(int64)).UTC(),
		Run: row.Fields[4].(int64), Cancel: row.Fields[5].(string),
	}
	var body threadBody
	if err := b.unpackJSON(Thread, fmt.Sprintf("%q", t.ID), row.Body, &body); err != nil {
		return nil, err
	}
	t.Lineage = body.Lineage
	return t, nil
}
