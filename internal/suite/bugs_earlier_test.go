package suite

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/internal/house"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/sqlite"
)

// Each release leaves a database behind that all later ones must read: testdata/NAME.db.gz, and beside it what stands in it.
// Its graphs are those below, which never change. go test ./internal/suite -run TestBugs/041 -args -earlier=NAME writes one
// more; nothing writes over one that is there.
var newEarlier = flag.String("earlier", "", "write the database of this release for later ones, in testdata")

// earlierState has a channel of every kind.
type earlierState struct {
	Doc  pawl.Last[string]        `json:"doc"`
	Log  pawl.Append[string]      `json:"log"`
	Sum  pawl.Sum[int64]          `json:"sum"`
	Map  pawl.Map[string, string] `json:"map"`
	Pass pawl.Once[string]        `json:"pass"`
	Note pawl.Ephemeral[string]   `json:"note"`
	Most pawl.Fold[int, highest]  `json:"most"`
	Kept pawl.Last[string]        `json:"kept" pawl:"private"`
}

type highest struct{}

func (highest) Fold(have, in int) int { return max(have, in) }

var (
	earlierOK = pawl.Interrupt[string, string]{Name: "ok"}
	earlierW  = pawl.NewWorker("each", func(_ context.Context, s *earlierState, n int) error {
		s.Log.Add(fmt.Sprint("each ", n))
		s.Most.Add(n)
		return nil
	})
)

func earlierAsks(ctx context.Context, s *earlierState) error {
	rate, err := pawl.Step(ctx, "rate", func(context.Context) (int, error) { return 7, nil })
	if err != nil {
		return err
	}
	answer, err := earlierOK.Ask(ctx, fmt.Sprint(s.Doc.Get(), " at ", rate))
	if err == nil {
		s.Log.Add(answer)
	}
	return err
}

// earlierGraph goes through channels of every kind, a loop, workers, a step, a question and a join.
func earlierGraph(t *testing.T) *pawl.Graph[earlierState] {
	return build(t, pawl.New[earlierState]("earlier").
		Node("round", func(_ context.Context, s *earlierState) error {
			n := s.Sum.Get()
			s.Sum.Add(1)
			s.Log.Add(fmt.Sprint("round ", n))
			s.Map.Set(fmt.Sprint("key ", n%3), fmt.Sprint("value ", n))
			s.Note.Set("for the next")
			s.Pass.Put("pass")
			s.Kept.Set("kept")
			return nil
		}).
		Node("take", func(_ context.Context, s *earlierState) error {
			pass, _ := s.Pass.Take()
			s.Log.Add(pass, s.Note.Get(), s.Kept.Get())
			return nil
		}).
		Add(earlierW).
		Node("review", earlierAsks, pawl.Uses(earlierOK)).
		Node("aside", func(_ context.Context, s *earlierState) error { s.Map.Set("aside", "done"); return nil }).
		Node("end", func(_ context.Context, s *earlierState) error { s.Doc.Set(s.Doc.Get() + ", ended"); return nil }).
		Edge(pawl.Start, "round").
		Route("round", func(s *earlierState) []pawl.Next {
			if s.Sum.Get() < 5 {
				return pawl.To("round")
			}
			return pawl.To("take")
		}, "round", "take").
		Route("take", func(*earlierState) []pawl.Next { return earlierW.Each([]int{1, 2}) }, "each").
		Edge("each", "review").Edge("each", "aside").Join([]string{"aside", "review"}, "end"))
}

// earlierOuter has a child that asks.
func earlierOuter(t *testing.T, name string, mode pawl.ChildMode) *pawl.Graph[earlierState] {
	inner := build(t, pawl.New[earlierState]("inner").Node("ask", earlierAsks, pawl.Uses(earlierOK)).Path(pawl.Start, "ask"))
	return build(t, pawl.New[earlierState](name).Add(pawl.Sub(inner.Child("inner", mode),
		func(s *earlierState) *earlierState { return &earlierState{Doc: pawl.Of(s.Doc.Get())} },
		func(s *earlierState, r *pawl.Result[earlierState]) error {
			s.Log.Add(fmt.Sprint("the child has ", r.State.Log.Len()))
			return nil
		})).Path(pawl.Start, "inner"))
}

func earlierPay(t *testing.T, target bank) *pawl.Graph[payment] {
	e := wireAs("earlier.transfer", target).Approve(approval.Levels{{To: "finance"}})
	return build(t, pawl.New[payment]("earlier-pay").Node("first", noop).Node("pay", pays(e), pawl.Uses(e)).Path(pawl.Start, "first", "pay"))
}

// earlierHome is a program over an earlier database. Its key is no secret.
type earlierHome struct {
	*firm
	target *pawltest.Target
	all    *pawl.Graph[earlierState]
	nested *pawl.Graph[earlierState]
	memory *pawl.Graph[earlierState]
	pay    *pawl.Graph[payment]
}

func openEarlier(t *testing.T, path string) *earlierHome {
	t.Helper()
	db, err := sqlite.Open(path, house.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	o, err := openFirmAs(db, "", effect.Options{Policy: "policy-1"}, audit.Part{})
	if err != nil {
		t.Fatal(err)
	}
	target := pawltest.NewTarget(pawltest.TargetOpaque)
	return &earlierHome{o, target, earlierGraph(t), earlierOuter(t, "earlier-outer", pawl.Inherit),
		earlierOuter(t, "earlier-memory", pawl.PerThread), earlierPay(t, target)}
}

func (h *earlierHome) close(t *testing.T) {
	t.Helper()
	if r := h.verified(t); !r.Honest() {
		t.Errorf("the trail: %+v", r.Findings)
	}
	h.eng.Close()
	if err := h.db.Close(); err != nil {
		t.Error(err)
	}
}

// fill makes the threads of an earlier database.
func (h *earlierHome) fill(t *testing.T) {
	t.Helper()
	ctx := actor("ann")
	in := func(doc string) *earlierState { return &earlierState{Doc: pawl.Of(doc)} }
	out, err := h.all.Thread(h.eng, "paused").Run(ctx, in("paused"))
	mustWaitFor(t, out, err, 1)
	forked := h.all.Thread(h.eng, "forked")
	out, err = forked.Run(ctx, in("forked"))
	mustWaitFor(t, out, err, 1)
	out, err = forked.Resume(ctx, pawl.AnswerWith("", "yes"))
	mustBeDone(t, out, err)
	out, err = forked.Fork(ctx, pawl.Before("take"), func(s *earlierState) error { s.Doc.Set("the fork"); return nil })
	mustWaitFor(t, out, err, 1)
	out, err = h.nested.Thread(h.eng, "nested").Run(ctx, in("nested"))
	mustWaitFor(t, out, err, 1)
	memory := h.memory.Thread(h.eng, "memory")
	out, err = memory.Run(ctx, in("memory"))
	mustWaitFor(t, out, err, 1)
	out, err = memory.Resume(ctx, pawl.AnswerWith("", "yes"))
	mustBeDone(t, out, err)
	for _, id := range []string{"paid", "asked"} {
		th := h.pay.Thread(h.eng, id)
		paid, err := th.Run(ctx, orderFor(id))
		mustWaitFor(t, paid, err, 1)
		if id == "paid" {
			h.yes(t)
			paid, err = th.Resume(ctx)
			mustBeDone(t, paid, err)
		}
	}
}

// shows is all that is there to be read, without what a later release may tell besides.
func (h *earlierHome) shows(t *testing.T) string {
	t.Helper()
	ctx := context.Background()
	out := map[string][]string{}
	for name, th := range map[string]*pawl.Thread{
		"paused": h.all.Thread(h.eng, "paused").Thread, "forked": h.all.Thread(h.eng, "forked").Thread,
		"nested": h.nested.Thread(h.eng, "nested").Thread, "memory": h.memory.Thread(h.eng, "memory").Thread,
		"paid": h.pay.Thread(h.eng, "paid").Thread, "asked": h.pay.Thread(h.eng, "asked").Thread,
	} {
		s, err := th.State(ctx)
		if err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprintf("%s %s", s.Status, s.Values)
		for _, q := range s.Waiting {
			line += fmt.Sprintf("; %s %s %s %s", q.ID, q.Name, q.Path, q.Body)
		}
		out[name] = append(out[name], line)
		history, err := th.History(ctx, pawl.Page{})
		if err != nil {
			t.Fatal(err)
		}
		for _, snap := range history {
			out[name] = append(out[name], fmt.Sprintf("%s %d %s %s %v", snap.Checkpoint, snap.Step, snap.Source, snap.Values, snap.Next))
		}
		rows, err := audit.List(ctx, h.db, "t1", name, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			out[name] = append(out[name], fmt.Sprintf("audit %d %s %s %x", r.N, r.Actor.ID, r.Action, r.Hash))
		}
	}
	doc, err := json.MarshalIndent(out, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	return string(doc) + "\n"
}

// earlierHistories is 041: a database of each earlier release is read, and what waits in it goes on: answers, approvals,
// forks, further runs; an effect that was done is not done again.
func earlierHistories(t *testing.T, _ *report) {
	if *newEarlier != "" {
		writeEarlier(t, filepath.Join("testdata", *newEarlier))
	}
	found, err := filepath.Glob(filepath.Join("testdata", "*.db.gz"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no database of an earlier release, %v", err)
	}
	for _, file := range found {
		name := strings.TrimSuffix(file, ".db.gz")
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Run("reads", func(t *testing.T) {
				h := openEarlier(t, unpacked(t, file))
				defer h.close(t)
				same(t, "what stands there", h.shows(t), contents(t, name+".json"))
			})
			t.Run("goes on", func(t *testing.T) {
				h := openEarlier(t, unpacked(t, file))
				defer h.close(t)
				h.goesOn(t)
			})
		})
	}
}

func (h *earlierHome) goesOn(t *testing.T) {
	ctx := actor("bob")
	all := func(doc, answer string) string {
		return fmt.Sprintf(`{"doc":"%s, ended","log":["round 0","round 1","round 2","round 3","round 4","pass","for the next","kept",`+
			`"each 1","each 2",%q],"sum":5,"map":{"aside":"done","key 0":"value 3","key 1":"value 4","key 2":"value 2"},"most":2}`, doc, answer)
	}
	th := h.all.Thread(h.eng, "paused")
	open, err := h.eng.Questions(ctx, 0)
	if err != nil || len(open) != 4 {
		t.Fatalf("%d questions are open, %v", len(open), err)
	}
	if _, err := th.Answer(ctx, "", "said later"); err != nil {
		t.Fatal(err)
	}
	out, err := th.Resume(ctx)
	same(t, "paused", mustBeDone(t, out, err), all("paused", "said later"))
	out, err = th.Fork(ctx, pawl.Before("each"), func(s *earlierState) error { s.Doc.Set("changed"); return nil })
	mustWaitFor(t, out, err, 1)
	out, err = th.Resume(ctx, pawl.AnswerWith("", "once more"))
	same(t, "a fork", mustBeDone(t, out, err), all("changed", "once more"))
	out, err = h.all.Thread(h.eng, "forked").Resume(ctx, pawl.AnswerWith("", "on the branch"))
	same(t, "forked", mustBeDone(t, out, err), all("the fork", "on the branch"))

	out, err = h.nested.Thread(h.eng, "nested").Resume(ctx, pawl.AnswerWith("", "inside"))
	same(t, "nested", mustBeDone(t, out, err), `{"doc":"nested","log":["the child has 1"]}`)
	memory := h.memory.Thread(h.eng, "memory")
	out, err = memory.Run(ctx, &earlierState{Doc: pawl.Of("again")})
	mustWaitFor(t, out, err, 1)
	out, err = memory.Resume(ctx, pawl.AnswerWith("", "yes"))
	same(t, "memory", mustBeDone(t, out, err), `{"doc":"again","log":["the child has 1","the child has 2"]}`)

	paid := h.pay.Thread(h.eng, "paid")
	before, err := paid.State(ctx)
	if err != nil {
		t.Fatal(err)
	}
	again, err := paid.Fork(ctx, pawl.Before("pay"), nil)
	same(t, "paid", mustBeDone(t, again, err), string(before.Values))
	same(t, "requests of what was paid", h.target.Count().Requests, 0)
	if h.yes(t) != 1 {
		t.Error("the approval that was asked for is not open")
	}
	now, err := h.pay.Thread(h.eng, "asked").Resume(ctx)
	mustBeDone(t, now, err)
	same(t, "rows of the target", h.target.Count().Rows, 1)
}

// writeEarlier writes the database of this release, and what stands in it.
func writeEarlier(t *testing.T, name string) {
	if _, err := os.Stat(name + ".db.gz"); err == nil {
		t.Fatalf("%s is there already: it stays as it is", name)
	}
	path := newFile(t)
	h := openEarlier(t, path)
	h.fill(t)
	h.close(t)
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write([]byte(contents(t, path))); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	h = openEarlier(t, path)
	shows := h.shows(t)
	h.close(t)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	for file, doc := range map[string]string{".db.gz": packed.String(), ".json": shows} {
		if err := os.WriteFile(name+file, []byte(doc), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// unpacked is a copy of a database that may be changed.
func unpacked(t *testing.T, file string) string {
	t.Helper()
	z, err := gzip.NewReader(strings.NewReader(contents(t, file)))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	path := newFile(t)
	if err := os.WriteFile(path, doc, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
