package app

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/cli"
)

// Env is what a program takes from the world around it. The zero value is the process's own world.
type Env struct {
	// Name is how people call the program, as it stands in the commands that it prints. Empty: from os.Args.
	Name   string
	Stdin  io.Reader
	Stdout io.Writer // data
	Stderr io.Writer // talk
	// Getenv looks a variable up: PAWL_DB, PAWL_TENANT and those that --help names.
	Getenv func(string) string
	// User acts; empty: the operating system's user. It is recorded as unverified.
	User string
}

// Main is the main function of a program with the code of these graphs: it runs the command line in os.Args and exits
// with its code. An interrupt or a SIGTERM ends the command; what was done is kept. Options and an engine of one's own:
// use Open.
func Main(graphs ...pawl.Registrable) {
	os.Exit(func() int {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return Run(ctx, Env{}, os.Args[1:], graphs...)
	}())
}

// Run runs one command line and returns its exit code: 0 done, 1 failed, 2 usage, 3 not found, 4 not allowed, 5 conflict,
// 6 stopped for a person (with --wait), 7 audit verification failed, 8 effects in unknown state or unexplained, 9 the
// database cannot be opened, 124 timeout, 130 interrupted. What went wrong is told on Stderr.
func Run(ctx context.Context, env Env, args []string, graphs ...pawl.Registrable) int {
	world := cli.System()
	world.Graphs, world.Name = graphs, env.Name
	if env.Name == "" {
		world.Name = cli.ProgramName(os.Args[0])
	}
	if env.Stdin != nil {
		world.Stdin, world.Person = env.Stdin, false
	}
	if env.Stdout != nil {
		world.Stdout, world.Screen = env.Stdout, false
	}
	if env.Stderr != nil {
		world.Stderr = env.Stderr
	}
	if env.Getenv != nil {
		world.Getenv = env.Getenv
	}
	if env.User != "" {
		world.User, world.Groups = env.User, nil
	}
	if twice := repeated(graphs); twice != "" {
		fmt.Fprintf(world.Stderr, "%s: two graphs are named %q; give one of them another name\n", world.Name, twice)
		return cli.Failed
	}
	return cli.New(world).Run(ctx, args)
}

// repeated finds a name that two graphs have, before a database is opened for nothing.
func repeated(graphs []pawl.Registrable) string {
	seen := map[string]bool{}
	for _, g := range graphs {
		n, ok := g.(interface{ Name() string })
		if !ok {
			continue
		}
		if seen[n.Name()] {
			return n.Name()
		}
		seen[n.Name()] = true
	}
	return ""
}
