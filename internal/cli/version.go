package cli

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build says what program this is.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Changed  bool   `json:"changed,omitempty"` // built from a tree with uncommitted changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func buildVersion() build {
	b := build{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Changed = s.Value == "true"
		}
	}
	return b
}

func (p *Program) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "What program this is", Args: p.takes(0, "no argument"), Example: "  pawl version -o json",
		RunE: func(*cobra.Command, []string) error {
			b := buildVersion()
			return p.Emit(b, func(g *Page) { g.Line("pawl %s %s %s", b.Version, b.Go, b.Platform) })
		},
	}
}
