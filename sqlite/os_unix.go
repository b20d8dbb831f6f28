//go:build darwin || freebsd || linux || netbsd || openbsd

package sqlite

import (
	"errors"
	"os"
	"syscall"
)

const supported = true

type lockMode int

const (
	exclusive = lockMode(syscall.LOCK_EX)
	shared    = lockMode(syscall.LOCK_SH)
)

// lock waits for a lock on an open file. It ends with the file, thus with the process.
func lock(f *os.File, mode lockMode) error { return flock(f, int(mode)) }

func unlock(f *os.File) error { return flock(f, syscall.LOCK_UN) }

// tryLock says whether a lock could be had at once.
func tryLock(f *os.File, mode lockMode) (bool, error) {
	err := flock(f, int(mode)|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// writable says why this process may not write to a file or folder.
func writable(path string) error {
	const write = 2
	return os.NewSyscallError("access", syscall.Access(path, write))
}

// identity tells the files of one machine apart. The function identify, which differs by system, finds it for a path.
type identity struct{ device, inode uint64 }

func stat(path string) (identity, error) {
	var st syscall.Stat_t
	for {
		switch err := syscall.Stat(path, &st); err {
		case nil:
			return identity{uint64(st.Dev), uint64(st.Ino)}, nil
		case syscall.EINTR:
		default:
			return identity{}, os.NewSyscallError("stat "+path, err)
		}
	}
}

func flock(f *os.File, how int) error {
	for {
		switch err := syscall.Flock(int(f.Fd()), how); err {
		case nil:
			return nil
		case syscall.EINTR:
		default:
			return os.NewSyscallError("flock "+f.Name(), err)
		}
	}
}
