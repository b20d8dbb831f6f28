package suite

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocs holds the documents to what is there: a test that they name exists and runs, and their programs are those
// that are compiled.
func TestDocs(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	read := func(t *testing.T, names ...string) string {
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
	own, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	cases := read(t, own...)
	named := regexp.MustCompile("`(Test[A-Za-z]+)(?:/([A-Z0-9-]+))?`")
	program := regexp.MustCompile("(?s)```go\n(.*?)```")
	examples := read(t, filepath.Join(root, "examples", "langgraph", "langgraph_test.go"), filepath.Join(root, "examples", "readme", "main.go"))
	checked := 0
	for _, name := range []string{"README.md", "docs/langgraph.md", "docs/temporal.md", "docs/bugs.md"} {
		doc := read(t, filepath.Join(root, name))
		for _, m := range named.FindAllStringSubmatch(doc, -1) {
			if checked++; m[2] != "" && !strings.Contains(cases, `{id: "`+m[2]+`", run: `) {
				t.Errorf("%s names %s, which does not run", name, m[0])
			}
			if m[2] == "" && !strings.Contains(cases, "func "+m[1]+"(") {
				t.Errorf("%s names %s, which is not in this package", name, m[0])
			}
		}
		for _, m := range program.FindAllStringSubmatch(doc, -1) {
			if checked++; !strings.Contains(examples, m[1]) {
				t.Errorf("%s shows a program that is not compiled:\n%s", name, m[1])
			}
		}
	}
	if checked < 80 {
		t.Errorf("only %d names and programs were found", checked)
	}
}
