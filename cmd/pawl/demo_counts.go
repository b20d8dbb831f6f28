package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// What the nodes count.
const (
	countNode = "node" // a node was entered
	countLine = "line" // the line of a call was reached: a plain replay would make the call
	countCall = "call" // the call was made
)

// counts is a file outside the database that the nodes append to, with a line for each time that something happens.
type counts string

func (c counts) add(thread, what, name string) error {
	f, err := os.OpenFile(string(c), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, what, name, thread)
	return errors.Join(err, f.Close())
}

// tally is how often each name was counted, by what.
type tally map[string]map[string]int

// of reads what was counted in a thread.
func (c counts) of(thread string) (tally, error) {
	doc, err := os.ReadFile(string(c))
	if err != nil {
		return nil, err
	}
	t := tally{countNode: {}, countLine: {}, countCall: {}}
	for line := range strings.Lines(string(doc)) {
		f := strings.Fields(line)
		if len(f) != 3 || t[f[0]] == nil {
			return nil, fmt.Errorf("%s: what is %q?", c, line)
		}
		if f[2] == thread {
			t[f[0]][f[1]]++
		}
	}
	return t, nil
}

// since is what was counted after an earlier reading.
func (t tally) since(before tally) tally {
	out := tally{}
	for what, names := range t {
		out[what] = map[string]int{}
		for name, n := range names {
			if more := n - before[what][name]; more > 0 {
				out[what][name] = more
			}
		}
	}
	return out
}
