package pawl_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// The same answer again is accepted without effect, whatever letters storage writes in another form.
func TestAnswerAgain(t *testing.T) {
	t.Parallel()
	say := pawl.Interrupt[string, map[string]string]{Name: "say"}
	eng := opened(t, hooked(t), nil)
	out, err := single(t, func(ctx context.Context, _ *note) error {
		_, err := say.Ask(ctx, "?")
		return err
	}, pawl.Uses(say)).Thread(eng, "t").Run(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for already, answer := range []any{map[string]string{"<b>": "R&D \u2028 é"}, map[string]string{"<b>": "R&D \u2028 é"}} {
		v, err := eng.Answer(t.Context(), out.Waiting[0].ID, answer)
		if err != nil || !v.Taken || v.Already != (already > 0) {
			t.Fatalf("%d: %+v %v", already, v, err)
		}
	}
	if _, err := eng.Answer(t.Context(), out.Waiting[0].ID, map[string]string{"<b>": "R&D"}); !errors.Is(err, pawl.ErrAnswered) {
		t.Errorf("another answer: %v", err)
	}
}

// What was submitted and not checked yet is not called taken, the second time neither.
func TestSubmitAgain(t *testing.T) {
	t.Parallel()
	home := hooked(t)
	checked := pawl.Interrupt[string, bool]{Name: "checked", Check: func(string, bool) error { return nil }}
	out, err := single(t, func(ctx context.Context, _ *note) error {
		_, err := checked.Ask(ctx, "?")
		return err
	}, pawl.Uses(checked)).Thread(opened(t, home, nil), "t").Run(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	without := opened(t, home, nil)
	for _, already := range []bool{false, true} {
		if v, err := without.Answer(t.Context(), out.Waiting[0].ID, true); err != nil || v.Taken || !v.Submitted || v.Already != already {
			t.Errorf("%+v %v", v, err)
		}
	}
}

// The list of open questions begins with those that expire first, and a short list leaves out the others.
func TestQuestionsByExpiry(t *testing.T) {
	t.Parallel()
	lasting := pawl.Interrupt[string, bool]{Name: "lasting"}
	late := pawl.Interrupt[string, bool]{Name: "late", Expires: 2 * time.Hour}
	soon := pawl.Interrupt[string, bool]{Name: "soon", Expires: time.Hour}
	eng := opened(t, hooked(t), nil)
	if _, err := single(t, func(ctx context.Context, _ *note) error {
		_, a := lasting.Ask(ctx, "?")
		_, b := late.Ask(ctx, "?")
		_, c := soon.Ask(ctx, "?")
		return errors.Join(a, b, c)
	}, pawl.Uses(lasting, late, soon)).Thread(eng, "t").Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	want := []string{"soon", "late", "lasting"}
	for limit := range 5 {
		qs, err := eng.Questions(t.Context(), limit)
		if n := min(limit, 3); err != nil || limit > 0 && len(qs) != n || limit == 0 && len(qs) != 3 {
			t.Fatalf("limit %d: %d, %v", limit, len(qs), err)
		}
		for i, q := range qs {
			if q.Name != want[i] {
				t.Errorf("limit %d: %q stands where %q belongs", limit, q.Name, want[i])
			}
		}
	}
}
