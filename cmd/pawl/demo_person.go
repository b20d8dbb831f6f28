package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/internal/cli"
)

// decide decides the payment that waits in a thread: the person does, or the script.
func (t *tour) decide(ctx context.Context, thread string) (yes bool, err error) {
	open, err := t.Approvals().List(ctx, approval.Filter{State: approval.Requested, Thread: thread})
	if err != nil {
		return false, err
	}
	if len(open) != 1 {
		return false, fmt.Errorf("thread %s waits for %d approvals, and should for 1", thread, len(open))
	}
	q := open[0]
	var view struct {
		Params json.RawMessage `json:"params"`
	}
	if err := json.Unmarshal(q.View, &view); err != nil {
		return false, err
	}
	t.tell("\n      effect    %s %s\n      call      %s\n      digest    %s\n      asked of  %s, for %.0f minutes; who started it may approve it here\n",
		q.Effect, q.Ref, view.Params, q.Call, q.To, q.Due.Sub(q.Requested).Minutes())
	who, yes := "The script", true
	if t.ask {
		who = "You"
		if yes, err = t.person(ctx); err != nil {
			return false, err
		}
	}
	before, err := t.counts.of(thread)
	if err != nil {
		return false, err
	}
	ctx = pawl.WithActor(ctx, t.approver(ctx))
	if !yes {
		_, err = t.Approvals().Reject(ctx, q.ID, approval.Decision{Digest: q.Call, Reason: "no, said in the demo"})
		t.say("%s: no. It is recorded, with who said it.", who)
		return false, err
	}
	if _, err = t.Approvals().Approve(ctx, q.ID, approval.Decision{Digest: q.Call}); err != nil {
		return false, err
	}
	t.approved[thread] = before[countLine]["pay"]
	t.say("%s: yes. It allows this very call, once.", who)
	return true, nil
}

// approver is whoever runs the demo, as a member of the group that decides.
func (t *tour) approver(ctx context.Context) pawl.Actor {
	a := pawl.ActorFrom(ctx)
	if !t.ask {
		a = pawl.Actor{ID: "the demo's script", Kind: "unverified"}
	}
	a.Groups = append(slices.Clone(a.Groups), refundDesk)
	return a
}

// person asks whoever sits at the terminal.
func (t *tour) person(ctx context.Context) (yes bool, err error) {
	begin := time.Now()
	defer func() { t.thought += time.Since(begin) }()
	return cli.Await(ctx, func() (bool, error) {
		for range 3 {
			fmt.Fprint(t.prompt, "   Approve this call? [y/n] ")
			if !t.in.Scan() {
				break
			}
			switch strings.ToLower(strings.TrimSpace(t.in.Text())) {
			case "y", "yes":
				return true, nil
			case "n", "no":
				return false, nil
			}
		}
		return false, &cli.Error{Code: cli.Usage, Err: errors.New("there was no answer of y or n; with --yes the demo answers itself")}
	})
}
