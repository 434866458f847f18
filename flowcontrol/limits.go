package flowcontrol

import (
	"math"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
)

// Limits of a level, in seats.
type Limits struct {
	// Nominal is its share of the server's seats.
	Nominal int
	// Lower is what it keeps when it lends all that it may, Upper what it has when it borrows all that it may.
	Lower, Upper int
}

// Allot returns the limits of each level of a server with so many seats.
func Allot(levels []*flowcontrolv1.PriorityLevelConfiguration, seats int) []Limits {
	var all float64
	for _, l := range levels {
		shares, _, _ := terms(l)
		all += shares
	}
	out := make([]Limits, len(levels))
	for i, l := range levels {
		shares, lendable, borrowing := terms(l)
		nominal := 0
		if all > 0 {
			nominal = int(math.Ceil(float64(seats) * shares / all))
		}
		borrowed := seats
		if borrowing != nil {
			borrowed = int(math.Round(float64(nominal) * float64(*borrowing) / 100))
		}
		out[i] = Limits{nominal, nominal - int(math.Round(float64(nominal)*lendable/100)), nominal + borrowed}
	}
	return out
}

// defaultShares is what a level has that does not say how many.
const defaultShares = 30

// terms are the shares of a level, how much of them it lends and, unless it has no limit, borrows; both in percent.
func terms(l *flowcontrolv1.PriorityLevelConfiguration) (shares, lendable float64, borrowing *int32) {
	number := func(p *int32, or float64) float64 {
		if p == nil {
			return or
		}
		return float64(*p)
	}
	if limited := l.Spec.Limited; limited != nil {
		return number(limited.NominalConcurrencyShares, defaultShares), number(limited.LendablePercent, 0), limited.BorrowingLimitPercent
	}
	return number(l.Spec.Exempt.NominalConcurrencyShares, 0), number(l.Spec.Exempt.LendablePercent, 0), nil
}

// Demand is how many seats a level could have used in a period.
type Demand struct {
	Limits
	// Exempt levels take what they use, whatever their limits.
	Exempt bool
	// Most is the most at any moment.
	Most int
	// Smoothed is the average with its deviation, falling slowly from earlier peaks.
	Smoothed float64
}

// floor is what the level needs: what it used, up to its share, and at least what it does not lend.
func (d *Demand) floor() int {
	if d.Exempt {
		return max(d.Lower, d.Most)
	}
	return max(d.Lower, min(d.Nominal, d.Most))
}

// Lend returns the limit of each level for the next period. Each gets what it needs; what is left is divided in proportion to
// what they could use. If there is not enough, each gets the same part of what it needs beyond what it does not lend.
func Lend(levels []Demand) []int {
	var total, lower, needed int
	for i := range levels {
		total += levels[i].Nominal
	}
	for i := range levels {
		if levels[i].Exempt {
			total -= levels[i].floor()
			continue
		}
		lower += levels[i].Lower
		needed += levels[i].floor()
	}
	out := make([]int, len(levels))
	share := fairShare(levels, total)
	for i := range levels {
		d := &levels[i]
		switch {
		case d.Exempt:
			out[i] = d.floor()
		case total <= lower:
			out[i] = d.Lower
		case total <= needed:
			part := float64(total-lower) / float64(needed-lower)
			out[i] = d.Lower + int(math.Round(part*float64(d.floor()-d.Lower)))
		default:
			out[i] = int(math.Round(d.at(share)))
		}
	}
	return out
}

// leastTarget keeps a level that could have used nothing from being left out.
const leastTarget = 0.001

// at is the limit of a level if each gets this part of what it could use, within its bounds.
func (d *Demand) at(part float64) float64 {
	low := float64(d.floor())
	target := max(low, d.Smoothed, leastTarget)
	return min(max(low, part*target), float64(d.Upper))
}

// fairShare is the part of what they could use at which the limits of all levels that are not exempt have this sum.
func fairShare(levels []Demand, total int) float64 {
	sum := func(part float64) (sum float64) {
		for i := range levels {
			if !levels[i].Exempt {
				sum += levels[i].at(part)
			}
		}
		return sum
	}
	low, high := 0.0, 1.0
	for sum(high) < float64(total) && high < float64(total)/leastTarget {
		high *= 2
	}
	for range 60 {
		middle := (low + high) / 2
		if sum(middle) < float64(total) {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// decay is the part of an earlier peak of the demand that is left after a period; half of it after about five minutes.
const decay = 0.977

// Smooth returns the next value of Demand.Smoothed, given average and deviation in a period.
func Smooth(before, average, deviation float64) float64 {
	envelope := average + deviation
	return max(envelope, decay*before+(1-decay)*envelope)
}
