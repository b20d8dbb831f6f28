// Command pawl reads and answers the threads of a database, and shows in a minute what the engine does.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"os/user"
	"syscall"
	"time"

	"github.com/mattn/go-isatty"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/cli"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return newProgram(systemEnv()).Run(ctx, os.Args[1:])
}

// newProgram is the whole command line as a value.
func newProgram(env cli.Env) *cli.Program {
	p := cli.New(env)
	p.Root.AddCommand(demoCommand(p), workerCommand(p))
	return p
}

func systemEnv() cli.Env {
	return cli.Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Now: time.Now, User: userName(),
		Person: isatty.IsTerminal(os.Stdin.Fd()), Screen: isatty.IsTerminal(os.Stdout.Fd()), Open: openFile,
	}
}

func openFile(path string) (storage.DB, error) {
	db, err := sqlite.Open(path, pawl.Kinds()...)
	if err != nil {
		return nil, err
	}
	return db, nil
}

func userName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return fmt.Sprintf("uid %d", os.Getuid())
}
