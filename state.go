package pawl

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/guard"
	"github.com/pawl-dev/pawl/internal/schema"
)

// StateError says what went wrong with one channel of a task's state: a write that was refused, a stored value that
// cannot be read, or a value that cannot be encoded. The task fails with it.
type StateError = guard.StateError

// layout knows the channels of one state type. It is built once and immutable.
type layout struct {
	of     reflect.Type
	to     reflect.Type // pointers to it
	fields []layoutField
	names  []string
	stored int // so many fields, which stand in front, are the topology's channels; the others hold live values
}

type layoutField struct {
	rule
	name         string
	key          []byte // the name as JSON, with its colon
	at           string // Type.Field, for people
	index        []int
	optional     bool
	private      bool
	noInput      bool
	noOutput     bool
	unguarded    bool // an Untracked that several tasks may set
	was          []string
	upgrades     map[string]upgrade // by the type of what is stored
	whole, delta *schema.Schema
}

// layoutOf returns the layout of a state type, or all of its faults at once (as Unwrap() []error).
func layoutOf(t reflect.Type) (*layout, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("the state %s is not a struct of channels", t)
	}
	l := &layout{of: t, to: reflect.PointerTo(t)}
	faults := l.add(t, t.Name(), nil)
	slices.SortStableFunc(l.fields, liveLast)
	for _, f := range l.fields {
		if j := slices.Index(l.names, f.name); j >= 0 {
			faults = append(faults, fmt.Errorf("%s and %s have the same json name %q", l.fields[j].at, f.at, f.name))
		}
		if l.names = append(l.names, f.name); !f.live {
			l.stored++
		}
	}
	faults = append(faults, l.renamed()...)
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return l, nil
}

// add takes in the fields of t, which the state embeds at index.
func (l *layout) add(t reflect.Type, at string, index []int) (faults []error) {
	for i := range t.NumField() {
		sf := t.Field(i)
		where := at + "." + sf.Name
		name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
		f := layoutField{name: name, at: where, index: append(slices.Clone(index), i)}
		f.optional = slices.Contains(strings.Split(options, ","), "omitzero")
		c, isChannel := reflect.New(sf.Type).Interface().(channel)
		switch {
		case isChannel && sf.Anonymous:
			faults = append(faults, fmt.Errorf("%s is an embedded channel; give the field a name", where))
		case isChannel && !sf.IsExported():
			faults = append(faults, fmt.Errorf("%s is a channel and not exported", where))
		case isChannel && (name == "" || name == "-"):
			faults = append(faults, fmt.Errorf("%s has no json name; add one, for instance `json:%q`", where, strings.ToLower(sf.Name)))
		case isChannel:
			if err := errors.Join(f.describe(c), f.tagged(sf.Tag.Get("pawl"))); err != nil {
				faults = append(faults, err)
			}
			l.fields = append(l.fields, f)
		case sf.Anonymous && sf.Type.Kind() == reflect.Struct && name != "":
			faults = append(faults, fmt.Errorf("%s is embedded, so its channels stand beside the others; remove its json name", where))
		case sf.Anonymous && sf.Type.Kind() == reflect.Struct && sf.Tag.Get("pawl") != "":
			faults = append(faults, fmt.Errorf("%s is embedded and has the tag pawl:%q; tag its channels", where, sf.Tag.Get("pawl")))
		case sf.Anonymous && sf.Type.Kind() == reflect.Struct:
			faults = append(faults, l.add(sf.Type, where, f.index)...)
		default:
			faults = append(faults, fmt.Errorf("%s is a %s, and every field of a state is a channel, such as pawl.Last", where, sf.Type))
		}
	}
	return faults
}

// describe works out what the channel's values look like.
func (f *layoutField) describe(c channel) error {
	f.rule = c.rule()
	f.key, _ = json.Marshal(f.name) // a string always has a JSON form
	if f.key = append(f.key, ':'); f.live {
		return nil
	}
	if t := f.rule.whole; f.merge == core.MergeAppend && t.Elem().Kind() == reflect.Uint8 || t.Kind() == reflect.Uint8 && f.fold != nil {
		return fmt.Errorf("%s would be a list of bytes, which JSON writes as one string; use pawl.Last[[]byte] or a wider integer", f.at)
	}
	var err error
	if f.whole, err = schema.Compile(f.rule.whole); err == nil && f.rule.delta != nil {
		f.delta, err = schema.Compile(f.rule.delta)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", f.at, err)
	}
	return err
}

// channels returns the channels that are stored, in the order of the fields.
func (l *layout) channels() []core.Channel {
	out := make([]core.Channel, l.stored)
	for i, f := range l.fields[:l.stored] {
		out[i] = core.Channel{Name: f.name, Merge: f.merge, Type: schema.Shape(f.rule.whole), Number: f.number, Optional: f.optional, Private: f.private, NoInput: f.noInput, NoOutput: f.noOutput,
			Was: f.was, From: slices.Sorted(maps.Keys(f.upgrades))}
	}
	return out
}

// fingerprint tells states apart whose channels do not mean the same in every way.
func (l *layout) fingerprint() string {
	var out strings.Builder
	for _, f := range l.fields[:l.stored] {
		fmt.Fprintf(&out, "%q %s %s\n", f.name, f.merge, schema.FingerprintOf(f.rule.whole))
	}
	return out.String()
}

// open returns the channels of a state, which must be a pointer to the layout's type, in room if they fit.
func (l *layout) open(state any, room []channel) ([]channel, error) {
	v := reflect.ValueOf(state)
	if !v.IsValid() || v.Type() != l.to || v.IsNil() {
		return nil, fmt.Errorf("the state is a %T, want a *%s that is not nil", state, l.of)
	}
	out := room[:0]
	for i := range l.fields {
		out = append(out, v.Elem().FieldByIndex(l.fields[i].index).Addr().Interface().(channel))
	}
	return out, nil
}

// binding ties one state to the values that it shows and to the seal that guards it, and lives in that seal.
type binding struct {
	layout *layout
	values []*core.Value
	seal   *seal
	chans  []channel
	room   [4]channel
	made   [1]core.Write // room for what most tasks write
}

// bind makes a new *S show values, which stand in the order of the channels and may end early. The state must be one
// that nobody else uses.
func (l *layout) bind(state any, values []*core.Value, g *seal) *binding {
	b := &g.bound
	b.layout, b.values, b.seal = l, values, g
	b.chans, _ = l.open(state, b.room[:]) // the callers' types agree
	for i, c := range b.chans {
		c.attach(b, i)
	}
	return b
}

// writes returns what the task wrote, in the order of the channels, or the first failure to read or to write.
func (b *binding) writes() ([]core.Write, error) {
	b.seal.Lock()
	defer b.seal.Unlock()
	return b.layout.collect(b.made[:0], b.chans, b.seal.Node)
}

// collect returns what was written to the channels, in room if it fits.
func (l *layout) collect(room []core.Write, chans []channel, node string) (out []core.Write, err error) {
	out = room
	at := 0
	defer func() {
		if v := recover(); v != nil { // of an encoder
			out, err = nil, l.fault(node, at, fmt.Errorf("panic: %v", v))
		}
	}()
	for i, c := range chans {
		at = i
		w, wrote, err := c.write()
		if err != nil {
			return nil, l.fault(node, i, err)
		}
		if wrote {
			w.Channel = l.fields[i].name
			out = append(out, w)
		}
	}
	if len(out) == 0 {
		out = nil
	}
	return out, nil
}

func (l *layout) fault(node string, i int, err error) error {
	return &StateError{Node: node, Channel: l.fields[i].name, Reason: err.Error(), Err: err}
}

// guarded makes a panic of user code (an encoder, a fold rule) an error.
func guarded(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return f()
}

// mutated names the first channel whose decoded value was changed in place, or none. It encodes all that was read.
func (b *binding) mutated() string {
	b.seal.Lock()
	defer b.seal.Unlock()
	for i, c := range b.chans {
		if changed, err := c.changed(); changed && err == nil {
			return b.layout.fields[i].name
		}
	}
	return ""
}

// literal returns the writes of a state that belongs to no task: what its channels were given. nil writes nothing.
func (l *layout) literal(state any) ([]core.Write, error) {
	if v := reflect.ValueOf(state); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, nil
	}
	chans, err := l.open(state, nil)
	if err != nil {
		return nil, err
	}
	for _, c := range chans {
		if c.bound() {
			return nil, fmt.Errorf("this *%s belongs to a task or an outcome and is no input; make a new one with what is to be written", l.of)
		}
	}
	return l.collect(nil, chans, "")
}

// input is what a run may be given: not what the graph keeps to itself.
func (l *layout) input(writes []core.Write, err error) ([]core.Write, error) {
	var faults []error
	for _, w := range writes {
		switch i := slices.Index(l.names, w.Channel); {
		case l.fields[i].private:
			faults = append(faults, l.fault("", i, errors.New("is private to the graph: no run is given it; leave it out, or change it with Edit")))
		case l.fields[i].noInput:
			faults = append(faults, l.fault("", i, errors.New("is none of the graph's inputs: no run is given it; leave it out, or change it with Edit")))
		}
	}
	if len(faults) > 0 {
		return nil, &InputError{errors.Join(faults...)}
	}
	return writes, err
}

// output are the values that an outcome shows.
func (l *layout) output(values []*core.Value) []*core.Value {
	shared := true
	for i := range l.fields {
		if (l.fields[i].private || l.fields[i].noOutput) && i < len(values) {
			if shared {
				values, shared = slices.Clone(values), false
			}
			values[i] = nil
		}
	}
	return values
}

// decode returns the writes of a JSON object: a key that is absent writes nothing. All faults are returned at once.
func (l *layout) decode(doc []byte) ([]core.Write, error) {
	members, err := schema.Members(doc)
	if err != nil {
		return nil, fmt.Errorf("the state %w", err)
	}
	b := l.bind(reflect.New(l.of).Interface(), nil, newSeal("", nil))
	var faults []error
	for _, m := range members {
		i := slices.Index(l.names, m.Name)
		if i < 0 {
			faults = append(faults, &NotFoundError{What: "channel", ID: m.Name, Hint: fmt.Sprintf("there are %q", l.names)})
		} else if err := guarded(func() error { return b.take(i, m.Value) }); err != nil {
			faults = append(faults, l.fault("", i, err))
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return b.writes()
}

// take gives a channel what a body says.
func (b *binding) take(i int, doc []byte) error {
	if schema.IsNull(doc) && !b.layout.fields[i].null {
		return errors.New("is null; leave the key out to write nothing")
	}
	return b.chans[i].UnmarshalJSON(doc)
}

// encode writes all channels that hold something as a JSON object, in the order of the channels.
func (l *layout) encode(values []*core.Value) ([]byte, error) {
	out := []byte{'{'}
	for i, f := range l.fields[:l.stored] {
		if i >= len(values) || !values[i].Has() {
			continue
		}
		doc, err := values[i].Bytes()
		if err != nil {
			return nil, l.fault("", i, fmt.Errorf("the stored value cannot be read: %w", err))
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, f.key...), doc...)
	}
	return append(out, '}'), nil
}

// fold runs a fold channel's rule on the old value, nil for none, and a JSON array of inputs, in their order.
func (l *layout) fold(channel string, old, items []byte) ([]byte, error) {
	i := slices.Index(l.names, channel)
	if i < 0 || l.fields[i].rule.fold == nil {
		return nil, fmt.Errorf("there is no fold channel %q; nothing was merged", channel)
	}
	out, err := l.fields[i].rule.fold(old, items)
	if err != nil {
		return nil, fmt.Errorf("channel %q: the fold failed and nothing was merged: %w", channel, err)
	}
	return out, nil
}

// load makes a new *S show values outside of a run. Everything is decoded now, and writes are refused.
func (l *layout) load(state any, values []*core.Value) error { return l.loadWith(state, values, nil) }

// loadWith is load with live values.
func (l *layout) loadWith(state any, values []*core.Value, held map[string]any) error {
	if _, err := l.open(state, nil); err != nil {
		return err
	}
	g := newSeal("", nil)
	g.held = held
	b := l.bind(state, values, g)
	b.seal.Enter("outcome")
	var faults []error
	for i, c := range b.chans {
		if err := guarded(c.load); err != nil {
			faults = append(faults, l.fault("", i, err))
		}
	}
	return errors.Join(faults...)
}

// noCopy makes go vet report a copy of what holds it.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// cell ties a channel to the task that reads and writes it. Unbound, in a literal or a unit test, it ties it to nothing.
type cell struct {
	_   noCopy
	b   *binding
	i   int
	err error // the first failure; it fails the task
}

func (c *cell) attach(b *binding, i int) { c.b, c.i = b, i }
func (c *cell) bound() bool              { return c.b != nil }

func (c *cell) lock() {
	if c.b != nil {
		c.b.seal.Lock()
	}
}

func (c *cell) unlock() {
	if c.b != nil {
		c.b.seal.Unlock()
	}
}

// open takes the lock for a write. False: the write is refused, and recorded as such.
func (c *cell) open() bool { return c.b == nil || c.b.seal.Open(c.b.layout.fields[c.i].name) }

// stored is the checkpoint's version; nil: there is none.
func (c *cell) stored() *core.Value {
	if c.b == nil || c.i >= len(c.b.values) || !c.b.values[c.i].Has() {
		return nil
	}
	return c.b.values[c.i]
}

func (c *cell) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// failRead records that what is stored cannot be read.
func (c *cell) failRead(err error) {
	c.fail(fmt.Errorf("the stored value cannot be read: %w; it was left as it is: run a program whose types read it", err))
}

// checks returns what JSON must satisfy before it is decoded; nil, which accepts all, outside of a graph.
func (c *cell) checks() (whole, delta *schema.Schema) {
	if c.b == nil {
		return nil, nil
	}
	f := &c.b.layout.fields[c.i]
	return f.whole, f.delta
}

// differs says whether a decoded value no longer encodes to what is stored.
func differs[T any](c *cell, live *T) (bool, error) {
	stored, err := c.stored().Bytes()
	if err != nil {
		return false, err
	}
	check, _ := c.checks()
	return schema.Differs(check, stored, live)
}

// seal guards one task's state, and holds the binding of that state.
type seal struct {
	guard.Seal
	bound binding
	held  map[string]any // live values that the state shows, by channel; nobody changes it
}

// newSeal returns the seal of a node's task. late is told of writes after close; it may be nil.
func newSeal(node string, late func(error)) *seal {
	g := &seal{}
	g.Init(node, late)
	return g
}
