package effect_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/effect"
)

// wireServer is a target on a raw socket. It counts the requests that come over the wire.
type wireServer struct {
	at     string
	answer func(n int, r *http.Request) string // the whole answer; empty: the connection is dropped

	mu    sync.Mutex
	seen  []*http.Request
	conns int
}

const (
	kept     = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	redirect = "HTTP/1.1 %d Elsewhere\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n"
)

func serveWire(t *testing.T, answer func(n int, r *http.Request) string) *wireServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &wireServer{at: l.Addr().String(), answer: answer}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
			wg.Go(func() { s.serve(c) })
		}
	})
	t.Cleanup(func() { _ = l.Close() })
	return s
}

func (s *wireServer) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	s.mu.Lock()
	s.conns++
	s.mu.Unlock()
	for in := bufio.NewReader(c); ; {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.mu.Lock()
		s.seen = append(s.seen, r)
		n := len(s.seen)
		s.mu.Unlock()
		answer := s.answer(n, r)
		if answer == "" {
			return
		}
		if _, err := io.WriteString(c, answer); err != nil {
			return
		}
	}
}

func (s *wireServer) requests(method string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.seen {
		if r.Method == method {
			n++
		}
	}
	return n
}

var oneOp = effect.Op{Key: strings.Repeat("ab", 32), Ref: effect.Ref("invoice", "17"), Tenant: "t1", Attempt: 1}

func inOp(t *testing.T) context.Context { return effect.WithOp(t.Context(), oneOp) }

// stock is what a program without this client has.
func stock(t *testing.T) *http.Client {
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// Each row is one Do that net/http turns into two requests on the wire.
func TestAClientSendsOnce(t *testing.T) {
	t.Parallel()
	dropSecond := func(n int, _ *http.Request) string {
		if n == 2 {
			return "" // read, and the connection that had served before is gone
		}
		return kept
	}
	to := func(status int) func(int, *http.Request) string {
		return func(_ int, r *http.Request) string {
			if r.URL.Path == "/there" {
				return kept
			}
			return fmt.Sprintf(redirect, status)
		}
	}
	for _, c := range []struct {
		name   string
		method string
		header string
		body   string
		noGet  bool // GetBody is nil
		answer func(int, *http.Request) string
		first  bool // a request before it makes the connection a used one
		stock  int  // requests that net/http sends
		fails  bool
	}{
		{name: "a dropped used connection", header: "Idempotency-Key", body: "{}", answer: dropSecond, first: true, stock: 2, fails: true},
		{name: "a dropped used connection, other header", header: "X-Idempotency-Key", body: "{}", answer: dropSecond, first: true, stock: 2, fails: true},
		{name: "a dropped used connection, no GetBody", header: "Idempotency-Key", body: "{}", noGet: true, answer: dropSecond, first: true, stock: 1, fails: true},
		{name: "a dropped used connection, empty body", header: "Idempotency-Key", answer: dropSecond, first: true, stock: 2, fails: true},
		{name: "a dropped used connection, a header of its own", header: "PayPal-Request-Id", body: "{}", answer: dropSecond, first: true, stock: 1, fails: true},
		{name: "a dropped used connection, PUT", method: http.MethodPut, header: "Idempotency-Key", body: "{}", answer: dropSecond, first: true, stock: 2, fails: true},
		{name: "307", header: "Idempotency-Key", body: "{}", answer: to(307), stock: 2},
		{name: "308", header: "Idempotency-Key", body: "{}", answer: to(308), stock: 2},
		{name: "308, DELETE", method: http.MethodDelete, header: "Idempotency-Key", answer: to(308), stock: 2},
	} {
		if c.method == "" {
			c.method = http.MethodPost
		}
		for _, own := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, own %v", c.name, own), func(t *testing.T) {
				t.Parallel()
				s := serveWire(t, c.answer)
				client, want := effect.NewClient(effect.ClientOptions{Profile: effect.Profile{Header: c.header}}), 1
				if !own {
					client, want = stock(t), c.stock
				}
				if c.first {
					res, err := client.Do(request(t, http.MethodGet, s.at, ""))
					if err != nil {
						t.Fatal(err)
					}
					drain(t, res)
				}
				req := request(t, c.method, s.at, c.body)
				if !own {
					req.Header.Set(c.header, oneOp.Key)
				}
				if c.noGet {
					req.GetBody = nil
				}
				res, err := client.Do(req)
				if err == nil {
					drain(t, res)
				}
				if n := s.requests(c.method); n != want {
					t.Errorf("%d requests on the wire, want %d", n, want)
				}
				if !own {
					return
				}
				if (err != nil) != c.fails || effect.IsNotSent(err) {
					t.Errorf("error %v, not sent %v; something was sent", err, effect.IsNotSent(err))
				}
				if err == nil && res.StatusCode/100 != 3 {
					t.Errorf("status %d, want the redirect as it is", res.StatusCode)
				}
			})
		}
	}
}

func request(t *testing.T, method, at, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(inOp(t), method, "http://"+at+"/pay", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func drain(t *testing.T, res *http.Response) string {
	t.Helper()
	doc, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return string(doc)
}

// brokenConn is a connection to which nothing can be written, or only a part.
type brokenConn struct {
	net.Conn
	takes int
}

var errPipe = errors.New("broken pipe")

func (c *brokenConn) Write(b []byte) (int, error) { return min(c.takes, len(b)), errPipe }

// Only a request of which no byte was written is proven not to be sent.
func TestAClientProvesWhatWasNotSent(t *testing.T) {
	t.Parallel()
	plain := serveWire(t, func(int, *http.Request) string { return "" })
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = gone.Close()
	over, cancel := context.WithCancel(inOp(t))
	cancel()
	breaks := func(takes int) func(context.Context, string, string) (net.Conn, error) {
		return func(ctx context.Context, network, at string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, at)
			return &brokenConn{c, takes}, err
		}
	}
	stays := context.Background()
	for _, c := range []struct {
		name   string
		ctx    context.Context
		o      effect.ClientOptions
		url    string
		body   io.Reader
		header string
		unsent bool
	}{
		{name: "nobody listens", url: "http://" + gone.Addr().String(), unsent: true},
		{name: "no such scheme", url: "gopher://" + plain.at, unsent: true},
		{name: "the context was over", ctx: over, url: "http://" + plain.at, unsent: true},
		{name: "the handshake fails", url: "https://" + plain.at, unsent: true},
		{name: "no byte could be written", o: effect.ClientOptions{Dial: breaks(0)}, url: "http://" + plain.at, unsent: true},
		{name: "one byte was written", o: effect.ClientOptions{Dial: breaks(1)}, url: "http://" + plain.at},
		{name: "the target reads and hangs up", url: "http://" + plain.at},
		{name: "the body is too large", o: effect.ClientOptions{Limit: 3}, url: "http://" + plain.at, body: strings.NewReader("four"), unsent: true},
		{name: "the body cannot be read", url: "http://" + plain.at, body: io.MultiReader(strings.NewReader("x"), failing{}), unsent: true},
		{name: "no operation", ctx: stays, url: "http://" + plain.at, unsent: true},
		{name: "another key", url: "http://" + plain.at, header: "mine", unsent: true},
		{name: "the same key", url: "http://" + plain.at, header: oneOp.Key},
		{name: "a key that is too long", o: effect.ClientOptions{Profile: effect.Profile{Max: 40}}, url: "http://" + plain.at, unsent: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.ctx == nil {
				c.ctx = inOp(t)
			}
			req, err := http.NewRequestWithContext(c.ctx, http.MethodPost, c.url, c.body)
			if err != nil {
				t.Fatal(err)
			}
			if c.header != "" {
				req.Header.Set("Idempotency-Key", c.header)
			}
			res, err := effect.NewClient(c.o).Do(req)
			if err == nil {
				t.Fatalf("status %d, want an error", res.StatusCode)
			}
			if effect.IsNotSent(err) != c.unsent {
				t.Errorf("%v: proven not sent %v, want %v", err, effect.IsNotSent(err), c.unsent)
			}
		})
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("unreadable") }

// What the target is given, by profile.
func TestAClientWritesTheKeyAsTheProfileSays(t *testing.T) {
	t.Parallel()
	uuid := oneOp.UUID()
	for _, c := range []struct {
		name    string
		profile effect.Profile
		method  string
		header  string
		want    string
	}{
		{"raw", effect.Profile{}, http.MethodPost, "Idempotency-Key", oneOp.Key},
		{"quoted", effect.Profile{Quote: true}, http.MethodPost, "Idempotency-Key", `"` + oneOp.Key + `"`},
		{"UUID", effect.Profile{Header: "PayPal-Request-Id", Form: effect.KeyUUID, Max: 36}, http.MethodPatch, "PayPal-Request-Id", uuid},
		{"a UUID of version 4", effect.Profile{Form: effect.KeyUUID4}, http.MethodDelete, "Idempotency-Key", "c6fd61dc-c3c3-45c9-a51c-df42f0d4a9ef"},
		{"keyless", effect.Profile{Keyless: true}, http.MethodPost, "Idempotency-Key", ""},
		{"a look-up", effect.Profile{}, http.MethodGet, "Idempotency-Key", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := serveWire(t, func(int, *http.Request) string { return kept })
			res, err := effect.NewClient(effect.ClientOptions{Profile: c.profile}).Do(request(t, c.method, s.at, `{"a":1}`))
			if err != nil || drain(t, res) != "ok" {
				t.Fatal(err)
			}
			r := s.seen[0]
			body, _ := io.ReadAll(r.Body)
			if got := r.Header.Get(c.header); got != c.want {
				t.Errorf("%s is %q, want %q", c.header, got, c.want)
			}
			if string(body) != `{"a":1}` || r.ContentLength != 7 {
				t.Errorf("body %q of %d bytes", body, r.ContentLength)
			}
		})
	}
}

func TestAClientLimitsAnswers(t *testing.T) {
	t.Parallel()
	s := serveWire(t, func(int, *http.Request) string { return kept })
	_, err := effect.NewClient(effect.ClientOptions{Limit: 1}).Do(request(t, http.MethodPost, s.at, "1"))
	large := (*effect.SizeError)(nil)
	if !errors.As(err, &large) || *large != (effect.SizeError{What: "answer", Limit: 1, Status: 200}) || effect.IsNotSent(err) {
		t.Errorf("got %v", err)
	}
	if n := s.requests(http.MethodPost); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// A GET is followed, since nothing changes; a target that speaks HTTP/2 is spoken to in HTTP/1.1.
func TestAClientFollowsLookUpsAndSpeaksHTTP1(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/pay" {
			http.Redirect(w, r, "/there", http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, r.Proto)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := s.Client().Transport.(*http.Transport).TLSClientConfig
	req := request(t, http.MethodGet, "x", "")
	req.URL.Scheme, req.URL.Host = "https", s.Listener.Addr().String()
	res, err := effect.NewClient(effect.ClientOptions{TLS: roots}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if got := drain(t, res); got != "HTTP/1.1" {
		t.Errorf("spoke %q", got)
	}
}

// The environment's proxy is read once a process, so this looks from a child that has one.
func TestAClientIgnoresTheEnvironmentsProxy(t *testing.T) {
	const child = "PAWL_CLIENT_PROXY"
	if os.Getenv(child) == "" {
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), exe, "-test.run=^"+t.Name()+"$", "-test.count=1")
		cmd.Env = append(os.Environ(), child+"=1", "HTTP_PROXY=http://proxy.example:1", "NO_PROXY=")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	asked := ""
	dial := func(_ context.Context, _, at string) (net.Conn, error) {
		asked = at
		return nil, errors.New("not today")
	}
	for _, c := range []struct {
		name   string
		client *http.Client
		want   string
	}{
		{"as it is", effect.NewClient(effect.ClientOptions{Dial: dial}), "bank.example:80"},
		{"when asked", effect.NewClient(effect.ClientOptions{Dial: dial, Proxy: http.ProxyFromEnvironment}), "proxy.example:1"},
	} {
		_, err := c.client.Do(request(t, http.MethodPost, "bank.example", "{}"))
		if !effect.IsNotSent(err) || asked != c.want {
			t.Errorf("%s: dialed %q, want %q (%v)", c.name, asked, c.want, err)
		}
	}
}

// What a status proves is what the profile says of it.
func TestAProfileReadsStatuses(t *testing.T) {
	t.Parallel()
	p := effect.Profile{Rejected: []int{402}, Unsent: []int{429}, Replayed: "Idempotent-Replayed"}
	for _, c := range []struct {
		status   int
		replayed string
		want     string
	}{
		{200, "", "ok"}, {201, "true", "ok, replayed"}, {402, "", "rejected"}, {402, "true", "rejected, replayed"}, {429, "", "not sent"},
		{429, "true", "unknown, replayed"}, {429, "false", "not sent"}, {500, "", "unknown"}, {307, "", "unknown"}, {409, "", "unknown"}, {422, "", "unknown"},
	} {
		res := &http.Response{StatusCode: c.status, Header: http.Header{}}
		if c.replayed != "" {
			res.Header.Set("Idempotent-Replayed", c.replayed)
		}
		err := p.Check(res)
		status, got := (*effect.StatusError)(nil), "unknown"
		switch {
		case err == nil:
			got = "ok"
		case effect.IsRejected(err):
			got = "rejected"
		case effect.IsNotSent(err):
			got = "not sent"
		}
		if p.IsReplay(res) {
			got += ", replayed"
		}
		if got != c.want || err != nil && (!errors.As(err, &status) || status.Status != c.status || !strings.Contains(err.Error(), fmt.Sprint(c.status))) {
			t.Errorf("%d %q: %s (%v), want %s", c.status, c.replayed, got, err, c.want)
		}
	}
	if err := (effect.Profile{}).Check(&http.Response{StatusCode: 402}); effect.IsRejected(err) || effect.IsNotSent(err) {
		t.Errorf("the zero profile takes a status for a proof: %v", err)
	}
}
