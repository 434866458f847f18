package plugins

import (
	"math"
	"time"
)

// choose returns the candidate whose preemption costs least. Each rule decides between those that are equal by the rules
// before; in the end the first is chosen.
func choose(candidates []*candidate) *candidate {
	best := candidates[0]
	for _, c := range candidates[1:] {
		if c.cheaper(best) {
			best = c
		}
	}
	return best
}

// cheaper reports whether c is to be preferred.
func (c *candidate) cheaper(d *candidate) bool {
	if c.violations != d.violations {
		return c.violations < d.violations
	}
	if a, b := c.victims[0].priority, d.victims[0].priority; a != b {
		return a < b
	}
	if a, b := c.priorities(), d.priorities(); a != b {
		return a < b
	}
	if a, b := len(c.victims), len(d.victims); a != b {
		return a < b
	}
	return c.start().After(d.start())
}

// priorities returns the sum of the victims' priorities, each counted from the lowest possible, so that more victims cost
// more even if their priorities are negative.
func (c *candidate) priorities() (sum int64) {
	for _, v := range c.victims {
		sum += int64(v.priority) + math.MaxInt32 + 1
	}
	return sum
}

// start returns when the first of the victims of the highest priority started.
func (c *candidate) start() time.Time {
	return c.victims[0].start // of equal priority, the first comes first
}
