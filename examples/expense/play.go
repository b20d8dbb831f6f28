package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/pawl-dev/pawl/app"
)

// play runs an expense from its start to the transfer with the program's own command line, in a folder that is removed
// again: a reviewer cuts the amount, finance approves, and the bank is told once.
func play(ctx context.Context, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "expense-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := &stage{ctx: ctx, out: out, bank: bank{filepath.Join(dir, "bank.jsonl")}, db: filepath.Join(dir, "pawl.db")}
	var run struct {
		Waiting []struct{ ID, Digest string }
	}
	s.does(&run, "ann", "runs", "start", "expense", "e-1", "--input", `{"expense": {"id": "17", "vendor": "acme", "cents": 250000, "why": "a lathe"}}`)
	s.does(nil, "bob", "threads", "show", "e-1")
	if s.err == nil && len(run.Waiting) == 1 {
		s.does(nil, "bob", "answer", run.Waiting[0].ID, `{"pay": true, "cents": 200000, "note": "without the stand"}`, "--digest", run.Waiting[0].Digest)
	}
	s.does(nil, "bob", "runs", "resume", "e-1")
	var asked []struct{ ID, Digest string }
	s.does(&asked, "cho", "approvals", "list")
	if s.err == nil && len(asked) == 1 {
		s.does(nil, "cho", "approvals", "approve", asked[0].ID, "--digest", asked[0].Digest, "--group", "finance", "--reason", "as ordered")
	}
	s.does(nil, "bob", "runs", "resume", "e-1")
	s.does(nil, "bob", "effects", "list")
	s.does(nil, "bob", "audit", "list", "e-1")
	done, err := s.bank.statement()
	if s.err == nil && len(done) != 1 {
		err = fmt.Errorf("the bank made %d transfers", len(done))
	}
	if err := errors.Join(s.err, err); err != nil {
		return err
	}
	fmt.Fprintf(out, "The bank made %d transfer of %d cents.\n", len(done), done[0].Cents)
	return nil
}

// stage plays commands, until one fails.
type stage struct {
	ctx  context.Context
	out  io.Writer
	bank bank
	db   string
	err  error
}

// does runs one command as somebody, shows what it prints, and reads its JSON into v.
func (s *stage) does(v any, who string, args ...string) {
	if s.err != nil {
		return
	}
	shown := make([]string, len(args))
	for i, a := range args {
		if shown[i] = a; strings.ContainsAny(a, ` "{}`) {
			shown[i] = "'" + a + "'"
		}
	}
	fmt.Fprintf(s.out, "%s$ go run . %s\n", who, strings.Join(shown, " "))
	if v == nil {
		_, s.err = s.runs(who, args, s.out)
		fmt.Fprintln(s.out)
		return
	}
	if args[1] == "list" { // to look at, and then to read
		_, s.err = s.runs(who, args, s.out)
	}
	var doc []byte
	if s.err == nil {
		doc, s.err = s.runs(who, append(args, "-o", "json"), nil)
	}
	if s.err == nil {
		s.err = json.Unmarshal(doc, v)
	}
	fmt.Fprintln(s.out)
}

func (s *stage) runs(who string, args []string, out io.Writer) ([]byte, error) {
	g, err := graph(s.bank)
	if err != nil {
		return nil, err
	}
	var data, talk bytes.Buffer
	world := app.Env{Name: "go run .", User: who, Stdin: strings.NewReader(""), Stdout: &data, Stderr: &talk, Getenv: func(name string) string {
		if name == "PAWL_DB" {
			return s.db
		}
		return ""
	}}
	if code := app.Run(s.ctx, world, args, g); code != 0 {
		return nil, fmt.Errorf("exit %d: %s", code, &talk)
	}
	if out != nil {
		for line := range strings.Lines(data.String()) {
			fmt.Fprint(out, "    ", line)
		}
	}
	return data.Bytes(), nil
}
