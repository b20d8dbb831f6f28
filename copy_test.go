package pawl_test

import (
	"errors"
	"testing"

	"github.com/pawl-dev/pawl"
)

// P5: a thread is copied from checkpoints of its own; one of a child's, or of an input that is not applied, is refused by
// name, and no thread is made.
func TestCopyIsOfTheThreadsOwn(t *testing.T) {
	t.Parallel()
	eng := memoryEngine(t, nil)
	th := relatives(t, entries{}, pawl.Inherit, 2).Thread(eng, "t")
	out, err := th.Run(t.Context(), &family{})
	if err != nil {
		t.Fatal(err)
	}
	in := childOf(out.Waiting[0])
	for name, point := range map[string]pawl.Point{
		"a child's child's": pawl.Checkpoint(at(t, th.Thread, in, "b").Checkpoint),
		"an input":          pawl.Before(pawl.Start),
		"unknown":           pawl.Checkpoint("01890a5d-ac96-774b-bcce-b302099a8057"),
	} {
		refused := (*pawl.PointError)(nil)
		if _, err := th.Copy(t.Context(), "copy", point); !errors.As(err, &refused) || refused.Thread != "t" {
			t.Errorf("%s: %v", name, err)
		}
		if st := standing(t, eng.Thread("outer", "copy")); st.Status != pawl.StatusNew || st.Head != nil {
			t.Errorf("%s: a thread was made: %+v", name, st)
		}
	}
}
