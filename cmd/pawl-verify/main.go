// Command pawl-verify checks an export of an audit trail, without the database and without the program that wrote it.
//
//	pawl-verify [-anchor FILE] [-o text|json] [EXPORT]
//
// It reads a file, or stdin. Exit codes: 0 honest, 7 something was found, 2 usage, 1 it could not be read.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/pawl-dev/pawl/audit/proof"
)

const (
	honest = 0
	failed = 1
	usage  = 2
	found  = 7
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("pawl-verify", flag.ContinueOnError)
	flags.SetOutput(stderr)
	anchor := flags.String("anchor", "", "a `FILE` with anchors that were kept elsewhere, one JSON object after the other")
	output := flags.String("o", "text", "`text` or json")
	flags.Usage = func() {
		fmt.Fprintln(stderr, "pawl-verify [-anchor FILE] [-o text|json] [EXPORT]\n\nChecks an export of an audit trail: a file, or stdin. Exit codes: 0 honest, 7 something was found, 2 usage, 1 it could not be read.")
		flags.PrintDefaults()
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return honest
	case err != nil:
		return usage
	case flags.NArg() > 1 || *output != "text" && *output != "json":
		flags.Usage()
		return usage
	}
	report, err := check(flags.Arg(0), *anchor, stdin)
	if err == nil {
		err = show(stdout, report, *output)
	}
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "pawl-verify: %v\n", err)
		return failed
	case !report.Honest():
		return found
	}
	return honest
}

func check(path, anchor string, stdin io.Reader) (*proof.Report, error) {
	anchors, err := read(anchor)
	if err != nil {
		return nil, err
	}
	if path == "" || path == "-" {
		return proof.Read(stdin, anchors...)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return proof.Read(f, anchors...)
}

// read reads a file of anchors.
func read(path string) (out []proof.Anchor, err error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if out, err = proof.ReadAnchors(f); err != nil {
		return nil, fmt.Errorf("%s %w", path, err)
	}
	return out, nil
}

func show(w io.Writer, r *proof.Report, output string) error {
	if output == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	for _, f := range r.Findings {
		if _, err := fmt.Fprintln(w, "FOUND ", f); err != nil {
			return err
		}
	}
	if r.More > 0 {
		fmt.Fprintf(w, "FOUND  %d more\n", r.More)
	}
	for _, n := range r.Notes {
		fmt.Fprintln(w, "note  ", n)
	}
	word := "honest"
	if !r.Honest() {
		word = "NOT HONEST"
	}
	_, err := fmt.Fprintf(w, "tenant %q: %s: %d rows in %d chains, %d in the log, %d pending, head %s\n", r.Tenant, word, r.Rows, r.Chains, r.Size, r.Pending, r.Head)
	if err == nil && r.Size > 0 && r.Honest() {
		doc, _ := json.Marshal(r.Anchor(time.Now()))
		_, err = fmt.Fprintf(w, "anchor %s\n", doc)
	}
	return err
}
