package records

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"reflect"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/storage"
)

func TestRoundTrips(t *testing.T) {
	t.Parallel()
	for name, b := range boxes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kinds := map[string]storage.Kind{}
			for _, k := range Kinds() {
				kinds[k.Name] = k
			}
			for _, s := range samples(t, b) {
				if err := kinds[s.kind].CheckRow(s.row); err != nil {
					t.Errorf("a %s does not fit its kind: %v", s.kind, err)
				}
				got, err := s.read(s.row)
				if err != nil {
					t.Errorf("a %s cannot be read back: %v", s.kind, err)
				} else if !reflect.DeepEqual(got, s.want) {
					t.Errorf("a %s came back as\n%+v\nand was\n%+v", s.kind, got, s.want)
				}
				delete(kinds, s.kind)
			}
			if len(kinds) > 0 {
				t.Errorf("kinds without a sample: %v", kinds)
			}
		})
	}
}

// Every field of a record is set in the samples, so that a field which is not stored cannot hide.
func TestSamplesLeaveNothingOut(t *testing.T) {
	t.Parallel()
	spare := map[string]bool{"Checkpoint.Values": true, "Task.Arg": true, "Task.Step": true, "Task.Outer": true, "Checkpoint.Frame": true, "Checkpoint.Merged": true, "Checkpoint.Told": true, "Ended.Before": true, "Frame.Parent": true, "Value.Base": true, "Value.Parts": true, "Cached.TTL": true}
	for _, s := range samples(t, Box{}) {
		v := reflect.ValueOf(s.want).Elem()
		if s.kind == Checkpoint {
			v = v.FieldByName("Checkpoint").Elem()
		}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.IsExported() && v.Field(i).IsZero() && !spare[v.Type().Name()+"."+f.Name] {
				t.Errorf("%s: the sample leaves %s at zero", s.kind, f.Name)
			}
		}
	}
}

func TestEmptyRecords(t *testing.T) {
	t.Parallel()
	var b Box
	q := &core.Question{ID: "q", State: core.QuestionOpen, Body: []byte("1"), Schema: []byte("true")}
	row, err := b.QuestionRow(q)
	if err != nil || row.Fields[4] != int64(0) {
		t.Fatalf("a question that is never due has the row %v, %v", row.Fields, err)
	}
	Rehome(Question, &row, threadN, 12)
	row.Rev = 1
	got, err := b.ReadQuestion(row)
	if err != nil || !got.Due.IsZero() || got.Answer != nil || got.Seq != 12 {
		t.Errorf("it came back as %+v, %v", got, err)
	}
	if got.AskedSeq != 12 {
		t.Errorf("a question as asked has the asking's number %d; want 12", got.AskedSeq)
	}
	cp := &core.Checkpoint{N: 1, ID: "01890a5d-ac96-774b-bcce-b302099a8057", Step: -1, Source: core.SourceInput, Run: 1, Due: []core.Due{{Node: core.Start}}}
	if row, err = b.CheckpointRow(threadN, cp, graph()); err != nil {
		t.Fatal(err)
	}
	s, err := b.ReadCheckpoint(threadID, row)
	if err == nil {
		err = s.Under(graph())
	}
	if err != nil || !reflect.DeepEqual(s.Checkpoint, cp) || len(s.Refs) != 0 {
		t.Errorf("it came back as %+v, %v", s, err)
	}
}

// A question that changed keeps the number of its asking, so that the order of asking survives answers.
func TestTheOrderOfAskingSurvivesAnswers(t *testing.T) {
	t.Parallel()
	var b Box
	asked := func(id string, seq int64) *core.Question {
		row, err := b.QuestionRow(&core.Question{ID: id, State: core.QuestionOpen})
		Rehome(Question, &row, threadN, seq)
		row.Rev = 1
		q, err2 := b.ReadQuestion(row)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		return q
	}
	first, second := asked("z", 5), asked("a", 6)
	first.State = core.QuestionAnswered
	row, err := b.QuestionRow(first)
	if err != nil {
		t.Fatal(err)
	}
	Rehome(Question, &row, threadN, 9)
	row.Rev = 2
	if first, err = b.ReadQuestion(row); err != nil {
		t.Fatal(err)
	}
	qs := []core.Question{*second, *first}
	if sortQuestions(qs); qs[0].ID != "z" || first.Seq != 9 {
		t.Errorf("the order of asking is lost: %d and %d", qs[0].AskedSeq, qs[1].AskedSeq)
	}
}

func TestDamagedBodies(t *testing.T) {
	t.Parallel()
	for name, b := range boxes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, s := range samples(t, b) {
				for i := range s.row.Body {
					got, err := s.read(changed(s.row, s.row.Body[:i]))
					damaged(t, fmt.Sprintf("cut to %d bytes", i), s, got, err)
					for bit := range 8 {
						body := bytes.Clone(s.row.Body)
						body[i] ^= 1 << bit
						got, err := s.read(changed(s.row, body))
						damaged(t, fmt.Sprintf("bit %d of byte %d flipped", bit, i), s, got, err)
					}
				}
				got, err := s.read(changed(s.row, append(bytes.Clone(s.row.Body), 0)))
				damaged(t, "a byte longer", s, got, err)
			}
		})
	}
}

// sealed makes a body of that format, its checksum right.
func sealed(format byte, rest ...byte) []byte {
	body := append([]byte{format, 0, 0, 0, 0}, rest...)
	binary.BigEndian.PutUint32(body[1:], crc32.Checksum(body[5:], crc32.MakeTable(crc32.Castagnoli)))
	return body
}

func TestUnknownForms(t *testing.T) {
	t.Parallel()
	codec := masked{"key-1": 3, "key-2": 5}
	for _, s := range samples(t, Box{Codec: codec}) {
		for format := range 256 {
			if format != formatEncoded {
				got, err := s.read(changed(s.row, sealed(byte(format), s.row.Body[5:]...)))
				damaged(t, fmt.Sprintf("format %d", format), s, got, err)
			}
		}
		got, err := s.read(changed(s.row, sealed(formatEncoded)))
		damaged(t, "no key", s, got, err)
		got, err = s.read(changed(s.row, sealed(formatEncoded, 200, 'k')))
		damaged(t, "half a key", s, got, err)
		got, err = s.read(changed(s.row, sealed(formatEncoded, append([]byte("\x05key-9"), s.row.Body[11:]...)...)))
		damaged(t, "an unknown key", s, got, err)
		if !strings.Contains(err.Error(), "key-9") || !strings.Contains(err.Error(), "was left as it is") {
			t.Errorf("%q does not name the key and what was left", err)
		}
	}
	encoded := samples(t, Box{Codec: codec})
	for i, s := range samples(t, Box{}) {
		got, err := s.read(encoded[i].row)
		damaged(t, "no codec", s, got, err)
		if !strings.Contains(err.Error(), "key-2") {
			t.Errorf("%q does not name the key", err)
		}
	}
}

// What was written under an older key, or before there was a codec, is still read.
func TestKeysThatChange(t *testing.T) {
	t.Parallel()
	now := Box{Codec: masked{"key-1": 3, "key-2": 5}}
	old, err := now.Codec.(masked).mask(Step, "key-1", []byte("payload"))
	if err != nil {
		t.Fatal(err)
	}
	body := sealed(formatEncoded, append([]byte("\x05key-1"), old...)...)
	if got, err := now.Unpack(Step, "here", body); err != nil || string(got) != "payload" {
		t.Errorf("under the older key: %q, %v", got, err)
	}
	plain, err := Box{}.Pack(Step, []byte("payload"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := now.Unpack(Step, "here", plain); err != nil || string(got) != "payload" {
		t.Errorf("without a codec: %q, %v", got, err)
	}
	packed, err := now.Pack(Step, []byte("payload"))
	if err != nil || bytes.Contains(packed, []byte("payload")) || !bytes.Contains(packed, []byte("key-2")) {
		t.Errorf("packed as %q, %v", packed, err)
	}
}

type brokenCodec struct{ key string }

func (c brokenCodec) KeyID() string                                { return c.key }
func (c brokenCodec) Encode(_ string, body []byte) ([]byte, error) { return body, c.err() }
func (c brokenCodec) Decode(_, _ string, b []byte) ([]byte, error) { return b, c.err() }
func (c brokenCodec) err() error {
	if len(c.key) > 255 {
		return nil
	}
	return errors.New("the key store is away")
}

func TestCodecsThatFail(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"k", strings.Repeat("k", 256)} {
		body, err := Box{Codec: brokenCodec{key}}.Pack(Step, []byte("payload"))
		if err == nil || body != nil || !strings.Contains(err.Error(), "nothing was written") || !strings.Contains(err.Error(), "step") {
			t.Errorf("packed as %q, %v", body, err)
		}
		row, err := Box{Codec: brokenCodec{key}}.StepRow(0, &core.Step{Result: []byte("1")})
		if err == nil {
			t.Errorf("a step has the row %v", row)
		}
	}
}

// Bodies that were written whole and say something else than a record of their kind.
func TestBodiesOfAnotherShape(t *testing.T) {
	t.Parallel()
	for _, s := range samples(t, Box{}) {
		docs := []string{``, `null`, `{}`, `[]`, `"text"`, `1`, `{`, `{"unknown":1}`}
		if s.kind == Value {
			docs = []string{``, `x"text"`, `l`, `l{}`, `l[[1]]`, `l[[1,2,3,4]`, `l[]`, `lnull`, `l[[2,1]]`, `l[[0,1]]`, `l[[-1,1]]`, `l[[1,9999999999]]`, `c`, "\x00"}
		} else {
			whole := string(s.row.Body[5:])
			docs = append(docs, whole+`{}`, whole+"x", strings.TrimSuffix(whole, "}")+`,"unknown":1}`, "["+whole+"]")
		}
		for _, doc := range docs {
			if s.kind == Thread && doc == `{}` {
				continue // its lineage may be empty
			}
			body, err := Box{}.Pack(s.kind, []byte(doc))
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.read(changed(s.row, body))
			damaged(t, doc, s, got, err)
		}
	}
}

func TestDamageInsideARecord(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ kind, from, to string }{
		{Run, `"o":"a"`, `"o":"x"`}, {Run, `"o":"a"`, `"o":""`}, {Run, `"o":"a"`, `"o":"as"`},
		{Run, `"ID":"run-3"`, `"ID":""`}, {Run, `"N":3`, `"N":"3"`},
		{Ended, `"o":"c"`, `"o":"?"`}, {Ended, `"n":"ping"`, `"n":""`}, {Ended, `"d":["pong"`, `"d":[["pong"]`},
		{Checkpoint, `"d":["ping"`, `"d":[null`}, {Checkpoint, `"d":["ping"`, `"d":[5`}, {Checkpoint, `"d":["ping"`, `"d":[["a","b","c"]`},
		{Checkpoint, `"z":"e"`, `"z":"1e"`}, {Checkpoint, `"z":"e"`, `"z":"x"`}, {Frame, `"n":"pong"`, `"n":""`}, {Nested, `"s":"fork"`, `"s":""`}, {Checkpoint, `"s":"fork"`, `"s":""`}, {Checkpoint, `"r":3`, `"r":0`},
		{Step, `"s":"rate"`, `"s":""`}, {Step, `"r":null,`, ``}, {Question, `"ID":"question"`, `"ID":"other"`},
		{Question, `"State":"answered"`, `"State":""`}, {Graph, `"graph":"loop"`, `"graph":""`}, {Cache, `"o":"a"`, `"o":"x"`}, {Cache, `"d":["ping"`, `"d":[["ping"]`},
	} {
		for _, s := range samples(t, Box{}) {
			if s.kind != c.kind {
				continue
			}
			doc := string(s.row.Body[5:])
			if !strings.Contains(doc, c.from) {
				t.Fatalf("a %s has no %s: %s", c.kind, c.from, doc)
			}
			got, err := s.read(changed(s.row, sealed(formatPlain, []byte(strings.Replace(doc, c.from, c.to, 1))...)))
			damaged(t, c.from+" became "+c.to, s, got, err)
		}
	}
}

// History must stay close to what the nodes wrote: what a super-step costs beside that is one short row.
func TestACheckpointIsShort(t *testing.T) {
	t.Parallel()
	top := &core.Topology{Graph: "loop", Channels: []core.Channel{{Name: "counter", Merge: core.MergeSum}}}
	for _, n := range []string{core.Start, "ping", "pong"} {
		top.Nodes = append(top.Nodes, core.Node{Name: n})
	}
	cp := &core.Checkpoint{
		N: 10_001, ID: "01890a5d-ac96-774b-bcce-b302099a8057", Parent: 10_000, Step: 9_999, Source: core.SourceLoop, Run: 12,
		Values: []*core.Value{{ID: 10_000, Op: core.OpSet}}, Due: []core.Due{{Node: "pong"}}, Visited: []string{"ping", "pong"},
	}
	row, err := Box{}.CheckpointRow(1_000_000, cp, top)
	if err != nil {
		t.Fatal(err)
	}
	if len(row.Body) >= 100 {
		t.Errorf("its body has %d bytes: %q", len(row.Body), row.Body)
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ thread, n int64 }{{1, 0}, {1, 1}, {7, 1<<32 - 1}, {1<<31 - 2, 1<<32 - 1}} {
		at := Place(c.thread, c.n)
		r := Places(c.thread)
		if Local(at) != c.n || at < r.From.(int64) || at >= r.To.(int64) {
			t.Errorf("thread %d, number %d is at %d, outside of %v", c.thread, c.n, at, r)
		}
		if next := Places(c.thread + 1); at >= next.From.(int64) {
			t.Errorf("thread %d, number %d lies in the next thread", c.thread, c.n)
		}
	}
	row := storage.Row{Key: []any{Place(0, 9)}, Fields: []any{Place(0, 8), int64(0), int64(0)}}
	Rehome(Value, &row, 7, 1)
	if row.Key[0] != Place(7, 9) || row.Fields[0] != Place(7, 8) {
		t.Errorf("a value moved to %v on %v", row.Key, row.Fields)
	}
	whole := storage.Row{Key: []any{Place(0, 9)}, Fields: []any{int64(0), int64(0), int64(0)}}
	if Rehome(Value, &whole, 7, 1); whole.Fields[0] != int64(0) {
		t.Errorf("a whole value hangs from %v", whole.Fields[0])
	}
}
