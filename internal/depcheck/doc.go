// Package depcheck has one test, which holds the packages of this module to what they may be built from: a table of the
// packages of this module, one of how many others, and one of those that only some may import.
package depcheck
