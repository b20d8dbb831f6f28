package pawl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/local"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/internal/schema"
	"github.com/pawl-dev/pawl/storage"
)

// Upgrading is a way to read what a channel stored under an older type: see Upgrade.
type Upgrading struct {
	channel string
	to      reflect.Type
	from    string // the shape of the old type
	convert upgrade
	fault   error
}

type upgrade func(whole []byte) ([]byte, error)

// Upgrade lets a channel read what was stored when its whole value was an Old: T of a Last[T], []T of an Append[T],
// map[string]T of a Map. The function is pure and total; it is called whenever an old value is read, until the channel is
// written again. Rows are never rewritten: old checkpoints stay as they are, and a version of the graph with an upgrade
// counts as equal to the one before. A channel that was renamed besides says so in its tag, `pawl:"was=oldname"`, which
// alone is enough where the type is the same.
func Upgrade[Old, New any](channel string, convert func(Old) (New, error)) Upgrading {
	from := reflect.TypeFor[Old]()
	u := Upgrading{channel: channel, to: reflect.TypeFor[New](), from: schema.Shape(from)}
	check, err := schema.Compile(from)
	if convert == nil {
		err = errors.New("its function is nil")
	}
	if err != nil {
		u.fault = fmt.Errorf("the upgrade of channel %q: %w", channel, err)
		return u
	}
	u.convert = func(whole []byte) (doc []byte, err error) {
		old, err := schema.Decode[Old](check, whole)
		if err != nil {
			return nil, fmt.Errorf("what is stored cannot be read as the old type: %w", err)
		}
		err = guarded(func() error {
			now, err := convert(old)
			if err == nil {
				doc, err = schema.Encode(&now)
			}
			return err
		})
		return doc, err
	}
	return u
}

// Upgrade adds ways to read what channels stored under older types.
func (b *Builder[S]) Upgrade(list ...Upgrading) *Builder[S] {
	b.reads = append(b.reads, list...)
	return b
}

// Upgrade reads a stored value of an older type.
func (d *def[S]) Upgrade(channel, from string, whole []byte) ([]byte, error) {
	i := slices.Index(d.layout.names, channel)
	if i < 0 || d.layout.fields[i].upgrades[from] == nil {
		return nil, fmt.Errorf("channel %q has no upgrade from %s; nothing was read", channel, from)
	}
	out, err := d.layout.fields[i].upgrades[from](whole)
	if err != nil {
		return nil, fmt.Errorf("the upgrade of channel %q: %w; what is stored was left as it is", channel, err)
	}
	return out, nil
}

// current reads values of which nobody says under which type they were stored: what is not of the channel's type is
// tried as one of those that it can be upgraded from.
func (l *layout) current(values []*core.Value) []*core.Value {
	for i, f := range l.fields {
		if i >= len(values) || !values[i].Has() || len(f.upgrades) == 0 || len(f.whole.Validate(values[i].Data)) == 0 {
			continue
		}
		for _, from := range slices.Sorted(maps.Keys(f.upgrades)) {
			if doc, err := f.upgrades[from](values[i].Data); err == nil {
				values[i] = core.NewSet(doc)
				break
			}
		}
	}
	return values
}

// upgrade gives the layout's channels their upgrades.
func (l *layout) upgrade(list []Upgrading) (faults []error) {
	for _, u := range list {
		i := slices.Index(l.names, u.channel)
		switch {
		case u.fault != nil:
			faults = append(faults, u.fault)
		case i < 0:
			faults = append(faults, fmt.Errorf("the upgrade of channel %q: there is none; there are %q", u.channel, l.names))
		case l.fields[i].live:
			faults = append(faults, fmt.Errorf("the upgrade of channel %q: it holds live values, so there is nothing old to read", u.channel))
		case schema.Shape(u.to) != schema.Shape(l.fields[i].rule.whole):
			faults = append(faults, fmt.Errorf("the upgrade of channel %q gives a %v, and a whole value of it is a %v", u.channel, u.to, l.fields[i].rule.whole))
		case l.fields[i].upgrades[u.from] != nil:
			faults = append(faults, fmt.Errorf("channel %q has two upgrades from %s", u.channel, u.from))
		default:
			if l.fields[i].upgrades == nil {
				l.fields[i].upgrades = map[string]upgrade{}
			}
			l.fields[i].upgrades[u.from] = u.convert
		}
	}
	return faults
}

// tagged reads the field's tag.
func (f *layoutField) tagged(tag string) error {
	switch {
	case f.live:
		return f.taggedLive(tag)
	case tag == "":
		return nil
	}
	for _, item := range strings.Split(tag, ",") {
		if item == "private" {
			f.private = true
			continue
		}
		name, ok := strings.CutPrefix(item, "was=")
		if !ok || name == "" {
			return fmt.Errorf("%s has the tag pawl:%q, and only private and was=NAME are known there", f.at, tag)
		}
		f.was = append(f.was, name)
	}
	return nil
}

// renamed finds old names that do not tell which channel is meant.
func (l *layout) renamed() (faults []error) {
	owner := map[string]string{}
	for _, f := range l.fields {
		for _, was := range f.was {
			if slices.Contains(l.names, was) {
				faults = append(faults, fmt.Errorf("%s was named %q, and that is the name of a channel now; rename one of them", f.at, was))
			} else if owner[was] != "" {
				faults = append(faults, fmt.Errorf("%s and %s were both named %q", owner[was], f.at, was))
			}
			owner[was] = f.at
		}
	}
	return faults
}

// retyped makes the input and the edits of a run that were given under an older graph those of the program's.
func (t *Thread) retyped(ctx context.Context, run *core.Run, d core.Def) error {
	if len(run.Input)+len(run.Edits) == 0 || run.Typed >= len(run.Graphs) || run.Graphs[run.Typed] == core.GraphDigest(d.Topology()) {
		return nil
	}
	err := t.eng.store.View(ctx, func(tx storage.Tx) error {
		info, err := t.eng.store.Box.FindThread(tx, t.eng.tenant, t.id)
		if err != nil {
			return err
		}
		if info == nil {
			return local.ErrMoved
		}
		old, err := records.NewReader(t.eng.store.Box, tx, info).Graph(run.Graphs[run.Typed])
		if err != nil {
			return err
		}
		input, err := core.UpgradeWrites(old, d.Topology(), run.Input, d.Upgrade)
		if err != nil {
			return fmt.Errorf("pawl: thread %q: the input of run %s: %w; nothing was run and nothing changed", t.id, run.ID, err)
		}
		edits, err := core.UpgradeWrites(old, d.Topology(), run.Edits, d.Upgrade)
		if err != nil {
			return fmt.Errorf("pawl: thread %q: the edits of run %s: %w; nothing was run and nothing changed", t.id, run.ID, err)
		}
		run.Input, run.Edits = input, edits
		return nil
	})
	return err
}
