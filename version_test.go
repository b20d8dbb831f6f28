package pawl_test

import (
	"context"
	"testing"

	"github.com/pawl-dev/pawl"
)

var gate = pawl.Interrupt[string, string]{Name: "gate"}

// gated is a graph of one question, with nodes after it that its past cannot tell. saw is told each entry's version.
func gated(t *testing.T, saw *[]string, later ...string) *pawl.Graph[note] {
	t.Helper()
	ask := func(ctx context.Context, s *note) error {
		task, _ := pawl.TaskFrom(ctx)
		*saw = append(*saw, task.Info().Version)
		answer, err := gate.Ask(ctx, "?")
		if err == nil {
			s.Text.Set(answer)
		}
		return err
	}
	b := pawl.New[note]("gated").Node("ask", ask, pawl.Uses(gate)).Node("last", func(context.Context, *note) error { return nil }).
		Path(pawl.Start, "ask", "last")
	at := "last"
	for _, name := range later {
		b, at = b.Node(name, func(context.Context, *note) error { return nil }).Edge(at, name), name
	}
	return built(t, b)
}

// A run keeps its version under a build that it cannot tell from its own; what starts under that build has another.
func TestAVersionStaysWithTheRun(t *testing.T) {
	t.Parallel()
	ctx, db := context.Background(), hooked(t)
	var saw []string
	first, second := gated(t, &saw), gated(t, &saw, "more")
	old := opened(t, db, nil)
	for _, id := range []string{"answered", "retried"} {
		if _, err := first.Thread(old, id).Run(ctx, &note{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Thread(old, "retried").Cancel(ctx, "for the test"); err != nil {
		t.Fatal(err)
	}
	eng := opened(t, db, nil)
	th := second.Thread(eng, "answered")
	out, err := th.Resume(ctx, pawl.AnswerWith("", "yes"))
	if err != nil || out.Status != pawl.Done {
		t.Fatalf("%+v, %v", out, err)
	}
	if _, err := second.Thread(eng, "retried").Retry(ctx); err != nil {
		t.Fatal(err)
	}
	want := []string{first.Digest(), first.Digest(), first.Digest(), second.Digest()}
	if len(saw) != len(want) {
		t.Fatalf("entries: %q", saw)
	}
	for i := range want {
		if saw[i] != want[i] {
			t.Errorf("entry %d ran under version %q, want %q", i, saw[i], want[i])
		}
	}
}
