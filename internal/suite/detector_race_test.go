//go:build race

package suite

// detector says whether the race detector watches. It makes whatever is done cost about twenty times as much.
const detector = true
