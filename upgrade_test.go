package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
)

// The state before a change, and after it: a channel is renamed, and two have other types.
type (
	ledgerBefore struct {
		Lines pawl.Append[string]      `json:"lines"`
		Names pawl.Map[string, string] `json:"names"`
		Sum   pawl.Last[int]           `json:"sum"`
	}
	ledgerAfter struct {
		Lines pawl.Append[line]      `json:"lines"`
		Names pawl.Map[string, line] `json:"names"`
		Total pawl.Last[int]         `json:"total" pawl:"was=sum"`
	}
	line struct {
		Text string `json:"text"`
		Old  bool   `json:"old"`
	}
)

func oldLines(old []string) ([]line, error) {
	var out []line
	for _, s := range old {
		if s == "unreadable" {
			return nil, errors.New("no line")
		}
		out = append(out, line{s, true})
	}
	return out, nil
}

func oldNames(old map[string]string) (map[string]line, error) {
	out := map[string]line{}
	for k, s := range old {
		out[k] = line{s, true}
	}
	return out, nil
}

// ledgerGraph has a node that ends beside one that asks.
func ledgerGraph[S any](write func(*S, string)) *pawl.Builder[S] {
	return pawl.New[S]("ledger").
		Node("first", func(_ context.Context, s *S) error { write(s, "first"); return nil }).
		Node("beside", func(_ context.Context, s *S) error { write(s, "beside"); return nil }).
		Node("ask", func(ctx context.Context, s *S) error { _, err := gate.Ask(ctx, "?"); return err }, pawl.Uses(gate)).
		Path(pawl.Start, "first", "beside").Edge("first", "ask")
}

func ledgers(t *testing.T) (*pawl.Graph[ledgerBefore], *pawl.Graph[ledgerAfter]) {
	t.Helper()
	before, err := ledgerGraph(func(s *ledgerBefore, text string) { s.Lines.Add(text); s.Names.Set(text, text) }).Build()
	if err != nil {
		t.Fatal(err)
	}
	after, err := ledgerGraph(func(s *ledgerAfter, text string) { s.Lines.Add(line{Text: text}); s.Names.Set(text, line{Text: text}) }).
		Upgrade(pawl.Upgrade("lines", oldLines), pawl.Upgrade("names", oldNames)).Build()
	if err != nil {
		t.Fatal(err)
	}
	return before, after
}

var ledgerInput = &ledgerBefore{Lines: pawl.List("in"), Names: pawl.Pairs(map[string]string{"in": "in"}), Sum: pawl.Of(7)}

func TestUpgradeOfARunInFlight(t *testing.T) {
	t.Parallel()
	ctx, db := context.Background(), hooked(t)
	before, after := ledgers(t)
	old := opened(t, db, nil)
	for _, id := range []string{"resumed", "retried", "forked"} {
		if out, err := before.Thread(old, id).Run(ctx, ledgerInput); err != nil || out.Status != pawl.Waiting {
			t.Fatalf("%+v, %v", out, err)
		}
	}
	if err := before.Thread(old, "retried").Cancel(ctx, "for the test"); err != nil {
		t.Fatal(err)
	}
	rows := valueRows(t, db)
	eng := opened(t, db, nil)
	wants := []line{{"in", true}, {"first", true}, {"beside", true}}
	check := func(what string, out *pawl.OutcomeOf[ledgerAfter], err error, want []line) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		var lines []line
		for _, l := range out.State.Lines.All() {
			lines = append(lines, l)
		}
		name, _ := out.State.Names.Get("in")
		if !reflect.DeepEqual(lines, want) || name != (line{"in", true}) || out.State.Total.Get() != 7 {
			t.Errorf("%s: %s", what, out.Values)
		}
	}
	out, err := after.Thread(eng, "resumed").Resume(ctx, pawl.AnswerWith("", "yes"))
	check("what is in flight, a finished sibling included", out, err, wants)
	out, err = after.Thread(eng, "retried").Retry(ctx)
	check("a retry, whose input was given before", out, err, []line{{"in", true}, {"first", false}})
	th := after.Thread(eng, "forked")
	out, err = th.Fork(ctx, pawl.Before("first"), func(s *ledgerAfter) error { s.Total.Set(7); return nil })
	check("a fork from before the change", out, err, []line{{"in", true}, {"first", false}})

	h, err := th.History(ctx, pawl.Page{})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(h[len(h)-2].Values); got != `{"lines":["in"],"names":{"in":"in"},"sum":7}` {
		t.Errorf("an old checkpoint reads %s", got)
	}
	state, err := th.Read(h[len(h)-2])
	if err != nil || state.Total.Get() != 7 || state.Lines.Len() != 1 || state.Lines.At(0) != (line{"in", true}) {
		t.Errorf("an old snapshot, typed: %+v, %v", state, err)
	}
	now := valueRows(t, db)
	for key, row := range rows {
		if now[key] != row {
			t.Errorf("value %s was %q, is %q", key, row, now[key])
		}
	}
}

// valueRows are the bodies of all stored values.
func valueRows(t *testing.T, db storage.DB) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := db.View(context.Background(), func(_ context.Context, tx storage.Tx) error {
		rows, err := tx.List("value", storage.Query{})
		for _, row := range rows {
			out[fmt.Sprint(row.Key)] = string(row.Body)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestUpgradeThatFails(t *testing.T) {
	t.Parallel()
	ctx, db := context.Background(), hooked(t)
	before, after := ledgers(t)
	old, eng := opened(t, db, nil), opened(t, db, nil)
	if _, err := before.Thread(old, "t").Run(ctx, &ledgerBefore{Lines: pawl.List("unreadable")}); err != nil {
		t.Fatal(err)
	}
	rows := valueRows(t, db)
	_, err := after.Thread(eng, "t").Resume(ctx, pawl.AnswerWith("", "yes"))
	if err == nil || !strings.Contains(err.Error(), `the upgrade of channel "lines": no line`) || !strings.Contains(err.Error(), `"t"`) {
		t.Errorf("an upgrade that fails: %v", err)
	}
	if !reflect.DeepEqual(valueRows(t, db), rows) {
		t.Error("it changed what is stored")
	}
	if out, err := before.Thread(old, "t").Resume(ctx, pawl.AnswerWith("", "yes")); err != nil || out.Status != pawl.Done {
		t.Errorf("the old program: %+v, %v", out, err)
	}
}

func TestUpgradeFaults(t *testing.T) {
	t.Parallel()
	type wrong struct {
		A pawl.Last[int] `json:"a" pawl:"was=b,was=c"`
		B pawl.Last[int] `json:"b" pawl:"was=c"`
		D pawl.Last[int] `json:"d" pawl:"old=e"`
	}
	_, err := pawl.New[wrong]("g").Node("n", func(context.Context, *wrong) error { return nil }).Edge(pawl.Start, "n").Build()
	for _, want := range []string{`wrong.A was named "b", and that is the name of a channel now`, `wrong.A and wrong.B were both named "c"`, `wrong.D has the tag pawl:"old=e"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %s", err, want)
		}
	}
	b := pawl.New[note]("g").Node("n", func(context.Context, *note) error { return nil }).Edge(pawl.Start, "n")
	same := func(s string) (string, error) { return s, nil }
	b.Upgrade(pawl.Upgrade("text", func(int) (int, error) { return 0, nil }), pawl.Upgrade("other", same),
		pawl.Upgrade[int, string]("text", nil), pawl.Upgrade("text", same), pawl.Upgrade("text", same))
	_, err = b.Build()
	faulty := (*pawl.BuildError)(nil)
	if !errors.As(err, &faulty) || len(faulty.Faults) != 4 {
		t.Fatalf("%v", err)
	}
	for i, want := range []string{"gives a int", "there is none", "its function is nil", "two upgrades from string"} {
		if !strings.Contains(faulty.Faults[i], want) {
			t.Errorf("fault %q lacks %q", faulty.Faults[i], want)
		}
	}
}
