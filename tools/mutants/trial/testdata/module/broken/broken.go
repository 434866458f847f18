// Package broken has tests that fail, one of them only now and then.
package broken

func Add(a, b int) int { return a + b }
