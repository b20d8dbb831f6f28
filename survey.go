package pawl

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/internal/core"
)

// survey looks at the names and lines of a graph and collects what is wrong with them.
type survey struct {
	kinds  map[string]core.NodeKind
	order  []string            // names as they were added
	ways   map[string][]string // where edges and routes lead
	joins  []core.Join
	faults []string
}

func (s *survey) fault(format string, args ...any) {
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

// name refuses what paths, files and drawings could not carry.
func (s *survey) name(what, name string) {
	switch {
	case name == "":
		s.fault("a %s needs a name", what)
	case strings.HasPrefix(name, "__"):
		s.fault(`%s %q: names that begin with "__" are reserved`, what, name)
	case !utf8.ValidString(name):
		s.fault("%s %q: a name is valid UTF-8", what, name)
	case strings.ContainsAny(name, "|:"):
		s.fault(`%s %q: "|" and ":" separate the parts of a path; leave them out of names`, what, name)
	case strings.ContainsFunc(name, unicode.IsControl):
		s.fault("%s %q: a name holds no control characters", what, name)
	}
}

func (s *survey) source(line, name string) bool {
	switch {
	case name == End:
		s.fault("%s: nothing leaves End", line)
	case name != Start && s.kinds[name] == "":
		s.fault("%s: there is no node %q", line, name)
	default:
		return true
	}
	return false
}

func (s *survey) target(line, name string) bool {
	switch {
	case name == Start:
		s.fault("%s: nothing leads back to Start", line)
	case name != End && s.kinds[name] == "":
		s.fault("%s: there is no node %q", line, name)
	default:
		return true
	}
	return false
}

// fed refuses a line that brings no payload to a worker.
func (s *survey) fed(line, to string) bool {
	if s.kinds[to] == core.KindWorker {
		s.fault("%s: worker %q needs a payload; send it one from a route, with its With or Each", line, to)
		return false
	}
	return true
}

func (s *survey) edge(e edge, twice bool) {
	line := fmt.Sprintf("edge from %s to %s", place(e.from), place(e.to))
	if twice {
		s.fault("%s: declared twice", line)
		return
	}
	from, to := s.source(line, e.from), s.target(line, e.to)
	if from && to && s.fed(line, e.to) {
		s.ways[e.from] = append(s.ways[e.from], e.to)
	}
}

func (s *survey) join(j core.Join) {
	var from []string
	for _, f := range j.From {
		from = append(from, place(f))
	}
	line := fmt.Sprintf("join of %s into %s", strings.Join(from, " and "), place(j.To))
	sound := true
	if len(j.From) < 2 {
		s.fault("join of %d into %s: a join waits for two nodes or more; use Edge for one", len(j.From), place(j.To))
		sound = false
	}
	for i, f := range j.From {
		switch {
		case f == Start:
			s.fault("%s: Start is always finished; leave it out", line)
		case i > 0 && f == j.From[i-1]:
			s.fault("%s: %s is named twice", line, place(f))
		case s.source(line, f):
			continue
		}
		sound = false
	}
	if !s.target(line, j.To) || !s.fed(line, j.To) || !sound {
		return
	}
	// Waiting joins are kept by name, so two that only read alike would also mix.
	if slices.ContainsFunc(s.joins, func(o core.Join) bool { return o.Name() == j.Name() }) {
		s.fault("%s: declared twice, or named like another join (%s)", line, j.Name())
		return
	}
	s.joins = append(s.joins, j)
}

func (s *survey) route(what, from string, isNil bool, targets []string) {
	line := what + " from " + place(from)
	known := s.source(line, from)
	if isNil {
		s.fault("%s: its function is nil", line)
	}
	if len(targets) == 0 {
		s.fault("%s: it declares no targets; list every node that it may choose, and End", line)
	}
	for i, to := range targets {
		if slices.Contains(targets[:i], to) {
			s.fault("%s: target %s is declared twice", line, place(to))
		} else if s.target(line, to) && known {
			s.ways[from] = append(s.ways[from], to)
		}
	}
}

func (s *survey) label(l label, twice bool) {
	line := fmt.Sprintf("label %q from %s to %s", l.text, place(l.from), place(l.to))
	switch {
	case twice:
		s.fault("%s: there is another for that line", line)
	case strings.ContainsFunc(l.text, unicode.IsControl) || !utf8.ValidString(l.text):
		s.fault("%s: it holds control characters, or is not valid UTF-8", line)
	case !slices.Contains(s.ways[l.from], l.to):
		s.fault("%s: no edge and no route leads there", line)
	}
}

// reach finds nodes that would never run: nothing that was written into a graph is left out in silence.
func (s *survey) reach() {
	reached := map[string]bool{Start: true}
	for queue := []string{Start}; len(queue) > 0; {
		next := s.ways[queue[0]]
		queue = queue[1:]
		for _, j := range s.joins {
			if !slices.ContainsFunc(j.From, func(f string) bool { return !reached[f] }) {
				next = append(slices.Clip(next), j.To)
			}
		}
		for _, to := range next {
			if !reached[to] {
				reached[to] = true
				queue = append(queue, to)
			}
		}
	}
	if len(s.ways[Start]) == 0 {
		s.fault("nothing leaves Start: add an edge or a route from pawl.Start to the first node")
		return
	}
	targets := map[string]bool{}
	for _, to := range s.ways {
		for _, name := range to {
			targets[name] = true
		}
	}
	for _, name := range s.order {
		switch {
		case reached[name]:
		case s.kinds[name] == core.KindWorker && !targets[name]:
			s.fault("worker %q is the target of no route, so nothing can send to it; declare it in a Route or leave it out", name)
		default:
			s.fault("node %q cannot be reached from Start, so it would never run; lead to it or leave it out", name)
		}
	}
}

// place shows a name to people.
func place(name string) string {
	switch name {
	case Start:
		return "Start"
	case End:
		return "End"
	}
	return fmt.Sprintf("%q", name)
}
