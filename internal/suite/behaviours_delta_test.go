package suite

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
)

// replies is a graph whose node answers what was said last.
func replies() *pawl.Builder[rowState] {
	return single(func(_ context.Context, s *rowState) error {
		if n := s.Log.Len(); n > 0 {
			s.Log.Add("reply to " + s.Log.At(n-1))
		}
		return nil
	})
}

// turnOf runs a turn in a process of its own, in a durability mode, and returns the log.
func turnOf(t *testing.T, h *home, text string, mode pawl.Durability) []string {
	t.Helper()
	th := rowThread(t, h, replies(), nil)
	in := &rowState{}
	if text != "" {
		in.Log.Add(text)
	}
	out, err := th.Run(t.Context(), in, pawl.WithDurability(mode))
	if err != nil {
		t.Fatal(err)
	}
	return logOf(out.State)
}

// reloaded is the log as another process finds it.
func reloaded(t *testing.T, h *home) []string {
	t.Helper()
	th := rowThread(t, h, replies(), nil)
	s, err := th.Read(statusOf(t, th).Head)
	if err != nil {
		t.Fatal(err)
	}
	return logOf(s)
}

// versions are the stored versions of values: how many are whole, and all of them as text.
func versions(t *testing.T, h *home) (whole, all int, text string) {
	t.Helper()
	err := h.open(t).View(t.Context(), func(_ context.Context, tx storage.Tx) error {
		whole, all, text = 0, 0, ""
		rows, err := tx.List(records.Value, storage.Query{})
		for _, row := range rows {
			if all++; row.Fields[0].(int64) == 0 {
				whole++
			}
			text += string(row.Body) + "\n"
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return whole, all, text
}

func turns(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprint("turn ", i+1), fmt.Sprint("reply to turn ", i+1))
	}
	return out
}

// rowRebuilt: three turns are rebuilt from what each wrote; no checkpoint and no version after the first holds the list.
func rowRebuilt(t *testing.T, h *home) {
	for i := range 3 {
		turnOf(t, h, fmt.Sprint("turn ", i+1), pawl.Sync)
		same(t, "log after reload", reloaded(t, h), turns(i+1))
	}
	whole, all, text := versions(t, h)
	same(t, "versions, whole ones", [2]int{all, whole}, [2]int{6, 1})
	same(t, "versions that hold the first message", strings.Count(text, `"turn 1"`), 1)
	err := h.open(t).View(t.Context(), func(_ context.Context, tx storage.Tx) error {
		rows, err := tx.List(records.Checkpoint, storage.Query{})
		for _, row := range rows {
			if strings.Contains(string(row.Body), "turn") {
				t.Errorf("a checkpoint holds %s", row.Body)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// rowExit: a run that is saved at its end leaves one checkpoint, which can be read, whether it wrote to the list or not.
func rowExit(text string) func(t *testing.T, h *home) {
	return func(t *testing.T, h *home) {
		want := turnOf(t, h, text, pawl.Exit)
		all := history(t, rowThread(t, h, replies(), nil))
		if len(all) != 1 || all[0].Parent != "" {
			t.Errorf("history %s", compact(all))
		}
		same(t, "log after reload", reloaded(t, h), want)
	}
}

func rowModesInTurn(t *testing.T, h *home) {
	for i, mode := range []pawl.Durability{pawl.Sync, pawl.Exit, pawl.Sync, pawl.Exit} {
		turnOf(t, h, fmt.Sprint("turn ", i+1), mode)
		same(t, "log", reloaded(t, h), turns(i+1))
	}
}

// joined is a list by a rule, which is stored whole.
type joined struct{}

func (joined) Fold(have, in []string) []string { return append(have, in...) }

// rowBecomesDeltas: a list that was stored whole becomes an Append, and old checkpoints can be gone back to.
func rowBecomesDeltas(t *testing.T, h *home) {
	type folded struct {
		Log pawl.Fold[[]string, joined] `json:"log"`
	}
	type appended struct {
		Log pawl.Append[string] `json:"log"`
	}
	old, err := pawl.New[folded]("row").Node("a", func(_ context.Context, s *folded) error { s.Log.Add([]string{"old"}); return nil }).Path(pawl.Start, "a").Build()
	if err != nil {
		t.Fatal(err)
	}
	th := old.Thread(engine(t, h.open(t), nil), "t")
	for range 2 {
		if _, err := th.Run(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	now, err := pawl.New[appended]("row").Node("a", func(_ context.Context, s *appended) error { s.Log.Add("new"); return nil }).Path(pawl.Start, "a").
		Upgrade(pawl.Upgrade[[]string, []string]("log", func(list []string) ([]string, error) { return list, nil })).Build()
	if err != nil {
		t.Fatal(err)
	}
	next := now.Thread(engine(t, h.open(t), nil), "t")
	out, err := next.Run(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "log", string(out.Values), `{"log":["old","old","new"]}`)
	if out, err = next.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	same(t, "log", string(out.Values), `{"log":["old","old","new","new"]}`)
	all := history(t, next)
	out, err = next.Fork(t.Context(), pawl.Checkpoint(all[len(all)-2].Checkpoint), nil) // of the first run, before its node
	if err != nil {
		t.Fatal(err)
	}
	same(t, "log of the branch", string(out.Values), `{"log":["new"]}`)
}
