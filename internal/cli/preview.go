package cli

import (
	"context"
	"strings"

	"github.com/pawl-dev/pawl"
)

// previewView is what a verb would do.
type previewView struct {
	Verb     string           `json:"verb"`
	Thread   string           `json:"thread"`
	Point    string           `json:"point,omitempty"`
	Enter    []pawl.TaskState `json:"enter"`    // nodes that would be entered from their first line
	Wait     []pawl.TaskState `json:"wait"`     // nodes that would go on waiting
	Kept     []pawl.TaskState `json:"kept"`     // nodes that ended, and would not run again
	Withdraw []pawl.Question  `json:"withdraw"` // open questions that would end
	Notes    []pawl.Note      `json:"notes"`    // what effects, and other parts, have to say
	Refused  string           `json:"refused,omitempty"`
	Action   string           `json:"action"` // the command that does it
}

// showPreview prints a preview. A verb that would be refused ends with the exit code of its refusal.
func (p *Program) showPreview(v previewView, pre *pawl.Preview) error {
	v.Enter, v.Wait, v.Kept = append([]pawl.TaskState{}, pre.Enter...), append([]pawl.TaskState{}, pre.Wait...), append([]pawl.TaskState{}, pre.Kept...)
	v.Withdraw, v.Notes = append([]pawl.Question{}, pre.Withdraw...), append([]pawl.Note{}, pre.Notes...)
	if pre.Refused != nil {
		v.Refused = pre.Refused.Error()
	}
	if err := p.Emit(v, func(g *Page) { v.print(g) }); err != nil {
		return err
	}
	return pre.Refused
}

func (v *previewView) print(g *Page) {
	at := ""
	if v.Point != "" {
		at = " from " + v.Point
	}
	g.Line("%s of thread %s%s; nothing was changed. It would:", v.Verb, v.Thread, at)
	said := false
	line := func(format string, args ...any) { said = true; g.Line("  "+format, args...) }
	for _, t := range v.Enter {
		kept := ""
		if len(t.Steps) > 0 {
			kept = " (recorded and not called again: " + strings.Join(t.Steps, ", ") + ")"
		}
		line("run %s from its first line%s", t.Node, kept)
	}
	for _, t := range v.Kept {
		line("keep what %s did", t.Node)
	}
	for _, t := range v.Wait {
		line("leave %s waiting", t.Node)
	}
	for _, q := range v.Withdraw {
		line("withdraw %s (%s) of node %s", q.Name, q.ID[:12], q.Node)
	}
	for _, n := range v.Notes {
		line("%s: %s", n.Part, n.Text)
	}
	switch {
	case v.Refused != "":
		line("be refused")
	case !said:
		line("touch nothing else")
	}
	if v.Refused == "" {
		g.Line("Do it: %s", v.Action)
	}
}

func (p *Program) previewResume(ctx context.Context, t *pawl.Thread) error {
	pre, err := t.PreviewResume(ctx)
	if err != nil {
		return err
	}
	return p.showPreview(previewView{Verb: "resume", Thread: t.ID(), Action: p.Command("runs resume %s", ShellWord(t.ID()))}, pre)
}

func (p *Program) previewVerb(ctx context.Context, t *pawl.Thread, verb pawl.Verb, action string) error {
	pre, err := t.PreviewVerb(ctx, verb)
	if err != nil {
		return err
	}
	return p.showPreview(previewView{Verb: string(verb), Thread: t.ID(), Action: p.Command("%s", action)}, pre)
}
