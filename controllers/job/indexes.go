package job

import (
	"math"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// interval is a range of completion indexes, its ends included.
type interval struct{ first, last int }

// indexes are ascending intervals with gaps between them: the compressed form of what may be 100,000 indexes.
type indexes []interval

// parseIndexes reads the form that statuses and policies have, up to the given number of completions. It skips what is
// no interval.
func parseIndexes(text string, completions int) indexes {
	var all indexes
	if text == "" {
		return nil
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, err := strconv.Atoi(first)
		if err != nil {
			continue
		}
		if from >= completions {
			break
		}
		to := from
		if isRange {
			last, _, _ = strings.Cut(last, "-")
			if to, err = strconv.Atoi(last); err != nil {
				continue
			}
			to = min(to, completions-1)
		}
		if n := len(all); n > 0 && all[n-1].last == from-1 {
			all[n-1].last = to
		} else {
			all = append(all, interval{from, to})
		}
	}
	return all
}

// String is the form that statuses have: "1,3,4,6-8".
func (x indexes) String() string {
	var b strings.Builder
	for _, in := range x {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(in.first))
		if in.last == in.first {
			continue
		}
		if in.last == in.first+1 {
			b.WriteByte(',')
		} else {
			b.WriteByte('-')
		}
		b.WriteString(strconv.Itoa(in.last))
	}
	return b.String()
}

func (x indexes) count() int {
	n := 0
	for _, in := range x {
		n += in.last - in.first + 1
	}
	return n
}

func (x indexes) has(index int) bool {
	at, found := slices.BinarySearchFunc(x, index, func(in interval, index int) int { return in.last - index })
	return found || at < len(x) && x[at].first <= index
}

// with returns the union with other indexes.
func (x indexes) with(more indexes) indexes {
	all := slices.Concat(x, more)
	slices.SortStableFunc(all, func(a, b interval) int { return a.first - b.first })
	var out indexes
	for _, in := range all {
		if n := len(out); n > 0 && in.first <= out[n-1].last+1 {
			out[n-1].last = max(out[n-1].last, in.last)
		} else {
			out = append(out, in)
		}
	}
	return out
}

// singles are indexes one by one, in any order.
func singles(list []int) indexes {
	var all indexes
	for _, i := range list {
		all = append(all, interval{i, i})
	}
	return indexes{}.with(all)
}

// common counts the indexes that two lists share.
func (x indexes) common(y indexes) int {
	n := 0
	for i, j := 0, 0; i < len(x) && j < len(y); {
		n += max(0, min(x[i].last, y[j].last)-max(x[i].first, y[j].first)+1)
		if x[i].last < y[j].last {
			i++
		} else {
			j++
		}
	}
	return n
}

// firstOutside returns the first n indexes below completions that are not in x.
func (x indexes) firstOutside(n, completions int) []int {
	var out []int
	next := 0
	for _, in := range append(slices.Clone(x), interval{completions, completions}) {
		for ; next < min(in.first, completions) && len(out) < n; next++ {
			out = append(out, next)
		}
		next = max(next, in.last+1)
	}
	return out
}

// noIndex is that of pods without a valid one.
const noIndex = -1

// indexOf returns the completion index of a pod.
func indexOf(pod *corev1.Pod) int {
	index, err := strconv.Atoi(pod.Annotations[batchv1.JobCompletionIndexAnnotation])
	if err != nil || index < 0 {
		return noIndex
	}
	return index
}

// indexesOf returns the indexes of pods, without those that have none.
func indexesOf(list []*corev1.Pod) indexes {
	var all []int
	for _, pod := range list {
		if i := indexOf(pod); i != noIndex {
			all = append(all, i)
		}
	}
	return singles(all)
}

// failures returns how often the predecessors of a pod with the same index have failed: how many of these failures count
// towards the limit, and how many a policy ignores. A replacement has these annotations; users can write them.
func failures(pod *corev1.Pod) (counted, ignored int32) {
	return countIn(pod.Annotations[batchv1.JobIndexFailureCountAnnotation]), countIn(pod.Annotations[batchv1.JobIndexIgnoredFailureCountAnnotation])
}

func countIn(text string) int32 {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > math.MaxInt32 {
		return 0
	}
	return int32(n)
}
