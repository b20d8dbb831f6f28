package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/redact"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
)

type payment struct {
	To     string `json:"to"`
	Amount string `json:"amount"`
}

// effects measures outside actions on SQLite with FULL, to a target that answers at once. Each of them is a few durable
// writes, so the limit is raw commits divided by those: reserve with dispatch, and the outcome; with an approval the request,
// the yes, the dispatch and the outcome.
func effects(l *lab) {
	const n = 300
	var per, of [2][]float64
	for range max(l.rounds, 5) {
		for i, writes := range []float64{2, 4} {
			raw := l.raw(2000, insertRow)
			per[i] = append(per[i], l.pay(n, writes == 4))
			of[i] = append(of[i], per[i][len(per[i])-1]*writes/raw)
		}
	}
	for i, name := range []string{"effects", "approved effects"} {
		l.line(name+", SQLite FULL", fmt.Sprintf("%.0f/s, %.2f of raw / %d", middle(per[i]), middle(of[i]), 2+2*i), "0.5 of raw / durable writes", middle(of[i]) >= 0.5)
	}
}

// pay makes n payments in one node: asked for in one entry, approved at the desk, and dispatched in the next one. It returns
// how many there were a second.
func (l *lab) pay(n int, asks bool) (second float64) {
	ctx := context.Background()
	cfo := pawl.WithActor(ctx, pawl.Actor{ID: "cfo", Groups: []string{"finance"}, Kind: "person"})
	kinds := slices.Concat(pawl.Kinds(), effect.Kinds(), approval.Kinds(), audit.Kinds())
	db := must(sqlite.Open(filepath.Join(must(os.MkdirTemp(l.dir, "effects")), "pawl.db"), kinds...))
	red := redact.New(nil)
	led := must(effect.NewLedger(effect.Options{Key: []byte(text(effect.KeySize)), Redactor: red}))
	sent := 0
	e := effect.New("pay", func(_ context.Context, op effect.Op, _ payment) (string, error) { sent++; return op.Key, nil })
	if asks {
		e = e.Approve(approval.Levels{{To: "finance", For: time.Hour}})
	}
	g := must(pawl.New[state]("pay").Node("pay", func(ctx context.Context, s *state) error {
		var one sync.Mutex // they take turns, or commits would be shared
		branches := make([]func(context.Context) error, n)
		for i := range branches {
			branches[i] = func(ctx context.Context) error {
				one.Lock()
				defer one.Unlock()
				_, err := e.Do(ctx, effect.Ref("invoice", fmt.Sprint(i)), payment{"acme", "100.00"})
				return err
			}
		}
		s.N.Add(int64(n))
		return pawl.All(ctx, branches...)
	}, pawl.Uses(e)).Edge(pawl.Start, "pay").Build())
	with(db, &pawl.Options{Parts: []pawl.Part{red, audit.Part{}, led}}, func(eng *pawl.Engine) {
		th := g.Thread(eng, "t")
		begin := time.Now()
		out := must(th.Run(ctx, &state{}))
		if asks {
			approve(cfo, eng, db, n)
			out = must(th.Resume(ctx))
		}
		second = float64(n) / time.Since(begin).Seconds()
		if out.Status != pawl.Done || out.State.N.Get() != int64(n) || sent != n {
			fail(fmt.Errorf("%d payments: %s, %d sent", n, out.Status, sent))
		}
	})
	return second
}

func approve(ctx context.Context, eng *pawl.Engine, db storage.DB, n int) {
	desk := approval.NewDesk(eng, db)
	open := must(desk.List(ctx, approval.Filter{State: approval.Requested}))
	if len(open) != n {
		fail(fmt.Errorf("%d requests, want %d", len(open), n))
	}
	for _, r := range open {
		must(desk.Approve(ctx, r.ID, approval.Decision{Digest: r.Call}))
	}
}

// redaction measures the view of a document of 10 KB, as each request and question makes one.
func redaction(l *lab) {
	type line struct {
		SKU, Note, Link string
		Amount          int
		Meta            map[string]string
	}
	var doc []byte
	for lines := []line(nil); len(doc) < 10<<10; doc = must(json.Marshal(lines)) {
		lines = append(lines, line{
			"SKU-8841-7", "Deliver to the back door; the customer asked for a call before noon.",
			"https://files.example/orders/8841/invoice.pdf?X-Amz-Expires=600&X-Amz-Signature=0123456789abcdef&v=2", 124000,
			map[string]string{"operation_key": "op-17", "api_key": "abc", "author": "bob"},
		})
	}
	r := redact.New(nil)
	if _, hidden := r.JSON(doc); len(hidden) == 0 {
		fail(errors.New("nothing is hidden"))
	}
	b := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.JSON(doc)
		}
	})
	l.line(fmt.Sprintf("redaction of %.1f KB", float64(len(doc))/1024), fmt.Sprintf("%.0f us, %d allocations", us(b), b.AllocsPerOp()), "2,000 us", us(b) <= 2000)
}
