package effect

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"
)

// maxTargetLine bounds one line of target rows, in bytes.
const maxTargetLine = 1 << 20

// ReadTargetRows reads rows as JSON lines, one [TargetRow] a line; empty lines are skipped. A field that it does not
// know is an error, so that a misspelt name does not make every row a stray one.
func ReadTargetRows(r io.Reader) iter.Seq2[TargetRow, error] {
	return func(yield func(TargetRow, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, maxTargetLine)
		for lines.Scan() {
			doc := bytes.TrimSpace(lines.Bytes())
			if len(doc) == 0 {
				continue
			}
			var row TargetRow
			d := json.NewDecoder(bytes.NewReader(doc))
			d.DisallowUnknownFields()
			err := d.Decode(&row)
			if err == nil && d.More() {
				err = fmt.Errorf("more than one value on a line")
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(TargetRow{}, err)
		}
	}
}

// WriteText writes the report for people: counts, then what is unexplained, then what is open.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	of := "all effects"
	if len(r.Effects) > 0 {
		of = strings.Join(r.Effects, ", ")
	}
	fmt.Fprintf(&b, "Reconciliation of %s, tenant %q, %s\n", of, r.Tenant, r.At.Format(time.RFC3339))
	fmt.Fprintf(&b, "Target rows %d (explained %d, outside the time %d) | operations %d | dispatches %d | grants spent %d\n",
		r.Rows, r.Matched, r.Outside, r.Operations, r.Attempts, r.Grants)
	fmt.Fprintf(&b, "Unexplained: %d\n", r.Unexplained)
	tell(&b, r.Findings)
	fmt.Fprintf(&b, "Open: %d\n", len(r.Open))
	tell(&b, r.Open)
	_, err := io.WriteString(w, b.String())
	return err
}

func tell(b *strings.Builder, all []Finding) {
	for _, f := range all {
		fmt.Fprintf(b, "  %s: %s\n", f.Kind, f.Text)
		for _, row := range f.Rows {
			fmt.Fprintf(b, "    %s\n", row)
		}
		fmt.Fprintf(b, "    Next: %s\n", f.Next)
	}
}
