package storagetest

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/storage"
)

var valueTests = []test{
	{"text: NUL and any UTF-8", kinds(doc, item), texts},
	{"bytes: any", kinds(blob, item), anyBytes},
	{"numbers: all 64 bits", kinds(item, event), numbers},
	{"tenants with the same ids never mix", kinds(doc), tenants},
	{"a body of 8 MiB", kinds(item), bigBody},
	{"a body over MaxValue is refused", kinds(item), tooLarge},
	{"bodies of any bytes", kinds(item), anyBody},
}

// trickyTexts are distinct, and in byte order.
func trickyTexts() []string {
	s := []string{
		"", "\x00", "\x00\x00", "\x00a", " ", "%", "'", "''", `"`, `\`, `\x00`, "A", "AB", "_", "a", "a\x00", "a\x00b", "a ", "a\n",
		"ab", "abcdefgh", "abcdefgh\x00", "abcdefghi", "é", "e\u0301", "ß", "SS", "ss", "\uFEFF", "日本", "\u200b", "\U0001F600",
		"\U0010FFFF", "\uFFFF", strings.Repeat("long ", 500), "1", "01", "1.0", "NULL", "true",
	}
	slices.Sort(s)
	return s
}

func texts(t *testing.T, h home) {
	all := trickyTexts()
	var docs, items, byLabel []storage.Row
	for i, s := range all {
		docs = append(docs, docRow("t", s, int64(i), 1))
		items = append(items, itemRow(int64(len(all)-i), 0, s, s))
	}
	h.put(t, "doc", docs...)
	h.put(t, "item", items...)
	h.want(t, doc, "text keys come back as they were, in byte order", docs...)
	byLabel = items // labels ascend
	if d := diff(item, h.list(t, "item", storage.Query{Index: "by_label"}), byLabel, false); d != "" {
		t.Errorf("an index of texts is in byte order: %s", d)
	}
	for i, s := range all {
		if row, ok := h.get(t, "doc", "t", s); !ok || row.Fields[0] != int64(i) {
			t.Errorf("Get of the key %q: %v %v", s, row, ok)
		}
		got := h.list(t, "item", storage.Query{Index: "by_label", Range: storage.Range{Prefix: []any{s}}})
		if d := diff(item, got, byLabel[i:i+1], false); d != "" {
			t.Errorf("index at %q: %s", s, d)
		}
		got = h.list(t, "doc", storage.Query{Range: storage.Range{Prefix: []any{"t"}, From: s}})
		if d := diff(doc, got, docs[i:], false); d != "" {
			t.Errorf("from %q: %s", s, d)
		}
		got = h.list(t, "doc", storage.Query{Range: storage.Range{Prefix: []any{"t"}, To: s}})
		if d := diff(doc, got, docs[:i], false); d != "" {
			t.Errorf("to %q: %s", s, d)
		}
	}
}

func anyBytes(t *testing.T, h home) {
	all := [][]byte{{}, {0}, {0, 0}, {0, 1}, {1}, {0x7f}, {0x80}, {0xff}, {0xff, 0}, {0xff, 0xff}, []byte("text"), []byte("'")}
	whole := make([]byte, 256)
	for i := range whole {
		whole[i] = byte(i)
	}
	all = append(all, whole)
	slices.SortFunc(all, bytes.Compare)
	var blobs, items []storage.Row
	for i, b := range all {
		blobs = append(blobs, storage.Row{Key: []any{b}, Body: b})
		items = append(items, storage.Row{Key: []any{int64(len(all) - i)}, Fields: []any{int64(0), "", b}})
	}
	h.put(t, "blob", blobs...)
	h.put(t, "item", items...)
	h.want(t, blob, "keys of bytes come back as they were, in byte order", blobs...)
	if d := diff(item, h.list(t, "item", storage.Query{Index: "by_raw"}), items, false); d != "" {
		t.Errorf("an index of bytes is in byte order: %s", d)
	}
	for i, b := range all {
		if row, ok := h.get(t, "blob", b); !ok || !bytes.Equal(row.Body, b) {
			t.Errorf("Get of the key %x: %v %v", b, row, ok)
		}
		if got := h.list(t, "blob", storage.Query{Range: storage.Range{From: b}}); len(got) != len(all)-i {
			t.Errorf("from %x: %d rows, want %d", b, len(got), len(all)-i)
		}
	}
}

func numbers(t *testing.T, h home) {
	all := []int64{
		math.MinInt64, math.MinInt64 + 1, -1 << 53, -1<<53 + 1, math.MinInt32 - 1, -1, 0, 1, 255, 256, math.MaxInt32 + 1,
		1<<53 - 1, 1 << 53, 1<<53 + 1, math.MaxInt64 - 1, math.MaxInt64,
	}
	var items, events []storage.Row
	for _, n := range all {
		items = append(items, storage.Row{Key: []any{n}, Fields: []any{n, "", nil}})
		events = append(events, storage.Row{Key: []any{int64(1), n}, Fields: []any{n}})
	}
	h.put(t, "item", items...)
	h.put(t, "event", events...)
	h.want(t, item, "keys come back as they were, in order", items...)
	h.want(t, event, "keys come back as they were, in order", events...)
	for i, n := range all {
		if row, ok := h.get(t, "item", n); !ok || row.Fields[0] != n {
			t.Errorf("Get of %d: %v %v", n, row, ok)
		}
		for _, q := range []struct {
			index string
			r     storage.Range
			want  []storage.Row
		}{
			{"", storage.Range{From: n}, items[i:]},
			{"", storage.Range{To: n}, items[:i]},
			{"by_grp", storage.Range{From: n}, items[i:]},
			{"by_grp", storage.Range{Prefix: []any{n}}, items[i : i+1]},
		} {
			got := h.list(t, "item", storage.Query{Index: q.index, Range: q.r})
			if d := diff(item, got, q.want, false); d != "" {
				t.Errorf("index %q, range %v: %s", q.index, q.r, d)
			}
		}
	}
}

func tenants(t *testing.T, h home) {
	names := []string{"", "\x00", "a", "a\x00", "a\x00b", "ab", "b"}
	ids := []string{"", "\x00", "\x00b", "b", "same"}
	for _, tenant := range names {
		for i, id := range ids {
			h.put(t, "doc", docRow(tenant, id, int64(i), 0))
		}
	}
	for _, tenant := range names {
		var want []storage.Row
		for i, id := range ids {
			want = append(want, docRow(tenant, id, int64(i), 1))
			if row, ok := h.get(t, "doc", tenant, id); !ok || row.Key[0] != tenant || row.Key[1] != id {
				t.Errorf("Get of tenant %q id %q: %v %v", tenant, id, row.Key, ok)
			}
		}
		for _, ix := range []string{"", "by_at"} {
			got := h.list(t, "doc", storage.Query{Index: ix, Range: storage.Range{Prefix: []any{tenant}}})
			if d := diff(doc, got, want, false); d != "" {
				t.Errorf("index %q of tenant %q: %s", ix, tenant, d)
			}
		}
	}
	if !h.putIf(t, "doc", docRow("b", "same", 9, 0), storage.AtRev(1)) {
		t.Error("AtRev refused the right revision")
	}
	if row, _ := h.get(t, "doc", "a", "same"); row.Rev != 1 {
		t.Error("a Put of one tenant changed the row of another")
	}
}

func bigBody(t *testing.T, h home) {
	big := make([]byte, 8<<20)
	for i := range big {
		big[i] = byte(i * i >> 7)
	}
	row := itemRow(1, 1, "big", "")
	row.Body = big
	h.put(t, "item", row, itemRow(2, 1, "small", "s"))
	h.want(t, item, "a big body comes back whole", row, itemRow(2, 1, "small", "s"))
	got := h.list(t, "item", storage.Query{Index: "by_grp", NoBody: true})
	if d := diff(item, got, []storage.Row{row, itemRow(2, 1, "small", "s")}, true); d != "" {
		t.Errorf("NoBody: %s", d)
	}
}

func tooLarge(t *testing.T, h home) {
	row := plain(1)
	row.Body = make([]byte, storage.MaxValue+1)
	err := h.try(func(tx storage.Tx) error {
		if err := putAll(tx, "item", plain(2)); err != nil {
			return err
		}
		_, err := tx.Put("item", row, storage.Always())
		return err
	})
	var tl *storage.TooLargeError
	if !errors.As(err, &tl) || tl.Kind != "item" || tl.Size != storage.MaxValue+1 {
		t.Errorf("Update returned %v, want a *TooLargeError that names the kind and the size", err)
	}
	h.want(t, item, "nothing was written")
	h.put(t, "item", plain(3))
}

func anyBody(t *testing.T, h home) {
	whole := make([]byte, 256)
	for i := range whole {
		whole[i] = byte(i)
	}
	var rows []storage.Row
	for i, b := range [][]byte{nil, {}, {0}, whole, []byte("\xff\xfe"), []byte(`{"a":1}`)} {
		r := plain(int64(i))
		r.Body = b
		rows = append(rows, r)
	}
	h.put(t, "item", rows...)
	h.want(t, item, "bodies are opaque", rows...)
}
