package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"pawl":    main,
		"fixture": func() { os.Exit(fixture(os.Args[1:])) },
		"shop":    shop,
	})
}

// TestScripts runs testdata/script: every command as its user sees it.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Condition: func(name string) (bool, error) {
			if name == "root" { // for whom no file is read-only
				return os.Getuid() == 0, nil
			}
			return false, errors.New("there is no such condition")
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "keep": keep, "field": field},
	})
}

// exits N command args...: the command ends with that exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code command args...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	have := 0
	err = ts.Exec(args[1], args[2:]...)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		have = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if have != want {
		ts.Fatalf("%s: exit code %d, should be %d", strings.Join(args[1:], " "), have, want)
	}
}

// field NAME INDEX VARIABLE: a member of an item of the list in the last standard output's JSON becomes a
// variable.
func field(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: field NAME INDEX VARIABLE")
	}
	index, err := strconv.Atoi(args[1])
	ts.Check(err)
	var list []map[string]any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &list))
	if index >= len(list) {
		ts.Fatalf("there are %d items", len(list))
	}
	ts.Setenv(args[2], fmt.Sprint(list[index][args[0]]))
}

// keep NAME: the last standard output becomes a variable.
func keep(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: keep NAME")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}
