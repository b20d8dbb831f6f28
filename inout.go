package pawl

import (
	"fmt"
	"slices"
)

// Input names the channels that a run may be given, and a child by its parent; an input for another one is refused by
// name. Without it that is every channel that is not private. Further calls add to it. Edit and Fork change any channel,
// and a live value is no part of it: see [Untracked].
func (b *Builder[S]) Input(channels ...string) *Builder[S] {
	b.inputs = named(b.inputs, channels)
	return b
}

// Output names the channels that an outcome shows. Without it that is every channel that is not private. Further calls
// add to it. It is what whoever runs the graph is given: State and History show every channel, as does the child's state
// to its parent's code, and snapshots of a stream's events all that are not private. What a live value belongs to is no
// part of it: see [Untracked].
func (b *Builder[S]) Output(channels ...string) *Builder[S] {
	b.outputs = named(b.outputs, channels)
	return b
}

// named is never nil: a call without names is told as a fault.
func named(before, more []string) []string {
	return append(append(make([]string, 0, len(before)+len(more)), before...), more...)
}

// limit marks the channels that are not among the names, if there are any names, or says what is wrong with them.
func (l *layout) limit(call string, names []string, mark func(*layoutField)) (faults []error) {
	if names == nil {
		return nil
	}
	if len(names) == 0 {
		faults = append(faults, fmt.Errorf("%s(): name the channels, or leave it out for all that are not private", call))
	}
	for i, name := range names {
		switch at := slices.Index(l.names, name); {
		case at < 0:
			faults = append(faults, fmt.Errorf("%s: there is no channel %q; there are %q", call, name, l.names))
		case slices.Contains(names[:i], name):
			faults = append(faults, fmt.Errorf("%s: channel %q is named twice", call, name))
		case l.fields[at].private:
			faults = append(faults, fmt.Errorf("%s: channel %q is private; leave it out, or take its tag away", call, name))
		case l.fields[at].live:
			faults = append(faults, fmt.Errorf("%s: channel %q holds a live value, which is no part of it; leave it out", call, name))
		}
	}
	for i := range l.fields {
		if f := &l.fields[i]; !f.private && !f.live && !slices.Contains(names, f.name) {
			mark(f)
		}
	}
	return faults
}
