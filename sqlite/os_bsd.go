//go:build darwin || freebsd || netbsd || openbsd

package sqlite

func identify(path string) (identity, error) { return stat(path) }
