package suite

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/storage"
)

// What the documents show of programs is in here, word for word, so that it compiles. TestDocs holds them against it.
var _ = []any{docsAudit, docsReport, docsVersions}

func docsAudit(ctx context.Context, db storage.DB, tenant string, wake func(*audit.Report, error)) error {
	a, err := audit.Head(ctx, db, tenant) // keep it elsewhere
	if err != nil {
		return err
	}
	report, err := audit.Verify(ctx, db, tenant, a) // later
	if err != nil || !report.Honest() {
		wake(report, err) // report.Findings
	}
	return nil
}

func docsReport(ctx context.Context, ledger *effect.Ledger, eng *pawl.Engine, db storage.DB, file io.Reader, yesterday, today time.Time, wake func(*effect.Report, error)) {
	report, err := ledger.Desk(eng, db).Report(ctx, effect.ReadTargetRows(file), effect.ReportOptions{
		Effects: []string{"bank.transfer"}, // the effects of this target, or operations of others lack their rows
		From:    yesterday, Until: today,   // what the rows cover; end it before now
	})
	if err == nil {
		err = report.WriteText(os.Stdout) // or encode it as JSON
	}
	if err != nil || report.Unexplained > 0 {
		wake(report, err)
	}
}

type Money struct{ Cents int }

func EUR(cents int) Money { return Money{cents} }

func docsVersions() {
	type State struct {
		Total pawl.Last[Money] `json:"total" pawl:"was=sum"`
	}

	b := pawl.New[State]("shop")
	b.Upgrade(pawl.Upgrade("total", func(cents int) (Money, error) { return EUR(cents), nil }))

	b.Migrate(pawl.Migration{From: `"screen" inserted before "transfer"`, Map: func(m *pawl.Moving) error {
		m.Move("transfer", "screen") // what was due
		return nil
	}})
}
