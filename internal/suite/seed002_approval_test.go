package suite

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/storage"
)

// landed compares, for every dispatched operation that was approved, what was approved with what ran, and finds in the trail
// who answered which question and how it was shown. It returns the pairs, and the mismatches by name.
func (o *office) landed(t testing.TB) (pairs int, wrong []string) {
	t.Helper()
	requests := map[string]approval.Request{}
	for _, r := range o.requests(t) {
		requests[r.ID] = r
	}
	for _, op := range o.operations(t) {
		for _, a := range o.attempts(t, op) {
			if a.Grant == "" {
				continue
			}
			pairs++
			r := requests[a.Grant]
			rows, err := audit.Of(context.Background(), o.db, "", r.Operation, 0)
			if err != nil {
				t.Fatal(err)
			}
			told := false
			for _, row := range rows {
				told = told || row.Action == "approval.granted" && row.Approval == a.Grant && row.Actor.ID == r.By && row.View == r.ViewDigest && row.Digest == a.Call
			}
			if r.Call != a.Call || r.Operation != op.Key || r.UsedBy != op.Key || !told {
				wrong = append(wrong, fmt.Sprintf("%s %s ran %.8s on the grant %.8s for %.8s", op.Effect, op.Ref, a.Call, a.Grant, r.Call))
			}
		}
	}
	return pairs, wrong
}

// landsWhereItWasGiven is S002-9. Five calls of two effects, some changed by a person, some killed between yes and call.
func landsWhereItWasGiven(t *testing.T, _ *report) {
	onEachMoney(t, func(t *testing.T, h *home) {
		l := newLedger(t)
		mail, files := financed(l.tool("send_email", nil)), financed(l.tool("delete_files", nil))
		g := atDepth(t, pawl.New[found]("agent").Node("act", func(ctx context.Context, s *found) error {
			info, _ := pawl.TaskFrom(ctx)
			id := info.Info().Thread
			_, err := mail.Do(ctx, effect.Ref("mail", id), params{"to": "staff of " + id})
			_, err2 := files.Do(ctx, effect.Ref("files", id), params{"folder": "/" + id})
			return errors.Join(err, err2)
		}, pawl.Uses(mail, files)).Edge(pawl.Start, "act"))
		o := openOffice(t, h.open(t), g)
		desk := o.led.Desk(o.eng, o.db)
		calls := 0
		for _, id := range []string{"a", "b", "c"} {
			th := o.eng.Thread("agent", id)
			out, err := start(th)
			for err == nil && out.Status == pawl.Waiting {
				q := out.Waiting[0]
				if id == "b" && calls%2 == 0 {
					r := o.request(t, q)
					ann := pawl.WithActor(context.Background(), pawl.Actor{ID: "ann", Groups: []string{"finance"}})
					field := map[string]string{"send_email": "/to", "delete_files": "/folder"}[r.Effect]
					next, err := desk.Edit(ann, r.ID, effect.Edit{Digest: r.Call, Changes: []approval.Change{{Path: field, New: []byte(`"changed"`)}}})
					if err != nil {
						t.Fatal(err)
					}
					q.ID = next.Wait
				}
				o.yes(t, q)
				if calls++; id == "c" { // another process goes on
					o = openOffice(t, h.open(t), g)
					desk, th = o.led.Desk(o.eng, o.db), o.eng.Thread("agent", id)
				}
				out, err = th.Resume(context.Background())
			}
			if err != nil || out.Status != pawl.Done {
				t.Fatalf("%s: %+v, %v", id, out, err)
			}
		}
		pairs, wrong := o.landed(t)
		t.Logf("%d pairs, %d mismatches", pairs, len(wrong))
		if pairs != 6 || len(wrong) != 0 {
			t.Errorf("%d pairs, wrong: %v", pairs, wrong)
		}
		swapGrants(t, o)
		if _, wrong = o.landed(t); len(wrong) != 2 || !strings.Contains(wrong[0]+wrong[1], "delete_files files:a") || !strings.Contains(wrong[0]+wrong[1], "send_email mail:a") {
			t.Errorf("of two swapped grants: %v", wrong)
		}
	})
}

// swapGrants makes the store say that two calls of thread a ran on each other's grant.
func swapGrants(t testing.TB, o *office) {
	t.Helper()
	var at []storage.Row
	ops := o.operations(t)
	err := update(o.db, func(tx tx) error {
		at = nil
		for _, op := range ops {
			if op.Ref.ID != "a" {
				continue
			}
			row, ok, err := tx.Get("attempt", "", op.Key, int64(1))
			if err != nil || !ok {
				return errors.Join(err, errors.New("no attempt"))
			}
			at = append(at, row)
		}
		return nil
	})
	if err != nil || len(at) != 2 {
		t.Fatalf("%d attempts, %v", len(at), err)
	}
	var docs [2]map[string]any
	for i := range at {
		if err := json.Unmarshal(at[i].Body[5:], &docs[i]); err != nil {
			t.Fatal(err)
		}
	}
	docs[0]["grant"], docs[1]["grant"] = docs[1]["grant"], docs[0]["grant"]
	err = update(o.db, func(tx tx) error {
		for i := range at {
			doc, err := json.Marshal(docs[i])
			if err != nil {
				return err
			}
			body := append([]byte{at[i].Body[0], 0, 0, 0, 0}, doc...)
			binary.BigEndian.PutUint32(body[1:], crc32.Checksum(doc, crc32.MakeTable(crc32.Castagnoli)))
			if _, err := tx.Put("attempt", storage.Row{Key: at[i].Key, Body: body}, storage.Always()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// upward asks finance for an hour, then the CFO as well for an hour, then it is a no.
func upward() approval.Levels {
	return approval.Levels{{To: "finance", For: time.Hour}, {To: "cfo", For: time.Hour}}
}

// nobodyAnswers is S002-16: levels, deadlines and the no at their end, whether somebody is awake or nobody is.
func nobodyAnswers(t *testing.T, _ *report) {
	trails := map[string]string{}
	for _, how := range []string{"awake", "asleep", "cfo"} {
		t.Run(how, func(t *testing.T) {
			onEachClock(t, func(t *testing.T, h *home) {
				l := newLedger(t)
				pay := l.tool("pay", nil).Approve(upward())
				g := atDepth(t, pawl.New[found]("refund").Node("pay", func(ctx context.Context, s *found) error {
					_, err := pay.Do(ctx, effect.Ref("refund", "1"), params{"to": "acme"})
					if no := (*effect.DeniedError)(nil); errors.As(err, &no) && no.Expired {
						s.Used.Add("nobody answered")
						return nil
					}
					return err
				}, pawl.Uses(pay)).Edge(pawl.Start, "pay"))
				o := openOffice(t, h.open(t), g)
				out, err := start(o.eng.Thread("refund", "t"))
				q := paused(t, out, err, 1)[0]
				asked := time.Now()
				said := func(to string) int {
					list, err := approval.NewDesk(o.eng, o.db).List(context.Background(), approval.Filter{To: to, State: approval.Requested})
					if err != nil {
						t.Fatal(err)
					}
					return len(list)
				}
				same(t, "told at 0:00", []int{said("finance"), said("cfo")}, []int{1, 0})
				wait := func(until time.Duration) { <-time.After(time.Until(asked.Add(until))) }
				switch how {
				case "asleep":
					wait(10 * time.Minute)
					if err := o.eng.Close(); err != nil {
						t.Fatal(err)
					}
					wait(3 * time.Hour)
					o = openOffice(t, h.open(t), g)
				case "cfo":
					wait(90 * time.Minute)
					same(t, "told at 1:30", []int{said("finance"), said("cfo")}, []int{1, 1})
					o.yes(t, q)
				default:
					timer := approval.NewTimer(o.eng, o.db)
					for m := range 121 {
						wait(time.Duration(m) * time.Minute)
						if _, _, err := timer.Due(context.Background(), 100); err != nil {
							t.Fatal(err)
						}
						if m == 60 {
							same(t, "told at 1:00", []int{said("finance"), said("cfo")}, []int{1, 1})
						}
					}
					same(t, "told at 2:00", []int{said("finance"), said("cfo")}, []int{0, 0})
				}
				out, err = o.eng.Thread("refund", "t").Resume(context.Background())
				if how == "cfo" {
					finished(t, out, err, `{}`)
					same(t, "rows", l.count("pay(to=acme)"), 1)
					return
				}
				finished(t, out, err, `{"used":["nobody answered"]}`)
				same(t, "rows", l.count("pay(to=acme)"), 0)
				rows, err := audit.List(context.Background(), o.db, "", "t", 0, 0)
				if err != nil {
					t.Fatal(err)
				}
				trail := ""
				for _, row := range rows {
					if strings.HasPrefix(row.Action, "approval.") {
						trail += row.Action + " " + strings.NewReplacer(asked.Add(time.Hour).UTC().Format(time.RFC3339), "1:00",
							asked.Add(2*time.Hour).UTC().Format(time.RFC3339), "2:00").Replace(row.Reason) + "\n"
					}
				}
				trails[t.Name()] = trail
			})
		})
	}
	for name, got := range trails {
		same(t, name, got, "approval.requested \napproval.escalated nobody decided by 1:00: level 2, \"cfo\", is asked too, until 2:00\n"+
			"approval.expired nobody decided by 2:00\n")
	}
	same(t, "trails", len(trails), 4)
}

// plainQuestionExpires is the rest of S002-16: a question with an expiry tells the node, or takes its default.
func plainQuestionExpires(t *testing.T, _ *report) {
	onEachClock(t, func(t *testing.T, h *home) {
		plain := pawl.Interrupt[string, string]{Name: "plain", Expires: time.Hour}
		other := pawl.Interrupt[string, string]{Name: "other", Expires: time.Hour, Default: func(string) string { return "the default" }}
		g := atDepth(t, pawl.New[found]("asks").Node("ask", func(ctx context.Context, s *found) error {
			_, err := plain.Ask(ctx, "?")
			answer, err2 := other.Ask(ctx, "?")
			if errors.Is(err, pawl.ErrExpired) && err2 == nil {
				s.Used.Add("expired, " + answer)
				return nil
			}
			return errors.Join(err, err2)
		}, pawl.Uses(plain, other)).Edge(pawl.Start, "ask"))
		o := openOffice(t, h.open(t), g)
		out, err := start(o.eng.Thread("asks", "t"))
		paused(t, out, err, 2)
		<-time.After(time.Hour)
		out, err = o.eng.Thread("asks", "t").Resume(context.Background())
		finished(t, out, err, `{"used":["expired, the default"]}`)
	})
}
