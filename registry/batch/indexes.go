package batch

import (
	"fmt"
	"strconv"
	"strings"
)

// interval is a range of completion indexes, its ends included.
type interval struct{ first, last int32 }

// countIndexes returns how many indexes a list such as "1,3-5" has. They must be in order and below completions.
func countIndexes(list string, completions int32) (int32, error) {
	if list == "" {
		return 0, nil
	}
	var total int32
	previous := int32(-1)
	for i, text := range strings.Split(list, ",") {
		in, err := parseInterval(text, completions)
		if err != nil {
			return 0, err
		}
		if i > 0 && previous >= in.first {
			return 0, fmt.Errorf("non-increasing order, previous: %d, current: %d", previous, in.first)
		}
		total += in.last - in.first + 1
		previous = in.last
	}
	return total, nil
}

func parseInterval(text string, completions int32) (interval, error) {
	ends := strings.Split(text, "-")
	if len(ends) > 2 {
		return interval{}, fmt.Errorf("the fragment %q violates the requirement that an index interval can have at most two parts separated by '-'", text)
	}
	var in [2]int32
	for i, end := range ends {
		n, err := strconv.Atoi(end)
		if err != nil {
			return interval{}, fmt.Errorf("cannot convert string to integer for index: %q", end)
		}
		if n >= int(completions) {
			return interval{}, fmt.Errorf("too large index: %q", end)
		}
		in[i] = int32(n)
	}
	if len(ends) == 1 {
		return interval{in[0], in[0]}, nil
	}
	if in[0] >= in[1] {
		return interval{}, fmt.Errorf("non-increasing order, previous: %d, current: %d", in[0], in[1])
	}
	return interval{in[0], in[1]}, nil
}

// disjoint returns an error if two lists, both in order, have an index in common. What cannot be parsed is left out:
// other checks tell of it.
func disjoint(completed, failed string, completions int32) error {
	done, lost := parsable(completed, completions), parsable(failed, completions)
	for len(done) > 0 && len(lost) > 0 {
		c, f := done[0], lost[0]
		switch {
		case c.first <= f.last && f.first <= c.last:
			return fmt.Errorf("failedIndexes and completedIndexes overlap at index: %d", max(c.first, f.first))
		case c.first <= f.first:
			done = done[1:]
		default:
			lost = lost[1:]
		}
	}
	return nil
}

func parsable(list string, completions int32) []interval {
	var all []interval
	for text := range strings.SplitSeq(list, ",") {
		if in, err := parseInterval(text, completions); err == nil {
			all = append(all, in)
		}
	}
	return all
}
