package effect

import (
	"bytes"
	"errors"
	"testing"
)

// What is sealed opens only as what it is, for the operation that it belongs to, and whole.
func TestSealsFailClosed(t *testing.T) {
	t.Parallel()
	r, err := newRing(bytes.Repeat([]byte{1}, KeySize), nil)
	if err != nil {
		t.Fatal(err)
	}
	p := Print{1, "m", "w"}
	base := Operation{Tenant: "t", Effect: "e", Ref: Ref("k", "1"), Authorised: p}
	body := r.seal("t", "e", base.Ref, p, paramsOf, []byte("secret"))
	if bytes.Contains(body, []byte("secret")) || bytes.Equal(body, r.seal("t", "e", base.Ref, p, paramsOf, []byte("secret"))) {
		t.Error("a seal shows what it holds, or repeats itself")
	}
	base.params = body
	if got, err := r.open(&base, paramsOf); err != nil || string(got) != "secret" {
		t.Fatalf("got %q, %v", got, err)
	}
	for name, edit := range map[string]func(o *Operation){
		"another tenant":     func(o *Operation) { o.Tenant = "t2" },
		"another effect":     func(o *Operation) { o.Effect = "e2" },
		"another reference":  func(o *Operation) { o.Ref = Ref("k", "2") },
		"another call":       func(o *Operation) { o.Authorised.Whole = "w2" },
		"nothing":            func(o *Operation) { o.params = nil },
		"another format":     func(o *Operation) { o.params[0] = 9 },
		"another key's name": func(o *Operation) { o.params[3] ^= 1 },
		"a flipped nonce":    func(o *Operation) { o.params[1+keyIDSize] ^= 1 },
		"a flipped bit":      func(o *Operation) { o.params[len(o.params)-1] ^= 1 },
		"cut":                func(o *Operation) { o.params = o.params[:len(o.params)-1] },
		"cut in the nonce":   func(o *Operation) { o.params = o.params[:1+keyIDSize+3] },
	} {
		o := base
		o.params = bytes.Clone(body)
		edit(&o)
		lost := (*LostKeyError)(nil)
		if got, err := r.open(&o, paramsOf); got != nil || !errors.As(err, &lost) || lost.What != paramsOf {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	as := base
	as.outcome = body
	if got, err := r.open(&as, outcomeOf); err == nil {
		t.Errorf("parameters open as an outcome: %q", got)
	}
}
