// Package cli is pawl's command line as a value. The stock binary starts it without graphs; a program that brings its
// own graphs starts the same commands with them.
package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
)

// DefaultDB is the database that commands look for when neither --db nor PAWL_DB names one.
const DefaultDB = "pawl.db"

// Env is all that a program takes from the world around it.
type Env struct {
	Stdin  io.Reader
	Stdout io.Writer // data
	Stderr io.Writer // talk
	Getenv func(string) string
	Now    func() time.Time
	User   string // of the operating system; recorded with what is changed, as unverified
	Person bool   // Stdin is a terminal: somebody can be asked, on Stderr
	Screen bool   // Stdout is a terminal: colours mean something
	// Open opens a database that exists.
	Open func(path string) (storage.DB, error)
	// Graphs are those whose code this program has.
	Graphs []pawl.Registrable
}

// Program is one command line, to be run once.
type Program struct {
	Env
	Root *cobra.Command

	output  string
	asJSON  bool
	db      string
	dbFlag  string // " --db file" where the flag was given, for commands that are printed
	tenant  string
	noInput bool
	reason  string
}

const overview = `Pawl runs agent graphs that survive crashes, wait for people and do not repeat what is done.

This program reads and answers the threads of a database. Verbs that run nodes (run, resume, retry, fork) belong to the
program that has the graph's code.`

// New makes a program with the commands that need no graph's code.
func New(env Env) *Program {
	p := &Program{Env: env}
	p.Root = p.group("pawl", overview, `  pawl demo                           a tour: two kills, one question, one fork
  pawl threads list                   what there is in pawl.db
  pawl threads show order-17          where it stands, what it asks, what will run again
  pawl answer 3f9c '"yes"'            answer a question by the start of its id
  pawl doctor -v --db /var/lib/my.db  is the database well?`)
	p.Root.SilenceUsage, p.Root.SilenceErrors = true, true
	p.Root.Version = buildVersion().Version
	p.Root.SetOut(env.Stdout)
	p.Root.SetErr(env.Stderr)
	p.Root.SetIn(env.Stdin)
	p.Root.SetUsageTemplate(usage)
	p.Root.SetHelpTemplate("{{with (or .Long .Short)}}{{.}}\n\n{{end}}{{.UsageString}}")
	p.Root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return p.misuse(cmd, err) })
	f := p.Root.PersistentFlags()
	f.StringVarP(&p.output, "output", "o", "table", "`format`: table, or json for one document")
	f.BoolVar(&p.asJSON, "json", false, "the same as -o json")
	f.StringVar(&p.db, "db", "", "the database `file` (environment: PAWL_DB; default "+DefaultDB+")")
	f.StringVar(&p.tenant, "tenant", "", "see the threads of this `tenant` (environment: PAWL_TENANT)")
	f.BoolVar(&p.noInput, "no-input", false, "never ask anything")
	p.Root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return p.settle(cmd) }
	p.Root.AddCommand(p.threads(), p.answer(), p.doctor(), p.version())
	return p
}

// usage leads with examples. Exit codes stand in the help of the whole program.
const usage = `{{if .HasExample}}Examples:
{{.Example}}

{{end}}Usage:
  {{if .HasAvailableSubCommands}}{{.CommandPath}} [command]{{else}}{{.UseLine}}{{end}}
{{if .HasAvailableSubCommands}}
Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}
{{end}}{{if .HasAvailableLocalFlags}}
Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}
{{end}}{{if .HasAvailableInheritedFlags}}
Flags of every command:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}
{{end}}{{if not .HasParent}}
` + exitHelp + `{{else}}
Exit codes: {{.Root.Name}} --help
{{end}}`

// settle reads what flags and environment say together.
func (p *Program) settle(cmd *cobra.Command) error {
	if p.asJSON {
		p.output = "json"
	}
	if !slices.Contains([]string{"table", "json"}, p.output) {
		return p.misuse(cmd, fmt.Errorf("-o %s: there are table and json%s", p.output, meant(p.output, "table", "json")))
	}
	if p.tenant == "" {
		p.tenant = p.Getenv("PAWL_TENANT")
	}
	if p.db != "" {
		p.dbFlag = " --db " + shellWord(p.db)
	}
	for _, from := range []string{p.db, p.Getenv("PAWL_DB"), DefaultDB} {
		if p.db = from; from != "" {
			break
		}
	}
	return nil
}

// shellWord quotes what a shell would take apart.
func shellWord(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("/._-+:@%,=", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

// Run runs the command line and returns the exit code. What went wrong is told on Stderr.
func (p *Program) Run(ctx context.Context, args []string) int {
	p.Root.SetArgs(args)
	ctx = pawl.WithActor(ctx, pawl.Actor{ID: p.User, Kind: "unverified"})
	err := p.Root.ExecuteContext(ctx)
	if err == nil {
		return OK
	}
	code := CodeOf(err)
	if code == Failed && errors.Is(ctx.Err(), context.Canceled) {
		code = Interrupted
	}
	fmt.Fprintln(p.Stderr, "pawl: "+clean(strings.TrimPrefix(err.Error(), "pawl: ")))
	return code
}

// group is a command that only has commands below it.
func (p *Program) group(name, about, examples string) *cobra.Command {
	short, _, _ := strings.Cut(about, "\n")
	return &cobra.Command{
		Use: name, Short: short, Long: about, Example: examples, Args: cobra.ArbitraryArgs, SuggestionsMinimumDistance: 2,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			err := fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(near, " or "))
			}
			return p.misuse(cmd, err)
		},
	}
}

// takes checks the number of arguments.
func (p *Program) takes(n int, names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		return p.misuse(cmd, fmt.Errorf("%s takes %s, not %d arguments", cmd.CommandPath(), names, len(args)))
	}
}

func (p *Program) misuse(cmd *cobra.Command, err error) error {
	return &Error{Usage, fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
}

// JSON says whether one document was asked for.
func (p *Program) JSON() bool { return p.output == "json" }

// MayAsk says whether a person is there and may be asked.
func (p *Program) MayAsk() bool { return p.Person && !p.noInput && !p.JSON() }

// Emit writes a command's result to Stdout: the value as one JSON document, or what table makes of it.
func (p *Program) Emit(value any, table func(*Page)) error {
	var b bytes.Buffer
	if p.JSON() {
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(value); err != nil {
			return err
		}
	} else {
		table(&Page{b: &b, now: p.Now(), colour: p.colour()})
	}
	_, err := p.Stdout.Write(b.Bytes())
	return err
}

// talk writes a line to Stderr.
func (p *Program) talk(format string, args ...any) {
	fmt.Fprintln(p.Stderr, clean(fmt.Sprintf(format, args...)))
}

// Await waits for a read that nothing can interrupt, such as a person's, until ctx ends. The read itself goes on.
func Await[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type result struct {
		val T
		err error
	}
	over := make(chan result, 1)
	go func() {
		val, err := read()
		over <- result{val, err}
	}()
	select {
	case r := <-over:
		return r.val, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}
