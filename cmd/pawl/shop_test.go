package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/app"
	allow "github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
)

// order is the state of the shop's graph.
type order struct {
	Item    pawl.Last[string] `json:"item"`
	Cents   pawl.Last[int64]  `json:"cents"`
	Receipt pawl.Last[string] `json:"receipt"`
}

type purchase struct {
	Item     string `json:"item"`
	Cents    int64  `json:"cents"`
	Password string `json:"password"`
}

// buy writes a line to a file that the test reads; what else it does is told by the environment.
func buy(_ context.Context, _ effect.Op, p purchase) (string, error) {
	f, err := os.OpenFile("bought.txt", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return "", effect.NotSent(err)
	}
	fmt.Fprintln(f, p.Item, p.Cents)
	if err := f.Close(); err != nil {
		return "", err
	}
	if os.Getenv("SELLER") == "silent" {
		return "", errors.New("no answer came")
	}
	return "sold-1", nil
}

// find reads the file that buy writes.
func find(_ context.Context, _ effect.Op, p purchase) (string, bool, error) {
	if os.Getenv("SELLER") != "" {
		return "", false, errors.New("nobody answers")
	}
	doc, err := os.ReadFile("bought.txt")
	return "sold-1", strings.Contains(string(doc), fmt.Sprintln(p.Item, p.Cents)), err
}

var (
	bought = effect.New("seller.buy", buy).Approve(allow.Levels{{To: "finance", For: time.Hour}}).Material("item", "cents")
	known  = effect.New("seller.known", buy).Lookup(find).Settle(time.Hour)
	blind  = effect.New("seller.blind", buy) // nobody approves it, and its target can be asked nothing
)

func buying(e effect.Effect[purchase, string]) func(context.Context, *order) error {
	return func(ctx context.Context, s *order) error {
		got, err := e.Do(ctx, effect.Ref("order", s.Item.Get()), purchase{s.Item.Get(), s.Cents.Get(), "opensesame"})
		if denied := (*effect.DeniedError)(nil); errors.As(err, &denied) {
			s.Receipt.Set("denied: " + denied.Reason)
			return nil
		}
		if err != nil {
			return err
		}
		s.Receipt.Set(got)
		return nil
	}
}

// planned is a graph of which there are three builds: the first, one with a node more and a migration, and the same without.
func planned(build string) (*pawl.Graph[note], error) {
	nothing := func(context.Context, *note) error { return nil }
	one := func() *pawl.Builder[note] {
		return pawl.New[note]("plan").Node("draft", nothing).Node("approve", asking(ship), pawl.Uses(ship))
	}
	first, err := one().Path(pawl.Start, "draft", "approve").Build()
	if err != nil || build == "" {
		return first, err
	}
	next := one().Node("screen", nothing).Path(pawl.Start, "draft", "screen", "approve")
	if build == "migrates" {
		next = next.Migrate(pawl.Migration{From: first.Digest(), Map: func(m *pawl.Moving) error { m.Move("approve", "screen"); return nil }})
	}
	return next.Build()
}

// shop is a program as its users make one: graphs, and app.Main.
func shop() {
	fixtures, err := fixtureGraphs()
	graphs := []pawl.Registrable{}
	for _, name := range []string{"ship", "fail", "limit", "brief"} {
		graphs = append(graphs, fixtures[name])
	}
	for name, e := range map[string]effect.Effect[purchase, string]{"buy": bought, "blind": blind, "known": known} {
		g, bad := pawl.New[order](name).
			Node("price", func(_ context.Context, s *order) error { s.Cents.Set(s.Cents.Get() + 1); return nil }).
			Node("buy", buying(e), pawl.Uses(e)).
			Path(pawl.Start, "price", "buy").Build()
		err = errors.Join(err, bad)
		graphs = append(graphs, g)
	}
	plan, bad := planned(os.Getenv("BUILD"))
	if err = errors.Join(err, bad); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	graphs = append(graphs, plan)
	app.Main(slices.Clip(graphs)...)
}
