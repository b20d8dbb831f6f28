package records

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/storage"
)

// DrainInfo marks a version of a graph that takes no new runs.
type DrainInfo struct {
	Tenant  string `json:"-"`
	Graph   string `json:"-"`
	Version string `json:"-"`
	By      string
	Reason  string
	At      time.Time
}

// DrainRow writes a mark.
func (b Box) DrainRow(d *DrainInfo) (storage.Row, error) {
	packed, err := b.packJSON(Drain, d)
	return storage.Row{Key: []any{d.Tenant, d.Graph, d.Version}, Body: packed}, err
}

// ReadDrain reads a row back.
func (b Box) ReadDrain(row storage.Row) (*DrainInfo, error) {
	d := &DrainInfo{Tenant: row.Key[0].(string), Graph: row.Key[1].(string), Version: row.Key[2].(string)}
	where := fmt.Sprintf("%s@%s", d.Graph, d.Version)
	if err := b.unpackJSON(Drain, where, row.Body, d); err != nil {
		return nil, err
	}
	if d.At.IsZero() {
		return nil, lacks(Drain, where, "time")
	}
	return d, nil
}
