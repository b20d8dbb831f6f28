package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
)

// TestNoSeedGetsOut builds random documents with secrets in every place that the redactor knows, each wrapped at
// random, and looks for the secrets in the view: as they are, percent-encoded, in base64, escaped for JSON.
func TestNoSeedGetsOut(t *testing.T) {
	t.Parallel()
	r := New(nil)
	for seed := range uint64(1000) {
		g := &generator{Rand: rand.New(rand.NewPCG(seed, 17))}
		doc, err := json.Marshal(g.object(3))
		if err != nil {
			t.Fatal(err)
		}
		view, hidden := r.JSON(doc)
		if !json.Valid(view) || len(hidden) == 0 {
			t.Fatalf("seed %d: %s, hidden %v", seed, view, hidden)
		}
		for _, shown := range []string{string(view), r.Text(string(doc)), r.Text("failed: " + string(doc) + "; retry"), fmt.Sprint(hidden)} {
			if leak := g.leak(shown); leak != "" {
				t.Fatalf("seed %d: %q gets out\n of %s\n as %s", seed, leak, doc, shown)
			}
		}
		if again, _ := r.JSON(view); string(again) != string(view) {
			t.Fatalf("seed %d: the view of the view differs\n of %s\n as %s\n then %s", seed, doc, view, again)
		}
		if !strings.Contains(string(view), "visible") {
			t.Fatalf("seed %d: nothing is visible: %s", seed, view)
		}
	}
}

type generator struct {
	*rand.Rand
	secrets []string
}

func (g *generator) pick(of ...string) string { return of[g.IntN(len(of))] }

// secret has characters that each encoding writes in another way.
func (g *generator) secret() string {
	s := fmt.Sprintf("Zq%06dé/+&Xw", g.IntN(1_000_000))
	g.secrets = append(g.secrets, s)
	return s
}

func (g *generator) object(depth int) map[string]any {
	o := map[string]any{"note": "visible"}
	for range 1 + g.IntN(3) {
		name := g.pick("a", "body", "items", "https", "what it is")
		switch n := g.IntN(8); {
		case n == 0 && depth > 0:
			o[name] = g.object(depth - 1)
		case n == 1 && depth > 0:
			o[name] = []any{g.object(depth - 1), "visible", g.text(2)}
		case n < 4:
			o[g.pick("password", "apiKey", "x-auth-token", "db_pwd", "auth", "Cookie")] = g.hidden(depth)
		default:
			o[name] = g.text(2)
		}
	}
	o["last"] = g.text(2)
	return o
}

// hidden stands under a sensitive name.
func (g *generator) hidden(depth int) any {
	switch g.IntN(4) {
	case 0:
		return []string{g.secret()}
	case 1:
		return map[string]any{g.pick("user", "password", "other"): g.secret(), "token": g.secret()}
	case 2:
		return map[string]any{"note": g.object(max(0, depth-1))}
	}
	return g.secret()
}

// text is a visible string with a secret in it.
func (g *generator) text(wraps int) string {
	q := url.QueryEscape
	var s string
	switch g.IntN(8) {
	case 0:
		s = "https://x.example/visible?a=1&" + g.pick("sig", "X-Amz-Signature", "s%69g", "token") + "=" + q(g.secret()) + "&b=2"
	case 1:
		s = "postgres://bob:" + url.PathEscape(g.secret()) + "@h:5432/visible"
	case 2:
		s = "/visible?next=" + q("https://y.example/?key="+q(g.secret()))
	case 3:
		s = "visible password=" + q(g.secret()) + " end"
	case 4:
		doc, _ := json.Marshal(map[string]string{"a": "visible", "secret": g.secret()})
		s = string(doc)
	case 5:
		s = "https://x.example/visible#access_token=" + q(g.secret())
	case 6:
		s = "-----BEGIN KEY-----\n" + g.secret() + "\n-----END KEY----- visible"
	default:
		s = "see [it](https://x.example/?sig=" + q(g.secret()) + "), visible"
	}
	switch n := g.IntN(8); {
	case n == 0 && wraps > 0:
		doc, _ := json.Marshal([]string{s})
		return string(doc)
	case n == 1 && wraps > 0:
		return g.pick("https://w.example/visible?u=", "/go?u=") + q(s)
	case n == 2:
		return base64.StdEncoding.EncodeToString([]byte(s))
	case n == 3 && wraps > 0:
		doc, _ := json.Marshal(map[string]string{"inner": s})
		return "visible " + string(doc) + " end"
	}
	return s
}

// leak returns the form of a secret that a text has.
func (g *generator) leak(shown string) string {
	texts := []string{shown}
	for _, word := range strings.FieldsFunc(shown, func(c rune) bool { return strings.ContainsRune("\"\\ ,:{}[]&?", c) }) {
		if b, err := base64.StdEncoding.DecodeString(word); err == nil {
			texts = append(texts, string(b))
		}
	}
	for _, s := range g.secrets {
		quoted, _ := json.Marshal(s)
		core := s[:8] // it has no character that an encoding changes
		for _, form := range []string{core, url.QueryEscape(s), base64.StdEncoding.EncodeToString([]byte(s)), base64.RawURLEncoding.EncodeToString([]byte(s)), strings.Trim(string(quoted), `"`), hex.EncodeToString([]byte(s))} {
			for _, t := range texts {
				if strings.Contains(t, form) {
					return form
				}
			}
		}
	}
	return ""
}
