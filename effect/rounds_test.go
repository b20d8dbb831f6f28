//go:build !race

package effect_test

const rounds = 1000
