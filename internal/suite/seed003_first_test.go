package suite

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/app"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
)

// keyBeforeFirstByte is S003-6: what the target finds in the worker's database when the first byte comes, and what is
// there after the worker was killed at that instant.
func keyBeforeFirstByte(t *testing.T, _ *report) {
	at := startBank(t)
	for _, mode := range allTargets {
		t.Run(string(mode), func(t *testing.T) {
			three(t, func(t *testing.T) string {
				path := newFile(t)
				f := &fate{home: moneyHome(t, path), bank: &remoteBank{URL: at, Book: t.Name(), mode: mode}}
				f.bank.plan(t, bankPlan{Kill: pawltest.TargetReceived, Look: path})
				o := firmIn(t, f.home)
				out, err := f.thread(t, o, "t").Run(context.Background(), orderFor("17"), pawl.RunID("run-t"))
				mustWaitFor(t, out, err, 1)
				o.yes(t)
				o.eng.Close()
				killed(t, "003-clerk", clerk{Path: path, Bank: at, Book: t.Name(), Thread: "t", Policy: "policy-1", Mode: mode})

				b := f.bank.books(t)
				same(t, "the target saw", b.Count, pawltest.TargetCount{Requests: 1})
				found := b.Found
				same(t, "what the target read", strings.HasPrefix(found, "true t1 bank.transfer invoice:17 dispatched "+compact(hundred)+
					" policy policy-1, grant consumed true"), true)
				dead := firmIn(t, f.home)
				now, err := dead.effects.Show(context.Background(), b.Keys[0])
				if err != nil {
					t.Fatal(err)
				}
				same(t, "what is there after the death", knownAtFirst(now, b.Keys[0]), found)
				r := dead.requests(t, approval.Consumed)
				if len(r) != 1 || r[0].ID != now.Operation.Grant || r[0].UsedBy != b.Keys[0] || now.Request.Rev == 0 {
					t.Errorf("grants %+v, operation of %q", r, now.Operation.Grant)
				}
				text := shownByProgram(t, path, b.Keys[0])
				for _, part := range []string{b.Keys[0][:12], "bank.transfer", "invoice:17", "acme", "100.00", "EUR", "dispatched", r[0].ID} {
					if !strings.Contains(text, part) {
						t.Errorf("effects show does not print %q:\n%s", part, text)
					}
				}
				return strings.ReplaceAll(found, b.Keys[0], "KEY")
			})
		})
	}
}

// knownAtFirst is what of an operation must be there before the first byte, as far as it is the same in every run.
func knownAtFirst(s *effect.Shown, key string) string {
	op := s.Operation
	if s.Request == nil {
		return "no request"
	}
	granted := s.Request.State == approval.Consumed && s.Request.ID == op.Grant && s.Request.UsedBy == op.Key && s.Request.Rev > 0
	return fmt.Sprintf("%v %s %s %s %s %s policy %s, grant consumed %v (revision %d), attempts %d (%d rows)", op.Key == key, op.Tenant,
		op.Effect, op.Ref, op.State, s.Params, op.Policy, granted, s.Request.Rev, op.Attempts, len(s.Attempts))
}

// shownByProgram is what the command line prints.
func shownByProgram(t testing.TB, path, key string) string {
	t.Helper()
	var out, talk bytes.Buffer
	env := app.Env{Name: "pawl", Stdin: strings.NewReader(""), Stdout: &out, Stderr: &talk, User: "ops", Getenv: func(name string) string {
		return map[string]string{"PAWL_DB": path, "PAWL_TENANT": "t1"}[name]
	}}
	if code := app.Run(context.Background(), env, []string{"effects", "show", key[:12], "-o", "json"}); code != 0 && code != 8 {
		t.Fatalf("effects show ends with %d: %s", code, talk.String())
	}
	return out.String()
}
