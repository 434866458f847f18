// Package calc has functions that its tests know well, little, not at all, and only from another package.
package calc

func Larger(a, b int) int {
	if a > b {
		return a
	}
	return b
}

func Sign(n int) int {
	if n < 0 {
		return -1
	}
	return 1
}

func Unknown(n int) int { return n - 1 }

func Elsewhere(n int) int { return n + 2 }

func Slow(n int) int { return n + 3 }
