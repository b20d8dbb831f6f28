package store

import (
	"cmp"
	"slices"

	"github.com/pawl-dev/pawl/storage"
)

// Search asks for items of a namespace and of all below it.
//
// Without a Text the order is the last updated first. With one it is by meaning: the cosine between the Text and the best
// vector of each item; items that have no vector come after all others. Ties are in the order of namespaces and keys. The
// filter chooses first, always.
type Search struct {
	Prefix  []string // empty: everything of the tenant
	Text    string
	Filter  Filter
	Limit   int // 0: 10
	Offset  int
	Refresh *bool // begin the time of what is found anew; nil: as Options.Refresh says
}

// Hit is an item that a search found.
type Hit struct {
	Item
	Score *float64 `json:"score,omitempty"` // cosine, from -1 to 1; nil: not ranked by meaning
}

// chunk bounds the rows that a search holds at once.
const chunk = 256

// candidate is an item that a search may tell, without its body.
type candidate struct {
	at      string
	updated int64
	score   *float64
}

func (q Search) prepare(m *Memory) (*act, error) {
	limit, err := page(q.Limit, 10, q.Offset)
	if err != nil {
		return nil, err
	}
	filter, err := q.Filter.parse()
	if err != nil {
		return nil, err
	}
	a := &act{}
	var asked []float32
	if q.Text != "" {
		if m.opts.Embedder == nil {
			return nil, ErrNoEmbedder
		}
		a.texts, a.embed = []string{q.Text}, func(v [][]float32) { asked = v[0] }
	}
	a.read = func(r *reader) (Result, error) {
		hits, err := q.find(r, filter, asked, limit)
		return Result{Hits: hits}, err
	}
	return a, nil
}

func (q Search) find(r *reader, filter map[string]any, asked []float32, limit int) ([]Hit, error) {
	found, err := r.candidates(q.Prefix, filter)
	if err != nil {
		return nil, err
	}
	if asked != nil {
		if err := r.rank(q.Prefix, found, asked); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int {
		switch {
		case a.score != nil && b.score != nil:
			return cmp.Compare(*b.score, *a.score)
		case a.score != nil:
			return -1
		case b.score != nil:
			return 1
		}
		return cmp.Compare(b.updated, a.updated)
	})
	hits := []Hit{}
	for _, c := range found[min(q.Offset, len(found)):] {
		if len(hits) == limit {
			break
		}
		item, err := r.get(c.at, r.refreshes(q.Refresh))
		if err != nil {
			return nil, err
		}
		hits = append(hits, Hit{*item, c.score})
	}
	return hits, nil
}

// candidates are the items of a namespace that a filter chooses, by address.
func (r *reader) candidates(prefix []string, filter map[string]any) ([]candidate, error) {
	var out []candidate
	err := r.scan(itemKind, prefix, len(filter) == 0, func(at string, row storage.Row) error {
		if over(row, r.tx.Now()) {
			return nil
		}
		if len(filter) > 0 {
			item, err := r.item(row)
			if err != nil {
				return err
			}
			if chosen, err := chooses(filter, item.Value); err != nil || !chosen {
				return err
			}
		}
		out = append(out, candidate{at: at, updated: row.Fields[colUpdated].(int64)})
		return nil
	})
	return out, err
}

// rank scores the candidates that have vectors.
func (r *reader) rank(prefix []string, found []candidate, asked []float32) error {
	i := 0 // both are by address
	return r.scan(vectorKind, prefix, false, func(at string, row storage.Row) error {
		for i < len(found) && found[i].at < at {
			i++
		}
		if i == len(found) || found[i].at != at {
			return nil
		}
		score, err := r.score(at, row.Body, asked)
		found[i].score = &score
		return err
	})
}

// scan calls each for the rows of a namespace and of all below it, by address, a chunk at a time.
func (r *reader) scan(kind string, prefix []string, noBody bool, each func(at string, row storage.Row) error) error {
	rng, some := within(r.tenant, prefix)
	for some {
		rows, err := r.tx.List(kind, storage.Query{Range: rng, Limit: chunk, NoBody: noBody})
		if err != nil {
			return err
		}
		for _, row := range rows {
			at := row.Key[1].(string)
			if err := each(at, row); err != nil {
				return err
			}
			rng.From = at + sep
		}
		some = len(rows) == chunk
	}
	return nil
}
