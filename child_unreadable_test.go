package pawl_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
)

// What a child left and nobody can read refuses a resume before the thread is claimed, at every depth; the same resume
// goes on once it can be read.
func TestChildThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func([]byte) []byte{
		"damaged":     func(b []byte) []byte { return b[:len(b)-1] },
		"another key": func(b []byte) []byte { return bytes.Repeat([]byte{7}, len(b)) },
		"another type": func(b []byte) []byte {
			return bytes.Replace(b, []byte(`["b`), []byte(`[{"b`), 1)[:len(b)]
		},
	} {
		for depth := 1; depth <= 2; depth++ {
			for _, mode := range []pawl.ChildMode{pawl.Inherit, pawl.PerThread} {
				t.Run(name+"/"+string(mode)+strings.Repeat("/inner", depth-1), func(t *testing.T) {
					t.Parallel()
					e := entries{}
					db := hooked(t)
					g := relatives(t, e, mode, depth)
					th := g.Thread(opened(t, db, nil), "t")
					out, err := th.Run(t.Context(), &family{})
					if err != nil || len(out.Waiting) != 1 {
						t.Fatal(out, err)
					}
					entered := e["asks"]
					was := spoilValues(t, db, spoil)
					_, err = th.Resume(t.Context(), okay.Answer("", "yes"))
					if err == nil {
						t.Fatal("it went on from what it cannot read")
					}
					path := out.Waiting[0].Path
					for _, part := range []string{`thread "t"`, path[:strings.LastIndex(path, "|")], `"log"`, "nothing was run and nothing changed", "codec", "pawl threads history t"} {
						if !strings.Contains(err.Error(), part) {
							t.Errorf("%q is not said: %v", part, err)
						}
					}
					if e["asks"] != entered {
						t.Error("a node was entered")
					}
					spoilValues(t, db, func(b []byte) []byte { r := was[0]; was = was[1:]; return r })
					if now, err := th.State(t.Context()); err != nil || now.Status != pawl.Waiting || len(now.Waiting) != 1 {
						t.Fatalf("the thread is %s with %d open, %v", now.Status, len(now.Waiting), err)
					}
					if out, err := th.Resume(t.Context(), okay.Answer("", "yes")); err != nil || out.Status != pawl.Done {
						t.Error(out, err)
					}
				})
			}
		}
	}
}

// spoilValues changes every stored value, and returns what they were.
func spoilValues(t *testing.T, db storage.DB, change func([]byte) []byte) (was [][]byte) {
	t.Helper()
	err := db.Update(t.Context(), func(_ context.Context, tx storage.Tx) error {
		was = nil
		rows, err := tx.List(records.Value, storage.Query{})
		for _, row := range rows {
			if err != nil {
				return err
			}
			was = append(was, bytes.Clone(row.Body))
			row.Body = change(bytes.Clone(row.Body))
			_, err = tx.Put(records.Value, row, storage.Always())
		}
		return err
	})
	if err != nil || len(was) == 0 {
		t.Fatal(len(was), err)
	}
	return was
}
