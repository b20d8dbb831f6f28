package cli

import (
	"bytes"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
)

// widest is how many characters of a value a table shows.
const widest = 72

// Page is text for a person. What it prints of the data is cleaned: a thread's name cannot move the cursor.
type Page struct {
	b      *bytes.Buffer
	now    time.Time
	colour bool
}

// Line prints one line.
func (g *Page) Line(format string, args ...any) {
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = clean(s)
		}
	}
	fmt.Fprintf(g.b, format+"\n", args...)
}

// Table prints rows in columns under a header. A nil header prints none.
func (g *Page) Table(header []string, rows ...[]string) {
	if header != nil {
		rows = append([][]string{header}, rows...)
	}
	var widths []int
	for r, row := range rows {
		rows[r] = make([]string, len(row))
		for c, cell := range row {
			rows[r][c] = clean(cell)
			if c == len(widths) {
				widths = append(widths, 0)
			}
			widths[c] = max(widths[c], utf8.RuneCountInString(rows[r][c]))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for c, cell := range row {
			line.WriteString(g.paint(cell))
			line.WriteString(strings.Repeat(" ", widths[c]-utf8.RuneCountInString(cell)+2))
		}
		g.b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// paint colours a cell that is a status, on terminals that want it.
func (g *Page) paint(cell string) string {
	code := map[pawl.Status]string{
		pawl.Waiting: "33", pawl.Done: "32", pawl.Failed: "31", pawl.Crashed: "31", pawl.Running: "36", pawl.Cancelled: "2",
	}[pawl.Status(cell)]
	if !g.colour || code == "" {
		return cell
	}
	return "\x1b[" + code + "m" + cell + "\x1b[0m"
}

// colour follows NO_COLOR, CLICOLOR_FORCE and TERM.
func (p *Program) colour() bool {
	switch {
	case p.Getenv("NO_COLOR") != "":
		return false
	case p.Getenv("CLICOLOR_FORCE") != "" && p.Getenv("CLICOLOR_FORCE") != "0":
		return true
	}
	return p.Screen && p.Getenv("TERM") != "dumb"
}

// Ago is a time as people say it.
func (g *Page) Ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	d, form := g.now.Sub(t), "%s ago"
	if d < 0 {
		d, form = -d, "in %s"
	}
	switch {
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf(form, fmt.Sprintf("%ds", int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf(form, fmt.Sprintf("%dm", int(d.Minutes())))
	case d < 48*time.Hour:
		return fmt.Sprintf(form, fmt.Sprintf("%dh", int(d.Hours())))
	}
	return fmt.Sprintf(form, fmt.Sprintf("%dd", int(d.Hours()/24)))
}

// clean makes characters visible that a terminal would obey instead of show.
func clean(s string) string {
	if !strings.ContainsFunc(s, obeyed) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if obeyed(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func obeyed(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r))
}

// short cuts a value to what a table shows.
func short(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}
