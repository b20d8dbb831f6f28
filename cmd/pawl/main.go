// Command pawl reads and answers the threads of a database, and shows in a minute what the engine does.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/pawl-dev/pawl/internal/cli"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return newProgram(cli.System()).Run(ctx, os.Args[1:])
}

// newProgram is the whole command line as a value.
func newProgram(env cli.Env) *cli.Program {
	p := cli.New(env)
	p.Root.AddCommand(demoCommand(p), workerCommand(p), providerCommand(p))
	return p
}
