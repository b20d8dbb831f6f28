package suite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
)

// color is an enum that programs of different versions know in part.
type color string

// colors are the values that a program knows; a state cannot carry them, so each version has its own type.
type (
	oldColor color
	newColor color
)

// green is too long to be held in the checkpoint: it has a row of its own, which is damaged.
const green = "the green of the sea at noon"

func (c *oldColor) UnmarshalText(b []byte) error {
	return known((*color)(c), b, "red", green)
}
func (c *newColor) UnmarshalText(b []byte) error { return known((*color)(c), b, "red") }

func (c oldColor) MarshalText() ([]byte, error) { return []byte(c), nil }
func (c newColor) MarshalText() ([]byte, error) { return []byte(c), nil }

func known(c *color, b []byte, values ...color) error {
	for _, v := range values {
		if string(v) == string(b) {
			*c = v
			return nil
		}
	}
	return fmt.Errorf("%q is no color of this program", b)
}

type painted[C any] struct {
	Color pawl.Last[C]  `json:"color"`
	N     pawl.Sum[int] `json:"n"`
}

func painting[C any](l *ledger) *pawl.Builder[painted[C]] {
	return pawl.New[painted[C]]("painting").
		Node("mix", func(_ context.Context, s *painted[C]) error { l.add("mix"); s.N.Add(1); return nil }).
		Node("ask", func(ctx context.Context, s *painted[C]) error {
			l.add("ask")
			s.Color.Get()
			_, err := gate.Ask(ctx, "?")
			return err
		}, pawl.Uses(gate)).
		Node("paint", func(_ context.Context, s *painted[C]) error { l.add("paint"); return nil }).
		Path(pawl.Start, "mix", "ask", "paint")
}

// unreadableFailsClosed is 127: what is stored cannot be read, in four ways. Nothing runs, the error says where, and
// the bytes stay as they were.
func unreadableFailsClosed(t *testing.T, _ *report) {
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte { b = append([]byte{}, b...); b[len(b)-at] ^= 4; return b }
	}
	cases := map[string]func(*testing.T, storage.DB, *ledger) *pawl.Thread{
		"a truncated value": damagedValue(func(b []byte) []byte { return b[:len(b)/2] }),
		"an empty value":    damagedValue(func([]byte) []byte { return nil }),
		"a flipped bit":     damagedValue(flip(2)),
		"another type": func(t *testing.T, db storage.DB, l *ledger) *pawl.Thread {
			return eng127(t, db, build(t, painting[int](l)))
		},
		"an enum value that was dropped": func(t *testing.T, db storage.DB, l *ledger) *pawl.Thread {
			return eng127(t, db, build(t, painting[newColor](l)))
		},
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, h *home) {
				l, db := newLedger(t), h.open(t)
				g := build(t, painting[oldColor](l))
				old := engine(t, db, nil, g)
				out, err := g.Thread(old, "t").Run(context.Background(), &painted[oldColor]{Color: pawl.Of(oldColor(green))})
				q := mustWaitFor(t, out, err, 1)[0]
				old.Close()
				th := change(t, db, l)
				before, entries := everything(t, db), len(l.rows())
				for verb, do := range map[string]func() error{
					"resume": func() error { _, err := th.Resume(context.Background(), pawl.AnswerWith(q.ID, "yes")); return err },
					"replay": func() error { _, err := th.Replay(context.Background(), pawl.Before("ask")); return err },
					"edit":   func() error { _, err := th.Edit(context.Background(), []byte(`{"n":1}`)); return err },
				} {
					err := do()
					if err == nil {
						t.Errorf("%s: went on over a value that cannot be read", verb)
						continue
					}
					if says(t, err.Error(), `"t"`, `"color"`); !strings.Contains(err.Error(), "nothing was") {
						t.Errorf("%s: does not say what was not done: %v", verb, err)
					}
				}
				same(t, "entries", len(l.rows()), entries)
				unchanged(t, db, before)
			})
		})
	}
}

func eng127(t *testing.T, db storage.DB, g pawl.Registrable) *pawl.Thread {
	return engine(t, db, nil, g).Thread("painting", "t")
}

// damagedValue changes the stored color.
func damagedValue(change func([]byte) []byte) func(*testing.T, storage.DB, *ledger) *pawl.Thread {
	return func(t *testing.T, db storage.DB, l *ledger) *pawl.Thread {
		found := errors.New("there is no stored color")
		err := db.Update(context.Background(), func(_ context.Context, tx storage.Tx) error {
			rows, err := tx.List("value", storage.Query{})
			for _, row := range rows {
				if strings.Contains(string(row.Body), green) {
					row.Body = change(row.Body)
					_, err = tx.Put("value", row, storage.Always())
					found = err
				}
			}
			return err
		})
		if err = errors.Join(err, found); err != nil {
			t.Fatal(err)
		}
		return eng127(t, db, build(t, painting[oldColor](l)))
	}
}
