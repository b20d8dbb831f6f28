package memdb

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"strings"

	"github.com/pawl-dev/pawl/storage"
)

// head maps a value to a number such that a smaller head means a smaller value. Equal heads mean equal values for
// an int64 only.
func head(v any) uint64 {
	var b [8]byte
	switch v := v.(type) {
	case int64:
		return intHead(v)
	case string:
		copy(b[:], v)
	case []byte:
		copy(b[:], v)
	}
	return binary.BigEndian.Uint64(b[:])
}

func intHead(v int64) uint64 { return uint64(v) ^ 1<<63 }

// compareValues compares two values of one type.
func compareValues(a, b any) int {
	switch a := a.(type) {
	case int64:
		return cmp.Compare(a, b.(int64))
	case string:
		return strings.Compare(a, b.(string))
	default:
		return bytes.Compare(a.([]byte), b.([]byte))
	}
}

// own returns a value of type typ that shares no memory with v.
func own(v any, typ storage.Type) any {
	switch b := v.(type) {
	case []byte:
		return append([]byte{}, b...)
	case nil:
		return zero(typ)
	}
	return v
}

func zero(typ storage.Type) any {
	switch typ {
	case storage.Int:
		return int64(0)
	case storage.Text:
		return ""
	default:
		return []byte{}
	}
}
