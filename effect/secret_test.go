package effect_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage/fault"
)

type email struct {
	To     string `json:"to"`
	File   string `json:"file"`
	APIKey string `json:"api_key"`
	Auth   struct {
		Password string `json:"password"`
	} `json:"auth"`
	Link string `json:"link"`
}

func secretMail() (m email) {
	m.To, m.File, m.APIKey = "all-staff", "q3.pdf", "CANARY-1"
	m.Auth.Password = "CANARY-2"
	m.Link = "https://files.example/q3.pdf?X-Amz-Expires=600&X-Amz-Signature=CANARY-3&X-Amz-Credential=CANARY-4"
	return m
}

// Exact parameters reach the target unmasked, and are nowhere in the database file, its log or the trail in the clear:
// not while the approval is open, not in doubt, not when it is done. Nor is the receipt.
func TestSecretsAreNowhereInTheClear(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, err := effect.KeyFile(filepath.Join(dir, "pawl.key"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "home", "pawl.db")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(path, kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var got []email
	say := errTest
	e := effect.New("send_email", func(_ context.Context, _ effect.Op, in email) (string, error) {
		got = append(got, in)
		return "CANARY-5", say
	}).Material("to", "file")
	e = approvedAs(e)
	p := start(t, db, fault.Plan{}, func(o *effect.Options) { o.Key = key })
	type mailState struct {
		Sent pawl.Last[bool] `json:"sent"`
	}
	g, err := pawl.New[mailState]("mail").Node("send", func(ctx context.Context, s *mailState) error {
		if _, err := e.Do(ctx, effect.Ref("mail", "1"), secretMail()); err != nil {
			return err
		}
		s.Sent.Set(true)
		return nil
	}, pawl.Uses(e)).Edge(pawl.Start, "send").Build()
	if err != nil {
		t.Fatal(err)
	}
	th := g.Thread(p.eng, "t")
	out, err := th.Run(t.Context(), &mailState{})
	if err != nil || out.Status != pawl.Waiting {
		t.Fatal(out, err)
	}
	body := string(out.Waiting[0].Body)
	for _, visible := range []string{"all-staff", "q3.pdf", "files.example", "X-Amz-Expires=600", "$.api_key", "$.auth.password"} {
		if !strings.Contains(body, visible) {
			t.Errorf("the approver does not see %q: %s", visible, body)
		}
	}
	clean(t, dir, "asked")
	r := p.requests()[0]
	if r.Call == r.ViewDigest || r.ViewDigest == "" || r.Redaction == "" {
		t.Errorf("the digests are %+v", r)
	}
	p.decideAll(t)
	if out, err = th.Resume(t.Context()); err != nil || out.Status != pawl.Waiting || out.Waiting[0].Kind != "doubt" {
		t.Fatal(out, err)
	}
	clean(t, dir, "in doubt")
	if op := p.operation(); op.Call != r.Call {
		t.Errorf("dispatched %s, approved %s", op.Call, r.Call)
	}
	s, err := p.desk.Show(t.Context(), p.operation().Key)
	if err != nil || strings.Contains(string(s.Params), "CANARY") || !strings.Contains(string(s.Params), "all-staff") {
		t.Errorf("the desk shows %s, %v", s.Params, err)
	}
	if _, err := p.desk.Release(person(t.Context(), "ops"), s.Operation.Key, effect.NotApplied(), "looked"); err != nil {
		t.Fatal(err)
	}
	say = nil
	if out, err = th.Resume(t.Context()); err != nil || out.Status != pawl.Done {
		t.Fatal(out, err)
	}
	clean(t, dir, "done")
	if len(got) != 2 || got[0] != secretMail() || got[1] != secretMail() {
		t.Errorf("the target got %+v", got)
	}
}

// clean scans every file of a home, the log too, for canaries as text and as JSON or base64 would write them.
func clean(t *testing.T, dir, when string) {
	t.Helper()
	found := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		doc, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		found++
		for _, canary := range []string{"CANARY", "Q0FOQVJZ", "43414e415259"} {
			if bytes.Contains(doc, []byte(canary)) {
				t.Errorf("%s: %s holds %s", when, filepath.Base(path), canary)
			}
		}
		return nil
	})
	if err != nil || found < 2 {
		t.Fatalf("%s: scanned %d files, %v", when, found, err)
	}
}

// A material field that the approver would not see: nobody is asked.
func TestAHiddenMaterialFieldIsRefused(t *testing.T) {
	t.Parallel()
	target := pawltest.NewTarget(pawltest.TargetOpaque)
	e := approved(bank(target).Material("to", "amount", "api_key"))
	p := start(t, memory(t), fault.Plan{})
	o := hundred
	o.APIKey = "CANARY-1"
	_, err := p.thread(e, "t").Run(t.Context(), order(o))
	got := (*effect.HiddenError)(nil)
	if !errors.As(err, &got) || len(got.Fields) != 1 || got.Fields[0] != "api_key" {
		t.Fatalf("got %v", err)
	}
	if len(p.operations()) != 0 || len(p.requests()) != 0 {
		t.Error("something was reserved or asked")
	}
	q := start(t, memory(t), fault.Plan{}, func(o *effect.Options) { o.Redactor = nil })
	if _, err := q.thread(approved(bank(target)), "t").Run(t.Context(), order(hundred)); err == nil || !strings.Contains(err.Error(), "Redactor") {
		t.Errorf("without a redactor: %v", err)
	}
	wantCount(t, target, 0, 0, 0)
}

// Under another key nothing can be read, so nothing is sent; an old key still reads.
func TestAnotherKeyFailsClosed(t *testing.T) {
	t.Parallel()
	for _, mode := range allModes {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			target, home := pawltest.NewTarget(mode), memory(t)
			e := bank(target)
			p := start(t, home, fault.Plan{})
			target.At(func(at pawltest.TargetPoint, _ pawltest.TargetRow) error {
				if at == pawltest.TargetCommitted {
					p.db.Stop()
					return errTest
				}
				return nil
			})
			if _, err := p.thread(e, "t").Run(t.Context(), order(hundred)); err == nil {
				t.Fatal("a dead process ended well")
			}
			target.At(nil)
			other := start(t, home, fault.Plan{}, func(o *effect.Options) { o.Key = testKey(8) })
			out, err := other.thread(e, "t").Resume(t.Context())
			lost := (*effect.LostKeyError)(nil)
			if mode != pawltest.TargetOpaque && !errors.As(err, &lost) || mode == pawltest.TargetOpaque && out.Status != pawl.Waiting {
				t.Fatalf("got %+v, %v", out, err)
			}
			wantCount(t, target, 1, 0, 1)
			if mode == pawltest.TargetOpaque {
				return
			}
			if op := other.operation(); op.State != effect.StateInDoubt {
				t.Errorf("the operation is %+v", op)
			}
			both := start(t, home, fault.Plan{}, func(o *effect.Options) { o.Key, o.OldKeys = testKey(8), [][]byte{testKey(7)} })
			if out, err := both.thread(e, "t").Resume(t.Context()); err != nil || out.State.Receipt.Get() != target.Rows()[0].ID {
				t.Errorf("with the old key: %+v, %v", out, err)
			}
			// The receipt is under the new key now: the first process cannot read it and says so.
			old := start(t, home, fault.Plan{})
			if _, err := old.thread(e, "t2").Run(t.Context(), order(hundred)); !errors.As(err, &lost) || lost.What != "outcome" {
				t.Errorf("the receipt under another key: %v", err)
			}
		})
	}
}

// A sealed body that was altered, or moved to another operation, is not opened.
func TestAlteredBodiesFailClosed(t *testing.T) {
	t.Parallel()
	for _, key := range [][]byte{nil, make([]byte, 16), make([]byte, 33)} {
		if _, err := effect.NewLedger(effect.Options{Key: key}); err == nil {
			t.Errorf("a key of %d bytes was taken", len(key))
		}
	}
	if _, err := effect.NewLedger(effect.Options{Key: testKey(1), OldKeys: [][]byte{{1}}}); err == nil {
		t.Error("an old key of one byte was taken")
	}
}

func TestKeyFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	const racers = 8
	keys := make([][]byte, racers)
	var wg sync.WaitGroup
	for i := range racers {
		wg.Go(func() {
			key, err := effect.KeyFile(path)
			if err != nil {
				t.Error(err)
			}
			keys[i] = key
		})
	}
	wg.Wait()
	for _, k := range keys {
		if len(k) != effect.KeySize || !bytes.Equal(k, keys[0]) || bytes.Equal(k, make([]byte, effect.KeySize)) {
			t.Fatalf("keys %x", keys)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("files left: %v, %v", left, err)
	}
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if runtime.GOOS != "windows" {
		if err := os.Chmod(path, 0o640); err != nil {
			t.Fatal(err)
		}
		if _, err := effect.KeyFile(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("a key that others read: %v", err)
		}
	}
	short := filepath.Join(dir, "short")
	if err := os.WriteFile(short, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := effect.KeyFile(short); err == nil || !strings.Contains(err.Error(), "6 bytes") {
		t.Errorf("a short key: %v", err)
	}
	if _, err := effect.KeyFile(filepath.Join(dir, "no", "such", "key")); err == nil {
		t.Error("a key in a folder that is not there")
	}
}

// Receipts and parameters survive the way through JSON as they are.
func TestWhatIsStoredIsWhatIsSent(t *testing.T) {
	t.Parallel()
	type in struct {
		A map[string]any  `json:"a"`
		B []int64         `json:"b"`
		C json.RawMessage `json:"c"`
		D *string         `json:"d"`
	}
	x := "ü\u2028\x00"
	want := in{A: map[string]any{"k": "v", "n": nil}, B: []int64{-1, 1<<53 - 1}, C: json.RawMessage(`{"z":1,"a":[true]}`), D: &x}
	var got in
	e := effect.New("e", func(_ context.Context, _ effect.Op, i in) (in, error) { got = i; return i, nil })
	p := start(t, memory(t), fault.Plan{})
	var back in
	g := graphOf(t, func(ctx context.Context, _ *state) (err error) {
		back, err = e.Do(ctx, effect.Ref("k", "1"), want)
		return err
	}, e)
	if _, err := g.Thread(p.eng, "t").Run(t.Context(), order(hundred)); err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]in{"sent": got, "returned": back} {
		a, _ := json.Marshal(v)
		b, _ := json.Marshal(want)
		if !bytes.Equal(a, b) {
			t.Errorf("%s %s, want %s", name, a, b)
		}
	}
}
