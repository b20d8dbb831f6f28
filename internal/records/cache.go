package records

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/storage"
)

type cacheBody struct {
	Writes []writeBody     `json:"w"` // of a node; that of a step is empty, too
	Gotos  []dueBody       `json:"d,omitempty"`
	Step   json.RawMessage `json:"s,omitempty"`
}

// CacheRow writes a result that is kept for others. Until when is set by the caller, inside the Update.
func (b Box) CacheRow(tenant string, c *core.Cached) (storage.Row, error) {
	body := cacheBody{Writes: packWrites(c.Writes), Step: c.Step}
	for _, d := range c.Gotos {
		body.Gotos = append(body.Gotos, dueBody(d))
	}
	packed, err := b.packJSON(Cache, body)
	return storage.Row{Key: []any{tenant, c.Key.Graph, c.Key.Node, c.Key.ID}, Fields: []any{int64(0)}, Body: packed}, err
}

// ReadCache reads a row back.
func (b Box) ReadCache(row storage.Row) (*core.Cached, error) {
	c := &core.Cached{Key: core.CacheKey{Graph: row.Key[1].(string), Node: row.Key[2].(string), ID: row.Key[3].(string)}}
	where := fmt.Sprintf("of node %q of graph %q", c.Key.Node, c.Key.Graph)
	var body cacheBody
	if err := b.unpackJSON(Cache, where, row.Body, &body); err != nil {
		return nil, err
	}
	if body.Writes == nil {
		return nil, lacks(Cache, where, "result")
	}
	writes, err := unpackWrites(body.Writes)
	if err != nil {
		return nil, &DamagedError{Kind: Cache, Where: where, Err: err}
	}
	c.Writes, c.Step = writes, body.Step
	for _, d := range body.Gotos {
		c.Gotos = append(c.Gotos, core.Due(d))
	}
	return c, nil
}

// Until is the end of a kept result's time, as its row holds it.
func Until(t time.Time) int64 { return t.UnixMilli() }
