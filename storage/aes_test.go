package storage_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/storage"
)

func TestAES(t *testing.T) {
	t.Parallel()
	key := func(c byte) []byte { return bytes.Repeat([]byte{c}, 32) }
	codec := func(now string, keys map[string][]byte) storage.Codec {
		t.Helper()
		c, err := storage.AES(now, keys)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	old := codec("2025", map[string][]byte{"2025": key(1)})
	body := []byte("secret of somebody")
	doc, err := old.Encode("value", body)
	if err != nil || bytes.Contains(doc, []byte("secret")) {
		t.Fatalf("%q, %v", doc, err)
	}
	twice, _ := old.Encode("value", body)
	if bytes.Equal(doc, twice) {
		t.Error("equal bodies look equal")
	}
	altered := bytes.Clone(doc)
	altered[len(altered)/2] ^= 1
	for name, c := range map[string]struct {
		codec     storage.Codec
		kind, key string
		doc       []byte
		says      string // empty: it can be read
	}{
		"the same key":            {old, "value", "2025", doc, ""},
		"an older key":            {codec("2026", map[string][]byte{"2026": key(2), "2025": key(1)}), "value", "2025", doc, ""},
		"another key of the name": {codec("2025", map[string][]byte{"2025": key(2)}), "value", "2025", doc, "the key is another one"},
		"a key that is not given": {codec("2026", map[string][]byte{"2026": key(2)}), "value", "2025", doc, `under key "2025", which is not given`},
		"another kind":            {old, "step", "2025", doc, "the key is another one"},
		"altered":                 {old, "value", "2025", altered, "it was altered"},
		"truncated":               {old, "value", "2025", doc[:5], "it was altered"},
	} {
		got, err := c.codec.Decode(c.kind, c.key, c.doc)
		switch {
		case c.says == "" && (err != nil || !bytes.Equal(got, body)):
			t.Errorf("%s: %q, %v", name, got, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: %q, %v; want %s", name, got, err, c.says)
		}
	}
	for says, keys := range map[string]map[string][]byte{"it has 5 bytes": {"a": []byte("short")}, `there is no key "a" to write with; there are ["b"]`: {"b": key(1)}} {
		if _, err := storage.AES("a", keys); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want %s", err, says)
		}
	}
}
