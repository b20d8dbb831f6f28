package adapt_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/approval/adapt"
)

var update = flag.Bool("update", false, "write the golden files")

func request(id, effect string) approval.Request {
	return approval.Request{
		ID: id, Effect: effect, Ref: "invoice:17", Call: "call-" + id, Node: "pay", Thread: "order-17", State: approval.Requested,
		View: json.RawMessage(`{"effect":"` + effect + `","params":{"to":"acme","cents":9007199254740991,"urgent":false,"lines":[{"n":1}],` +
			`"rate":1.50,"api_key":"[hidden]"},"hidden":["$.api_key"]}`),
		Due: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	}
}

func two() []approval.Request {
	again := request("b", "mail.send")
	again.Why = "changed by ann"
	again.Diff = []approval.Change{{Path: "/cents", Old: []byte("1"), New: []byte("2")}, {Path: "/api_key", Hidden: true}}
	return []approval.Request{request("a", "bank.transfer"), again}
}

// golden compares a document with a file, and itself with what it says after it was read once more.
func golden(t *testing.T, name string, v any) {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(want, b.Bytes()) {
		t.Errorf("%s: %v; got\n%s", name, err, b.Bytes())
	}
}

func TestShown(t *testing.T) {
	t.Parallel()
	rs := two()
	for _, r := range rs {
		got, err := adapt.ToInbox(r)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "inbox-"+r.ID+".json", got)
	}
	chain, err := adapt.ToLangChain(rs)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "langchain.json", chain)
	agui, err := adapt.ToAGUI(rs)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "agui.json", agui)
}

// What has no named parameters cannot be shown in these shapes.
func TestNotShown(t *testing.T) {
	t.Parallel()
	r := request("a", "x")
	for _, view := range []string{`{"params":[1]}`, `{}`, `1`, ``} {
		r.View = json.RawMessage(view)
		_, one := adapt.ToInbox(r)
		_, two := adapt.ToLangChain([]approval.Request{r})
		_, three := adapt.ToAGUI([]approval.Request{r})
		for _, err := range []error{one, two, three} {
			if e := (*adapt.Error)(nil); !errors.As(err, &e) || e.ID != "a" {
				t.Errorf("%s: %v", view, err)
			}
		}
	}
}

// say is choices in short.
func say(t *testing.T, cs []approval.Choice, err error) string {
	t.Helper()
	if err != nil {
		if e := (*adapt.Error)(nil); !errors.As(err, &e) || !strings.HasSuffix(err.Error(), "nothing was decided") || len(cs) > 0 && cs[0].ID != "" {
			t.Errorf("%v, %+v", err, cs)
		}
		return "refused: " + err.Error()
	}
	var out []string
	for _, c := range cs {
		s := c.ID + " " + string(c.Verb)
		if c.Digest != "call-"+c.ID {
			t.Errorf("the digest is %q", c.Digest)
		}
		if c.Reason != "" {
			s += " (" + c.Reason + ")"
		}
		for _, ch := range c.Changes {
			s += " " + ch.Path + "=" + string(ch.New)
		}
		out = append(out, s)
	}
	return strings.Join(out, "; ")
}

const asShown = `"to":"acme","cents":9007199254740991,"urgent":false,"lines":[{"n":1}],"rate":1.50,"api_key":"[hidden]"`

func TestInboxAnswers(t *testing.T) {
	t.Parallel()
	r := request("a", "bank.transfer")
	edit := func(args string) string {
		return `[{"type":"edit","args":{"action":"bank.transfer","args":{` + args + `}}}]`
	}
	for _, c := range []struct{ name, answer, want string }{
		{"accept", `[{"type":"accept","args":null}]`, "a approve"},
		{"accept what was shown", `[{"type":"accept","args":{"action":"bank.transfer","args":{` + asShown + `}}}]`, "a approve"},
		{"accept, numbers as texts", `[{"type":"accept","args":{"action":"bank.transfer","args":{"to":"acme","cents":"9007199254740991","urgent":"false",` +
			`"lines":"[{\"n\":1}]","rate":"1.50","api_key":"[hidden]"}}}]`, "a approve"},
		{"accept something else", `[{"type":"accept","args":{"action":"bank.transfer","args":{"to":"eve"}}}]`, "refused: accepts another call"},
		{"ignore", `[{"type":"ignore","args":null}]`, "a reject (ignored in the inbox)"},
		{"response", `[{"type":"response","args":"why so much?"}]`, "a reject (why so much?)"},
		{"response without words", `[{"type":"response","args":{"x":1}}]`, "refused: a response is a text"},
		{"edit", edit(strings.Replace(asShown, "9007199254740991", "12", 1)), "a edit-call /cents=12"},
		{"edit, as text", edit(strings.Replace(asShown, "9007199254740991", `"12"`, 1)), "a edit-call /cents=12"},
		{"edit of nothing", edit(asShown), "a approve"},
		{"edit to words", edit(strings.Replace(asShown, "9007199254740991", `"lots"`, 1)), `refused: /cents was a number and came back as the text "lots"`},
		{"edit to another type", edit(strings.Replace(asShown, "9007199254740991", `"true"`, 1)), `refused: /cents was a number`},
		{"edit in depth", edit(strings.Replace(asShown, `"n":1`, `"n":"2"`, 1)), "a edit-call /lines/0/n=2"},
		{"edit of a text to digits", edit(strings.Replace(asShown, "acme", "42", 1)), `a edit-call /to="42"`},
		{"edit removes", edit(strings.Replace(asShown, `"urgent":false,`, "", 1)), "a edit-call /urgent="},
		{"another tool", `[{"type":"edit","args":{"action":"mail.send","args":{}}}]`, `refused: it would make "mail.send" of "bank.transfer"`},
		{"none", `[]`, "refused: it is a list of 0"},
		{"two", `[{"type":"accept"},{"type":"accept"}]`, "refused: it is a list of 2"},
		{"unknown", `[{"type":"maybe"}]`, `refused: there is no answer of type "maybe"`},
		{"no list", `{"type":"accept"}`, "refused: it cannot be read"},
		{"edit without args", `[{"type":"edit","args":{"action":"bank.transfer"}}]`, "refused: it has no parameters"},
	} {
		got, err := adapt.FromInbox(r, json.RawMessage(c.answer))
		check(t, c.name, say(t, []approval.Choice{got}, err), c.want)
	}
}

func check(t *testing.T, name, got, want string) {
	t.Helper()
	if words, refused := strings.CutPrefix(want, "refused: "); refused {
		if !strings.HasPrefix(got, "refused: ") || !strings.Contains(got, words) {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	} else if got != want {
		t.Errorf("%s: got %s, want %s", name, got, want)
	}
}

func TestLangChainAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, answer, want string }{
		{"both", `{"decisions":[{"type":"approve"},{"type":"reject","message":"no"}]}`, "a approve; b reject (no)"},
		{"edit", `{"decisions":[{"type":"edit","edited_action":{"name":"bank.transfer","args":{` + strings.Replace(asShown, "1.50", "2.25", 1) +
			`}}},{"type":"approve"}]}`, "a edit-call /rate=2.25; b approve"},
		{"another tool", `{"decisions":[{"type":"edit","edited_action":{"name":"mail.send","args":{}}},{"type":"approve"}]}`, `refused: it would make "mail.send"`},
		{"too few", `{"decisions":[{"type":"approve"}]}`, "refused: it has 1 decisions on 2 requests"},
		{"too many", `{"decisions":[{"type":"approve"},{"type":"approve"},{"type":"approve"}]}`, "refused: it has 3 decisions"},
		{"respond", `{"decisions":[{"type":"respond","message":"done"},{"type":"approve"}]}`, `refused: decision 1 is "respond"`},
		{"an edit of nothing", `{"decisions":[{"type":"approve"},{"type":"edit"}]}`, `refused: decision 2 is "edit"`},
		{"no document", `nonsense`, "refused: it cannot be read"},
		{"two documents", `{"decisions":[]}{}`, "refused: it is more than one document"},
	} {
		got, err := adapt.FromLangChain(two(), json.RawMessage(c.answer))
		check(t, c.name, say(t, got, err), c.want)
	}
}

func TestAGUIAnswers(t *testing.T) {
	t.Parallel()
	entry := func(id, status, payload string) string {
		return `{"interruptId":"` + id + `","status":"` + status + `","payload":` + payload + `}`
	}
	for _, c := range []struct{ name, answer, want string }{
		{"any order", `[` + entry("b", "resolved", `{"decision":"reject","reason":"no"}`) + `,` + entry("a", "resolved", `{"decision":"approve","digest":"call-a"}`) + `]`,
			"b reject (no); a approve"},
		{"one of two", `[` + entry("b", "cancelled", `null`) + `]`, "b reject (cancelled by the user)"},
		{"edit", `[` + entry("a", "resolved", `{"decision":"edit","args":{`+strings.Replace(asShown, "acme", "bolt", 1)+`}}`) + `]`, `a edit-call /to="bolt"`},
		{"unknown", `[` + entry("c", "resolved", `{"decision":"approve"}`) + `]`, "refused: it is none of the requests"},
		{"twice", `[` + entry("a", "resolved", `{"decision":"approve"}`) + `,` + entry("a", "resolved", `{"decision":"reject"}`) + `]`, "refused: answered twice"},
		{"another call", `[` + entry("a", "resolved", `{"decision":"approve","digest":"call-b"}`) + `]`, "refused: it is for the call call-b"},
		{"approve with args", `[` + entry("a", "resolved", `{"decision":"approve","args":{}}`) + `]`, "refused: its decision is"},
		{"no decision", `[` + entry("a", "resolved", `{}`) + `]`, `refused: its decision is ""`},
		{"no payload", `[{"interruptId":"a","status":"resolved"}]`, "refused: without saying how"},
		{"another status", `[` + entry("a", "maybe", `{}`) + `]`, `refused: there is no status "maybe"`},
		{"a bad payload", `[` + entry("a", "resolved", `[]`) + `]`, "refused: its payload cannot be read"},
		{"no list", `{}`, "refused: it cannot be read"},
	} {
		got, err := adapt.FromAGUI(two(), json.RawMessage(c.answer))
		check(t, c.name, say(t, got, err), c.want)
	}
}
