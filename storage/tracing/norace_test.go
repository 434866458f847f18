//go:build !race

package tracing_test

// detector tells whether the race detector watches.
const detector = false
