// Package nest puts a graph into others for a test, and shows the thread of the outermost as if it were that of the
// innermost. A scenario that counts nodes, snapshots, questions and receipts counts the same at every depth, or the depth
// shows.
package nest

import (
	"context"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl"
)

// Level says how deep, and how, a graph runs inside others. The zero Level leaves it as it is.
type Level struct {
	Depth  int
	Called bool           // by a node; else it is a node
	Mode   pawl.ChildMode // empty: Inherit
}

// Levels are all depths from 1 to deepest, as a node and called, in these modes; in none: Inherit.
func Levels(deepest int, modes ...pawl.ChildMode) (all []Level) {
	if len(modes) == 0 {
		modes = []pawl.ChildMode{pawl.Inherit}
	}
	for _, mode := range modes {
		for depth := 1; depth <= deepest; depth++ {
			all = append(all, Level{depth, false, mode}, Level{depth, true, mode})
		}
	}
	return all
}

// String names the level in the name of a test.
func (l Level) String() string {
	if l.Depth == 0 {
		return "depth 0"
	}
	how := "as a node"
	if l.Called {
		how = "called"
	}
	if l.Mode != "" && l.Mode != pawl.Inherit {
		how += " " + string(l.Mode)
	}
	return fmt.Sprintf("depth %d %s", l.Depth, how)
}

// Of finds the level in the name of a test, or in what a test handed to another process.
func Of(name string) Level {
	_, rest, found := strings.Cut(strings.ReplaceAll(name, "_", " "), "depth ")
	if !found {
		return Level{}
	}
	name, _, _ = strings.Cut("depth "+rest, "/")
	for _, l := range Levels(3, pawl.Inherit, pawl.PerThread, pawl.Stateless) {
		if l.String() == name {
			return l
		}
	}
	return Level{}
}

// child is the name under which the graph at a height above the innermost is a child.
func child(height int) string { return fmt.Sprint("level", height) }

// Node is the name by which the outermost graph knows a node of the innermost.
func (l Level) Node(name string) string {
	for height := range l.Depth {
		name = child(height) + "|" + name
	}
	return name
}

// isInner says whether a path is one of a run of the innermost graph.
func (l Level) isInner(path string) bool {
	parts := strings.Split(path, "|")
	if path == "" || len(parts) != l.Depth {
		return path == "" && l.Depth == 0
	}
	for i, p := range parts {
		if name, _, _ := strings.Cut(p, ":"); name != child(l.Depth-1-i) {
			return false
		}
	}
	return true
}

// Graph is the outermost graph around one.
type Graph[S any] struct {
	*pawl.Graph[S]
	level   Level
	digests []string // of the graphs around, from the inside
}

// In puts a graph into others over the same state and of the same name, which hand all of it in and take out what it
// did, and take over the threads of those around its earlier versions.
func In[S any](g *pawl.Graph[S], l Level, earlier ...*Graph[S]) (*Graph[S], error) {
	out := &Graph[S]{g, l, nil}
	for height := range l.Depth {
		c, b := g.Child(child(height)), pawl.New[S](g.Name())
		if l.Mode != "" {
			c = g.Child(child(height), l.Mode)
		}
		if l.Called {
			b.Node(c.UseName(), func(ctx context.Context, s *S) error {
				r, err := c.Call(ctx, handed(s))
				if err != nil {
					return err
				}
				return taken(s, r)
			}, pawl.Uses(c))
		} else {
			b.Add(pawl.Sub(c, handed[S], taken[S]))
		}
		for _, was := range earlier {
			b.Migrate(pawl.Migration{From: was.digests[height]})
		}
		var err error
		if g, err = b.Path(pawl.Start, c.UseName()).Build(); err != nil {
			return nil, err
		}
		out.Graph, out.digests = g, append(out.digests, g.Digest())
	}
	return out, nil
}

// Func puts a function into others, which call it.
func Func[In, Out any](f *pawl.FuncGraph[In, Out], l Level) (*pawl.FuncGraph[In, Out], error) {
	for height := range l.Depth {
		c := f.Child(child(height))
		var err error
		if f, err = pawl.Func(f.Name(), func(ctx context.Context, in In) (Out, error) { return c.Call(ctx, in) }, pawl.Uses(c)); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Thread returns the handle of a thread, and registers the outermost graph with the engine.
func (g *Graph[S]) Thread(e *pawl.Engine, id string) *Thread[S] {
	return &Thread[S]{g.Graph.Thread(e, id), g.level}
}
