package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit/proof"
	"github.com/pawl-dev/pawl/internal/house"
)

// note is the state of the fixtures' graphs.
type note struct {
	Text pawl.Last[string] `json:"text"`
}

// offer is an answer with fields and a rule.
type offer struct {
	Amount int    `json:"amount"`
	Note   string `json:"note"`
}

var (
	ship  = pawl.Interrupt[string, string]{Name: "ship"}
	limit = pawl.Interrupt[string, offer]{Name: "limit", Check: func(_ string, a offer) error {
		if a.Amount > 100 {
			return errors.New("amount: at most 100")
		}
		return nil
	}}
	plain = pawl.Interrupt[string, offer]{Name: "plain"}
	brief = pawl.Interrupt[string, string]{Name: "brief", Expires: time.Nanosecond}
)

func asking[A any](in pawl.Interrupt[string, A]) func(context.Context, *note) error {
	return func(ctx context.Context, s *note) error {
		fmt.Println(in.Name, "node entered")
		text, err := pawl.Step(ctx, "draft", func(context.Context) (string, error) { return "Ship it?", nil })
		if err != nil {
			return err
		}
		answer, err := in.Ask(ctx, text+os.Getenv("CHANGED"))
		if err != nil {
			return err
		}
		fmt.Printf("resumed with '%v'\n", answer)
		s.Text.Set(fmt.Sprint(answer))
		return nil
	}
}

func fixtureGraphs() (map[string]*pawl.Graph[note], error) {
	graphs := map[string]*pawl.Graph[note]{}
	var all error
	add := func(g *pawl.Graph[note], err error) {
		if all = errors.Join(all, err); err == nil {
			graphs[g.Name()] = g
		}
	}
	one := func(name string, fn func(context.Context, *note) error, o ...pawl.NodeOption) {
		add(pawl.New[note](name).Node(name, fn, o...).Edge(pawl.Start, name).Build())
	}
	one("ship", asking(ship), pawl.Uses(ship))
	one("limit", asking(limit), pawl.Uses(limit))
	one("plain", asking(plain), pawl.Uses(plain))
	one("brief", asking(brief), pawl.Uses(brief))
	one("fail", func(context.Context, *note) error { return errors.New("the provider \x1b[31msaid no") })
	one("stop", func(context.Context, *note) error { return pawl.Conclude("nothing to do") })
	one("crash", func(ctx context.Context, _ *note) error {
		_, err := pawl.Step(ctx, "charge", func(context.Context) (int, error) { return 1, nil })
		if self, gone := os.FindProcess(os.Getpid()); err == nil && gone == nil {
			_ = self.Kill()
			<-ctx.Done()
		}
		return err
	})
	add(pawl.New[note]("form").Add(pawl.AskNode(ship, func(*note) string { return "Sure?" },
		func(s *note, a string) error { s.Text.Set(a); return nil })).Edge(pawl.Start, "ship").Build())
	return graphs, all
}

// fixture is the program with the graphs' code: it makes what the scripts look at.
//
//	run|resume DB GRAPH THREAD · question|digest DB THREAD · newer|damaged FILE · flip FILE TEXT · verify EXPORT ANCHORS
func fixture(args []string) int {
	err := func() error {
		switch args[0] {
		case "newer":
			return patch(args[1], 60, []byte{0, 0, 0, 99}) // the header's user_version
		case "damaged":
			return patch(args[1], 8192, make([]byte, 8192))
		case "flip":
			at, err := places(args[1], args[2])
			for _, at := range at {
				err = errors.Join(err, flip(args[1], at+int64(len(args[2])/2)))
			}
			return err
		case "verify":
			return fixtureVerify(args[1], args[2])
		case "run", "resume":
			return fixtureRun(args[0], args[1], args[2], args[3])
		}
		return fixtureQuestion(args[0], args[1], args[2])
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func patch(path string, at int64, bytes []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(bytes, at)
	return errors.Join(err, f.Close())
}

func fixtureEngine(path string, use func(*pawl.Engine) error) error {
	db, err := house.OpenFile(path)
	if err != nil {
		return err
	}
	eng, err := pawl.NewEngine(db, nil)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	return errors.Join(use(eng), eng.Close(), db.Close())
}

func fixtureRun(verb, path, graph, thread string) error {
	return fixtureEngine(path, func(eng *pawl.Engine) error {
		graphs, err := fixtureGraphs()
		if err != nil {
			return err
		}
		t := graphs[graph].Thread(eng, thread)
		var out *pawl.OutcomeOf[note]
		if verb == "run" {
			out, err = t.Run(context.Background(), &note{})
		} else {
			out, err = t.Resume(context.Background())
		}
		if out == nil {
			return err
		}
		fmt.Println(out.Status)
		return nil
	})
}

// fixtureVerify checks an export as pawl-verify does, which knows no database.
func fixtureVerify(export, anchors string) error {
	kept, err := os.Open(anchors)
	if err != nil {
		return err
	}
	defer kept.Close()
	all, err := proof.ReadAnchors(kept)
	if err != nil {
		return err
	}
	f, err := os.Open(export)
	if err != nil {
		return err
	}
	defer f.Close()
	report, err := proof.Read(f, all...)
	if err == nil && !report.Honest() {
		err = fmt.Errorf("found %v", report.Findings)
	}
	return err
}

func fixtureQuestion(what, path, thread string) error {
	return fixtureEngine(path, func(eng *pawl.Engine) error {
		state, err := eng.Thread("", thread).State(context.Background())
		if err != nil {
			return err
		}
		q := state.Waiting[0]
		fmt.Println(map[string]string{"question": q.ID, "digest": q.Digest}[what])
		return nil
	})
}
