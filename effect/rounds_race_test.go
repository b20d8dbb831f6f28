//go:build race

package effect_test

// rounds of what is tried in any order. The race detector sees in some what it sees in all, and makes each cost twenty
// times as much.
const rounds = 60
