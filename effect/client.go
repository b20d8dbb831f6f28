package effect

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
)

// ClientOptions of an HTTP client for the functions of effects. The zero value is ready to use.
type ClientOptions struct {
	// Profile is how the target takes keys.
	Profile Profile
	// Limit is how many bytes the body of a request, and that of an answer, may have; 0: DefaultBodyLimit.
	Limit int64
	// Proxy is asked for the proxy of a request. Nil: none, whatever the environment says.
	Proxy func(*http.Request) (*url.URL, error)
	// TLS is cloned. Nil: the system's roots.
	TLS *tls.Config
	// Dial opens a connection. Nil: a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// DefaultBodyLimit is the limit of a client that names none: 4 MiB.
const DefaultBodyLimit int64 = 4 << 20

// NewClient makes an HTTP client that sends each request of an effect's function once.
//
// net/http repeats a request by itself when a connection that it used before breaks and the request carries an
// Idempotency-Key, and follows 307 and 308 with the body. This client does neither: each request has a connection of its
// own that speaks HTTP/1.1, and an answer in the three hundreds to anything but a GET or HEAD is returned as it is.
//
// Give each request the context that the function got. Requests that change something, by any method but GET, HEAD,
// OPTIONS and TRACE, get the operation's key in the header that the profile names. Bodies are read whole, up to the
// limit, those of answers before Do returns: there is no streaming.
//
// An error of the client matches [NotSent] when it is proven that the target saw nothing: there was no connection, or no
// byte was written to it, or the request was refused here. The function may return it as it is. Any other error says
// nothing about what happened. What a status means is told by [Profile.Check].
//
// The client keeps no connection and no goroutine. It is safe for concurrent use.
func NewClient(o ClientOptions) *http.Client {
	t := &transport{profile: o.Profile, limit: o.Limit, dial: o.Dial}
	if t.limit <= 0 {
		t.limit = DefaultBodyLimit
	}
	if t.dial == nil {
		t.dial = (&net.Dialer{}).DialContext
	}
	t.base = &http.Transport{
		Proxy: o.Proxy, DialContext: t.dialed, TLSClientConfig: o.TLS.Clone(),
		DisableKeepAlives: true, Protocols: new(http.Protocols),
	}
	t.base.Protocols.SetHTTP1(true)
	return &http.Client{Transport: t, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		switch {
		case !safe(via[0].Method):
			return http.ErrUseLastResponse
		case len(via) >= 10:
			return errors.New("effect: 10 redirects were followed")
		}
		return nil
	}}
}

// SizeError: a body is larger than the client's limit. Of a request nothing was sent. An answer that is too large came
// to something that was sent.
type SizeError struct {
	What   string // "request", "answer"
	Limit  int64  // bytes
	Status int    // of the answer
}

// Error says what is too large.
func (e *SizeError) Error() string {
	if e.What == "request" {
		return fmt.Sprintf("effect: the body of the request has more than %d bytes; nothing was sent", e.Limit)
	}
	return fmt.Sprintf("effect: the body of the answer (status %d) has more than %d bytes; the request was sent", e.Status, e.Limit)
}

// safe says that a method asks for no change.
func safe(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// transport is the rules of NewClient.
type transport struct {
	base    *http.Transport
	profile Profile
	limit   int64
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
}

// RoundTrip sends one request once.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	out, err := t.prepared(r)
	if r.Body != nil {
		_ = r.Body.Close()
	}
	if err != nil {
		return nil, NotSent(err)
	}
	var conns proof
	ctx := httptrace.WithClientTrace(out.Context(), &httptrace.ClientTrace{GotConn: conns.got})
	res, err := t.base.RoundTrip(out.WithContext(ctx))
	if err != nil {
		if conns.unsent() {
			err = NotSent(err)
		}
		return nil, err
	}
	body, err := read(res.Body, t.limit)
	_ = res.Body.Close()
	if errors.Is(err, errTooLarge) {
		err = &SizeError{What: "answer", Limit: t.limit, Status: res.StatusCode}
	}
	if err != nil {
		return nil, err
	}
	res.Body, res.Request = io.NopCloser(bytes.NewReader(body)), r
	return res, nil
}

// prepared is the request with its key, its body in memory, and nothing that would let net/http send it again.
func (t *transport) prepared(r *http.Request) (*http.Request, error) {
	op, ok := OpFrom(r.Context())
	if !ok {
		return nil, errors.New("effect: the request belongs to no operation; nothing was sent; make it with the context of the effect's function")
	}
	out := r.Clone(r.Context())
	if out.GetBody = nil; r.Body != nil && r.Body != http.NoBody {
		body, err := read(r.Body, t.limit)
		if errors.Is(err, errTooLarge) {
			err = &SizeError{What: "request", Limit: t.limit}
		}
		if err != nil {
			return nil, err
		}
		out.Body, out.ContentLength, out.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
		if len(body) == 0 {
			out.Body = http.NoBody
		}
	}
	if safe(r.Method) || t.profile.Keyless {
		return out, nil
	}
	return out, t.profile.sign(out.Header, op)
}

var errTooLarge = errors.New("effect: a body is too large")

func read(r io.Reader, limit int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(body)) > limit {
		err = errTooLarge
	}
	return body, err
}

// dialed opens a connection that knows what was written to it.
func (t *transport) dialed(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := t.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &wire{Conn: c}, nil
}
