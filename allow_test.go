package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
)

// Answering has a permission of its own: the right to resume does not carry it.
func TestAllowAnswerInResume(t *testing.T) {
	t.Parallel()
	pay := pawl.Interrupt[string, bool]{Name: "pay"}
	eng := opened(t, hooked(t), &pawl.Options{Allow: func(_ context.Context, v pawl.VerbInfo) error {
		if v.Verb == pawl.VerbAnswer {
			return errors.New("ask finance")
		}
		return nil
	}})
	th := single(t, func(ctx context.Context, _ *note) error {
		_, err := pay.Ask(ctx, "pay?")
		return err
	}, pawl.Uses(pay)).Thread(eng, "t")
	out, err := th.Run(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, option := range map[string]pawl.RunOption{
		"typed": pay.Answer(out.Waiting[0].ID, true), "raw": pawl.AnswerWith(out.Waiting[0].ID, true), "the only one": pawl.AnswerWith("", true),
	} {
		if _, err := th.Resume(t.Context(), option); !errors.Is(err, pawl.ErrDenied) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if st := status(t, th); st.Status != pawl.Waiting || len(st.Waiting) != 1 {
		t.Errorf("what was denied changed the thread: %s", st.Status)
	}
}

// Allow is asked once a call, so that it can count and record.
func TestAllowOnce(t *testing.T) {
	t.Parallel()
	var asked []pawl.Verb
	eng := opened(t, hooked(t), &pawl.Options{Allow: func(_ context.Context, v pawl.VerbInfo) error {
		asked = append(asked, v.Verb)
		return nil
	}})
	g := single(t, func(context.Context, *note) error { return nil })
	if _, err := g.Thread(eng, "typed").Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := eng.Thread("single", "raw").Run(t.Context(), json.RawMessage(`{}`)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(asked, []pawl.Verb{pawl.VerbRun, pawl.VerbRun}) {
		t.Errorf("two runs asked for %v", asked)
	}
}
