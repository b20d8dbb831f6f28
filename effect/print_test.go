package effect

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestPrintsTellCallsApart(t *testing.T) {
	t.Parallel()
	material := []string{"amount", "to"}
	base := `{"to":"acme","amount":"100.00","note":"x"}`
	for _, c := range []struct {
		name            string
		doc             string
		material, whole bool // equal to base's
	}{
		{"the same", base, true, true},
		{"another order and white space", `{ "note":"x", "amount" : "100.00","to":"acme"}`, true, true},
		{"an escaped letter", `{"to":"\u0061cme","amount":"100.00","note":"x"}`, true, true},
		{"another amount", `{"to":"acme","amount":"120.00","note":"x"}`, false, false},
		{"another recipient", `{"to":"acm\u0435","amount":"100.00","note":"x"}`, false, false},
		{"a number for a string", `{"to":"acme","amount":100,"note":"x"}`, false, false},
		{"another note", `{"to":"acme","amount":"100.00","note":"y"}`, true, false},
		{"a field more", `{"to":"acme","amount":"100.00","note":"x","v":2}`, true, false},
	} {
		was, err := printOf([]byte(base), material)
		if err != nil {
			t.Fatal(err)
		}
		got, err := printOf([]byte(c.doc), material)
		if err != nil || (got.Material == was.Material) != c.material || (got.Whole == was.Whole) != c.whole {
			t.Errorf("%s: %+v against %+v, %v", c.name, got, was, err)
		}
	}
}

func TestNumbersThatAPrintWouldMergeAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, doc, want string // want: part of the error; empty: taken
		material        []string
	}{
		{"integer", `{"amount":100}`, "", nil},
		{"zero", `{"amount":0}`, "", nil},
		{"negative", `{"amount":-5}`, "", nil},
		{"largest", `{"amount":9007199254740991}`, "", nil},
		{"least", `{"amount":-9007199254740991}`, "", nil},
		{"beyond", `{"amount":9007199254740992}`, "$.amount is beyond 2^53-1", nil},
		{"beyond, negative", `{"amount":-9007199254740993}`, "$.amount is beyond 2^53-1", nil},
		{"beyond, not material", `{"amount":"1","id":9007199254740993}`, "$.id is beyond 2^53-1", []string{"amount"}},
		{"beyond, as a float, not material", `{"amount":"1","id":1e300}`, "$.id is beyond 2^53-1", []string{"amount"}},
		{"float", `{"amount":100.5}`, "$.amount is a float", nil},
		{"float without a fraction", `{"amount":100.0}`, "$.amount is a float", nil},
		{"exponent", `{"amount":1e2}`, "$.amount is a float", nil},
		{"float in a list", `{"lines":[{"amount":1},{"amount":1.5}]}`, "$.lines[1].amount is a float", nil},
		{"float that is not material", `{"amount":"1","temperature":0.7}`, "", []string{"amount"}},
		{"float in a material object", `{"amount":{"value":0.7},"temperature":1}`, "$.amount.value is a float", []string{"amount"}},
		{"material field missing", `{"to":"acme"}`, `the material field "amount" is not among the parameters`, []string{"amount"}},
		{"no object, material declared", `["acme"]`, "no JSON object", []string{"amount"}},
		{"text alone", `"acme"`, "", nil},
		{"number alone", `7`, "", nil},
		{"member twice", `{"a":1,"a":2}`, "uplicate", nil},
		{"two documents", `{} {}`, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := printOf([]byte(c.doc), c.material)
			if c.name == "two documents" {
				if err == nil {
					t.Error("two documents were taken for one")
				}
				return
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// Whatever numbers and texts: equal prints are equal documents.
func TestEqualPrintsAreEqualCalls(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 15))
	known := map[string]string{}
	for range 5000 {
		v := map[string]any{"n": r.Int64N(40) - 20, "s": string(rune('a' + r.IntN(3))), "b": r.IntN(2) == 0, "l": []int{r.IntN(3), r.IntN(3)}}
		doc, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		p, err := printOf(doc, nil)
		if err != nil {
			t.Fatal(err)
		}
		if was, ok := known[p.Whole]; ok && was != string(doc) {
			t.Fatalf("%s and %s have one print", was, doc)
		}
		known[p.Whole] = string(doc)
	}
}

// Keys are stored and live at targets for years: their recipe never changes.
func TestKeysStayTheSame(t *testing.T) {
	t.Parallel()
	p, err := printOf([]byte(`{"to":"acme","amount":"100.00","currency":"EUR"}`), []string{"amount", "currency", "to"})
	if err != nil {
		t.Fatal(err)
	}
	base := mint("t1", "bank.transfer", Ref("invoice", "17"), 1, p, "1")
	const want = "e39c073dec8078f68a5a0ba50a54f0c056fddfa712508268743097ea4941275c"
	if base != want {
		t.Errorf("the key is %s, want %s", base, want)
	}
	if got := (Op{Key: want}).UUID(); got != "78bafce4-3689-8826-af02-ff19b6331c07" {
		t.Errorf("its UUID is %s", got)
	}
	q := p
	q.Material = p.Whole + "0"
	for name, other := range map[string]string{
		"tenant":             mint("t2", "bank.transfer", Ref("invoice", "17"), 1, p, "1"),
		"effect":             mint("t1", "bank.refund", Ref("invoice", "17"), 1, p, "1"),
		"kind":               mint("t1", "bank.transfer", Ref("order", "17"), 1, p, "1"),
		"id":                 mint("t1", "bank.transfer", Ref("invoice", "18"), 1, p, "1"),
		"revision":           mint("t1", "bank.transfer", Ref("invoice", "17"), 2, p, "1"),
		"parameters":         mint("t1", "bank.transfer", Ref("invoice", "17"), 1, q, "1"),
		"policy":             mint("t1", "bank.transfer", Ref("invoice", "17"), 1, p, "2"),
		"moved length":       mint("t", "1bank.transfer", Ref("invoice", "17"), 1, p, "1"),
		"moved in reference": mint("t1", "bank.transfer", Ref("invoice1", "7"), 1, p, "1"),
	} {
		if other == base {
			t.Errorf("another %s has the same key", name)
		}
	}
	w := p
	w.Whole = "other"
	if mint("t1", "bank.transfer", Ref("invoice", "17"), 1, w, "1") != base {
		t.Error("the key depends on what is not material")
	}
}

func TestReferences(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ref Reference
		ok  bool
	}{
		{Ref("invoice", "17"), true}, {Ref("invoice", "a:b"), true}, {Ref("", "17"), false}, {Ref("invoice", ""), false},
		{Ref("a:b", "c"), false}, {Ref("k", strings.Repeat("x", maxReference)), false}, {Ref("k", "\xff"), false},
	} {
		if err := c.ref.fault(); (err == nil) != c.ok {
			t.Errorf("%+q: %v", c.ref, err)
		}
		if c.ok && parseRef(c.ref.String()) != c.ref {
			t.Errorf("%q is read back as %+v", c.ref, parseRef(c.ref.String()))
		}
	}
}
