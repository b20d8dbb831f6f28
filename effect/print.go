package effect

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/gowebpki/jcs"
)

// Print is the fingerprint of a call's parameters: digests of their canonical form (RFC 8785).
type Print struct {
	Version  int    `json:"v"` // of the algorithm
	Material string `json:"material"`
	Whole    string `json:"whole"`
}

const printVersion = 1

// printOf takes the fingerprint of a JSON document. material names the members that count; nil means all.
func printOf(doc []byte, material []string) (Print, error) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return Print{}, err
	}
	p := Print{Version: printVersion}
	if err := guard(v, "$", len(material) == 0); err != nil {
		return Print{}, err
	}
	var err error
	if p.Whole, err = hashed(doc); err != nil {
		return Print{}, err
	}
	if p.Material = p.Whole; len(material) == 0 {
		return p, nil
	}
	all, ok := v.(map[string]any)
	if !ok {
		return Print{}, errors.New("material fields are declared, and the parameters are no JSON object")
	}
	some := map[string]any{}
	for _, name := range material {
		field, ok := all[name]
		if !ok {
			return Print{}, fmt.Errorf("the material field %q is not among the parameters", name)
		}
		if err := guard(field, "$."+name, true); err != nil {
			return Print{}, err
		}
		some[name] = field
	}
	sub, err := json.Marshal(some)
	if err == nil {
		p.Material, err = hashed(sub)
	}
	return p, err
}

// hashed is the digest of the canonical form. The array around it lets any value stand at the top.
func hashed(doc []byte) (string, error) {
	canonical, err := jcs.Transform(append(append([]byte("["), doc...), ']'))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}

// guard refuses numbers that the canonical form would merge with others: integers beyond 2^53-1 anywhere, floats where
// they are material.
func guard(v any, path string, material bool) error {
	switch v := v.(type) {
	case map[string]any:
		for name, field := range v {
			if err := guard(field, path+"."+name, material); err != nil {
				return err
			}
		}
	case []any:
		for i, item := range v {
			if err := guard(item, fmt.Sprintf("%s[%d]", path, i), material); err != nil {
				return err
			}
		}
	case json.Number:
		return guardNumber(v.String(), path, material)
	}
	return nil
}

const exact = 1<<53 - 1

func guardNumber(s, path string, material bool) error {
	if strings.ContainsAny(s, ".eE") {
		if material {
			return fmt.Errorf("%s is a float, which is no amount: use a decimal string, or an integer of the smallest unit", path)
		}
		if f, ok := new(big.Float).SetString(s); ok && f.IsInt() && f.Cmp(big.NewFloat(exact)) <= 0 && f.Cmp(big.NewFloat(-exact)) >= 0 {
			return nil
		} else if ok && f.IsInt() {
			return fmt.Errorf("%s is beyond 2^53-1, where numbers lose their last digits: use a string", path)
		}
		return nil
	}
	n, ok := new(big.Int).SetString(s, 10)
	if !ok || n.CmpAbs(big.NewInt(exact)) > 0 {
		return fmt.Errorf("%s is beyond 2^53-1, where numbers lose their last digits: use a string", path)
	}
	return nil
}
