//go:build !race

package suite

const detector = false
