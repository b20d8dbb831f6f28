package pawl_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
)

// skewed is a home whose clock is ahead of the process's, or behind.
type skewed struct {
	storage.DB
	by time.Duration
}

type skewedTx struct {
	storage.Tx
	by time.Duration
}

func (t skewedTx) Now() time.Time { return t.Tx.Now().Add(t.by) }

func (d skewed) View(ctx context.Context, fn func(context.Context, storage.Tx) error) error {
	return d.DB.View(ctx, func(ctx context.Context, tx storage.Tx) error { return fn(ctx, skewedTx{tx, d.by}) })
}

func (d skewed) Update(ctx context.Context, fn func(context.Context, storage.Tx) error) error {
	return d.DB.Update(ctx, func(ctx context.Context, tx storage.Tx) error { return fn(ctx, skewedTx{tx, d.by}) })
}

// P3: whether an answer comes in time is judged by the database's clock, whatever the clocks of the processes say that ask,
// answer, resume and look for what is due. Each case asks at noon, with an hour to answer; an hour and a half later by its
// own clock another process comes, for which it is `at` by the database's.
func TestDeadlinesAreTheDatabases(t *testing.T) {
	t.Parallel()
	const given, later = time.Hour, 90 * time.Minute
	ship := pawl.Interrupt[string, string]{Name: "ship", Expires: given, Default: func(string) string { return "too late" }}
	g := single(t, func(ctx context.Context, s *note) error {
		answer, err := ship.Ask(ctx, "ship it?")
		s.Text.Set(answer)
		return err
	}, pawl.Uses(ship))
	type thread = *pawl.ThreadOf[note]
	inTime := func(err error) error { return err }
	tooLate := func(err error) error {
		if refused := (*pawl.AnswerError)(nil); !errors.As(err, &refused) || refused.Reason != pawl.ReasonExpired {
			return errors.Join(errors.New("not refused as expired"), err)
		}
		return nil
	}
	for name, c := range map[string]struct {
		at   time.Duration
		does func(eng *pawl.Engine, th thread, id string) error
		want string // the text in the end; empty: it waits
	}{
		"an answer in time": {given / 2, func(eng *pawl.Engine, th thread, id string) error {
			_, err := eng.Answer(context.Background(), id, "yes")
			return inTime(err)
		}, ""},
		"an answer too late": {2 * given, func(eng *pawl.Engine, th thread, id string) error {
			_, err := eng.Answer(context.Background(), id, "yes")
			return tooLate(err)
		}, ""},
		"an answer in a resume in time": {given / 2, func(_ *pawl.Engine, th thread, id string) error {
			_, err := th.Resume(context.Background(), ship.Answer(id, "yes"))
			return inTime(err)
		}, "yes"},
		"an answer in a resume too late": {2 * given, func(_ *pawl.Engine, th thread, id string) error {
			_, err := th.Resume(context.Background(), ship.Answer(id, "yes"))
			return tooLate(err)
		}, ""},
		"a resume in time": {given / 2, func(_ *pawl.Engine, th thread, _ string) error {
			_, err := th.Resume(context.Background())
			return err
		}, ""},
		"a resume too late": {2 * given, func(_ *pawl.Engine, th thread, _ string) error {
			_, err := th.Resume(context.Background())
			return err
		}, "too late"},
		"a runner in time": {given / 2, func(eng *pawl.Engine, _ thread, _ string) error { return looksFor(eng) }, ""},
		"a timer in time":  {given / 2, fires(t, 0, given/2), ""},
		"a timer too late": {2 * given, fires(t, 1, 0), ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				home := hooked(t)
				first := g.Thread(opened(t, home, nil), "t")
				out, err := first.Run(context.Background(), nil)
				if err != nil || len(out.Waiting) != 1 || !out.Waiting[0].Due.Equal(out.Waiting[0].Asked.Add(given)) {
					t.Fatal(out, err)
				}
				<-time.After(later)
				eng := opened(t, skewed{home, c.at - later}, nil)
				th := g.Thread(eng, "t")
				if err := c.does(eng, th, out.Waiting[0].ID); err != nil {
					t.Error(err)
				}
				st, err := th.State(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				if state, err := th.Read(st.Head); err != nil || state.Text.Get() != c.want || (st.Status == pawl.Waiting) != (c.want == "") {
					t.Errorf("it is %s, %q, %v", st.Status, state.Text.Get(), err)
				}
			})
		})
	}
}

// looksFor lets a runner go on with what it finds.
func looksFor(eng *pawl.Engine) error {
	r := eng.Runner()
	_, _, err := r.Due(context.Background(), 10)
	return errors.Join(err, r.Wait(context.Background()))
}

// fires looks for what is due: how many questions were, and in how long, by the process's own clock, the next one is.
func fires(t *testing.T, want int, next time.Duration) func(*pawl.Engine, *pawl.ThreadOf[note], string) error {
	return func(eng *pawl.Engine, _ *pawl.ThreadOf[note], _ string) error {
		timer := eng.Timer()
		done, at, err := timer.Due(context.Background(), 10)
		if err := errors.Join(err, timer.Wait(context.Background())); err != nil {
			return err
		}
		if in := time.Until(at).Round(time.Second); done != want || next > 0 && in != next {
			t.Errorf("%d were due, the next in %v; want %d and %v", done, in, want, next)
		}
		return nil
	}
}

// P3: a question that a process asks whose clock is wrong is due by the database's clock.
func TestQuestionsAreDueByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	ship := pawl.Interrupt[string, string]{Name: "ship", Expires: time.Hour}
	for name, by := range map[string]time.Duration{"ahead": 26 * time.Hour, "behind": -26 * time.Hour, "right": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := single(t, func(ctx context.Context, _ *note) error { _, err := ship.Ask(ctx, "?"); return err }, pawl.Uses(ship))
				out, err := g.Thread(opened(t, skewed{hooked(t), by}, nil), "t").Run(context.Background(), nil)
				if err != nil || len(out.Waiting) != 1 || !out.Waiting[0].Due.Equal(time.Now().Add(by+time.Hour)) {
					t.Errorf("%+v, %v", out, err)
				}
			})
		})
	}
}
