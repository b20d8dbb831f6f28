package redact

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// FuzzJSON: any input has a view that is JSON, the same at the second time, and does not make the redactor fail.
func FuzzJSON(f *testing.F) {
	for _, doc := range []string{canaryQuestion, ``, `{`, `null`, `-0.5e7`, `"\ud800\u0041\\"`, `{"a":{"a":[[],{}]},"a":2}`, `["\"{\\\"pin\\\":1}\""]`,
		`{"name":"token","value":{"x":[1]}}`, `["--pin","1"]`, `{"auth":{"user":{"pin":[]}}}`, "\"\xff?\xfe=%\"", `"eyJhIjoiP3NpZz0xIn0="`, `"[hidden]=&sig=a"`, `"?[hidden]=99999999999&sig=a"`, `"password=[hidden]x"`,
		`{"=000-00+0=000000\u0000token=00":"0"}`, `"0 Auth0:\"0{\"pAn\":[]}0"`} {
		f.Add([]byte(doc))
	}
	for _, c := range append(signed[:len(signed):len(signed)], shapes...) {
		doc, _ := json.Marshal(map[string]any{c.name: []string{c.url}, c.url: 1})
		f.Add(doc)
	}
	r := New(&Policy{MaxDepth: 20, PII: true})
	f.Fuzz(func(t *testing.T, doc []byte) {
		view, hidden := r.JSON(doc)
		if len(doc) > 0 && !json.Valid(view) {
			t.Fatalf("the view is not JSON: %q", view)
		}
		if bytes.Contains(view, []byte(Unreadable)) && !bytes.Contains(doc, []byte("not readable")) {
			t.Fatal("the redactor failed")
		}
		if !bytes.Equal(view, doc) && len(hidden) == 0 {
			t.Fatalf("a change is not listed: %q", view)
		}
		if again, _ := r.JSON(view); !bytes.Equal(again, view) {
			t.Fatalf("the view of the view differs\n%q\n%q\n%q", doc, view, again)
		}
		if s := r.Text(string(doc)); s == Unreadable && string(doc) != Unreadable {
			t.Fatal("the redactor failed on text")
		} else if again := r.Text(s); again != s {
			t.Fatalf("the text of the text differs\n%q\n%q\n%q", doc, s, again)
		}
	})
}

// What makes careless parsers take the square of their time is read to its end.
func TestHostileInputIsRead(t *testing.T) {
	t.Parallel()
	r := New(nil)
	for _, unit := range []string{"a://", "[[", "{\"", "key={", "password='", "eyJ-", "eyJ.", "sk-", "?a=", "%25", "4-", "a;b=c&", ")", "\\\"", "-----BEGIN ", "b:c@", "&amp;", "pin=,", "[hidden]=", "key=\"a"} {
		s := strings.Repeat(unit, 1<<16/len(unit))
		if got := r.Text(s); got == Unreadable {
			t.Errorf("%q repeated makes the redactor fail", unit)
		}
	}
}

func document10KB() []byte {
	type line struct {
		SKU, Note, Link string
		Amount          int
		Meta            map[string]string
	}
	var lines []line
	for len(lines) < 32 {
		lines = append(lines, line{"SKU-8841-7", "Deliver to the back door; the customer asked for a call before noon.", "https://files.example/orders/8841/invoice.pdf?X-Amz-Expires=600&X-Amz-Signature=0123456789abcdef&v=2", 124000,
			map[string]string{"operation_key": "op-17", "api_key": "abc", "author": "bob"}})
	}
	doc, _ := json.Marshal(lines)
	return doc
}

func BenchmarkJSON10KB(b *testing.B) {
	r, doc := New(nil), document10KB()
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		r.JSON(doc)
	}
}
