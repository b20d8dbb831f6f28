package store

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/storage"
)

const (
	itemKind   = "memory"
	vectorKind = "memory_vector"
)

// The fields of an item's row, in the kind's order.
const (
	colCreated = iota // microseconds
	colUpdated
	colEnds // milliseconds, rounded up; 0: never
	colTTL  // milliseconds; what a read that refreshes adds
)

// Kinds are the record kinds of this package.
func Kinds() []storage.Kind {
	key := []storage.Field{{Name: "tenant", Type: storage.Text}, {Name: "address", Type: storage.Text}}
	number := func(name string) storage.Field { return storage.Field{Name: name, Type: storage.Int} }
	return []storage.Kind{{
		Name: itemKind, Key: key,
		Fields:  []storage.Field{number("created"), number("updated"), number("ends"), number("ttl")},
		Indexes: []storage.Index{{Name: "by_end", Fields: []string{"ends"}}}, // of all tenants: for the sweeper
	}, {Name: vectorKind, Key: key}}
}

// Item is one thing remembered.
type Item struct {
	Namespace []string        `json:"namespace"`
	Key       string          `json:"key"`
	Value     json.RawMessage `json:"value"` // an object
	Created   time.Time       `json:"created_at"`
	Updated   time.Time       `json:"updated_at"`
	Ends      time.Time       `json:"ends_at,omitzero"` // when it ends by itself; zero: never
}

// Decode reads the item's value into v.
func (i Item) Decode(v any) error {
	if err := json.Unmarshal(i.Value, v); err != nil {
		return fmt.Errorf("store: the value of %q does not fit %T: %w", i.Key, v, err)
	}
	return nil
}

// over says whether an item's time is past.
func over(row storage.Row, now time.Time) bool {
	ends := row.Fields[colEnds].(int64)
	return ends != 0 && now.UnixMilli() >= ends
}

// ending is when something that lives for ttl from now on ends, as it is stored.
func ending(now time.Time, ttl int64) int64 {
	if ttl == 0 {
		return 0
	}
	return now.Add(time.Duration(ttl)*time.Millisecond + time.Millisecond - 1).UnixMilli()
}

func (m *Memory) item(row storage.Row) (*Item, error) {
	at := row.Key[1].(string)
	i := &Item{Created: time.UnixMicro(row.Fields[colCreated].(int64)).UTC(), Updated: time.UnixMicro(row.Fields[colUpdated].(int64)).UTC()}
	i.Namespace, i.Key = place(at)
	if ends := row.Fields[colEnds].(int64); ends != 0 {
		i.Ends = time.UnixMilli(ends).UTC()
	}
	var err error
	i.Value, err = m.box.Unpack(itemKind, where(at), row.Body)
	return i, err
}

// where names an item in errors.
func where(at string) string {
	labels, key := place(at)
	return fmt.Sprintf("%q in %q", key, labels)
}
