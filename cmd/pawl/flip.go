package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
)

// places are where a file has a text. A database file may have it more often than the database: space that is free again
// keeps what stood there.
func places(path, text string) (at []int64, err error) {
	doc, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for i := 0; ; i++ {
		next := bytes.Index(doc[i:], []byte(text))
		if next < 0 {
			break
		}
		i += next
		at = append(at, int64(i))
	}
	if at == nil {
		err = fmt.Errorf("%s does not hold %q", path, text)
	}
	return at, err
}

// flip changes the last bit of one byte of a file. Again, it is as it was.
func flip(path string, at int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	b := make([]byte, 1)
	if _, err = f.ReadAt(b, at); err == nil {
		_, err = f.WriteAt([]byte{b[0] ^ 1}, at)
	}
	return errors.Join(err, f.Close())
}
