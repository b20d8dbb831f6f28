package suite

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// exported is what the packages of the repository declare: names by package, members by type, and all of them.
type exported struct {
	packages map[string]map[string]bool
	members  map[string]map[string]bool
	all      map[string]bool
}

// index reads the declarations of all packages that documents speak of.
func index(t *testing.T) *exported {
	t.Helper()
	x := &exported{map[string]map[string]bool{}, map[string]map[string]bool{}, map[string]bool{}}
	for _, dir := range []string{
		".", "effect", "approval", "approval/adapt", "audit", "audit/proof", "redact", "store", "worker", "agent", "app", "draw", "storage", "storage/fault", "sqlite",
		"memdb", "pawltest", "internal/core", "internal/local", "internal/records", "internal/house", "internal/cli",
	} {
		files, err := filepath.Glob(filepath.Join(repository, dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			if x.packages[f.Name.Name] == nil {
				x.packages[f.Name.Name] = map[string]bool{}
			}
			for _, d := range f.Decls {
				x.declared(f.Name.Name, d)
			}
		}
	}
	return x
}

func (x *exported) declared(pkg string, d ast.Decl) {
	if fn, ok := d.(*ast.FuncDecl); ok {
		if x.all[fn.Name.Name] = true; fn.Recv == nil {
			x.packages[pkg][fn.Name.Name] = true
		} else {
			x.member(receiver(fn.Recv.List[0].Type), fn.Name.Name)
		}
		return
	}
	for _, spec := range d.(*ast.GenDecl).Specs {
		switch s := spec.(type) {
		case *ast.ValueSpec:
			for _, n := range s.Names {
				x.packages[pkg][n.Name], x.all[n.Name] = true, true
			}
		case *ast.TypeSpec:
			x.packages[pkg][s.Name.Name], x.all[s.Name.Name] = true, true
			x.member(s.Name.Name, "")
			var fields *ast.FieldList
			switch typ := s.Type.(type) {
			case *ast.StructType:
				fields = typ.Fields
			case *ast.InterfaceType:
				fields = typ.Methods
			default:
				continue
			}
			for _, f := range fields.List {
				for _, n := range f.Names {
					x.member(s.Name.Name, n.Name)
				}
			}
		}
	}
}

func (x *exported) member(of, name string) {
	if x.members[of] == nil {
		x.members[of] = map[string]bool{}
	}
	x.members[of][name], x.all[name] = true, true
}

func receiver(e ast.Expr) string {
	switch v := e.(type) {
	case *ast.StarExpr:
		return receiver(v.X)
	case *ast.IndexExpr:
		return receiver(v.X)
	case *ast.IndexListExpr:
		return receiver(v.X)
	case *ast.Ident:
		return v.Name
	}
	return ""
}

// foreign are documents that name other products' things besides.
var foreignNames = []string{"docs/langgraph.md", "docs/temporal.md", "docs/bugs.md"}

// names checks what stands in quotes: pkg.Name, pkg.Type.Member, Type.Member, and in documents that speak of nothing else
// plain names.
func (d document) names(t *testing.T, x *exported) (n int) {
	dotted := regexp.MustCompile(`^[*&.]*([A-Za-z]\w*)\.([A-Z]\w*)(?:\.([A-Z]\w*))?`)
	plain := regexp.MustCompile(`^\.?([A-Z][a-z]\w*)(?:\(.*\))?$`)
	for _, m := range quoted.FindAllStringSubmatch(d.text, -1) {
		missing := false
		if p := dotted.FindStringSubmatch(m[1]); p != nil {
			switch {
			case x.packages[p[1]] != nil:
				missing = !x.packages[p[1]][p[2]] && !x.members[strings.ToUpper(p[1][:1])+p[1][1:]][p[2]] || p[3] != "" && !x.members[p[2]][p[3]]
			case ast.IsExported(p[1]) && x.members[p[1]] != nil:
				missing = !x.members[p[1]][p[2]]
			default:
				continue
			}
		} else if p := plain.FindStringSubmatch(m[1]); p != nil && !slices.Contains(foreignNames, d.name) && !strings.HasPrefix(m[1], "Test") {
			missing = !x.all[p[1]]
		} else {
			continue
		}
		if n++; missing {
			t.Errorf("%s names %s, which is not there", d.name, m[0])
		}
	}
	return n
}
