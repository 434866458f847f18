package flowcontrol

import "slices"

// Hand returns the queues from which a flow may choose: so many different ones of all, the same for the same hash. Flows
// with other hashes have mostly other hands, so that a flow which fills all of its queues leaves others to most.
//
// The hand is appended to into. It needs 1 ≤ size ≤ queues.
func Hand(into []int, hash uint64, queues, size int) []int {
	start := len(into)
	for i := range size {
		left := uint64(queues - i) //nolint:gosec // positive
		card := int(hash % left)   //nolint:gosec // below the number of queues
		hash /= left
		// card counts those that are not yet in the hand.
		taken := append(make([]int, 0, 16), into[start:]...)
		slices.Sort(taken)
		for _, t := range taken {
			if card >= t {
				card++
			}
		}
		into = append(into, card)
	}
	return into
}
