package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
)

const aboutVersions = `Count the threads of each version of a graph: those that are not over, and of these the stranded ones, which this program
cannot go on with. The program of an old version may stop when it has no unfinished ones left.`

func (p *Program) graphVersions() *cobra.Command {
	return &cobra.Command{
		Use: "versions [GRAPH]", Short: "Which versions of a graph the stored threads stand under", Long: aboutVersions,
		Args: p.takesUpTo(1, "at most a graph's name"), Example: "  pawl graph versions refund\n  pawl graph versions -o json",
		ValidArgsFunction: p.completeGraphs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.within(cmd.Context(), func(h *home) error {
				list, err := p.versions(cmd, h, args)
				if err != nil {
					return err
				}
				return p.Emit(list, func(g *Page) { tableOfVersions(g, list) })
			})
		},
	}
}

// versions lists those of one graph, or of all that are here or in the database.
func (p *Program) versions(cmd *cobra.Command, h *home, of []string) ([]pawl.VersionInfo, error) {
	names := of
	if len(of) == 0 {
		threads, _, err := collect(cmd, h.eng, "", 0, func(pawl.ThreadInfo) bool { return true })
		if err != nil {
			return nil, err
		}
		names = p.served()
		for _, t := range threads {
			names = append(names, t.Graph)
		}
		slices.Sort(names)
	}
	list := []pawl.VersionInfo{}
	for _, name := range slices.Compact(names) {
		some, err := h.eng.Versions(cmd.Context(), name)
		if err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	if len(of) > 0 && len(list) == 0 {
		return nil, &pawl.NotFoundError{What: "graph", ID: of[0], Hint: p.Name + " graph list shows what there is" + meant(of[0], p.served()...)}
	}
	return list, nil
}

func tableOfVersions(g *Page, list []pawl.VersionInfo) {
	if len(list) == 0 {
		g.Line("no graphs")
		return
	}
	var rows [][]string
	for _, v := range list {
		var notes, counts []string
		if v.Here {
			notes = append(notes, "this program")
		}
		if v.Draining {
			notes = append(notes, "draining")
		}
		for _, s := range statuses {
			if n := v.Threads[s]; n > 0 {
				counts = append(counts, fmt.Sprintf("%d %s", n, s))
			}
		}
		rows = append(rows, []string{
			v.Graph, digits(v.Version), orNone(strings.Join(notes, ", ")), fmt.Sprint(v.Unfinished), fmt.Sprint(v.Stranded), orNone(strings.Join(counts, ", ")),
		})
	}
	g.Table([]string{"GRAPH", "VERSION", "NOTE", "UNFINISHED", "STRANDED", "THREADS"}, rows...)
}

// digits are as many of a digest as people compare.
func digits(version string) string { return version[:min(len(version), 12)] }

const aboutDrain = `Mark a version of a graph: it takes no new runs and no retries any more, in any process, and the runs that it has go on
until they are over. The version is named by the start of its digest, as graph versions lists it. --undo takes the mark
away.`

func (p *Program) graphDrain() *cobra.Command {
	var undo bool
	c := &cobra.Command{
		Use: "drain GRAPH@VERSION", Short: "Let a version finish what it has, and take no new runs", Long: aboutDrain, Args: p.takes(1, "a graph and a version, as in refund@9f2c41d0"),
		Example: `  pawl graph drain refund@9f2c41d0 --reason "replaced by the one with the fraud check"
  pawl graph drain refund@9f2c41d0 --undo --reason "the new one is rolled back"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			graph, begun, ok := strings.Cut(args[0], "@")
			if !ok || graph == "" || begun == "" {
				return p.misuse(cmd, errors.New("name a graph and a version, as in refund@9f2c41d0; "+p.Command("graph versions")+" lists them; nothing was changed"))
			}
			return p.within(cmd.Context(), func(h *home) error { return p.drain(cmd.Context(), h, graph, begun, undo) })
		},
	}
	c.Flags().BoolVar(&undo, "undo", false, "take the mark away")
	p.reasonFlag(c, "`why`; kept with the mark")
	return c
}

func (p *Program) drain(ctx context.Context, h *home, graph, begun string, undo bool) error {
	version, err := p.versionOf(ctx, h, graph, begun)
	if err != nil {
		return err
	}
	do := h.eng.Drain
	if undo {
		do = h.eng.Undrain
	}
	if err := do(ctx, graph, version, p.reason); err != nil {
		return err
	}
	all, err := h.eng.Versions(ctx, graph)
	if err != nil {
		return err
	}
	v := pawl.VersionInfo{Graph: graph, Version: version, Draining: !undo, Threads: map[pawl.Status]int{}}
	if i := slices.IndexFunc(all, func(v pawl.VersionInfo) bool { return v.Version == version }); i >= 0 {
		v = all[i]
	}
	return p.Emit(v, func(g *Page) {
		name := graph + "@" + digits(version)
		if undo {
			g.Line("not draining any more: %s takes new runs", name)
			return
		}
		g.Line("draining: %s takes no new runs; unfinished, and going on: %d", name, v.Unfinished)
		g.Line("Look: %s", p.Command("graph versions %s", ShellWord(graph)))
		g.Line("Undo: %s", p.Command("graph drain %s --undo", ShellWord(name)))
	})
}

// versionOf finds a version of a graph by the start of its digest.
func (p *Program) versionOf(ctx context.Context, h *home, graph, begun string) (string, error) {
	all, err := h.eng.Versions(ctx, graph)
	if err != nil {
		return "", err
	}
	var found []string
	for _, v := range all {
		if strings.HasPrefix(v.Version, begun) {
			found = append(found, v.Version)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", &pawl.NotFoundError{What: "version", ID: graph + "@" + begun, Hint: p.Name + " graph versions lists those that have threads"}
	}
	return "", ambiguous("version", begun, found)
}

const aboutCheck = `Say for every stored thread what this build of its graph would do with it, before the build is deployed: goes on; migrate
(the build declares a migration that works on it); pin (it needs a program of its own version); unreadable. It runs
nothing and writes nothing. The table lists those that do not simply go on; --all, and JSON, list every thread.

Exit 5: some need pinning or a migration; 1: some cannot be read; 3: this program has no such graph.`

func (p *Program) graphCheck() *cobra.Command {
	var every bool
	c := &cobra.Command{
		Use: "check [GRAPH...]", Short: "What this build would do with every stored thread; exit 5 when some need care", Long: aboutCheck,
		Args: cobra.ArbitraryArgs, Example: "  refund graph check\n  refund graph check refund -o json", ValidArgsFunction: p.completeGraphs,
		RunE: func(cmd *cobra.Command, args []string) error {
			names := args
			if len(names) == 0 {
				if names = p.served(); len(names) == 0 {
					return p.needs("", "graph check")
				}
			}
			for _, name := range names {
				if err := p.needs(name, "graph check"); err != nil {
					return err
				}
			}
			return p.within(cmd.Context(), func(h *home) error { return p.check(cmd.Context(), h, names, every) })
		},
	}
	c.Flags().BoolVar(&every, "all", false, "list the threads that go on, too")
	return c
}

func (p *Program) check(ctx context.Context, h *home, names []string, every bool) error {
	list, counts := []pawl.Checked{}, map[pawl.Fit]int{}
	for _, g := range p.Graphs {
		if n, ok := g.(interface{ Name() string }); !ok || !slices.Contains(names, n.Name()) {
			continue
		}
		for c, err := range h.eng.Check(ctx, g) {
			if err != nil {
				return err
			}
			list = append(list, c)
			counts[c.Fit]++
		}
	}
	if err := p.Emit(list, func(g *Page) { tableOfChecks(g, list, counts, every) }); err != nil {
		return err
	}
	switch {
	case counts[pawl.FitUnreadable] > 0:
		return &Error{Failed, fmt.Errorf("%d threads cannot be read", counts[pawl.FitUnreadable])}
	case counts[pawl.FitPin]+counts[pawl.FitMigrate] > 0:
		return &Error{Conflict, fmt.Errorf("%d threads need their own version, %d a migration", counts[pawl.FitPin], counts[pawl.FitMigrate])}
	}
	return nil
}

func tableOfChecks(g *Page, list []pawl.Checked, counts map[pawl.Fit]int, every bool) {
	var rows [][]string
	for _, c := range list {
		if c.Fit == pawl.FitGoesOn && !every {
			continue
		}
		why := c.First
		if c.Why != "" {
			why = strings.TrimPrefix(why+"; "+c.Why, "; ")
		}
		rows = append(rows, []string{string(c.Fit), c.Thread, c.Graph, string(c.Status), orNone(digits(c.Version)), digits(c.Here), orNone(why)})
	}
	if len(rows) > 0 {
		g.Table([]string{"FIT", "THREAD", "GRAPH", "STATUS", "STANDS UNDER", "HERE", "FIRST DIFFERENCE"}, rows...)
	}
	g.Line("%d threads: %d go on, %d migrate, %d pin, %d unreadable", len(list), counts[pawl.FitGoesOn], counts[pawl.FitMigrate], counts[pawl.FitPin], counts[pawl.FitUnreadable])
}
