package schema

import (
	"fmt"
	"strconv"
)

// Number is a number in which totals fit.
type Number interface {
	~int | ~int64 | ~uint64 | ~float64
}

// IsFloat says whether T has fractions.
func IsFloat[T Number]() bool { one := T(1); return one/2 != 0 }

// IsUnsigned says whether T has no negative numbers.
func IsUnsigned[T Number]() bool { zero := T(0); return zero-1 > 0 }

// FormatNumber writes a number as JSON, a float in the fewest digits that read back as it.
func FormatNumber[T Number](n T) []byte {
	switch {
	case IsFloat[T]():
		return strconv.AppendFloat(nil, float64(n), 'g', -1, 64)
	case IsUnsigned[T]():
		return strconv.AppendUint(nil, uint64(n), 10)
	}
	return strconv.AppendInt(nil, int64(n), 10)
}

// ParseNumber reads a number. What T cannot hold is an error.
func ParseNumber[T Number](doc []byte) (T, error) {
	switch {
	case IsFloat[T]():
		n, err := strconv.ParseFloat(string(doc), 64)
		return T(n), err
	case IsUnsigned[T]():
		n, err := strconv.ParseUint(string(doc), 10, 64)
		return T(n), err
	}
	n, err := strconv.ParseInt(string(doc), 10, 64)
	if err == nil && int64(T(n)) != n {
		err = fmt.Errorf("%d does not fit", n)
	}
	return T(n), err
}
