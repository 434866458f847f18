package horizontalpodautoscaler

import (
	"slices"
	"time"
)

// history is what an autoscaler has recommended and done since the controller began.
type history struct {
	recommendations []recommendation
	ups, downs      []change
}

// recommendation is a number of replicas before it was limited.
type recommendation struct {
	replicas int32
	at       time.Time
}

// change is by how many replicas a target was scaled.
type change struct {
	replicas int32 // positive
	at       time.Time
}

// begin records the present number of replicas if nothing is known of the past.
func (h *history) begin(replicas int32, now time.Time) {
	if h.recommendations == nil {
		h.recommend(replicas, now, time.Time{})
	}
}

// recommend records a recommendation, in the place of one before a time.
func (h *history) recommend(replicas int32, now, before time.Time) {
	h.recommendations = record(h.recommendations, recommendation{replicas, now}, func(r recommendation) bool { return r.at.Before(before) })
}

// scaled records a change, in the place of one in the same direction that is longer ago than a time.
func (h *history) scaled(from, to int32, now time.Time, longest time.Duration) {
	list, by := &h.downs, from-to
	if to > from {
		list, by = &h.ups, to-from
	}
	*list = record(*list, change{by, now}, func(c change) bool { return c.at.Before(now.Add(-longest)) })
}

// record replaces the last old entry of a list, or appends. Other old ones stay, as upstream's do, and still count where a
// longer time matters.
func record[T any](list []T, entry T, old func(T) bool) []T {
	for i, e := range slices.Backward(list) {
		if old(e) {
			list[i] = entry
			return list
		}
	}
	return append(list, entry)
}

// start returns how many replicas there were at the beginning of a period, as far as the autoscaler changed them.
func (h *history) start(current int32, now time.Time, period time.Duration) int32 {
	since := now.Add(-period)
	return current - sumSince(h.ups, since) + sumSince(h.downs, since)
}

func sumSince(list []change, since time.Time) (sum int32) {
	for _, c := range list {
		if c.at.After(since) {
			sum += c.replicas
		}
	}
	return sum
}
