package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl/internal/house"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/sqlite"
)

// remoteBank is one book of the target process, as a worker sees it.
type remoteBank struct {
	URL, Book string
	mode      pawltest.TargetMode
	pid       int // of the worker
}

func (b *remoteBank) Mode() pawltest.TargetMode { return b.mode }

type bankAnswer struct {
	ID    string
	Found bool
	Error string
}

func (b *remoteBank) Send(ctx context.Context, key, ref string, body []byte) (string, error) {
	a, err := postTo[bankAnswer](ctx, b.URL+"/send", url.Values{
		"book": {b.Book}, "mode": {string(b.mode)}, "ref": {ref}, "pid": {strconv.Itoa(b.pid)}, "key": {key},
	}, body)
	return a.ID, errors.Join(err, said(a))
}

func (b *remoteBank) Find(ctx context.Context, ref string) (string, bool, error) {
	a, err := postTo[bankAnswer](ctx, b.URL+"/find", url.Values{"book": {b.Book}, "mode": {string(b.mode)}, "ref": {ref}}, nil)
	return a.ID, a.Found, errors.Join(err, said(a))
}

func said(a bankAnswer) error {
	if a.Error == "" {
		return nil
	}
	return errors.New(a.Error)
}

// bankPlan is what the next request to a book meets.
type bankPlan struct {
	Kill pawltest.TargetPoint // the worker dies there; at "received" the target does not commit
	Look string               // database that is read at the first byte
}

// bankBooks is what a book has seen, and what its target found in the worker's database.
type bankBooks struct {
	Count pawltest.TargetCount
	Rows  []pawltest.TargetRow
	Keys  []string
	Found string
}

func (b *remoteBank) plan(t testing.TB, p bankPlan) {
	t.Helper()
	doc := compact(p)
	if _, err := postTo[bankAnswer](context.Background(), b.URL+"/plan", url.Values{"book": {b.Book}, "mode": {string(b.mode)}}, []byte(doc)); err != nil {
		t.Fatal(err)
	}
}

func (b *remoteBank) books(t testing.TB) bankBooks {
	t.Helper()
	out, err := postTo[bankBooks](context.Background(), b.URL+"/books", url.Values{"book": {b.Book}, "mode": {string(b.mode)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// postTo posts to the target process. A connection is used once, so that the client sends nothing twice by itself.
func postTo[T any](ctx context.Context, at string, q url.Values, body []byte) (out T, err error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at+"?"+q.Encode(), bytes.NewReader(body))
	if err != nil {
		return out, err
	}
	a, err := client.Do(r)
	if err != nil {
		return out, err
	}
	defer a.Body.Close()
	return out, json.NewDecoder(a.Body).Decode(&out)
}

// bankProcess is the target process: books of its own behind HTTP, which outlive the workers.
type bankProcess struct {
	mu    sync.Mutex
	books map[string]*bankBook
}

type bankBook struct {
	*pawltest.Target
	mu    sync.Mutex
	plan  bankPlan
	pid   int
	found string
}

// startBank starts the target process and returns its address.
func startBank(t testing.TB) string {
	t.Helper()
	c := spawn(t, "003-bank", nil)
	at := c.line()
	if at == "" {
		t.Fatal("the target process does not start")
	}
	return at
}

func bankChild([]byte) {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	fmt.Println("http://" + l.Addr().String())
	go func() { // it ends with the test process
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	must(0, http.Serve(l, &bankProcess{books: map[string]*bankBook{}}))
}

func (p *bankProcess) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	b := p.book(q.Get("book"), pawltest.TargetMode(q.Get("mode")))
	body, _ := io.ReadAll(r.Body)
	var out any
	switch r.URL.Path {
	case "/send":
		b.mu.Lock()
		b.pid, _ = strconv.Atoi(q.Get("pid"))
		b.mu.Unlock()
		id, err := b.Send(r.Context(), q.Get("key"), q.Get("ref"), body)
		out = answerOf(id, err == nil, err)
	case "/find":
		out = answerOf(b.Find(r.Context(), q.Get("ref")))
	case "/plan":
		b.mu.Lock()
		b.plan = args[bankPlan](body)
		b.mu.Unlock()
	case "/books":
		b.mu.Lock()
		out = bankBooks{b.Count(), b.Rows(), b.Keys(), b.found}
		b.mu.Unlock()
	}
	_ = json.NewEncoder(w).Encode(out)
}

func answerOf(id string, found bool, err error) bankAnswer {
	a := bankAnswer{ID: id, Found: found}
	if err != nil {
		a.Error = err.Error()
	}
	return a
}

func (p *bankProcess) book(name string, mode pawltest.TargetMode) *bankBook {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.books[name]
	if b == nil {
		b = &bankBook{Target: pawltest.NewTarget(mode)}
		b.At(b.at)
		p.books[name] = b
	}
	return b
}

func (b *bankBook) at(p pawltest.TargetPoint, row pawltest.TargetRow) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p == pawltest.TargetReceived && b.plan.Look != "" {
		b.found = lookInto(b.plan.Look, row.Key)
		b.plan.Look = ""
	}
	if b.plan.Kill != p {
		return nil
	}
	b.plan.Kill = ""
	return errors.Join(syscall.Kill(b.pid, syscall.SIGKILL), errors.New("the worker is dead"))
}

// lookInto reads an operation from outside its worker.
func lookInto(path, key string) string {
	db := must(sqlite.Open(path, house.Kinds()...))
	defer db.Close()
	o := must(openFirm(db, path, "of another process"))
	defer o.eng.Close()
	return knownAtFirst(must(o.effects.Show(context.Background(), key)), key)
}
