package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/agent"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
	"github.com/pawl-dev/pawl/stream"
)

// speaker says its words and then the whole.
type speaker struct {
	agent.Script
	words  []string
	before func(ctx context.Context, word int) // what happens before each word; nil: nothing
	spoke  int                                 // how often
	ended  error                               // of say
}

func (s *speaker) Speak(ctx context.Context, r agent.Request, say func(string) error) (agent.Message, error) {
	s.spoke++
	for i, w := range s.words {
		if s.before != nil {
			s.before(ctx, i)
		}
		if s.ended = say(w); s.ended != nil {
			return agent.Message{}, s.ended
		}
	}
	return s.Reply(ctx, r)
}

var words = []string{"It ", "is ", "broken."}

func newSpeaker() *speaker {
	return &speaker{words: words, Script: agent.Script{agent.Answers("It is broken.")}}
}

func engineOn(t *testing.T, db storage.DB) *pawl.Engine {
	t.Helper()
	eng, err := pawl.NewEngine(db, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close() })
	return eng
}

var talkMode = stream.View{Modes: []stream.Mode{stream.Messages}}

// asking runs the agent and hands each message to seen as it comes; false leaves.
func asking(ctx context.Context, th *pawl.ThreadOf[agent.Chat], seen func(stream.Chunk) bool) error {
	for c, err := range talkMode.Of(ctx, th.Stream(ctx, agent.Ask("What of 17?"))) {
		if err != nil || !seen(c) {
			return err
		}
	}
	return nil
}

// While the model speaks its tokens are seen, in order, under the id and node of the message that they make, by the stream
// and by who watches from a cursor; who comes later sees the whole.
func TestSpeaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model, heardAll := newSpeaker(), make(chan int, len(words))
		model.before = func(_ context.Context, word int) { // word n+1 is said once both heard word n
			for range 2 * min(word, 1) {
				<-heardAll
			}
		}
		th := thread(t, build(t, agent.Options{Model: model}))
		watch, leave := context.WithCancel(t.Context())
		var watched []string
		done := make(chan bool)
		go func() {
			defer close(done)
			for c, err := range talkMode.Watch(watch, th.Thread, stream.Cursor{Seq: 1, Part: 1}) {
				if err != nil {
					t.Error(err)
					return
				}
				watched = append(watched, heard(t, c))
				heardAll <- 1
			}
		}()
		synctest.Wait() // it watches
		var got []string
		var ids []string
		err := asking(t.Context(), th, func(c stream.Chunk) bool {
			m := c.Data.(stream.Message)
			got, ids = append(got, heard(t, c)), append(ids, m.ID)
			if m.Task != m.ID || m.Node != "think" || c.Run == "" {
				t.Errorf("%+v", c)
			}
			heardAll <- 1
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		leave()
		<-done
		want := fmt.Sprintf("think %s #0 It , think %s #1 is , think %s #2 broken.", ids[0], ids[0], ids[0])
		same(t, "streamed", strings.Join(got, ", "), want)
		same(t, "watched", strings.Join(watched, ", "), want)
		for c, err := range talkMode.Watch(t.Context(), th.Thread, stream.Cursor{}) {
			if err != nil {
				t.Fatal(err)
			}
			if m := c.Data.(stream.Message); m.Token != nil || m.Node != "think" || c.Cursor == (stream.Cursor{}) || !strings.Contains(string(m.Whole), "It is broken.") {
				t.Errorf("who comes later: %+v", m)
			}
			break
		}
	})
}

// A reply that is recorded is not spoken again, in whatever process: the run dies at every call of the storage in turn.
func TestSpeakerRecorded(t *testing.T) {
	t.Parallel()
	spoke := map[int]int{} // how often runs spoke so often
	for call := 1; ; call++ {
		home, err := memdb.Open(pawl.Kinds()...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { home.Close() })
		model, recorded := newSpeaker(), false
		g := build(t, agent.Options{Model: model})
		dying := fault.Wrap(home, fault.Plan{At: fault.At(call, fault.Stop())})
		if eng, err := pawl.NewEngine(dying, nil); err == nil {
			for e, err := range g.Thread(eng, "t").Stream(t.Context(), agent.Ask("What of 17?")) {
				recorded = recorded || err == nil && e.Kind == pawl.EventStep && !e.Replayed
			}
			eng.Close()
		}
		before := model.spoke
		th := g.Thread(engineOn(t, home), "t")
		st, err := th.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		tokens := 0
		hear := func(c stream.Chunk) {
			if c.Data.(stream.Message).Token != nil {
				tokens++
			}
		}
		switch st.Status {
		case pawl.Done:
		case pawl.StatusNew:
			err = asking(t.Context(), th, func(c stream.Chunk) bool { hear(c); return true })
		default:
			for c, failed := range talkMode.Of(t.Context(), pawl.Stream(t.Context(), func(ctx context.Context, tell pawl.RunOption) error {
				_, err := th.Resume(ctx, tell)
				return err
			})) {
				if err = failed; failed == nil {
					hear(c)
				}
			}
		}
		again := model.spoke - before
		if err != nil || tokens != again*len(words) || recorded && again > 0 {
			t.Errorf("death at call %d: spoke %d times again, %d tokens, recorded %v, %v", call, again, tokens, recorded, err)
		}
		if spoke[model.spoke]++; dying.Calls() < call {
			break
		}
	}
	if spoke[1] == 0 || spoke[2] == 0 || len(spoke) != 2 {
		t.Errorf("runs by how often they spoke: %v", spoke)
	}
}

// A run that is cancelled, and one whose stream is left, stop the model, also one that does not look at its context.
func TestSpeakerStopped(t *testing.T) {
	t.Parallel()
	waits := map[string]func(context.Context){
		"it looks at its context": func(ctx context.Context) { <-ctx.Done() },
		"it only says":            func(context.Context) { <-time.After(time.Minute) },
	}
	for name, wait := range waits {
		t.Run(name+", cancelled", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // which fails if a goroutine is left
				model := newSpeaker()
				th := thread(t, build(t, agent.Options{Model: model}))
				cancelled := make(chan error, 1)
				model.before = func(ctx context.Context, word int) {
					if word == 1 {
						go func() { cancelled <- th.Cancel(context.WithoutCancel(ctx), "enough") }()
						wait(ctx)
					}
				}
				n := 0
				err := asking(t.Context(), th, func(stream.Chunk) bool { n++; return true })
				if no := <-cancelled; no != nil || !errors.As(err, new(*pawl.RunError)) || n != 1 || model.ended == nil {
					t.Errorf("%v, %v, %d tokens, say: %v", err, no, n, model.ended)
				}
				if st, err := th.State(t.Context()); err != nil || st.Status != pawl.Cancelled {
					t.Error(st, err)
				}
			})
		})
		t.Run(name+", left", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				model := newSpeaker()
				th := thread(t, build(t, agent.Options{Model: model}))
				model.before = func(ctx context.Context, word int) {
					if word == 1 {
						wait(ctx)
					}
				}
				if err := asking(t.Context(), th, func(stream.Chunk) bool { return false }); err != nil || model.ended == nil {
					t.Errorf("%v, say: %v", err, model.ended)
				}
				model.before = nil
				out, err := th.Resume(t.Context())
				if err != nil || out.State.Answer.Get() != "It is broken." || model.spoke != 2 {
					t.Errorf("resumed: %v, %v, spoke %d times", out, err, model.spoke)
				}
			})
		})
	}
}

// Of tokens nothing is stored: not in the facts and not in the file.
func TestSpeakerLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := sqlite.Open(filepath.Join(dir, "db"), pawl.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	model := newSpeaker()
	model.words = []string{"murmur-17", "mumble-17"}
	th := build(t, agent.Options{Model: model}).Thread(engineOn(t, db), "t")
	n := 0
	if err := asking(t.Context(), th, func(stream.Chunk) bool { n++; return true }); err != nil || n != len(model.words) {
		t.Fatal(n, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "db*"))
	if err != nil {
		t.Fatal(err)
	}
	whole := false
	for _, name := range files {
		if at, err := os.Stat(name); err == nil && at.IsDir() {
			continue // the members
		}
		doc, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if whole = whole || bytes.Contains(doc, []byte("It is broken.")); bytes.Contains(doc, []byte("murmur-17")) || bytes.Contains(doc, []byte("mumble-17")) {
			t.Errorf("%s holds a token", name)
		}
	}
	if !whole {
		t.Error("no file holds the reply: the test looks in the wrong place")
	}
	ctx, stop := context.WithCancel(t.Context())
	for e, err := range th.Watch(ctx, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == pawl.EventCustom {
			t.Errorf("a watcher that came later was told %s", e.Data)
		}
		if e.Kind == pawl.EventFinished {
			stop()
		}
	}
	stop()
}
