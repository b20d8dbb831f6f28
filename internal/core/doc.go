// Package core is the pure heart of the engine: identity, records, planning and merging.
//
// It does no I/O, reads no clock, starts no goroutine and never depends on map order. It mints nothing: hosts hand it
// fresh ids. The local host, the tests' journal host and the naive interpreter stand on it.
package core
