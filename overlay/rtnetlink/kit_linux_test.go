package rtnetlink_test

import (
	"slices"
	"strings"
)

func sorted(lines []string) string {
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
