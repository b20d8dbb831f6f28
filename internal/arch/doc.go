// Package arch holds the rules of the house as tests: which package may import which, and what each must document.
package arch
