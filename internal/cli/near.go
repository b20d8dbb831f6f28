package cli

import (
	"fmt"
	"strings"
)

// meant is "; did you mean x?" for the nearest candidate, if one is near.
func meant(got string, candidates ...string) string {
	best, least := "", len(got)/3+1
	for _, c := range candidates {
		if d := distance(strings.ToLower(got), strings.ToLower(c)); d <= least && (best == "" || d < least) {
			best, least = c, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", best)
}

// distance is the number of characters to insert, delete or replace between two words.
func distance(a, b string) int {
	from, to := []rune(a), []rune(b)
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i, r := range from {
		diagonal := row[0]
		row[0] = i + 1
		for j, s := range to {
			next := diagonal
			if r != s {
				next = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(to)]
}
