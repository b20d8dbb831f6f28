package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

const canaryQuestion = `{"to":"all-staff","file":"q3.pdf","api_key":"CANARY-1","auth":{"password":"CANARY-2"},` +
	`"link":"https://files.example/q3.pdf?X-Amz-Expires=600&X-Amz-Signature=CANARY-3&X-Amz-Credential=CANARY-4"}`

// S000-17: what the approver of the canary question sees.
func TestCanaryQuestion(t *testing.T) {
	t.Parallel()
	view, hidden := New(nil).JSON([]byte(canaryQuestion))
	want := `{"to":"all-staff","file":"q3.pdf","api_key":"[hidden]","auth":{"password":"[hidden]"},` +
		`"link":"https://files.example/q3.pdf?X-Amz-Expires=600&[hidden]=2"}`
	if string(view) != want {
		t.Errorf("view\n%s\nwant\n%s", view, want)
	}
	if want := []string{"$.api_key", "$.auth.password", "$.link"}; !slices.Equal(hidden, want) {
		t.Errorf("hidden %v, want %v", hidden, want)
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, doc, view string }{
		{"nothing to hide keeps every byte", "{ \"b\" : [1.50, 1e3 ,\"\\u0061\\/\"],\n\t\"a\":{} }", "{ \"b\" : [1.50, 1e3 ,\"\\u0061\\/\"],\n\t\"a\":{} }"},
		{"a number is a secret too", `{"pin":1234,"n":1234}`, `{"pin":"[hidden]","n":1234}`},
		{"a plural with a number is a count", `{"tokens":15,"max_tokens":9,"api_keys":["a"]}`, `{"tokens":15,"max_tokens":9,"api_keys":"[hidden]"}`},
		{"no secret there", `{"password":null,"mfa":true,"token":"","auth":{},"cookies":[]}`, `{"password":null,"mfa":true,"token":"","auth":{},"cookies":[]}`},
		{"an uncommon name under a hidden name", `{"auth":{"username":"bob","password":"x","on":true}}`, `{"auth":"[hidden]"}`},
		{"names that say nothing", `{"auth":{"username":"bob","token":{"value":7,"type":null}}}`, `{"auth":{"username":"[hidden]","token":{"value":"[hidden]","type":null}}}`},
		{"a name under a hidden name may be the secret", `{"tokens":{"s3cr3tvalue":1}}`, `{"tokens":"[hidden]"}`},
		{"an escaped name", `{"p\u0061ssword":"x"}`, `{"p\u0061ssword":"[hidden]"}`},
		{"a name that is a secret", `{"https://x.example/?sig=abc":1}`, `{"https://x.example/?[hidden]=1":1}`},
		{"two names that would be one", `{"a":{"eyJhbGciOiJub25lIn0.e30.aaaa":1,"eyJhbGciOiJub25lIn0.e30.bbbb":2}}`, `{"a":"[hidden]"}`},
		{"name and value", `{"headers":[{"value":"x y","name":"Authorization"},{"name":"Accept","value":"x"}]}`, `{"headers":[{"value":"[hidden]","name":"Authorization"},{"name":"Accept","value":"x"}]}`},
		{"arguments of a command", `["curl","--token","abc","-v"]`, `["curl","--token","[hidden]","-v"]`},
		{"JSON in a string", `{"body":"{\"a\":1,\"password\":\"x\"}"}`, `{"body":"{\"a\":1,\"password\":\"[hidden]\"}"}`},
		{"JSON in JSON in a string", `["{\"b\":\"{\\\"pwd\\\":\\\"x\\\",\\\"c\\\":2}\"}"]`, `["{\"b\":\"{\\\"pwd\\\":\\\"[hidden]\\\",\\\"c\\\":2}\"}"]`},
		{"JSON in prose", `["sent {\"token\": \"x\"}, got 401"]`, `["sent {\"token\": \"[hidden]\"}, got 401"]`},
		{"escapes around what is cut", `["https:\/\/x.example\/?a=1\u0026sig=abc\u0026b=2"]`, `["https:\/\/x.example\/?a=1\u0026b=2&[hidden]=1"]`},
		{"a random key", `{"key":"q8Zr3TfLm2Xw9Kp4Vb7N","code":"refund-order-number-88412"}`, `{"key":"[hidden]","code":"refund-order-number-88412"}`},
		{"a card number", `{"a":4111111111111111,"b":"card 4111 1111 1111 1111.","c":4111111111111112}`, `{"a":"[hidden]","b":"card [hidden].","c":4111111111111112}`},
		{"a scalar document", `"token=abc"`, `"token=[hidden]"`},
		{"not JSON", `{"password":"x"`, `"[hidden: not JSON]"`},
		{"two documents", `{} {}`, `"[hidden: not JSON]"`},
		{"empty", ``, ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if view, _ := New(nil).JSON([]byte(c.doc)); string(view) != c.view {
				t.Errorf("view of %s\n got %s\nwant %s", c.doc, view, c.view)
			}
		})
	}
}

// Every name of the default list hides in the three ways that people write names, and as a part of a longer one.
func TestSensitiveNames(t *testing.T) {
	t.Parallel()
	r := New(nil)
	names := list(secretNames)
	names = append(names, "apikey", "APIKey", "connect.sid", "PHPSESSID", "x-csrftoken", "mysql_pwd", "PGPASSWORD", "Set-Cookie",
		"x-amz-security-token", "X-Goog-IAM-Authorization-Token", "CloudFront-Key-Pair-Id", "keystore", "password2", "passwords",
		"PassWord", "accessToken", "aws_secret_access_key", "DB_PASSWORD", "clientSecret", "ID-Token", "cardNumber", "webhookSecret")
	for _, n := range names {
		for _, as := range []string{n, strings.ReplaceAll(n, " ", "_"), strings.ReplaceAll(n, " ", "-"), "my_" + strings.ReplaceAll(n, " ", "."), strings.ToUpper(n)} {
			doc, _ := json.Marshal(map[string]string{as: "zzz"})
			if view, _ := r.JSON(doc); bytes.Contains(view, []byte("zzz")) {
				t.Errorf("%q does not hide: %s", as, view)
			}
		}
	}
}

func TestLookAlikesStayVisible(t *testing.T) {
	t.Parallel()
	r := New(nil)
	for _, n := range []string{"author", "authors", "monkey", "keyboard", "cardinality", "tokenizer", "operation_key", "idempotency_key",
		"idempotencyKey", "company", "spinner", "pinned", "panel", "passport", "compass", "salted_caramel", "secretary", "sidebar", "opinion",
		"discard", "token_count", "tokenType", "hash", "public_key", "keyId", "key", "signature", "authorName", "X-Amz-Expires", "sessionless"} {
		doc, _ := json.Marshal(map[string]any{n: "visible", "n": map[string]any{n: 7}})
		if view, hidden := r.JSON(doc); !bytes.Equal(view, doc) || hidden != nil {
			t.Errorf("%q: %s, hidden %v", n, view, hidden)
		}
	}
	for _, s := range []string{"Meet at 12:30: bring the basic author key.", "SELECT * FROM a WHERE b=1 AND c='2'", "order 8841, $1,240.00 (50%)",
		"https://shop.example/a/b?page=2&sort=asc#top", "http://auth.example:8080/x", "mailto:bob@shop.example", "1234567890123 and 2024-05-01T10:00:00Z",
		"6ba7b810-9dad-11d1-80b4-00c04fd430c8", "https://medium.example/@author/post-1", "Really? yes=no", "c = a ? b : d", "//comment // another"} {
		if got := r.Text(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	pem := "-----BEGIN PRIVATE KEY-----\nMIIC\n-----END PRIVATE KEY-----"
	for _, c := range []struct{ name, in, out string }{
		{"assignment", "psql password=hunter2 host=db", "psql password=[hidden] host=db"},
		{"quotes", `api_key: "a b", x`, `api_key: "[hidden]", x`},
		{"a form", "user=bob&password=x&n=1", "user=bob&password=[hidden]&n=1"},
		{"a connection string", "Server=db;Password=a;b;Database=x", "Server=db;Password=[hidden];Database=x"},
		{"broken JSON", `got {"token": "abc", "n": 1`, `got {"token": "[hidden]", "n": 1`},
		{"escaped JSON", `{\"password\":\"abc\",\"n\":1`, `{\"password\":\"[hidden]\",\"n\":1`},
		{"a header", "Authorization: Digest username=\"x\", response=\"abc\"\nHost: y", "Authorization: [hidden]\nHost: y"},
		{"a header in quotes", "curl -H 'Cookie: a=b; c=d' https://x.example", "curl -H 'Cookie: [hidden]' https://x.example"},
		{"a flag", "login --password hunter2 --verbose", "login --password [hidden] --verbose"},
		{"bearer", "sent Bearer abc123def, refused", "sent Bearer [hidden], refused"},
		{"PEM", "key " + pem + " end", "key [hidden] end"},
		{"PEM without an end", "key -----BEGIN PRIVATE KEY-----\nMIIC", "key [hidden]"},
		{"JWT", "got eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl back", "got [hidden] back"},
		{"access keys", "AKIAIOSFODNN7EXAMPLE, ghp_abcdefghij0123456789abcdefghij012345 and xoxb-1234567890-abc", "[hidden], [hidden] and [hidden]"},
		{"an address with a password", "dial postgres://u:p@h:5432/db: refused", "dial postgres://[hidden]@h:5432/db: refused"},
		{"a driver's address", "u:p@tcp(h:3306)/db", "[hidden]@tcp(h:3306)/db"},
		{"something behind a mask", "password=[hidden]CANARY", "password=[hidden]"},
		{"spoken", "password=none, token: true", "password=none, token: true"},
		{"base64 of JSON", base64.StdEncoding.EncodeToString([]byte(`{"password":"abc","n":1}`)), base64.StdEncoding.EncodeToString([]byte(`{"password":"[hidden]","n":1}`))},
		{"base64 of a URL", base64.RawURLEncoding.EncodeToString([]byte(`https://x.example/?a=b&sig=abc`)), base64.RawURLEncoding.EncodeToString([]byte(`https://x.example/?a=b&[hidden]=1`))},
		{"base64 once", base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString([]byte(`{"n":1}`)))), base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString([]byte(`{"n":1}`))))},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := New(nil).Text(c.in); got != c.out {
				t.Errorf("\n got %q\nwant %q", got, c.out)
			}
		})
	}
}

func TestCaps(t *testing.T) {
	t.Parallel()
	r := New(&Policy{MaxSize: 200, MaxDepth: 3})
	for _, c := range []struct{ name, doc, view string }{
		{"size", `"` + strings.Repeat("a", 200) + `"`, `"[hidden: too large]"`},
		{"depth", `{"a":[{"b":["secret"]}]}`, `{"a":[{"b":"[hidden: too large]"}]}`},
		{"depth under a hidden name", `{"auth":{"auth":{"auth":{"auth":1}}}}`, `{"auth":{"auth":{"auth":"[hidden]"}}}`},
	} {
		view, hidden := r.JSON([]byte(c.doc))
		if string(view) != c.view || len(hidden) != 1 {
			t.Errorf("%s: %s, hidden %v", c.name, view, hidden)
		}
	}
	if got := r.Text(strings.Repeat("a", 201)); got != TooLarge {
		t.Errorf("text: %s", got)
	}
	wrap := "sig=CANARY"
	for range 30 {
		wrap = "https://x.example/?u=" + url.QueryEscape(wrap)
	}
	if got := New(nil).Text(wrap); strings.Contains(got, "CANARY") || !strings.HasPrefix(got, "https://x.example/?u=") {
		t.Errorf("30 URLs in each other: %.300s", got)
	}
	deep := strings.Repeat("[", 5000) + `"token=CANARY"` + strings.Repeat("]", 5000)
	if view, _ := New(nil).JSON([]byte(deep)); bytes.Contains(view, []byte("CANARY")) || !json.Valid(view) {
		t.Error("5000 arrays in each other are not masked")
	}
}

func TestFailsClosed(t *testing.T) {
	t.Parallel()
	broken := &Redactor{maxSize: 1 << 20, maxDepth: 9, detectors: []Detector{{Name: "nil"}}} // its pattern panics
	view, hidden := broken.JSON([]byte(`{"n":"CANARY"}`))
	if string(view) != `"[hidden: not readable]"` || !slices.Equal(hidden, []string{"$"}) {
		t.Errorf("view %s, hidden %v", view, hidden)
	}
	if got := broken.Text("CANARY"); got != Unreadable {
		t.Errorf("text %q", got)
	}
	if !broken.Hides([]byte(`{"n":"CANARY"}`), "$.n") {
		t.Error("a document that the redactor cannot read hides nothing")
	}
	if view, _ := New(nil).Value(func() {}); string(view) != `"[hidden: not JSON]"` {
		t.Errorf("a function: %s", view)
	}
	if view, _ := New(nil).Value(panics{}); string(view) != `"[hidden: not JSON]"` {
		t.Errorf("a panic: %s", view)
	}
}

type panics struct{}

func (panics) MarshalJSON() ([]byte, error) { panic("CANARY") }

func TestValue(t *testing.T) {
	t.Parallel()
	view, _ := New(nil).Value(struct {
		Key  string          `json:"api_key"`
		Raw  json.RawMessage `json:"raw"`
		Body []byte          `json:"body"`
		Note string          `json:"note"`
	}{"CANARY", json.RawMessage(`{"otp":1}`), []byte(`{"password":"CANARY"}`), "n"})
	want := `{"api_key":"[hidden]","raw":{"otp":"[hidden]"},"body":"` + base64.StdEncoding.EncodeToString([]byte(`{"password":"[hidden]"}`)) + `","note":"n"}`
	if string(view) != want {
		t.Errorf("\n got %s\nwant %s", view, want)
	}
}

func TestHides(t *testing.T) {
	t.Parallel()
	r := New(nil)
	doc := []byte(`{"amount":5,"card":"4111111111111111","lines":[{"link":"https://x.example/a"},{"link":"https://x.example/?sig=1"}],"auth":{"user":"bob"},"x.y":{"pin":1}}`)
	for path, want := range map[string]bool{
		"$.amount": false, "amount": false, "$.card": true, "$.lines[0].link": false, "$.lines[1].link": true, "$.lines[*].link": true,
		"$.lines": true, "$.lines[0]": false, "$": true, "$.auth": true, "$.auth.user": true, "$.auth.user.first": true, "$.absent": false,
		`$["x.y"].pin`: true, `$["x.y"]["pin"]`: true, "$.x.y": false, "$.lines[x]": true, `$["x`: true, "$..a": true,
	} {
		if got := r.Hides(doc, path); got != want {
			t.Errorf("Hides(%s) = %v", path, got)
		}
	}
	if !r.Hides([]byte("{"), "$.amount") {
		t.Error("what cannot be read is not hidden")
	}
	for path, want := range map[string]bool{"$.amount": false, "$.payment.card_number": true, "$.auth.user": true, "$.key": false, "$[": true} {
		if got := r.Masks(path); got != want {
			t.Errorf("Masks(%s) = %v", path, got)
		}
	}
	_, hidden := r.JSON([]byte(`{"x.y":{"pin":1,"a b":[{"otp":2}]},"https://x.example/?sig=CANARY":1}`))
	if want := []string{`$["x.y"].pin`, `$["x.y"]["a b"][0].otp`, `$["https://x.example/?[hidden]=1"]`}; !slices.Equal(hidden, want) {
		t.Errorf("hidden %v\nwant   %v", hidden, want)
	}
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	doc := `{"iban":"X1","session_id":"S1","u":"https://x.example/?t1cket=T1","p":"https://hooks.corp.example/in/H1","e":"EMP-77","m":"bob@shop.example at 10.0.0.7","ip":"x","j":"a AKIAIOSFODNN7EXAMPLE"}`
	p := Policy{Hide: []string{"iban"}, Show: []string{"session id"}, Params: []string{"T1cket"}, Places: []string{"hooks.corp.example/in/"},
		Detectors: []Detector{{"employee", regexp.MustCompile(`EMP-\d+`)}}, PII: true, Without: []string{DetectKey}}
	r := New(&p)
	view, _ := r.JSON([]byte(doc))
	want := `{"iban":"[hidden]","session_id":"S1","u":"https://x.example/?[hidden]=1","p":"https://hooks.corp.example/[hidden]","e":"[hidden]","m":"[hidden] at [hidden]","ip":"[hidden]","j":"a AKIAIOSFODNN7EXAMPLE"}`
	if string(view) != want {
		t.Errorf("\n got %s\nwant %s", view, want)
	}
	if New(nil).Revision() != New(&Policy{}).Digest() || New(nil).Revision() != New(&Policy{MaxDepth: defaultDepth}).Revision() {
		t.Error("the defaults have two revisions")
	}
	seen := map[string]string{New(nil).Revision(): "defaults", r.Revision(): "all"}
	for name, q := range map[string]*Policy{"hide": {Hide: p.Hide}, "show": {Show: p.Show}, "params": {Params: p.Params}, "places": {Places: p.Places},
		"detectors": {Detectors: p.Detectors}, "pii": {PII: true}, "without": {Without: p.Without}, "size": {MaxSize: 1}, "depth": {MaxDepth: 1}} {
		rev := New(q).Revision()
		if other, ok := seen[rev]; ok {
			t.Errorf("%s and %s have one revision", name, other)
		}
		seen[rev] = name
	}
	for _, off := range []struct{ detector, text string }{
		{DetectPEM, "-----BEGIN X-----\nabc\n-----END X-----"}, {DetectJWT, "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"}, {DetectUserinfo, "ftp://u:p@h/"},
		{DetectKey, "AKIAIOSFODNN7EXAMPLE"}, {DetectCard, "4111111111111111"}, {DetectEntropy, "key=q8Zr3TfLm2Xw9Kp4Vb7N"}, {DetectAssignment, "pin=1"},
	} {
		if got := New(&Policy{Without: []string{off.detector}}).Text(off.text); got != off.text {
			t.Errorf("without %s: %q", off.detector, got)
		}
		if got := New(nil).Text(off.text); got == off.text {
			t.Errorf("with %s: %q", off.detector, got)
		}
	}
}

func TestStoreIsAPart(t *testing.T) {
	t.Parallel()
	var part interface {
		Name() string
		Digest() string
		Store(kind string, doc []byte) ([]byte, error)
	} = New(nil)
	view, err := part.Store("question", []byte(canaryQuestion))
	if err != nil || bytes.Contains(view, []byte("CANARY")) || part.Name() != "redact" || part.Digest() == "" {
		t.Errorf("%s, %v", view, err)
	}
}

func TestAttr(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: New(nil).Attr, AddSource: true}))
	log.Error("sent token=CANARY", "password", "CANARY", "err", errors.New("401 for https://x.example/?sig=CANARY"), "pin", 1234567,
		slog.Group("auth", "raw", "CANARY", "ok", true), "args", map[string]any{"api_key": "CANARY", "n": 1}, "tokens", 15, "thread", "order-17",
		"secret", NewSecret("CANARY"), "bad", (*nilError)(nil))
	got := out.String()
	if strings.Contains(got, "CANARY") || strings.Contains(got, "1234567") {
		t.Errorf("leak: %s", got)
	}
	for _, want := range []string{`"thread":"order-17"`, `"tokens":15`, `"args":{"api_key":"[hidden]","n":1}`, `"ok":true`, `"msg":"sent token=[hidden]"`, `redact_test.go`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
}

type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	r := New(nil)
	want, _ := r.JSON([]byte(canaryQuestion))
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 50 {
				if got, _ := r.JSON([]byte(canaryQuestion)); !bytes.Equal(got, want) {
					t.Errorf("another view: %s", got)
				}
			}
		})
	}
	all.Wait()
}
