package cli

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
)

// System is the environment of the process.
func System() Env {
	name, groups := userName()
	return Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Now: time.Now, User: name, Groups: groups,
		Person: isatty.IsTerminal(os.Stdin.Fd()), Screen: isatty.IsTerminal(os.Stdout.Fd()),
	}
}

// ProgramName is how a person calls the program that has this path.
func ProgramName(path string) string {
	if strings.Contains(path, string(filepath.Separator)+"go-build") {
		return "go run ."
	}
	return strings.TrimSuffix(filepath.Base(path), ".exe")
}

// userName is the system's user and the groups that they are in; groups that have no name are left out.
func userName() (string, []string) {
	u, err := user.Current()
	if err != nil || u.Username == "" {
		return fmt.Sprintf("uid %d", os.Getuid()), nil
	}
	var groups []string
	ids, _ := u.GroupIds()
	for _, id := range ids {
		if g, err := user.LookupGroupId(id); err == nil {
			groups = append(groups, g.Name)
		}
	}
	return u.Username, groups
}
