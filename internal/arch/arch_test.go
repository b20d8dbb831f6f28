package arch

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/pawl-dev/pawl"

// allowed says which folders of the module the code of a folder may import. A folder without a row wires things
// together (programs, examples, tests).
var allowed = map[string][]string{
	".":        {"storage", "internal/core", "internal/guard", "internal/local", "internal/records", "internal/schema"},
	"storage":  {},
	"memdb":    {"storage"},
	"sqlite":   {"storage"},
	"redact":   {},
	"draw":     {},
	"pawltest": {".", "storage", "memdb", "sqlite", "internal"},

	"audit":       {".", "storage"},
	"audit/proof": {},
	"worker":      {"storage"},

	"approval": {".", "audit", "storage", "internal/core", "internal/tally"},
	"effect":   {".", "approval", "audit", "storage", "internal/core", "internal/schema", "internal/tally"},
	"store":    {".", "storage", "internal/records"},
	"agent":    {".", "internal/schema", "stream"},
	"stream":   {"."},

	"internal/core":    {},
	"internal/guard":   {},
	"internal/records": {"internal/core", "storage"},
	"internal/local":   {"internal/core", "internal/records", "storage"},
	"internal/schema":  {},
	"internal/tally":   {"storage"},
}

// pure packages use the standard library and google/uuid only.
var pure = []string{".", "storage", "audit/proof", "worker", "redact", "memdb", "draw", "stream", "internal/core", "internal/guard", "internal/records", "internal/local", "internal/schema"}

type pkg struct {
	ImportPath string
	Imports    []string
	Module     *struct{ Path string }
	Standard   bool
}

func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Module,Standard", "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func folder(path string) (string, bool) {
	if path == module {
		return ".", true
	}
	return strings.CutPrefix(path, module+"/")
}

// rule finds the row of a folder: its own, or that of the folder around it.
func rule(dir string) ([]string, string, bool) {
	for at := dir; at != ""; {
		if list, ok := allowed[at]; ok {
			return list, at, true
		}
		i := strings.LastIndexByte(at, '/')
		if i < 0 {
			break
		}
		at = at[:i]
	}
	return nil, "", false
}

func TestImportsPointDown(t *testing.T) {
	for _, p := range list(t) {
		from, _ := folder(p.ImportPath)
		may, at, ruled := rule(from)
		if !ruled {
			continue
		}
		for _, im := range p.Imports {
			to, ours := folder(im)
			if !ours || to == from || to == at || strings.HasPrefix(to, at+"/") {
				continue
			}
			ok := slices.ContainsFunc(may, func(m string) bool { return to == m || strings.HasPrefix(to, m+"/") })
			if !ok {
				t.Errorf("%s imports %s: it may import %v; wiring belongs to programs and tests", from, to, may)
			}
		}
	}
}

func TestTheHeartIsLight(t *testing.T) {
	for _, p := range list(t) {
		from, _ := folder(p.ImportPath)
		if !slices.Contains(pure, from) {
			continue
		}
		for _, im := range p.Imports {
			first, _, _ := strings.Cut(im, "/")
			if _, ours := folder(im); ours || !strings.Contains(first, ".") || im == "github.com/google/uuid" {
				continue
			}
			t.Errorf("%s imports %s: it uses the standard library and google/uuid only", from, im)
		}
	}
}
