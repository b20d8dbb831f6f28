package pawltest

import (
	"net/http"
)

// Transport lets a [Watch] see the requests of an http.Client. Put it under the clients of the program under test:
//
//	client := &http.Client{Transport: &pawltest.Transport{}}
//
// An effect.NewClient is watched by wrapping what it has: client.Transport = &pawltest.Transport{Base: client.Transport}.
type Transport struct {
	// Base sends the requests. Nil: each has a connection of its own, so that nothing is left when the test ends.
	Base http.RoundTripper
	// Watch keeps what was seen. Nil: only the engine is told.
	Watch *Watch
}

// RoundTrip notes the request, without its query, and sends it.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	method := r.Method
	if method == "" {
		method = http.MethodGet
	}
	t.Watch.note(r.Context(), method+" "+r.URL.Scheme+"://"+r.URL.Host+r.URL.EscapedPath())
	if t.Base != nil {
		return t.Base.RoundTrip(r)
	}
	return (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
}
