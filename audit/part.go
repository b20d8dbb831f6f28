package audit

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
)

// Part writes a row for each call of a verb: put it into pawl.Options.Parts, before the parts that write what a verb
// brings about. The row is in the Update that does the verb, and its action is the verb's: "thread.run", "thread.resume",
// "thread.retry", "thread.fork", "thread.replay", "thread.edit", "thread.cancel", "thread.delete", and "question.answer". What
// is done to a graph, "graph.drain" and "graph.clear", is of no thread: the graph, or its node, is the row's Ref.
// A call that had nothing to do is one too. A call that was refused changed nothing, so its row is in an Update of its
// own: the action ends with ".refused", and Reason says why.
//
// Decisions of approvals and doubts write rows of their own. Reading writes none.
type Part struct{}

var (
	_ pawl.VerbPart    = Part{}
	_ pawl.RefusalPart = Part{}
)

// Name is "audit".
func (Part) Name() string { return "audit" }

// Digest is of what is written.
func (Part) Digest() string { return "pawl.audit.part.1" }

// Verb writes the row of a verb.
func (Part) Verb(_ context.Context, tx storage.Tx, v pawl.VerbInfo) ([]pawl.Note, error) {
	if v.Verb == pawl.VerbRead || v.Stage == pawl.StageStopped { // who asked for it is written already
		return nil, nil
	}
	return nil, Write(tx, rowOf(v))
}

// Refused writes the row of a call that was turned away.
func (Part) Refused(_ context.Context, tx storage.Tx, v pawl.VerbInfo, why error) error {
	r := rowOf(v)
	r.Action += ".refused"
	r.Reason = brief(reason(why))
	return Write(tx, r)
}

func rowOf(v pawl.VerbInfo) Row {
	r := Row{
		Tenant: v.Tenant, Thread: v.Thread, Run: v.Run, Attempt: v.Attempt, Actor: v.Actor, Action: "thread." + string(v.Verb),
		Digest: v.Digest, View: v.View, Reason: brief(v.Reason),
	}
	switch {
	case v.Verb == pawl.VerbAnswer:
		r.Action, r.Question = "question.answer", brief(v.Question)
	case v.Verb == pawl.VerbDrain || v.Verb == pawl.VerbClear:
		r.Action, r.Ref = "graph."+string(v.Verb), brief(v.Graph)
		if v.Name != "" {
			r.Ref = brief(v.Graph + "|" + v.Name)
		}
		fallthrough
	case v.From != "" || v.To != "":
		r.Before, r.After = v.From, v.To
	}
	return r
}

// reason is a refusal in words that hold nothing of what was asked or answered.
func reason(why error) string {
	if bad := (*pawl.AnswerError)(nil); errors.As(why, &bad) {
		return string(bad.Reason)
	}
	return why.Error()
}

// brief keeps what a caller chose short enough for the trail.
func brief(s string) string {
	const most = 500
	if len(s) > most {
		s = s[:most] + "..."
	}
	return s
}
