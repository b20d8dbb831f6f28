package suite

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
)

// badFiles opens files that cannot be a home. A network file system cannot be mounted here: the driver's own tests have
// that refusal.
func badFiles(t *testing.T) {
	t.Parallel()
	change := func(edit func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			doc, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, edit(doc), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		spoil func(*testing.T, string)
		want  storage.OpenReason
	}{
		"of a newer Pawl": {change(func(d []byte) []byte { copy(d[60:], []byte{0, 0, 0, 99}); return d }), storage.NewerVersion},
		"damaged":         {change(func(d []byte) []byte { return d[:len(d)/2] }), storage.Damaged},
		"garbled":         {change(func(d []byte) []byte { copy(d, "no header at all"); return d }), storage.Damaged},
		"a text":          {change(func([]byte) []byte { return bytes.Repeat([]byte("a text\n"), 99) }), storage.NotPawl},
	} {
		t.Run(name, func(t *testing.T) {
			path := filledFile(t, t.TempDir())
			c.spoil(t, path)
			refusesToOpen(t, path, c.want)
		})
	}
	t.Run("read-only", readOnlyFile)
	t.Run("on a full disk", fullDisk)
	t.Run("in no folder", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "none", "pawl.db")
		_, err := sqlite.Open(path, pawl.Kinds()...)
		if e := (*storage.OpenError)(nil); !errors.As(err, &e) || e.Reason != storage.CannotOpen {
			t.Errorf("error %v", err)
		}
	})
}

// filledFile is a home with a waiting thread in it, closed.
func filledFile(t *testing.T, dir string) string {
	t.Helper()
	h := &home{name: "sqlite", path: filepath.Join(dir, "pawl.db")}
	h.open = func(t testing.TB) storage.DB { return openFile(t, h.path) }
	r := waitingRequest(t, h)
	if err := errors.Join(r.eng.Close(), r.db.Close()); err != nil {
		t.Fatal(err)
	}
	return h.path
}

func refusesToOpen(t *testing.T, path string, want storage.OpenReason) {
	t.Helper()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(path, pawl.Kinds()...)
	if err == nil {
		db.Close()
	}
	e := (*storage.OpenError)(nil)
	if !errors.As(err, &e) || e.Reason != want || e.Where != path {
		t.Fatalf("error %v, want the reason %q", err, want)
	}
	says(t, err.Error(), path, string(want), "nothing was changed")
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file was changed (%v)", err)
	}
}

// disk mounts a small file system of its own.
func disk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("a disk of its own is needed, and mounting one is not allowed here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

func readOnlyFile(t *testing.T) {
	dir := disk(t, "8m")
	path := filledFile(t, dir)
	remount := func(flags uintptr) {
		t.Helper()
		if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	remount(syscall.MS_RDONLY)
	refusesToOpen(t, path, storage.NotWritable)
	remount(0)
	if s := statusOf(t, engine(t, openFile(t, path), nil).Thread("", "t")); s.Status != pawl.Waiting || len(s.Waiting) != 1 {
		t.Errorf("written to again, the thread is %s", s.Status)
	}
}

// fullDisk runs out of disk: at a run's first write, and at a node's result.
func fullDisk(t *testing.T) {
	dir, ctx := disk(t, "4m"), context.Background()
	h := &home{name: "sqlite", path: filepath.Join(dir, "pawl.db")}
	h.open = func(t testing.TB) storage.DB { return openFile(t, h.path) }
	r := waitingRequest(t, h)
	refused(t, r.db, "the input", func() error {
		_, err := r.g.Thread(r.eng, "new").Run(ctx, &request{Notes: pawl.List(strings.Repeat("x", 8<<20))})
		return err
	},
		is(storage.ErrFull), `"new"`, "no space left", "nothing was written")

	size := 8 << 20
	g := build(t, pawl.New[request]("writing").Node("write", func(_ context.Context, s *request) error {
		s.Notes.Add(strings.Repeat("x", size))
		return nil
	}).Edge(pawl.Start, "write"))
	th := g.Thread(engine(t, r.db, nil, g), "writing")
	_, err := th.Run(ctx, &request{})
	if !errors.Is(err, storage.ErrFull) {
		t.Fatalf("error %v", err)
	}
	says(t, err.Error(), `"writing"`, "no space left", "nothing was written", "resume the thread")
	s := statusOf(t, th)
	same(t, "status", s.Status, pawl.Crashed)
	same(t, "kept", string(s.Head.Values), `{}`)
	size = 3
	out, err := th.Resume(ctx)
	same(t, "with room again", mustBeDone(t, out, err), `{"notes":["xxx"]}`)
	end, err := r.th.Resume(ctx, decide.Answer(r.q.ID, 5)) // others are not harmed
	same(t, "the other thread", mustBeDone(t, end, err), `{"amount":5,"notes":["noted"]}`)
}
