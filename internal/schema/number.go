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

// ParseNumber reads a number. What T cannot hold is an error, beside the zero T.
func ParseNumber[T Number](doc []byte) (n T, err error) {
	switch {
	case IsFloat[T]():
		var f float64
		f, err = strconv.ParseFloat(string(doc), 64)
		n = T(f)
	case IsUnsigned[T]():
		var u uint64
		u, err = strconv.ParseUint(string(doc), 10, 64)
		n = T(u)
	default:
		var i int64
		i, err = strconv.ParseInt(string(doc), 10, 64)
		if n = T(i); int64(n) != i {
			err = strconv.ErrRange
		}
	}
	if err != nil {
		return 0, fmt.Errorf("%.40s is not a number that %T holds", doc, n)
	}
	return n, nil
}

// Plus adds and says whether the sum is right: no overflow, and a float that is finite.
func Plus[T Number](a, b T) (T, bool) {
	sum := a + b
	if IsFloat[T]() {
		return sum, sum-sum == 0
	}
	return sum, b == 0 || (sum > a) == (b > 0)
}
