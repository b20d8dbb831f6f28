// Package cli is pawl's command line as a value. The stock binary starts it without graphs; a program that brings its
// own graphs starts the same commands with them.
package cli

import (
	"bufio"
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
	User   string   // of the operating system; recorded with what is changed, as unverified
	Groups []string // of that user
	Person bool     // Stdin is a terminal: somebody can be asked, on Stderr
	Screen bool     // Stdout is a terminal: colours mean something
	// Name is how the program is called, as it stands in the commands that it prints. Empty: pawl.
	Name string
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
	given   string // " --db file --tenant t" where the flags were given, for commands that are printed
	tenant  string
	noInput bool
	reason  string
	actor   string
	groups  []string
}

const overview = `Pawl runs agent graphs that survive crashes, wait for people and do not repeat what is done.

This program reads, answers, approves, cancels and deletes the threads of a database. Verbs that run nodes (start, resume,
retry, fork) belong to the program that has the graph's code: one made with app.Main.`

const ownOverview = `A program of agent graphs that survive crashes, wait for people and do not repeat what is done.

It has the code of: %s.`

const examples = `  pawl demo                           a tour: two kills, one payment, one fork
  pawl threads list                   what there is in pawl.db
  pawl threads show order-17          where it stands, what it asks, what will run again
  pawl answer 3f9c '"yes"'            answer a question by the start of its id
  pawl doctor -v --db /var/lib/my.db  is the database well?`

const ownExamples = `  pawl runs start %[1]s order-17 --input '{}'   start a run; it stops when it is over, or waits for a person
  pawl threads show order-17          where it stands, what it asks, what will run again
  pawl answer 3f9c yes                answer a question by the start of its id
  pawl runs resume order-17           go on
  pawl graph show %[1]s -o mermaid    draw it`

// New makes a program with all commands but those of the stock binary alone.
func New(env Env) *Program {
	p := &Program{Env: env}
	if p.Name == "" {
		p.Name = stock
	}
	about, how := overview, examples
	if names := p.served(); len(names) > 0 {
		about, how = fmt.Sprintf(ownOverview, strings.Join(names, ", ")), fmt.Sprintf(ownExamples, names[0])
	}
	p.Root = p.group("pawl", about, how)
	p.Root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: p.Name}
	p.Root.SilenceUsage, p.Root.SilenceErrors = true, true
	p.Root.Version = buildVersion().Version
	p.Root.SetOut(env.Stdout)
	p.Root.SetErr(env.Stderr)
	p.Root.SetIn(env.Stdin)
	p.Root.SetUsageTemplate(usage)
	p.Root.SetHelpTemplate("{{with (or .Long .Short)}}{{.}}\n\n{{end}}{{.UsageString}}")
	p.Root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return p.misuse(cmd, err) })
	f := p.Root.PersistentFlags()
	f.StringVarP(&p.output, "output", "o", "table", "`format`: table, json for one document, jsonl for one line an item (environment: PAWL_OUTPUT)")
	f.BoolVar(&p.asJSON, "json", false, "the same as -o json")
	f.StringVar(&p.db, "db", "", "the database `file` (environment: PAWL_DB; default "+DefaultDB+")")
	f.StringVar(&p.tenant, "tenant", "", "see the threads of this `tenant` (environment: PAWL_TENANT)")
	f.StringVar(&p.actor, "actor", "", "act under this `name`; recorded as unverified, with the system's user (environment: PAWL_ACTOR)")
	f.StringSliceVar(&p.groups, "group", nil, "act as a member of this `group` too, for approvals (environment: PAWL_GROUP)")
	f.BoolVar(&p.noInput, "no-input", false, "never ask anything (environment: PAWL_NO_INPUT)")
	p.Root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return p.settle(cmd) }
	p.Root.AddCommand(p.threads(), p.runs(), p.answer(), p.approvalsGroup(), p.approvalsApprove(), p.effectsGroup(), p.auditGroup(),
		p.graph(), p.backup(), p.restore(), p.worker(), p.doctor(), p.version())
	p.rename(p.Root)
	return p
}

const stock = "pawl"

// served names the graphs whose code this program has.
func (p *Program) served() []string {
	var names []string
	for _, g := range p.Graphs {
		if n, ok := g.(interface{ Name() string }); ok {
			names = append(names, n.Name())
		}
	}
	slices.Sort(names)
	return names
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
	if p.given = ""; p.db != "" {
		p.given += " --db " + ShellWord(p.db)
	}
	if p.tenant != "" {
		p.given += " --tenant " + ShellWord(p.tenant)
	}
	for _, name := range []string{"output", "db", "tenant", "actor", "group", "no-input"} {
		variable := "PAWL_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		f, val := cmd.Flags().Lookup(name), p.Getenv(variable)
		if f == nil || f.Changed || val == "" {
			continue
		}
		if err := f.Value.Set(val); err != nil {
			return p.misuse(cmd, fmt.Errorf("%s=%s: %w", variable, val, err))
		}
	}
	if p.asJSON {
		p.output = "json"
	}
	formats := []string{"table", "json", "jsonl"}
	if cmd.Annotations[moreFormats] != "" {
		formats = append(formats, strings.Fields(cmd.Annotations[moreFormats])...)
	}
	if !slices.Contains(formats, p.output) {
		return p.misuse(cmd, fmt.Errorf("-o %s: there are %s%s", p.output, strings.Join(formats, ", "), meant(p.output, formats...)))
	}
	if p.db == "" {
		p.db = DefaultDB
	}
	cmd.SetContext(pawl.WithActor(cmd.Context(), p.who()))
	return nil
}

// moreFormats annotates a command that has formats of its own.
const moreFormats = "formats"

// who acts: the system's user, or under a name that they give themselves.
func (p *Program) who() pawl.Actor {
	a := pawl.Actor{ID: p.User, Kind: "unverified", Door: "command line", Groups: slices.Concat(p.Groups, p.groups)}
	if p.actor != "" && p.actor != p.User {
		a.ID, a.Kind = p.actor, "unverified, given by "+p.User
	}
	return a
}

// ShellWord quotes what a shell would take apart.
func ShellWord(s string) string {
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
	err := p.Root.ExecuteContext(ctx)
	if err == nil {
		return OK
	}
	code := CodeOf(err)
	if code == Failed && errors.Is(ctx.Err(), context.Canceled) {
		code = Interrupted
	}
	fmt.Fprintln(p.Stderr, p.Name+": "+clean(strings.TrimPrefix(err.Error(), "pawl: ")))
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

// takesUpTo is takes for arguments that may be left out.
func (p *Program) takesUpTo(n int, names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) <= n {
			return nil
		}
		return p.misuse(cmd, fmt.Errorf("%s takes %s, not %d arguments", cmd.CommandPath(), names, len(args)))
	}
}

func (p *Program) misuse(cmd *cobra.Command, err error) error {
	return &Error{Usage, fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
}

// rename puts the program's own name into the help, which is written for the stock binary.
func (p *Program) rename(c *cobra.Command) {
	if p.Name == stock {
		return
	}
	for _, top := range p.Root.Commands() {
		own := strings.NewReplacer(stock+" "+top.Name(), p.Name+" "+top.Name())
		c.Example, c.Long = own.Replace(c.Example), own.Replace(c.Long)
	}
	for _, sub := range c.Commands() {
		p.rename(sub)
	}
}

// Command is a command line of this program, for people to copy.
func (p *Program) Command(format string, args ...any) string {
	return p.Name + " " + fmt.Sprintf(format, args...) + p.given
}

// JSON says whether a program reads the output.
func (p *Program) JSON() bool { return p.output == "json" || p.output == "jsonl" }

// MayAsk says whether a person is there and may be asked.
func (p *Program) MayAsk() bool { return p.Person && !p.noInput && !p.JSON() }

// Emit writes a command's result to Stdout: the value as one JSON document or as lines, or what table makes of it.
func (p *Program) Emit(value any, table func(*Page)) error {
	var b bytes.Buffer
	switch p.output {
	case "json":
		if err := writeJSON(&b, value, "  "); err != nil {
			return err
		}
	case "jsonl":
		if err := writeLines(&b, value); err != nil {
			return err
		}
	default:
		table(&Page{b: &b, now: p.Now(), colour: p.colour()})
	}
	_, err := p.Stdout.Write(b.Bytes())
	return err
}

func writeJSON(b *bytes.Buffer, value any, indent string) error {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	return e.Encode(value)
}

// writeLines writes a list as one line an item, and anything else as one line.
func writeLines(b *bytes.Buffer, value any) error {
	var whole bytes.Buffer
	if err := writeJSON(&whole, value, ""); err != nil {
		return err
	}
	items := []json.RawMessage{whole.Bytes()}
	if bytes.HasPrefix(whole.Bytes(), []byte("[")) {
		if err := json.Unmarshal(whole.Bytes(), &items); err != nil {
			return err
		}
	}
	for _, item := range items {
		b.Write(bytes.TrimSpace(item))
		b.WriteByte('\n')
	}
	return nil
}

// page is text as Emit makes it.
func (p *Program) page(table func(*Page)) string {
	var b bytes.Buffer
	table(&Page{b: &b, now: p.Now()})
	return b.String()
}

// ask asks a person for a line, on Stderr.
func (p *Program) ask(ctx context.Context, question string) (string, error) {
	fmt.Fprint(p.Stderr, clean(question))
	return Await(ctx, func() (string, error) {
		line, err := bufio.NewReader(p.Stdin).ReadString('\n')
		if err != nil && line == "" {
			return "", fmt.Errorf("there was no answer: %w; nothing was done", err)
		}
		return strings.ToLower(strings.TrimSpace(line)), nil
	})
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
