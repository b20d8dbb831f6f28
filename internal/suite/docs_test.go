package suite

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// documents are held to what is there.
var documents = []string{
	"README.md", "docs/langgraph.md", "docs/temporal.md", "docs/bugs.md", "docs/effects.md", "docs/audit.md", "docs/reconcile.md",
	"docs/versions.md", "docs/ARCHITECTURE.md",
}

var repository = filepath.Join("..", "..")

func contents(t *testing.T, names ...string) string {
	t.Helper()
	var b strings.Builder
	for _, name := range names {
		doc, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(doc)
	}
	return b.String()
}

// TestDocs holds the documents to what is there: a test that they name exists and runs, their programs are those that are
// compiled, their command lines are taken, and files and names exist.
func TestDocs(t *testing.T) {
	t.Parallel()
	own, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	cases := contents(t, own...)
	examples := contents(t, filepath.Join(repository, "examples", "langgraph", "langgraph_test.go"),
		filepath.Join(repository, "examples", "readme", "main.go"), "docs_programs_test.go")
	there := index(t)
	checked := map[string]int{}
	for _, name := range documents {
		d := document{name, contents(t, filepath.Join(repository, name))}
		checked["tests"] += d.tests(t, cases)
		checked["programs"] += d.programs(t, examples)
		checked["commands"] += d.commands(t)
		checked["files"] += d.files(t)
		checked["names"] += d.names(t, there)
	}
	for what, least := range map[string]int{"tests": 80, "programs": 12, "commands": 6, "files": 30, "names": 100} {
		if checked[what] < least {
			t.Errorf("only %d %s were found", checked[what], what)
		}
	}
}

type document struct{ name, text string }

var (
	testNamed    = regexp.MustCompile("`(Test[A-Za-z]+)(?:/([A-Z0-9-]+))?`")
	programShown = regexp.MustCompile("(?s)```go\n(.*?)```")
	blockShown   = regexp.MustCompile("(?s)```\n(.*?)```")
	quoted       = regexp.MustCompile("`([^`\n]+)`")
	linkShown    = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
)

func (d document) tests(t *testing.T, cases string) (n int) {
	for _, m := range testNamed.FindAllStringSubmatch(d.text, -1) {
		if n++; m[2] != "" && !strings.Contains(cases, `{id: "`+m[2]+`", run: `) {
			t.Errorf("%s names %s, which does not run", d.name, m[0])
		}
		if m[2] == "" && !strings.Contains(cases, "func "+m[1]+"(") {
			t.Errorf("%s names %s, which is not in this package", d.name, m[0])
		}
	}
	return n
}

func (d document) programs(t *testing.T, examples string) (n int) {
	examples = unindented(examples)
	for _, m := range programShown.FindAllStringSubmatch(d.text, -1) {
		if n++; !strings.Contains(examples, unindented(m[1])) {
			t.Errorf("%s shows a program that is not compiled:\n%s", d.name, m[1])
		}
	}
	return n
}

// unindented is a program without what stands in front of its lines.
func unindented(program string) string {
	lines := strings.Split(program, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimLeft(line, "\t")
	}
	return strings.Join(lines, "\n")
}

// commands runs each command line up to its help, which reads the flags and nothing else.
func (d document) commands(t *testing.T) (n int) {
	var lines []string
	for _, m := range blockShown.FindAllStringSubmatch(d.text, -1) {
		lines = append(lines, strings.Split(m[1], "\n")...)
	}
	for _, m := range quoted.FindAllStringSubmatch(d.text, -1) {
		lines = append(lines, m[1])
	}
	for _, line := range lines {
		line, _, _ = strings.Cut(line, " #")
		rest := ""
		for _, program := range []string{"pawl ", "go run ./cmd/pawl ", "go run . "} {
			if after, ok := strings.CutPrefix(strings.TrimSpace(line), program); ok {
				rest = after
			}
		}
		if rest == "" {
			continue
		}
		n++
		if code, _, talk := typed("none.db", append(strings.Fields(rest), "--help")...); code != 0 {
			t.Errorf("%s shows %q: %s", d.name, line, talk)
		}
	}
	return n
}

func (d document) files(t *testing.T) (n int) {
	exists := func(name string) bool {
		for _, from := range []string{repository, filepath.Join(repository, filepath.Dir(d.name))} {
			if _, err := os.Stat(filepath.Join(from, name)); err == nil {
				return true
			}
		}
		return false
	}
	text := programShown.ReplaceAllString(d.text, "")
	for _, m := range linkShown.FindAllStringSubmatch(quoted.ReplaceAllString(text, ""), -1) {
		if n++; !exists(m[1]) {
			t.Errorf("%s links to %s, which is not there", d.name, m[1])
		}
	}
	file := regexp.MustCompile(`^(?:[a-z]+/)*[a-z_0-9]+\.(?:go|md)$|^(?:internal|cmd|examples|docs|storage|audit)/[a-z/_-]+$`)
	for _, m := range quoted.FindAllStringSubmatch(d.text, -1) {
		if file.MatchString(m[1]) {
			if n++; !exists(m[1]) {
				t.Errorf("%s names the file %s, which is not there", d.name, m[1])
			}
		}
	}
	return n
}

// noSuchBug are the numbers up to 176 that the log of failures never gave.
var noSuchBug = []int{10, 15, 18, 33, 34, 36, 46, 50, 55, 67, 71, 72, 80, 82, 92, 97, 103, 106, 108, 116, 117, 123, 128, 140, 146, 147, 157, 160, 163, 164, 173}

// TestDocsOfBugs: each number of the log of failures stands in docs/bugs.md once, and those with a test of their own are
// those that have one.
func TestDocsOfBugs(t *testing.T) {
	t.Parallel()
	text := contents(t, filepath.Join(repository, "docs", "bugs.md"))
	own, rest, found := strings.Cut(text, "## Shown by other tests")
	_, own, named := strings.Cut(own, "`TestBugs`\n")
	if !found || !named {
		t.Fatal("docs/bugs.md has other sections")
	}
	have := numbers(t, own)
	var run []string
	for _, s := range bugs() {
		run = append(run, s.id)
	}
	for _, id := range have {
		if !slices.Contains(run, id) {
			t.Errorf("docs/bugs.md says that %s has a test of its own", id)
		}
	}
	for _, row := range regexp.MustCompile(`(?m)^\| ([0-9, to]+) \|`).FindAllStringSubmatch(rest, -1) {
		have = append(have, numbers(t, row[1])...)
	}
	for _, id := range run {
		if !slices.Contains(have, id) {
			t.Errorf("docs/bugs.md does not list %s, which has a test", id)
		}
	}
	slices.Sort(have)
	var want []string
	for n := 1; n <= 176; n++ {
		if !slices.Contains(noSuchBug, n) {
			want = append(want, fmt.Sprintf("%03d", n))
		}
	}
	if !slices.Equal(have, want) {
		t.Errorf("docs/bugs.md accounts for %v, want %v", have, want)
	}
}

// numbers are those of a text, with the ranges in it.
func numbers(t *testing.T, text string) (out []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(\d{3})(?:\s+to\s+(\d{3}))?`).FindAllStringSubmatch(text, -1) {
		var from, to int
		if fmt.Sscan(strings.TrimLeft(m[1], "0"), &from); m[2] == "" {
			to = from
		} else {
			fmt.Sscan(strings.TrimLeft(m[2], "0"), &to)
		}
		for ; from <= to; from++ {
			if !slices.Contains(noSuchBug, from) {
				out = append(out, fmt.Sprintf("%03d", from))
			}
		}
	}
	return out
}

// TestNothingListens: there is no server, so what goes wrong in one elsewhere cannot here. The fake targets of tests and of
// the demonstration are none of ours.
func TestNothingListens(t *testing.T) {
	t.Parallel()
	listens := regexp.MustCompile(`net\.Listen\(|\.ListenAndServe|http\.Serve\(|http\.Server\{`)
	files := 0
	err := filepath.WalkDir(repository, func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			strings.HasSuffix(path, filepath.Join("pawltest", "target_http.go")) || strings.HasSuffix(path, filepath.Join("cmd", "pawl", "demo_ledger.go")) {
			return err
		}
		if files++; listens.MatchString(contents(t, path)) {
			t.Errorf("%s listens: docs/bugs.md says that nothing does", path)
		}
		return nil
	})
	if err != nil || files < 100 {
		t.Error(files, err)
	}
}
