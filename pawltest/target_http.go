package pawltest

import (
	"bufio"
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
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TargetFault is what a target does to requests that come to a point. Without more than a point it drops the connection.
type TargetFault struct {
	// At is the point. At TargetAsked look-ups lag behind: they say that nothing happened, whatever did.
	At     TargetPoint   `json:"at"`
	Times  int           `json:"times"`            // how many requests, or look-ups; the others pass
	Kill   bool          `json:"kill,omitempty"`   // the sender's process, with SIGKILL, before the connection is dropped
	Status int           `json:"status,omitempty"` // is answered in place of dropping the connection, such as 500
	Delay  time.Duration `json:"delay,omitempty"`  // the request is slow there, and goes on
	Twice  bool          `json:"twice,omitempty"`  // the target makes another row of what was committed, and goes on
	Forget bool          `json:"forget,omitempty"` // now, and nothing else: see Target.Forget
}

// TargetLedger is everything that a target saw.
type TargetLedger struct {
	Count TargetCount
	Rows  []TargetRow
	Keys  []string // of all requests, in the order of their coming
}

// TargetClient sends to a [Target] that is served, in this process or another. It is safe for concurrent use.
type TargetClient struct {
	// URL of the target, without a path.
	URL    string
	mode   TargetMode
	client *http.Client
}

// senderHeader names the process that sends, so that a target can kill it.
const senderHeader = "Pawl-Sender"

// NewTargetClient makes a client that sends each request once: no connection is used twice and no redirect is followed.
func NewTargetClient(url string, mode TargetMode) *TargetClient {
	return &TargetClient{url, mode, &http.Client{
		Transport:     &Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Mode is what the target promises.
func (c *TargetClient) Mode() TargetMode { return c.mode }

// Send is [Target.Send] over HTTP. An error that matches ErrTargetDropped says nothing about what happened.
func (c *TargetClient) Send(ctx context.Context, key, ref string, body []byte) (string, error) {
	header := http.Header{senderHeader: {strconv.Itoa(os.Getpid())}}
	if key != "" {
		header.Set("Idempotency-Key", key)
	}
	status, doc, err := c.call(ctx, http.MethodPost, "/send?ref="+url.QueryEscape(ref), header, body)
	switch {
	case err != nil:
		return "", errors.Join(ErrTargetDropped, err)
	case status == http.StatusUnprocessableEntity:
		return "", ErrTargetKeyReused
	case status != http.StatusOK:
		return "", &TargetStatusError{status}
	}
	return string(doc), nil
}

// Find is [Target.Find] over HTTP.
func (c *TargetClient) Find(ctx context.Context, ref string) (string, bool, error) {
	status, doc, err := c.call(ctx, http.MethodGet, "/find?ref="+url.QueryEscape(ref), nil, nil)
	switch {
	case err != nil:
		return "", false, err
	case status == http.StatusNotFound:
		return "", false, nil
	case status != http.StatusOK:
		return "", false, ErrTargetMode
	}
	return string(doc), true, nil
}

// Ledger reads what the target saw so far.
func (c *TargetClient) Ledger(ctx context.Context) (l TargetLedger, err error) {
	status, doc, err := c.call(ctx, http.MethodGet, "/ledger", nil, nil)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("pawltest: the target answers %d", status)
	}
	if err == nil {
		err = json.Unmarshal(doc, &l)
	}
	return l, err
}

// Fault sets what happens to requests from now on; the zero TargetFault ends that.
func (c *TargetClient) Fault(ctx context.Context, f TargetFault) error {
	doc, err := json.Marshal(f)
	if err != nil {
		return err
	}
	status, _, err := c.call(ctx, http.MethodPut, "/fault", nil, doc)
	if err == nil && status != http.StatusNoContent {
		err = fmt.Errorf("pawltest: the target answers %d", status)
	}
	return err
}

func (c *TargetClient) call(ctx context.Context, method, path string, header http.Header, body []byte) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if req.GetBody = nil; header != nil {
		req.Header = header
	}
	res, err := c.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	doc, err := io.ReadAll(res.Body)
	return res.StatusCode, doc, err
}

// ServeHTTP makes a Target an HTTP server: POST /send?ref= with an Idempotency-Key, GET /find?ref=, GET /ledger, PUT
// /fault. A dropped request gets no answer: its connection is cut.
func (t *Target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	ref := r.URL.Query().Get("ref")
	failed := (*TargetStatusError)(nil)
	switch r.Method + " " + r.URL.Path {
	case "POST /send":
		id, err := t.Send(context.WithValue(r.Context(), senderKey{}, r.Header.Get(senderHeader)), r.Header.Get("Idempotency-Key"), ref, body)
		switch {
		case errors.Is(err, ErrTargetKeyReused):
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		case errors.As(err, &failed):
			http.Error(w, err.Error(), failed.Status)
		case err != nil:
			panic(http.ErrAbortHandler)
		default:
			_, _ = io.WriteString(w, id)
		}
	case "GET /find":
		id, found, err := t.Find(r.Context(), ref)
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusNotImplemented)
		case !found:
			http.NotFound(w, r)
		default:
			_, _ = io.WriteString(w, id)
		}
	case "GET /ledger":
		_ = json.NewEncoder(w).Encode(TargetLedger{t.Count(), t.Rows(), t.Keys()})
	case "PUT /fault":
		var f TargetFault
		if err := json.Unmarshal(body, &f); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		t.Fault(f)
		w.WriteHeader(http.StatusNoContent)
	default:
		http.NotFound(w, r)
	}
}

type senderKey struct{}

// Serve serves the target on a free port of the loopback interface until the test ends.
func (t *Target) Serve(tb testing.TB) *TargetClient {
	tb.Helper()
	at, stop, err := t.listen()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(stop)
	return NewTargetClient(at, t.mode)
}

func (t *Target) listen() (at string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := &http.Server{Handler: t, ReadHeaderTimeout: 10 * time.Second}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = s.Serve(l)
	}()
	return "http://" + l.Addr().String(), func() { _ = s.Close(); <-over }, nil
}

// targetVar tells a child process, in the environment, to be a target.
const targetVar = "PAWL_TARGET_CHILD"

type targetErrand struct {
	Test string
	Mode TargetMode
}

// TargetProcess starts a target in a process of its own, which runs the calling test, and there only as far as this
// call: call it first. The process ends with the test.
func TargetProcess(t testing.TB, mode TargetMode) *TargetClient {
	t.Helper()
	var e targetErrand
	if doc := os.Getenv(targetVar); doc != "" {
		if err := json.Unmarshal([]byte(doc), &e); err != nil {
			t.Fatalf("%s: %v", targetVar, err)
		}
		if e.Test == t.Name() && e.Mode == mode {
			serveUntilTold(mode)
		}
	}
	doc, err := json.Marshal(targetErrand{t.Name(), mode})
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run="+only(t.Name()), "-test.count=1")
	cmd.Env = append(os.Environ(), targetVar+"="+string(doc))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if at, ok := strings.CutPrefix(lines.Text(), targetSays); ok {
			return NewTargetClient(at, mode)
		}
	}
	t.Fatal("the target's process ended before it served")
	return nil
}

const targetSays = "pawltest target: "

// serveUntilTold is the life of a target's process: it ends when its input does.
func serveUntilTold(mode TargetMode) {
	at, stop, err := NewTarget(mode).listen()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(targetSays + at)
	_, _ = io.Copy(io.Discard, os.Stdin)
	stop()
	os.Exit(0)
}
