package redact

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"strings"
	"testing"
	"time"
)

type login struct {
	User   string         `json:"user"`
	Pass   Secret[string] `json:"pass"`
	hidden Secret[string]
}

func TestSecretPrintsMasked(t *testing.T) {
	t.Parallel()
	s := NewSecret("CANARY")
	l := login{"bob", s, s}
	values := []any{s, &s, l, &l, []login{l}, map[string]any{"a": s}, struct{ x any }{s}, NewSecret(l), NewSecret(map[string]string{"CANARY": "CANARY"})}
	for _, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%p", "%t", "%10.2v"} {
			if got := fmt.Sprintf(verb, v); leaks(got) {
				t.Errorf("%s of a %T: %s", verb, v, got)
			}
		}
		if doc, _ := json.Marshal(v); leaks(string(doc)) {
			t.Errorf("JSON of a %T: %s", v, doc)
		}
		var out bytes.Buffer
		for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
			slog.New(h).Info("m", "v", v)
		}
		if leaks(out.String()) {
			t.Errorf("log of a %T: %s", v, out.String())
		}
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if got := fmt.Sprintf(verb, s); got != Mask {
			t.Errorf("%s: %s", verb, got)
		}
	}
	if err := fmt.Errorf("login with %v: %w", s, errors.New("refused")); err.Error() != "login with [hidden]: refused" {
		t.Error(err)
	}
	if doc, err := xml.Marshal(l); err != nil || leaks(string(doc)) {
		t.Errorf("XML %s, %v", doc, err)
	}
	if s.Reveal() != "CANARY" || s.String() != Mask || (Secret[int]{}).Reveal() != 0 {
		t.Error("Reveal or String")
	}
}

// leaks looks for the secret also as the digits that %x and %d make of it.
func leaks(s string) bool {
	for _, form := range []string{"CANARY", "43414e415259", "43414E415259", "67 65 78 65 82 89"} {
		if strings.Contains(s, form) {
			return true
		}
	}
	return false
}

func TestSecretReadsJSON(t *testing.T) {
	t.Parallel()
	var l login
	if err := json.Unmarshal([]byte(`{"user":"bob","pass":"CANARY"}`), &l); err != nil || l.Pass.Reveal() != "CANARY" {
		t.Fatalf("%v, %v", l, err)
	}
	doc, _ := json.Marshal(l)
	if string(doc) != `{"user":"bob","pass":"[hidden]"}` {
		t.Errorf("%s", doc)
	}
	if err := json.Unmarshal(doc, &l); !errors.Is(err, ErrMasked) {
		t.Errorf("a view reads back: %v", err)
	}
	var n Secret[int8]
	if err := json.Unmarshal([]byte(`123456`), &n); err == nil || strings.Contains(err.Error(), "123456") {
		t.Errorf("error %v", err)
	}
}

type (
	own     struct{ Key Secret[string] }
	sealed  struct{ key Secret[string] }
	inner   struct{ Key Secret[string] }
	byValue struct{ inner }
	byPtr   struct{ *inner }
	wrapped struct{ Secret[string] }
	chain   struct {
		Key  Secret[string]
		Next *chain
	}
)

func (o own) MarshalJSON() ([]byte, error) {
	type plain own
	return json.Marshal(plain(o))
}

func (s sealed) MarshalJSON() ([]byte, error) { return json.Marshal(map[string]any{"key": s.key}) }

func TestExact(t *testing.T) {
	t.Parallel()
	s := NewSecret("CANARY")
	for _, c := range []struct {
		name string
		v    any
		want string
	}{
		{"nil", nil, `null`},
		{"a secret", s, `"CANARY"`},
		{"a pointer", &s, `"CANARY"`},
		{"nothing in it", Secret[string]{}, `""`},
		{"a field", login{"bob", s, s}, `{"user":"bob","pass":"CANARY"}`},
		{"deep", map[string]any{"a": []any{&login{"bob", s, s}, 1}, "b": [1]Secret[int]{NewSecret(7)}}, `{"a":[{"user":"bob","pass":"CANARY"},1],"b":[7]}`},
		{"a secret in a secret", NewSecret(login{"bob", s, s}), `{"user":"bob","pass":"CANARY"}`},
		{"a type that encodes itself", own{s}, `{"Key":"CANARY"}`},
		{"embedded", byValue{inner{s}}, `{"Key":"CANARY"}`},
		{"an embedded secret", wrapped{s}, `"CANARY"`},
		{"a chain", &chain{s, &chain{s, nil}}, `{"Key":"CANARY","Next":{"Key":"CANARY","Next":null}}`},
		{"types of others", []any{time.Unix(0, 0).UTC(), big.NewInt(7), json.RawMessage(`{"a": 1}`)}, `["1970-01-01T00:00:00Z",7,{"a":1}]`},
		{"omitted", struct {
			S Secret[string] `json:",omitzero"`
		}{}, `{}`},
	} {
		before, _ := json.Marshal(c.v)
		got, err := Exact(c.v)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v", c.name, got, err)
		}
		if after, _ := json.Marshal(c.v); leaks(string(after)) || !bytes.Equal(before, after) {
			t.Errorf("%s: the value has changed: %s", c.name, after)
		}
	}
	loop := &chain{Key: s}
	loop.Next = loop
	for name, v := range map[string]any{"a key": map[*Secret[string]]int{&s: 1}, "a field that only a method reads": sealed{s}, "behind an embedded pointer": byPtr{&inner{s}}, "a cycle": loop,
		"a key of no text": map[any]int{1: 1}, "a function": struct{ F func() }{}, "an error that quotes": NewSecret[any](failing{})} {
		if got, err := Exact(v); err == nil || leaks(err.Error()) {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

type failing struct{}

func (failing) MarshalJSON() ([]byte, error) { return nil, errors.New("CANARY") }

// A secret that one goroutine sends stays masked for another that logs it at the same time.
func TestExactOpensCopiesOnly(t *testing.T) {
	t.Parallel()
	l := &login{Pass: NewSecret("CANARY")}
	done := make(chan bool)
	go func() {
		defer close(done)
		for range 500 {
			if doc, err := Exact(l); err != nil || !leaks(string(doc)) {
				t.Errorf("%s, %v", doc, err)
			}
		}
	}()
	for range 500 {
		if doc, _ := json.Marshal(l); leaks(string(doc)) {
			t.Errorf("%s", doc)
		}
	}
	<-done
}
