package suite

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
)

// TestPromises holds what the design promises, P1 to P10, one subtest each.
func TestPromises(t *testing.T) {
	runDeep(t, "promises", []scenario{
		{id: "P1", run: finishedWorkIsKept},
		{id: "P2", run: oneIntentOneDispatch},
		{id: "P3", run: answersReachTheirQuestion},
		{id: "P4", run: oneUseOfOneCall},
		{id: "P5", run: nothingLostSilently},
		{id: "P6", run: fiveVerbs},
		{id: "P7", run: neverReinterpreted},
		{id: "P8", run: historyIsLinear},
		{id: "P9", run: truthWithoutSecrets},
		{id: "P10", run: provedOffline},
	})
}

func childrenPromises() map[string]func([]byte) {
	return map[string]func([]byte){
		"promise-mortal":  mortalChild,
		"promise-answer":  promiseAnswerChild,
		"promise-streams": streamWatched,
		"promise-look":    lookWatched,
		"bug-ids":         listIDsChild,
		"bug-block":       blockingChild,
		"bug-rush":        answerRushChild,
		"bug-inside":      answerInsideChild,
		"bug-crowd":       crowdChild,
		"bug-tool":        toolDeathChild,
		"bug-pause":       pausedChild,
	}
}

// everything is a home's whole content as text, row by row: what a refusal must leave as it was, byte for byte.
func everything(t testing.TB, db storage.DB) string {
	t.Helper()
	var b strings.Builder
	err := db.View(context.Background(), func(_ context.Context, tx storage.Tx) error {
		b.Reset()
		for _, kind := range pawl.Kinds() {
			rows, err := tx.List(kind.Name, storage.Query{})
			if err != nil {
				return err
			}
			for _, row := range rows {
				fmt.Fprintf(&b, "%s %q %q %d %q\n", kind.Name, row.Key, row.Fields, row.Rev, row.Body)
				if kind.Name != "thread" {
					continue
				}
				lease, ok, err := tx.Lease(row.Fields[0].(int64), storage.Look, "")
				if err != nil {
					return err
				}
				fmt.Fprintln(&b, "lease", lease, ok)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// unchanged fails unless a home's content is what it was.
func unchanged(t testing.TB, db storage.DB, before string) {
	t.Helper()
	if now := everything(t, db); now != before {
		t.Errorf("something changed:\n--- before\n%s--- after\n%s", before, now)
	}
}

// says fails unless a text has all the parts.
func says(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q does not say %q", text, p)
		}
	}
}
