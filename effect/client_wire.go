package effect

import (
	"crypto/tls"
	"net"
	"net/http/httptrace"
	"sync"
)

// wire is a connection that can prove that nothing of a request was written to it.
type wire struct {
	net.Conn

	mu      sync.Mutex
	counts  bool // what is written now belongs to the request, and no longer to a handshake
	wrote   bool // a byte was, or may have been
	writing int
	shut    bool // no byte may be written any more
}

// Write counts, unless the proof was taken already.
func (w *wire) Write(b []byte) (int, error) {
	w.mu.Lock()
	if w.shut {
		w.mu.Unlock()
		return 0, net.ErrClosed
	}
	w.writing++
	w.mu.Unlock()
	n, err := w.Conn.Write(b)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writing--
	w.wrote = w.wrote || w.counts && n > 0
	return n, err
}

// taken starts the count: the connection is ready for the request.
func (w *wire) taken() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts = true
}

// untouched says that no byte of the request was written, and sees to it that none will be.
func (w *wire) untouched() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shut = !w.wrote && w.writing == 0
	return w.shut
}

// proof is the connections that one request was given: one, or none.
type proof struct {
	wires  []*wire
	strays int // connections that prove nothing
}

// got is httptrace.ClientTrace.GotConn. It is called before the first byte of the request.
func (p *proof) got(info httptrace.GotConnInfo) {
	c := info.Conn
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if w, ok := c.(*wire); ok {
		w.taken()
		p.wires = append(p.wires, w)
		return
	}
	p.strays++
}

// unsent says that the request left no byte anywhere.
func (p *proof) unsent() bool {
	for _, w := range p.wires {
		if !w.untouched() {
			return false
		}
	}
	return p.strays == 0
}
