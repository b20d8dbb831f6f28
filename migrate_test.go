package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
)

// The state of an old program and of a new one, in which a channel has another type without an upgrade.
type (
	oldOrder struct {
		Total pawl.Last[int]      `json:"total"`
		Log   pawl.Append[string] `json:"log"`
		Gone  pawl.Last[string]   `json:"gone"`
	}
	newOrder struct {
		Total pawl.Last[string]   `json:"total"`
		Log   pawl.Append[string] `json:"log"`
	}
)

// oldShop is check -> (pay, which asks | beside); newShop names pay transfer and has screen before it.
func oldShop(t *testing.T, calls *[]string) *pawl.Graph[oldOrder] {
	t.Helper()
	g, err := pawl.New[oldOrder]("shop").
		Node("check", func(_ context.Context, s *oldOrder) error { s.Log.Add("check"); return nil }).
		Node("beside", func(_ context.Context, s *oldOrder) error {
			*calls = append(*calls, "beside")
			s.Log.Add("beside")
			return nil
		}).
		Node("pay", func(ctx context.Context, s *oldOrder) error {
			answer, err := gate.Ask(ctx, "old")
			if err == nil {
				s.Log.Add("old pay " + answer)
			}
			return err
		}, pawl.Uses(gate)).
		Path(pawl.Start, "check", "pay").Edge("check", "beside").Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func newShop(t *testing.T, calls *[]string, migrations ...pawl.Migration) *pawl.Graph[newOrder] {
	t.Helper()
	g, err := pawl.New[newOrder]("shop").
		Node("check", func(_ context.Context, s *newOrder) error { s.Log.Add("check"); return nil }).
		Node("beside", func(_ context.Context, s *newOrder) error {
			*calls = append(*calls, "beside")
			s.Log.Add("beside")
			return nil
		}).
		Node("screen", func(_ context.Context, s *newOrder) error { s.Log.Add("screen"); return nil }).
		Node("transfer", func(ctx context.Context, s *newOrder) error {
			answer, err := gate.Ask(ctx, "new "+s.Total.Get())
			if err == nil {
				s.Log.Add("transfer " + answer)
			}
			return err
		}, pawl.Uses(gate)).
		Path(pawl.Start, "check", "screen", "transfer").Edge("check", "beside").Migrate(migrations...).Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// toScreen is the migration of the old shop.
func toScreen(m *pawl.Moving) error {
	m.Rename("pay", "transfer")
	m.Move("transfer", "screen")
	var total int
	if err := json.Unmarshal(m.Values["total"], &total); err != nil {
		return err
	}
	delete(m.Values, "gone")
	return m.Set("total", fmt.Sprint(total, " EUR"))
}

// onEachHome runs a case in memory and on SQLite.
func onEachHome(t *testing.T, do func(t *testing.T, db storage.DB)) {
	for name, open := range map[string]func(t *testing.T) (storage.DB, error){
		"memory": func(*testing.T) (storage.DB, error) { return memdb.Open(pawl.Kinds()...) },
		"sqlite": func(t *testing.T) (storage.DB, error) { return sqlite.Open(t.TempDir()+"/pawl.db", pawl.Kinds()...) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, err := open(t)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			do(t, db)
		})
	}
}

var because = pawl.Reason("the new one is out")

func TestMigrate(t *testing.T) {
	t.Parallel()
	onEachHome(t, func(t *testing.T, db storage.DB) {
		ctx := context.Background()
		var calls []string
		before := oldShop(t, &calls)
		after := newShop(t, &calls, pawl.Migration{From: before.Digest()[:12], Map: toScreen})
		old, now := opened(t, db, nil), opened(t, db, nil)
		out, err := before.Thread(old, "t").Run(ctx, &oldOrder{Total: pawl.Of(7), Gone: pawl.Of("x")})
		if err != nil || out.Status != pawl.Waiting {
			t.Fatalf("%+v, %v", out, err)
		}
		asked := out.Waiting[0].ID
		th := after.Thread(now, "t")
		tried, err := th.PreviewMigrate(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := th.Migrate(ctx); err == nil || !strings.Contains(err.Error(), "needs a reason") {
			t.Errorf("without a reason: %v", err)
		}
		done, err := th.Migrate(ctx, because)
		if err != nil || !reflect.DeepEqual(done, tried) {
			t.Fatalf("done %+v, %v\ntried %+v", done, err, tried)
		}
		if fmt.Sprint(done.Was, done.Due, done.Converted, done.Discarded, done.Forgotten) != "[beside pay] [beside screen] [total] [] []" ||
			len(done.Withdrawn) != 1 || done.From != before.Digest() || done.To != after.Digest() || done.Status != pawl.Waiting {
			t.Errorf("the report says %+v", done)
		}
		st := standing(t, th)
		if st.Stranded || st.Version != after.Digest() || string(st.Head.Values) != `{"total":"7 EUR","log":["check"]}` || st.Head.Source != "migrate" || len(st.Waiting) != 0 {
			t.Errorf("it stands as %+v, %s", st, st.Head.Values)
		}
		if _, err := th.Answer(ctx, asked, "yes"); !errors.As(err, new(*pawl.AnswerError)) {
			t.Errorf("the withdrawn question takes an answer: %v", err)
		}
		if _, err := before.Thread(old, "t").Resume(ctx); !errors.As(err, new(*pawl.VersionError)) {
			t.Errorf("the old program resumes it: %v", err)
		}

		back, err := th.MigrateBack(ctx, because)
		if err != nil || fmt.Sprint(back.Due) != "[beside pay]" || back.To != before.Digest() {
			t.Fatalf("%+v, %v", back, err)
		}
		if _, err := th.MigrateBack(ctx, because); !errors.As(err, new(*pawl.VerbError)) {
			t.Errorf("a second way back: %v", err)
		}
		if got, err := old.Versions(ctx, "shop"); err != nil || len(got) != 1 || got[0].Unfinished != 1 || !got[0].Here {
			t.Errorf("after the way back: %+v, %v", got, err)
		}
		out, err = before.Thread(old, "t").Resume(ctx)
		if err != nil || out.Status != pawl.Waiting || string(out.Waiting[0].Body) != `"old"` {
			t.Fatalf("the old program after the way back: %+v, %v", out, err)
		}

		if _, err := th.Migrate(ctx, because); err != nil {
			t.Fatal(err)
		}
		res, err := th.Resume(ctx)
		if err != nil || res.Status != pawl.Waiting || string(res.Waiting[0].Body) != `"new 7 EUR"` {
			t.Fatalf("%+v, %v", res, err)
		}
		if _, err := th.MigrateBack(ctx, because); !errors.As(err, new(*pawl.VerbError)) {
			t.Errorf("a way back after it went on: %v", err)
		}
		res, err = th.Resume(ctx, gate.Answer(res.Waiting[0].ID, "yes"))
		if err != nil || string(res.Values) != `{"total":"7 EUR","log":["check","beside","screen","transfer yes"]}` {
			t.Fatalf("%s, %v", res.Values, err)
		}
		if len(calls) != 1 {
			t.Errorf("what had finished ran again: %q", calls)
		}
		h, err := th.History(ctx, pawl.Page{})
		if err != nil || h[0].Source != "loop" || string(h[len(h)-2].Values) != `{"total":7,"gone":"x"}` {
			t.Errorf("history %+v, %v", h[len(h)-2], err)
		}
	})
}

func TestMigrateIsRefused(t *testing.T) {
	t.Parallel()
	ctx, db := context.Background(), hooked(t)
	var calls []string
	before := oldShop(t, &calls)
	old := opened(t, db, nil)
	if _, err := before.Thread(old, "t").Run(ctx, &oldOrder{Total: pawl.Of(7), Gone: pawl.Of("x")}); err != nil {
		t.Fatal(err)
	}
	rename := func(m *pawl.Moving) { m.Rename("pay", "transfer"); _ = m.Set("total", "7"); delete(m.Values, "gone") }
	for name, c := range map[string]struct {
		by    *pawl.Migration
		wants string
	}{
		"no migration":                    {nil, "declares no migration from there"},
		"another version":                 {&pawl.Migration{From: strings.Repeat("0", 64)}, "declares no migration from there"},
		"a short digest":                  {&pawl.Migration{From: before.Digest()[:7]}, "declares no migration from there"},
		"no node":                         {&pawl.Migration{From: before.Digest()}, `node "pay" is due, and graph "shop" has none`},
		"a channel left":                  {&pawl.Migration{Map: func(m *pawl.Moving) error { m.Drop("pay"); return m.Set("total", "7") }}, `channels ["gone"] hold values`},
		"a value that is not of the type": {&pawl.Migration{Map: func(m *pawl.Moving) error { rename(m); return m.Set("total", 7) }}, "a value does not fit"},
		"due twice":                       {&pawl.Migration{Map: func(m *pawl.Moving) error { rename(m); m.Move("transfer", "beside"); return nil }}, `node "beside" is due twice`},
		"its own words":                   {&pawl.Migration{Map: func(*pawl.Moving) error { return errors.New("not this one") }}, "its mapping says: not this one"},
		"a panic":                         {&pawl.Migration{Map: func(*pawl.Moving) error { panic("oh") }}, "its mapping says: panic: oh"},
		"a sibling's work":                {&pawl.Migration{Map: func(m *pawl.Moving) error { rename(m); m.Rename("beside", "screen"); return nil }}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var list []pawl.Migration
			if c.by != nil {
				if c.by.From == "" {
					c.by.From = before.Digest()
				}
				list = append(list, *c.by)
			}
			th := newShop(t, &calls, list...).Thread(opened(t, db, nil), "t")
			rows := valueRows(t, db)
			_, err := th.PreviewMigrate(ctx)
			if c.wants == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			refused := (*pawl.MigrationError)(nil)
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.wants) || !strings.Contains(err.Error(), "nothing was changed") {
				t.Errorf("%v, want %s", err, c.wants)
			}
			if _, again := th.Migrate(ctx, because); again == nil || again.Error() != err.Error() {
				t.Errorf("tried: %v\ndone: %v", err, again)
			}
			if !reflect.DeepEqual(valueRows(t, db), rows) {
				t.Error("a refused migration wrote")
			}
		})
	}
	th := newShop(t, &calls, pawl.Migration{From: before.Digest(), Map: toScreen}).Thread(opened(t, db, &pawl.Options{
		Parts: []pawl.Part{deskPart{refuse: pawl.VerbMigrate}}, Allow: func(_ context.Context, v pawl.VerbInfo) error {
			if v.Verb == pawl.VerbForce {
				return errors.New("not you")
			}
			return nil
		}}), "t")
	_, tried := th.PreviewMigrate(ctx)
	_, done := th.Migrate(ctx, because)
	if tried == nil || done == nil || tried.Error() != done.Error() || !strings.Contains(done.Error(), "the desk says no") {
		t.Errorf("a part that refuses: %v, %v", tried, done)
	}
	if _, err := th.Force(ctx, because); !errors.Is(err, pawl.ErrDenied) {
		t.Errorf("force without its own permission: %v", err)
	}
	same := before.Thread(old, "t")
	if _, err := same.Force(ctx, because); err == nil || !strings.Contains(err.Error(), "it goes on as it is: resume it") {
		t.Errorf("force where nothing differs: %v", err)
	}
}

// Force leaves behind what does not fit, and says so.
func TestForce(t *testing.T) {
	t.Parallel()
	onEachHome(t, func(t *testing.T, db storage.DB) {
		ctx := context.Background()
		var saw []string
		before, after := gated(t, &saw), screened(t)
		old, now := opened(t, db, nil), opened(t, db, nil)
		if _, err := before.Thread(old, "t").Run(ctx, &note{}); err != nil {
			t.Fatal(err)
		}
		th := after.Thread(now, "t")
		tried, err := th.PreviewForce(ctx)
		if err != nil {
			t.Fatal(err)
		}
		done, err := th.Force(ctx, because)
		if err != nil || !reflect.DeepEqual(tried, done) || len(done.Withdrawn) != 1 {
			t.Fatalf("%+v, %v\ntried %+v", done, err, tried)
		}
		out, err := th.Resume(ctx)
		if err != nil || out.Status != pawl.Waiting {
			t.Fatalf("%+v, %v", out, err)
		}
		if out, err = th.Resume(ctx, gate.Answer(out.Waiting[0].ID, "yes")); err != nil || out.Status != pawl.Done {
			t.Errorf("%+v, %v", out, err)
		}
	})
}

func standing(t *testing.T, th interface {
	State(context.Context, ...pawl.Path) (*pawl.ThreadState, error)
}) *pawl.ThreadState {
	t.Helper()
	st, err := th.State(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// checked is what a build would do with each thread.
func checked(t *testing.T, eng *pawl.Engine, g pawl.Registrable) string {
	t.Helper()
	var out []string
	for c, err := range eng.Check(context.Background(), g) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%s %s: %s; %s; %s", c.Thread, c.Status, c.Fit, c.First, c.Why))
	}
	return strings.Join(out, "\n")
}

func TestCheck(t *testing.T) {
	t.Parallel()
	onEachHome(t, func(t *testing.T, db storage.DB) {
		ctx := context.Background()
		var calls []string
		before := oldShop(t, &calls)
		old := opened(t, db, nil)
		for _, id := range []string{"done", "waits"} {
			if _, err := before.Thread(old, id).Run(ctx, &oldOrder{Total: pawl.Of(7), Gone: pawl.Of("x")}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := before.Thread(old, "done").Resume(ctx, pawl.AnswerWith("", "yes")); err != nil {
			t.Fatal(err)
		}
		if _, err := single(t, func(context.Context, *note) error { return nil }).Thread(old, "other graph").Run(ctx, nil); err != nil {
			t.Fatal(err)
		}
		rows := valueRows(t, db)
		for name, c := range map[string]struct {
			build pawl.Registrable
			want  string
		}{
			"the same": {before, "done done: goes on; ; \nwaits waiting: goes on; ; "},
			"another, without a migration": {newShop(t, &calls), `done done: pin; channel "total": was last of int, is last of string; the graph declares no migration from there; add one with Builder.Migrate, or use a program of the old version
waits waiting: pin; node "pay": was there, is absent; the graph declares no migration from there; add one with Builder.Migrate, or use a program of the old version`},
			"another, with one": {newShop(t, &calls, pawl.Migration{From: before.Digest(), Map: toScreen}), `done done: migrate; channel "total": was last of int, is last of string; 
waits waiting: migrate; node "pay": was there, is absent; `},
		} {
			if got := checked(t, old, c.build); got != c.want {
				t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
			}
		}
		if !reflect.DeepEqual(valueRows(t, db), rows) {
			t.Error("a check wrote")
		}
	})
}
