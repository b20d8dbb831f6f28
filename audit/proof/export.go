package proof

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// An export is lines of JSON: a Header, a Line for each row, and a Trailer. Rows come in the order of Checker.
const exportFormat = 1

// Header is the first line of an export.
type Header struct {
	Format int       `json:"pawl_audit"`
	Tenant string    `json:"tenant"`
	Size   int64     `json:"size"`
	Head   Hash      `json:"head"`
	At     time.Time `json:"at"`
}

// Line is a row, or what is there in its place.
type Line struct {
	Log     *Entry `json:"log,omitempty"`     // nil: not in the log
	Row     *Row   `json:"row,omitempty"`     // nil: the log has it, and it is not there or cannot be read
	Damaged string `json:"damaged,omitempty"` // why it cannot be read; of Row, where there is no Log, only Thread and N count
}

// Trailer is the last line of an export. What it counts is what the export holds.
type Trailer struct {
	End     bool  `json:"end"` // true
	Lines   int64 `json:"lines"`
	Old     int64 `json:"old"`
	Size    int64 `json:"size"`
	Pending int64 `json:"pending"`
	Head    Hash  `json:"head"`
}

// Writer writes an export.
type Writer struct {
	enc *json.Encoder
	end Trailer
}

// NewWriter writes the header of an export.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	h.Format, h.At = exportFormat, h.At.UTC()
	return &Writer{enc: enc, end: Trailer{End: true, Size: h.Size, Head: h.Head}}, enc.Encode(h)
}

// Write adds a line.
func (w *Writer) Write(l Line) error {
	w.end.Lines++
	switch {
	case l.Log == nil && l.Row != nil && l.Row.Hash.IsZero():
		w.end.Old++
	case l.Log == nil:
		w.end.Pending++
	}
	return w.enc.Encode(l)
}

// End writes the trailer. An export without one is not whole.
func (w *Writer) End() error { return w.enc.Encode(w.end) }

// Read checks an export. An error says that it could not be read at all, or is no export: nothing is known of it then.
func Read(r io.Reader, anchors ...Anchor) (*Report, error) {
	in := &lines{in: bufio.NewReader(r)}
	var h Header
	if err := in.next(&h); err != nil {
		return nil, fmt.Errorf("the first line is not the header of an audit export: %w", err)
	}
	if h.Format != exportFormat {
		return nil, fmt.Errorf("it is of format %d; this program reads format %d", h.Format, exportFormat)
	}
	c := New(h.Tenant, anchors...)
	end, err := c.read(in)
	if err != nil {
		return nil, err
	}
	c.at = 0
	switch r := &c.report; {
	case end == nil:
		c.Find(Finding{Line: in.n + 1, Text: "the export ends without its trailer: its end was cut off"})
	case end.Size != r.Size || end.Head != r.Head || h.Size != r.Size || h.Head != r.Head:
		c.Find(Finding{Line: in.n, Pos: r.Size + 1, Text: fmt.Sprintf("the export holds a log of %d rows; its header says %d, its trailer %d, or their heads differ", r.Size, h.Size, end.Size)})
	case end.Lines != int64(in.n-2) || end.Old != r.Old || end.Pending != r.Pending:
		c.Find(Finding{Line: in.n, Text: fmt.Sprintf("the export holds %d lines (%d old, %d pending); its trailer says %d (%d, %d)",
			in.n-2, r.Old, r.Pending, end.Lines, end.Old, end.Pending)})
	}
	return c.End(), nil
}

// ReadAnchors reads anchors that were kept: JSON objects, one after the other, at least one.
func ReadAnchors(r io.Reader) (out []Anchor, err error) {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	for {
		var a Anchor
		switch err := d.Decode(&a); {
		case errors.Is(err, io.EOF) && out == nil:
			return nil, errors.New("holds no anchor")
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("holds something else than anchors: %w", err)
		case a.Head.IsZero() && a.Size != 0:
			return nil, errors.New("holds an anchor without a head")
		}
		out = append(out, a)
	}
}

type lineOrTrailer struct {
	Line
	Trailer
}

// read feeds a checker with all lines up to the trailer, which it returns.
func (c *Checker) read(in *lines) (*Trailer, error) {
	for {
		var l lineOrTrailer
		err := in.next(&l)
		bad := (*lineError)(nil)
		switch c.at = in.n; {
		case errors.Is(err, io.EOF):
			return nil, nil
		case errors.As(err, &bad):
			c.Find(Finding{Text: bad.Error()})
			continue
		case err != nil:
			return nil, err
		}
		if l.End {
			if in.more() {
				c.Find(Finding{Text: "lines follow the trailer"})
			}
			return &l.Trailer, nil
		}
		c.Take(l.Line)
	}
}

// lines reads JSON lines, and takes them only as they were written, byte for byte.
type lines struct {
	in *bufio.Reader
	n  int
}

// lineError is a line that is not as it was written.
type lineError struct{ err error }

func (e *lineError) Error() string { return "the line is not as it was written: " + e.err.Error() }

func (l *lines) more() bool {
	_, err := l.in.Peek(1)
	return err == nil
}

func (l *lines) next(to any) error {
	line, err := l.in.ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if len(line) == 0 {
		return io.EOF
	}
	l.n++
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return &lineError{err}
	}
	var again bytes.Buffer
	e := json.NewEncoder(&again)
	e.SetEscapeHTML(false)
	if err := e.Encode(written(to)); err != nil {
		return &lineError{err}
	}
	if !bytes.Equal(again.Bytes(), line) {
		return &lineError{errors.New("its spelling differs")}
	}
	return nil
}

// written is what a line was written from: a line is one of two things, and read as both.
func written(to any) any {
	l, ok := to.(*lineOrTrailer)
	switch {
	case !ok:
		return to
	case l.End:
		return l.Trailer
	}
	return l.Line
}
