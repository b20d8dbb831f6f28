package approval_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/approval"
)

// A diff says what changed by path, with types and digits as they are written, and applied it makes the one of the other.
func TestDiff(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, old, new, want string }{
		{"nothing", `{"a":1}`, `{ "a": 1 }`, ``},
		{"a number", `{"a":1,"b":2}`, `{"a":1,"b":3}`, `/b 2>3`},
		{"a number to a text", `{"a":1}`, `{"a":"1"}`, `/a 1>"1"`},
		{"digits", `{"a":1.10}`, `{"a":1.1}`, `/a 1.10>1.1`},
		{"large numbers", `{"a":9007199254740993}`, `{"a":9007199254740992}`, `/a 9007199254740993>9007199254740992`},
		{"added and removed", `{"a":1}`, `{"b":null}`, `/a 1>; /b >null`},
		{"in depth", `{"a":{"b":[{"c":true},{"c":false}]}}`, `{"a":{"b":[{"c":true},{"c":true}]}}`, `/a/b/1/c false>true`},
		{"a list of another length", `{"a":[1,2]}`, `{"a":[1]}`, `/a [1,2]>[1]`},
		{"another kind", `{"a":{"b":1}}`, `{"a":[1]}`, `/a {"b":1}>[1]`},
		{"odd names", `{"a/b":{"~":1}}`, `{"a/b":{"~":2}}`, `/a~1b/~0 1>2`},
		{"the whole", `1`, `"<>"`, ` 1>"<>"`},
	} {
		got, err := approval.Diff(json.RawMessage(c.old), json.RawMessage(c.new))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var out []string
		for _, ch := range got {
			out = append(out, ch.Path+" "+string(ch.Old)+">"+string(ch.New))
		}
		if s := strings.Join(out, "; "); s != c.want {
			t.Errorf("%s: %s, want %s", c.name, s, c.want)
		}
		made, err := approval.Apply(json.RawMessage(c.old), got)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if rest, err := approval.Diff(made, json.RawMessage(c.new)); err != nil || len(rest) != 0 {
			t.Errorf("%s: applied it is %s, %v", c.name, made, err)
		}
	}
	for _, doc := range []string{`nonsense`, `{} {}`, ``} {
		if _, err := approval.Diff(json.RawMessage(doc), json.RawMessage(`1`)); err == nil {
			t.Errorf("%q was compared", doc)
		}
		if _, err := approval.Diff(json.RawMessage(`1`), json.RawMessage(doc)); err == nil {
			t.Errorf("%q was compared", doc)
		}
	}
}

func TestApplyRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, path, new, says string }{
		{"no pointer", "a", `1`, "no JSON pointer"},
		{"no parent", "/x/y", `1`, `there is no "x"`},
		{"below a value", "/a/b", `1`, "nothing below it"},
		{"no element", "/l/2", `1`, `no element "2"`},
		{"an element by another name", "/l/01", `1`, `no element "01"`},
		{"no number", "/l/x", `1`, `no element "x"`},
		{"an element removed", "/l/0", ``, "give the whole array"},
		{"all removed", "", ``, "cannot be removed"},
		{"no JSON", "/a", `{`, "no JSON"},
	} {
		_, err := approval.Apply(json.RawMessage(`{"a":1,"l":[1,2]}`), []approval.Change{{Path: c.path, New: json.RawMessage(c.new)}})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := approval.Apply(json.RawMessage(`{`), nil); err == nil {
		t.Error("what is no JSON was changed")
	}
}
