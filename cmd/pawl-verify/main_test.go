package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/storage"
)

// export is a trail of three rows in the log, and its anchor.
func export(t *testing.T) (doc []byte, anchor []byte) {
	t.Helper()
	db, err := memdb.Open(audit.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.Update(t.Context(), func(_ context.Context, tx storage.Tx) error {
		for _, action := range []string{"one", "two", "three"} {
			if err := audit.Write(tx, audit.Row{Tenant: "t", Thread: "order-17", Action: action}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := audit.NewSequencer(db).Due(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	a, err := audit.Export(t.Context(), db, "t", &b)
	if err != nil {
		t.Fatal(err)
	}
	anchor, err = json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), anchor
}

func file(t *testing.T, doc []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, doc, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRun(t *testing.T) {
	t.Parallel()
	doc, anchor := export(t)
	good := file(t, doc)
	later := strings.Replace(string(anchor), `"size":3`, `"size":4`, 1)
	for _, c := range []struct {
		name         string
		args         []string
		in           []byte
		code         int
		stdout, talk string
	}{
		{"a file", []string{good}, nil, honest, `tenant "t": honest: 3 rows in 1 chains, 3 in the log, 0 pending`, ""},
		{"stdin", nil, doc, honest, "note   unanchored since log position 1", ""},
		{"its anchor is printed", []string{"-"}, doc, honest, `anchor {"tenant":"t","size":3,"head":"`, ""},
		{"with an anchor", []string{"-anchor", file(t, anchor), good}, nil, honest, "honest", ""},
		{"json", []string{"-o", "json", good}, nil, honest, `"findings": []`, ""},
		{"a byte", nil, bytes.Replace(doc, []byte(`"two"`), []byte(`"tvo"`), 1), found,
			`FOUND  line 3, row 2 of thread "order-17", log position 2: it is not what was written`, ""},
		{"the end", nil, doc[:bytes.LastIndexByte(doc[:len(doc)-1], '\n')+1], found, "its end was cut off", ""},
		{"an anchor of more", []string{"-anchor", file(t, []byte(later)), good}, nil, found, "its end was cut off", ""},
		{"no export", nil, []byte("hello\n"), failed, "", "is not the header of an audit export"},
		{"no file", []string{filepath.Join(t.TempDir(), "none")}, nil, failed, "", "no such file"},
		{"no anchor in the file", []string{"-anchor", file(t, nil), good}, nil, failed, "", "holds no anchor"},
		{"something else in it", []string{"-anchor", file(t, []byte(`{"a":1}`)), good}, nil, failed, "", "something else"},
		{"two files", []string{good, good}, nil, usage, "", "pawl-verify [-anchor FILE]"},
		{"an unknown flag", []string{"-x"}, nil, usage, "", "pawl-verify [-anchor FILE]"},
		{"an unknown output", []string{"-o", "xml", good}, nil, usage, "", "pawl-verify [-anchor FILE]"},
		{"help", []string{"-h"}, nil, honest, "", "Checks an export"},
	} {
		var out, talk bytes.Buffer
		code := run(c.args, bytes.NewReader(c.in), &out, &talk)
		if code != c.code || !strings.Contains(out.String(), c.stdout) || !strings.Contains(talk.String(), c.talk) {
			t.Errorf("%s: exit %d, want %d\n%s%s", c.name, code, c.code, out.String(), talk.String())
		}
	}
}

// Whoever checks need not trust the engine: its code is not in the program.
func TestItStandsAlone(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dep := range strings.FieldsSeq(string(out)) {
		first, _, _ := strings.Cut(dep, "/")
		if strings.Contains(first, ".") && !slices.Contains([]string{"github.com/pawl-dev/pawl/audit/proof", "github.com/pawl-dev/pawl/cmd/pawl-verify"}, dep) {
			t.Errorf("it has %s in it", dep)
		}
	}
}
