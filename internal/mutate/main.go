// Mutate takes away the guards of a package one by one, and demands that a test misses each.
//
//	go run ./internal/mutate ./effect
//
// A guard is a line such as
//
//	{!o.Doubt, "it may have happened"}, // guard T2
//
// whose condition is replaced by true. The mutant is built through an overlay: no file is changed. Without -skip the whole
// suite of the package is run against each; a mutant that all tests pass survives, and the exit code is 1.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// guard matches a line that can be taken away.
var guard = regexp.MustCompile(`^(\s*\{)(.+)(, "[^"]*"\},)\s*// guard (T\d+)$`)

// mutant is a file in which one guard is gone.
type mutant struct {
	file string
	line int
	rule string
	cond string
	text []byte
}

func main() {
	run := flag.String("run", "", "only tests that match, as for go test")
	skip := flag.String("skip", "", "no tests that match, as for go test")
	list := flag.Bool("list", false, "name the guards and run nothing")
	flag.Parse()
	if err := mutate(flag.Arg(0), *run, *skip, *list); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func mutate(dir, run, skip string, list bool) error {
	mutants, err := mutantsOf(dir)
	if err != nil {
		return err
	}
	if list {
		for _, m := range mutants {
			fmt.Printf("%s %s:%d %s\n", m.rule, m.file, m.line, m.cond)
		}
		return nil
	}
	t := &tester{dir: dir, run: run, skip: skip}
	if t.temp, err = os.MkdirTemp("", "mutate"); err != nil {
		return err
	}
	defer os.RemoveAll(t.temp)
	if passed, out, err := t.test(nil); err != nil || !passed {
		return fmt.Errorf("the tests fail without a mutant: %w\n%s", err, out)
	}
	survivors := 0
	for _, m := range mutants {
		passed, _, err := t.test(&m)
		if err != nil {
			return err
		}
		word := "killed"
		if passed {
			word = "SURVIVED"
			survivors++
		}
		fmt.Printf("%-8s %-4s %s:%d %s\n", word, m.rule, m.file, m.line, m.cond)
	}
	if survivors > 0 {
		return fmt.Errorf("%d of %d guards can be taken away and no test misses them", survivors, len(mutants))
	}
	fmt.Printf("all %d guards are missed\n", len(mutants))
	return nil
}

// mutantsOf finds the guards of a directory.
func mutantsOf(dir string) (out []mutant, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		lines := bytes.Split(text, []byte("\n"))
		for i, line := range lines {
			if !bytes.Contains(line, []byte("// guard T")) {
				continue
			}
			m := guard.FindSubmatch(line)
			if m == nil {
				return nil, fmt.Errorf("%s:%d: this is marked as a guard, and none that can be taken away: %s", file, i+1, line)
			}
			with := slices.Clone(lines)
			with[i] = slices.Concat(m[1], []byte("true"), m[3])
			out = append(out, mutant{file, i + 1, string(m[4]), string(m[2]), bytes.Join(with, []byte("\n"))})
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%q has no guard", dir)
	}
	return out, nil
}

type tester struct{ dir, run, skip, temp string }

// test runs the tests against a mutant, or against what is there.
func (t *tester) test(m *mutant) (passed bool, out []byte, err error) {
	args := []string{"test", "-count=1", "-failfast"}
	if m != nil {
		overlay, err := t.overlay(m)
		if err != nil {
			return false, nil, err
		}
		args = append(args, "-overlay", overlay)
	}
	if t.run != "" {
		args = append(args, "-run", t.run)
	}
	if t.skip != "" {
		args = append(args, "-skip", t.skip)
	}
	out, err = exec.Command("go", append(args, t.dir)...).CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && !bytes.Contains(out, []byte("[build failed]")) {
		return false, out, nil
	}
	if err != nil {
		return false, out, fmt.Errorf("%w\n%s", err, out)
	}
	return true, out, nil
}

func (t *tester) overlay(m *mutant) (string, error) {
	file, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	with, overlay := filepath.Join(t.temp, "mutant.go"), filepath.Join(t.temp, "overlay.json")
	doc, err := json.Marshal(map[string]map[string]string{"Replace": {file: with}})
	if err != nil {
		return "", err
	}
	return overlay, errors.Join(os.WriteFile(with, m.text, 0o600), os.WriteFile(overlay, doc, 0o600))
}
