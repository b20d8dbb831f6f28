package pawl

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// simple is the state as the interpreter holds it.
type simple struct {
	clock             int64
	last, once, flash *string
	list              []string
	table             map[string]string
	word              *string
}

// interpret runs a plot in the plainest way: one task after the other, on ordinary values.
func (p *plot) interpret() (values map[string]any, status Status, cause Cause, supersteps int) {
	s := simple{table: nil}
	due, armed := []string{"n0"}, map[string]bool{}
	for len(due) > 0 {
		supersteps++
		after, clash := p.superStep(s, due)
		if clash {
			return s.values(), Failed, CauseConflict, supersteps
		}
		due = p.lead(due, s.clock, armed)
		s = after
	}
	for i, j := range p.joins {
		waits := func(from string) bool { return armed[fmt.Sprint(i, from)] }
		if !armed[fmt.Sprint("fired", i)] && slices.ContainsFunc(j[:len(j)-1], waits) {
			return s.values(), Failed, CauseError, supersteps // a join waits for what never ran
		}
	}
	return s.values(), Done, "", supersteps
}

func (p *plot) superStep(s simple, due []string) (after simple, clash bool) {
	after = s
	after.flash, after.list, after.table = nil, slices.Clone(s.list), maps.Clone(s.table)
	writers, replaced, keys := map[string]int{}, false, map[string]int{}
	for task, d := range due {
		node, arg, _ := strings.Cut(d, "=")
		after.clock++
		moves, asks := p.moves(node, s.clock, arg)
		for _, m := range moves {
			if asks {
				m.text += "answer to " + node
			}
			channel := m.op
			switch m.op {
			case "take":
				if channel = "put"; s.once == nil {
					continue
				}
			case "replace":
				channel = "add"
			case "delete":
				if _, there := s.table[m.key]; !there {
					continue
				}
				channel = "set"
			}
			writers[channel]++
			switch channel {
			case "last", "put", "flash":
				clash = clash || writers[channel] > 1
			case "add":
				clash = clash || writers[channel] > 1 && (replaced || m.op == "replace")
				replaced = replaced || m.op == "replace"
			case "set":
				other, taken := keys[m.key]
				clash = clash || taken && other != task
				keys[m.key] = task
			}
			after.do(m)
		}
	}
	return after, clash
}

func (s *simple) do(m move) {
	switch m.op {
	case "last":
		s.last = &m.text
	case "put":
		s.once = &m.text
	case "take":
		s.once = nil
	case "flash":
		s.flash = &m.text
	case "add":
		s.list = append(s.list, m.text, m.key)
	case "replace":
		s.list = []string{m.text}
	case "set":
		if s.table == nil {
			s.table = map[string]string{}
		}
		s.table[m.key] = m.text
	case "delete":
		delete(s.table, m.key)
	case "word":
		if s.word != nil {
			m.text = *s.word + m.text
		}
		s.word = &m.text
	}
}

// lead works out what is due next: nodes by name, then sends in the order of sending.
func (p *plot) lead(due []string, clock int64, armed map[string]bool) (out []string) {
	nodes := map[string]bool{}
	var sends []string
	for _, d := range due {
		node, _, _ := strings.Cut(d, "=")
		for _, to := range append(slices.Clone(p.edges[node]), p.next(node, clock)...) {
			if strings.Contains(to, "=") {
				sends = append(sends, to)
			} else {
				nodes[to] = true
			}
		}
		for i, j := range p.joins {
			if slices.Contains(j[:len(j)-1], node) {
				armed[fmt.Sprint(i, node)] = true
			}
		}
	}
	for i, j := range p.joins {
		full := true
		for _, from := range j[:len(j)-1] {
			full = full && armed[fmt.Sprint(i, from)]
		}
		if full {
			nodes[j[len(j)-1]], armed[fmt.Sprint("fired", i)] = true, true
			for _, from := range j[:len(j)-1] {
				delete(armed, fmt.Sprint(i, from))
			}
		}
	}
	return append(slices.Sorted(maps.Keys(nodes)), sends...)
}

func (s *simple) values() map[string]any {
	out := map[string]any{}
	if s.clock > 0 {
		out["clock"] = float64(s.clock)
	}
	for name, v := range map[string]*string{"last": s.last, "once": s.once, "flash": s.flash, "word": s.word} {
		if v != nil {
			out[name] = *v
		}
	}
	if s.list != nil {
		list := make([]any, len(s.list))
		for i, x := range s.list {
			list[i] = x
		}
		out["list"] = list
	}
	if s.table != nil {
		table := map[string]any{}
		for k, v := range s.table {
			table[k] = v
		}
		out["table"] = table
	}
	return out
}
