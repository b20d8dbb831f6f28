package redact

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Names of the built-in detectors, for [Policy.Without].
const (
	DetectPEM        = "pem"        // a PEM block
	DetectJWT        = "jwt"        // three or five base64 parts, the first of them a JSON object
	DetectUserinfo   = "userinfo"   // user:password in front of a host
	DetectKey        = "key"        // an access key by the prefix that its provider gives it
	DetectCard       = "card"       // a card number: brand prefix, length, Luhn check
	DetectEntropy    = "entropy"    // a long random string under a name such as "key" or "signature"
	DetectAssignment = "assignment" // password=..., Authorization: ..., --token ..., Bearer ... in prose
)

// Policy says what is hidden. The zero Policy has the defaults; every field adds to them or takes away.
//
// Names are compared by their words: api_key, apiKey, X-Api-Key and APIKEY are one name, author is not auth, and
// a name hides every name that contains it (api key hides old_api_key). Letter case does not matter.
type Policy struct {
	Hide      []string   // more names: "iban", "employee id"
	Show      []string   // names to show although the defaults hide a part of them: "session id"
	Params    []string   // more URL parameters to strip, whole names: "ticket"
	Places    []string   // more hosts whose paths are secrets: "hooks.corp.example/in/"
	Detectors []Detector // more shapes to hide in text
	Without   []string   // built-in detectors to switch off, by the Detect constants
	PII       bool       // also hide e-mail and IP addresses, by name and by shape
	MaxSize   int        // bytes of one document or text; more is masked whole. 0: 1 MiB
	MaxDepth  int        // levels of nesting; what is deeper is masked. 0: 100
}

// Detector hides what a pattern matches. Its name and pattern are part of the policy's revision.
type Detector struct {
	Name    string
	Pattern *regexp.Regexp
}

const (
	defaultSize  = 1 << 20
	defaultDepth = 100
	// rules counts the changes to what the code hides, so that a release with other rules has another revision.
	rules = 1
)

// New returns a redactor. It keeps no reference to the policy; nil means the defaults.
func New(p *Policy) *Redactor {
	if p == nil {
		p = &Policy{}
	}
	r := &Redactor{
		params:   map[string]bool{},
		places:   places(append(list(secretPlaces), p.Places...)),
		keys:     keyShapes(),
		off:      map[string]bool{},
		pii:      p.PII,
		maxSize:  p.MaxSize,
		maxDepth: p.MaxDepth,
	}
	if r.maxSize <= 0 {
		r.maxSize = defaultSize
	}
	if r.maxDepth <= 0 {
		r.maxDepth = defaultDepth
	}
	for _, d := range p.Detectors {
		if d.Pattern != nil {
			r.detectors = append(r.detectors, d)
		}
	}
	for _, n := range p.Without {
		r.off[n] = true
	}
	for _, n := range append(list(signingParams), p.Params...) {
		r.params[strings.ToLower(n)] = true
	}
	hide := append(list(secretNames), p.Hide...)
	if p.PII {
		hide = append(hide, list(personalNames)...)
	}
	r.names = newNames(hide, append(list(harmlessNames), p.Show...))
	r.revision = r.digest()
	return r
}

// digest covers what is in force, so that two ways to write one policy have one revision.
func (r *Redactor) digest() string {
	var shapes []string
	for _, d := range r.detectors {
		shapes = append(shapes, d.Name+" "+d.Pattern.String())
	}
	sorted := func(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }
	doc, _ := json.Marshal(map[string]any{ // strings, numbers and booleans: it has a JSON form
		"rules": rules, "names": r.names.list(), "show": sorted(r.names.harmless), "params": sorted(r.params),
		"places": r.places, "keys": providerKeys, "detectors": shapes, "without": sorted(r.off), "pii": r.pii,
		"limits": strconv.Itoa(r.maxSize) + "/" + strconv.Itoa(r.maxDepth),
	})
	sum := sha256.Sum256(doc)
	return "redact/" + strconv.Itoa(rules) + ":" + hex.EncodeToString(sum[:16])
}
