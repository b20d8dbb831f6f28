//go:build darwin || freebsd || linux || netbsd || openbsd

package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/storage"
)

// TestMain lets the test binary be the other process: a role and a path make it one.
func TestMain(m *testing.M) {
	if role := os.Getenv("PAWL_SQLITE_ROLE"); role != "" {
		if err := other(role, os.Getenv("PAWL_SQLITE_PATH")); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// other is what a second process does. It goes on until its input ends.
func other(role, path string) error {
	if role == "restore" {
		return restoreAndDie(path)
	}
	db, err := Open(path, note)
	if e := (*storage.OpenError)(nil); role == "open" && errors.As(err, &e) {
		fmt.Println(e.Reason)
		return nil
	}
	if err != nil {
		return err
	}
	defer db.Close()
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	switch role {
	case "hold":
		m, err := db.Join(context.Background())
		if err != nil {
			return err
		}
		if err := take(db, 7, m.ID()); err != nil {
			return err
		}
		fmt.Println(m.ID())
		<-ended
	case "write":
		for {
			select {
			case <-ended:
				return nil
			default:
			}
			n, err := add(db, "theirs")
			if err != nil {
				return err
			}
			fmt.Println(n)
		}
	}
	return nil
}

func take(db *DB, thread int64, member string) error {
	return db.Update(context.Background(), func(_ context.Context, tx storage.Tx) error {
		_, ok, err := tx.Lease(thread, storage.Take, member)
		if err == nil && !ok {
			err = errors.New("the lease is held")
		}
		return err
	})
}

// process is a running second process.
type process struct {
	*exec.Cmd
	in   io.Closer
	out  *bufio.Scanner
	once sync.Once
}

func start(t *testing.T, role, path string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: exec.Command(exe)}
	p.Env = append(os.Environ(), "PAWL_SQLITE_ROLE="+role, "PAWL_SQLITE_PATH="+path)
	p.Stderr = os.Stderr
	in, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewScanner(out)
	t.Cleanup(p.kill)
	return p
}

// line is the next line that the process says.
func (p *process) line(t *testing.T) string {
	t.Helper()
	if !p.out.Scan() {
		t.Fatalf("the other process ended: %v", p.out.Err())
	}
	if s, failed := strings.CutPrefix(p.out.Text(), "error: "); failed {
		t.Fatalf("the other process failed: %s", s)
	}
	return p.out.Text()
}

func (p *process) kill() {
	p.once.Do(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
}

func TestAnotherProcessReadsWritesAndWakes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "home.db")
	db := open(t, path, nil, note)
	now, wake := db.Changed(0)
	p := start(t, "write", path)
	<-wake
	if after, _ := db.Changed(now); after <= now {
		t.Errorf("change number %d after a commit of another process, want more than %d", after, now)
	}
	last := p.line(t)
	n, err := add(db, "mine")
	if err != nil {
		t.Fatal(err)
	}
	if theirs, _ := strconv.ParseInt(last, 10, 64); n <= theirs {
		t.Errorf("took number %d after the other process took %d", n, theirs)
	}
}

func TestWritersOfTwoProcessesTakeTurns(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "home.db")
	db := open(t, path, nil, note)
	p := start(t, "write", path)
	p.line(t)
	go func() { // so that its pipe never fills
		for p.out.Scan() {
		}
	}()
	// Four callers keep this process's writer at the turnstile all the time.
	var first, last int64
	var mu sync.Mutex
	var callers sync.WaitGroup
	const each = 60
	for range 4 {
		callers.Go(func() {
			for range each {
				n, err := add(db, "mine")
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if first == 0 {
					first = n
				}
				last = max(last, n)
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	theirs := last - first + 1 - 4*each
	t.Logf("while this process committed %d notes, the other committed %d", 4*each, theirs)
	if theirs < 1 {
		t.Error("the other process was starved")
	}
	// The door lets one of each through in turn. Callers share commits, and wake late on a busy machine.
	if theirs > 50*4*each {
		t.Errorf("this process was nearly starved: %d commits of the other", theirs)
	}
}

func TestKilledWhileWriting(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "home.db")
	p := start(t, "write", path)
	var said []string
	for range 200 {
		said = append(said, p.line(t))
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for p.out.Scan() {
		said = append(said, p.out.Text())
	}
	p.kill()
	db := open(t, path, nil, note)
	rows := all(t, db)
	if len(rows) < len(said) {
		t.Fatalf("the other process reported %d commits, %d are there", len(said), len(rows))
	}
	for i, r := range rows {
		if r.Key[0] != int64(i+1) {
			t.Fatalf("row %d has number %v", i, r.Key[0])
		}
	}
	if err := db.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAMemberLivesAsLongAsItsProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "home.db")
	db := open(t, path, nil, note)
	me, err := db.Join(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, "hold", path)
	owner := p.line(t)
	look := func() (l storage.Lease) {
		t.Helper()
		err := db.View(t.Context(), func(_ context.Context, tx storage.Tx) (err error) {
			l, _, err = tx.Lease(7, storage.Look, "")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	if l := look(); l.Owner != owner || !l.Alive {
		t.Fatalf("lease of a living process: %+v", l)
	}
	if err := p.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if l := look(); !l.Alive {
		t.Error("a process that is stopped counts as dead")
	}
	if err := take(db, 7, me.ID()); err == nil {
		t.Error("took the lease of a process that is stopped")
	}
	p.kill()
	if l := look(); l.Alive {
		t.Error("a killed process counts as alive")
	}
	if err := take(db, 7, me.ID()); err != nil {
		t.Errorf("Take from a killed process: %v", err)
	}
	if l := look(); l.Epoch != 2 || l.Owner != me.ID() || !l.Alive {
		t.Errorf("after the takeover: %+v", l)
	}
}

// TestNotWritable opens as a user who may not write. Root may write anywhere, so it becomes another user for this.
func TestNotWritable(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "pawl-ro-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = os.Chmod(dir, 0o700)
		_ = os.RemoveAll(dir)
	})
	path := filepath.Join(dir, "home.db")
	db := open(t, path, nil, note)
	if _, err := add(db, "x"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(dir, "exe")
	copyFile(t, exe)
	for _, c := range []struct {
		name      string
		dir, file os.FileMode
	}{{"folder", 0o555, 0o666}, {"file", 0o777, 0o444}} {
		if err := errors.Join(os.Chmod(path, c.file), os.Chmod(dir, c.dir)); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(exe)
		cmd.Env = []string{"PAWL_SQLITE_ROLE=open", "PAWL_SQLITE_PATH=" + path}
		if os.Geteuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != string(storage.NotWritable) {
			t.Errorf("read-only %s: %q, %v", c.name, got, err)
		}
	}
}

func copyFile(t *testing.T, to string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(exe)
	if err == nil {
		err = os.WriteFile(to, data, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// restoreAndDie dies when the restored home is ready and has not got its place.
func restoreAndDie(path string) error {
	_, err := Restore(context.Background(), filepath.Join(filepath.Dir(path), "backup"), path, &RestoreOptions{
		Replace: true, Prepare: func(context.Context, string, time.Time) error { return syscall.Kill(os.Getpid(), syscall.SIGKILL) },
	})
	return errors.Join(err, errors.New("it lives"))
}

// A restore that is killed leaves the home and the backup as they were, and can be done again.
func TestAKilledRestore(t *testing.T) {
	t.Parallel()
	home, backup := restorable(t)
	p := start(t, "restore", home)
	if p.out.Scan() {
		t.Fatalf("it went on: %s", p.out.Text())
	}
	p.kill()
	db, err := Open(home, note)
	if err != nil {
		t.Fatal(err)
	}
	if got := labels(t, db); fmt.Sprint(got) != "[kept later]" {
		t.Errorf("after the death: %q", got)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(context.Background(), backup, home, &RestoreOptions{Replace: true}); err != nil {
		t.Fatal(err)
	}
	if got := labels(t, open(t, home, nil, note)); fmt.Sprint(got) != "[kept]" {
		t.Errorf("restored %q", got)
	}
}
