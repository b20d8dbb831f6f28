package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
)

// answerView is what became of an answer. It is printed for refusals too.
type answerView struct {
	Verdict  string          `json:"verdict"` // taken, already, submitted, or why not
	Question string          `json:"question"`
	Name     string          `json:"name,omitempty"`
	Thread   string          `json:"thread,omitempty"`
	Graph    string          `json:"graph,omitempty"`
	Digest   string          `json:"digest,omitempty"`
	Answer   json.RawMessage `json:"answer,omitempty"` // the one that stands
	By       string          `json:"by,omitempty"`
	At       time.Time       `json:"at,omitzero"`
	Reason   string          `json:"reason,omitempty"`
	Newest   string          `json:"newest,omitempty"` // the open question that took its place
	Faults   []string        `json:"faults"`           // what is wrong with the answer, field by field
	Message  string          `json:"message,omitempty"`
}

const aboutAnswer = `Answer a question by its id, or by the start of it that no other has.

VALUE is JSON; for a question that takes text, plain text will do. "-" reads it from the standard input. With --digest the
answer is given only to what was seen: pawl threads show prints the digest. Answering does not run the thread.

Verdicts: taken, already (the same answer stood), submitted (the graph's program checks it before it counts);
exit 1: refused by the question's type or rule; 2: VALUE is no JSON; 3: no such question;
5: answered otherwise, expired, changed, withdrawn, or another digest.`

func (p *Program) answer() *cobra.Command {
	var digest string
	c := &cobra.Command{
		Use: "answer ID VALUE|-", Short: "Answer an open question", Long: aboutAnswer, Args: p.takes(2, "a question's id and a value"),
		Example: `  pawl answer 3f9c27 yes --reason "checked with finance"
  echo '{"ok": true}' | pawl answer 3f9c27 - -o json`,
		ValidArgsFunction: p.completeQuestions,
		RunE: func(cmd *cobra.Command, args []string) error {
			given, err := p.text(cmd.Context(), args[1])
			if err != nil {
				return err
			}
			return p.within(cmd.Context(), func(h *home) error {
				v, failure := p.give(cmd.Context(), h.eng, args[0], given, digest)
				if v == nil {
					return failure
				}
				if failure != nil && !p.JSON() {
					return failure
				}
				return errors.Join(failure, p.Emit(v, func(g *Page) { v.print(g, p) }))
			})
		},
	}
	c.Flags().StringVar(&digest, "digest", "", "answer only if the question has this `digest`")
	p.reasonFlag(c, "`why`; kept with the answer")
	return c
}

// most is how much is read from the standard input.
const most = 16 << 20

func (p *Program) text(ctx context.Context, arg string) (string, error) {
	if arg != "-" {
		return arg, nil
	}
	doc, err := Await(ctx, func() ([]byte, error) { return io.ReadAll(io.LimitReader(p.Stdin, most+1)) })
	switch {
	case err != nil:
		return "", fmt.Errorf("reading the standard input: %w; nothing was done", err)
	case len(doc) > most:
		return "", &Error{Usage, fmt.Errorf("the standard input is longer than %d bytes; nothing was done", most)}
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(doc), "\n"), "\r"), nil
}

// give sends the answer. The view tells of refusals too; it is nil only if there is nothing to tell of.
func (p *Program) give(ctx context.Context, eng *pawl.Engine, id, given, digest string) (*answerView, error) {
	q, err := p.question(ctx, eng, id)
	if errors.Is(err, pawl.ErrNotFound) {
		return &answerView{Verdict: "not found", Question: id, Faults: []string{}, Message: err.Error()}, err
	}
	if err != nil {
		return nil, err
	}
	v := viewOfQuestion(q)
	if digest != "" && digest != q.Digest { // an id names one body for ever, so this cannot become wrong meanwhile
		err := &Error{Conflict, fmt.Errorf("question %s has the digest %s, not %s as given: look at it again with %s; nothing was answered",
			q.ID, q.Digest, digest, p.Command("threads show %s", ShellWord(q.Thread)))}
		v.Verdict, v.Message = "other digest", err.Error()
		return v, err
	}
	value, err := valueFor(q, given)
	if err != nil {
		v.Verdict, v.Faults, v.Message = "not json", []string{err.Error()}, err.Error()
		return v, err
	}
	verdict, err := eng.Answer(ctx, q.ID, value, pawl.Reason(p.reason))
	if refusal := (*pawl.AnswerError)(nil); errors.As(err, &refusal) {
		v.Verdict, v.Message, v.Newest = string(refusal.Reason), err.Error(), refusal.Newest
		v.Faults = append(v.Faults, refusal.Faults...)
		return v, err
	}
	if err != nil {
		return nil, err
	}
	v = viewOfQuestion(&verdict.Question)
	switch {
	case verdict.Submitted:
		v.Verdict = "submitted"
	case verdict.Already:
		v.Verdict = "already"
	default:
		v.Verdict = "taken"
	}
	return v, nil
}

func viewOfQuestion(q *pawl.Question) *answerView {
	return &answerView{
		Question: q.ID, Name: q.Name, Thread: q.Thread, Graph: q.Graph, Digest: q.Digest, Answer: q.Answer, By: q.By, At: q.At.UTC(),
		Reason: q.Reason, Faults: []string{},
	}
}

// valueFor reads an answer as the question wants it: JSON, or the text itself where only text is taken.
func valueFor(q *pawl.Question, given string) (json.RawMessage, error) {
	var text string
	var schema struct {
		Type any `json:"type"`
	}
	if json.Unmarshal(q.Schema, &schema) == nil && schema.Type == "string" && json.Unmarshal([]byte(given), &text) != nil {
		return json.Marshal(given)
	}
	var value any
	d := json.NewDecoder(strings.NewReader(given))
	d.UseNumber()
	err := d.Decode(&value)
	if err == nil && len(bytes.TrimSpace([]byte(given[d.InputOffset():]))) > 0 {
		err = errors.New("there is more after the first value")
	}
	if err != nil {
		return nil, &Error{Usage, fmt.Errorf("the answer to %q is no JSON: %w; text needs quotes, as in '\"yes\"'; nothing was answered", q.Name, err)}
	}
	return json.RawMessage(given), nil
}

func (v *answerView) print(g *Page, p *Program) {
	said := fmt.Sprintf("%s to %s of thread %s by %s (unverified)", short(compact(v.Answer), widest), v.Name, v.Thread, v.By)
	switch v.Verdict {
	case "submitted":
		g.Line("submitted: %s", said)
		g.Line("The program that has graph %q checks it before its node runs; if it refuses, the question is open again.", v.Graph)
	case "already":
		g.Line("already answered: %s, %s; nothing changed", said, g.Ago(v.At))
	default:
		g.Line("answered: %s", said)
	}
	g.Line("Look: %s", p.Command("threads show %s", ShellWord(v.Thread)))
	if p.serves(v.Graph) {
		g.Line("Go on: %s", p.Command("runs resume %s", ShellWord(v.Thread)))
		return
	}
	g.Line("The thread goes on with a resume, or a worker, of the program that has graph %q.", v.Graph)
}

// completeQuestions offers open questions to the shell.
func (p *Program) completeQuestions(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	var ids []string
	if len(args) == 0 && p.settle(cmd) == nil {
		_ = p.within(cmd.Context(), func(h *home) error {
			open, err := h.eng.Questions(cmd.Context(), 1000)
			for _, q := range open {
				if strings.HasPrefix(q.ID, begun) {
					ids = append(ids, q.ID+"\t"+q.Name+" of "+q.Thread)
				}
			}
			return err
		})
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}
