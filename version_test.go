package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// screened is the graph with a node before the gate.
func screened(t *testing.T) *pawl.Graph[note] {
	t.Helper()
	return built(t, pawl.New[note]("gated").Node("screen", func(context.Context, *note) error { return nil }).
		Node("ask", func(ctx context.Context, s *note) error { _, err := gate.Ask(ctx, "?"); return err }, pawl.Uses(gate)).
		Path(pawl.Start, "screen", "ask"))
}

// Two programs of different builds serve one home: each goes on with its own runs, and the other's are visible, not
// failed. A version that is drained takes no new runs and finishes those that it has.
func TestVersionsBesideEachOther(t *testing.T) {
	t.Parallel()
	ctx, db := context.Background(), hooked(t)
	var saw []string
	before, after := gated(t, &saw), screened(t)
	old, now := opened(t, db, nil), opened(t, db, nil)
	for _, id := range []string{"a", "b"} {
		if _, err := before.Thread(old, id).Run(ctx, &note{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := after.Thread(now, "c").Run(ctx, &note{}); err != nil {
		t.Fatal(err)
	}
	_, err := after.Thread(now, "a").Resume(ctx, pawl.AnswerWith("", "yes"))
	refused := (*pawl.VersionError)(nil)
	if !errors.As(err, &refused) || !strings.HasPrefix(refused.First, `"screen" inserted before "ask"`) {
		t.Fatalf("resumed under another version: %v", err)
	}
	st := status(t, after.Thread(now, "a"))
	if st.Status != pawl.Waiting || !st.Stranded || st.Differs != refused.First || st.Version != before.Digest() {
		t.Errorf("a thread of the other version: %+v", st)
	}
	if st := status(t, before.Thread(old, "a")); st.Stranded || st.Differs != "" {
		t.Errorf("a thread of the own version: %+v", st)
	}
	counted := func(eng *pawl.Engine) string {
		t.Helper()
		all, err := eng.Versions(ctx, "gated")
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, v := range all {
			out = append(out, fmt.Sprintf("%s here=%v draining=%v unfinished=%d stranded=%d %v",
				map[string]string{before.Digest(): "old", after.Digest(): "new"}[v.Version], v.Here, v.Draining, v.Unfinished, v.Stranded, v.Threads))
		}
		return strings.Join(out, "\n")
	}
	want := "new here=true draining=false unfinished=1 stranded=0 map[waiting:1]\nold here=false draining=false unfinished=2 stranded=2 map[waiting:2]"
	if got := counted(now); got != want {
		t.Errorf("as the new program sees it\n%s\nwant\n%s", got, want)
	}
	if err := now.Drain(ctx, "gated", before.Digest(), "the new one is out"); err != nil {
		t.Fatal(err)
	}
	draining := (*pawl.DrainingError)(nil)
	if _, err := before.Thread(old, "d").Run(ctx, &note{}); !errors.As(err, &draining) || draining.Reason != "the new one is out" {
		t.Errorf("a new run of the old version: %v", err)
	}
	if st := status(t, before.Thread(old, "d")); st.Status != pawl.StatusNew {
		t.Errorf("the refused run left a thread: %+v", st)
	}
	if _, err := old.Tenant("other").Thread("gated", "d").Run(ctx, []byte("{}")); err != nil {
		t.Errorf("the mark is of one tenant, and another got %v", err)
	}
	for _, id := range []string{"a", "b"} {
		if out, err := before.Thread(old, id).Resume(ctx, pawl.AnswerWith("", "yes")); err != nil || out.Status != pawl.Done {
			t.Fatalf("the old program finishes its own: %+v, %v", out, err)
		}
	}
	want = "new here=true draining=false unfinished=1 stranded=0 map[waiting:1]\nold here=false draining=true unfinished=0 stranded=0 map[done:2]"
	if got := counted(now); got != want {
		t.Errorf("after the drain\n%s\nwant\n%s", got, want)
	}
	if err := now.Undrain(ctx, "gated", before.Digest(), "not yet"); err != nil {
		t.Fatal(err)
	}
	if _, err := before.Thread(old, "d").Run(ctx, &note{}); err != nil {
		t.Errorf("a new run after the mark is gone: %v", err)
	}
}
