//go:build !(darwin || freebsd || linux || netbsd || openbsd)

package sqlite

import (
	"errors"
	"os"
)

// Without locks that end with their process, Open refuses before any of these is called.
const supported = false

type lockMode int

const (
	exclusive lockMode = iota
	shared
)

type identity struct{}

func identify(string) (identity, error)        { return identity{}, errors.ErrUnsupported }
func lock(*os.File, lockMode) error            { return errors.ErrUnsupported }
func unlock(*os.File) error                    { return errors.ErrUnsupported }
func tryLock(*os.File, lockMode) (bool, error) { return false, errors.ErrUnsupported }
func writable(string) error                    { return errors.ErrUnsupported }
