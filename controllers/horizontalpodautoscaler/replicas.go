package horizontalpodautoscaler

import (
	"errors"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/controllers/internal/pods"
)

// tolerance is how far the ratio of a metric to its target may be from 1 without scaling.
type tolerance struct{ down, up float64 }

func (t tolerance) allows(ratio float64) bool { return 1-t.down <= ratio && ratio <= 1+t.up }

// usage is the average over pods.
type usage struct {
	utilization int32 // in percent of the request
	average     int64 // in thousandths
}

// measure compares pods with a target.
type measure struct {
	// ratio returns the ratio of what the pods use to what they should use.
	ratio func(samples map[string]Sample) (float64, usage, error)
	// unknown is what a pod without a sample is taken to use if the others use less than they should.
	unknown func(pod string) int64
}

// judgment is what the number of replicas follows from, if there is a value for each pod.
type judgment struct {
	pods    []*corev1.Pod
	samples map[string]Sample // is changed
	current int32
	tolerance
	// resource is empty for metrics that are not of a resource.
	resource corev1.ResourceName
	// now, cpuInitialization and initialReadiness decide which samples of the CPU count.
	now                                 time.Time
	cpuInitialization, initialReadiness time.Duration
}

var (
	errNoPods    = errors.New("no pods returned by selector while calculating replica count")
	errNoSamples = errors.New("did not receive metrics for targeted pods (pods might be unready)")
)

// groups are pods by whether their samples count.
type groups struct {
	ready                     int
	unready, missing, ignored []string
}

// group sorts the pods. Those that end are ignored, and those that are not ready yet use nothing if the others use too much.
func (j *judgment) group() groups {
	var g groups
	for _, pod := range j.pods {
		sample, found := j.samples[pod.Name]
		switch {
		case pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed:
			g.ignored = append(g.ignored, pod.Name)
		case pod.Status.Phase == corev1.PodPending:
			g.unready = append(g.unready, pod.Name)
		case !found:
			g.missing = append(g.missing, pod.Name)
		case j.resource == corev1.ResourceCPU && j.starting(pod, sample):
			g.unready = append(g.unready, pod.Name)
		default:
			g.ready++
		}
	}
	return g
}

// starting reports whether a sample of the CPU does not count because the pod is, or was in its window, not ready yet.
func (j *judgment) starting(pod *corev1.Pod, s Sample) bool {
	ready := pods.Condition(pod, corev1.PodReady)
	if ready == nil || pod.Status.StartTime == nil {
		return true
	}
	if pod.Status.StartTime.Add(j.cpuInitialization).After(j.now) {
		return ready.Status == corev1.ConditionFalse || s.At.Before(ready.LastTransitionTime.Add(s.Window))
	}
	return ready.Status == corev1.ConditionFalse && pod.Status.StartTime.Add(j.initialReadiness).After(ready.LastTransitionTime.Time)
}

// settle removes the samples that do not count, and fails if none are left.
func (j *judgment) settle() (groups, error) {
	if len(j.pods) == 0 {
		return groups{}, errNoPods
	}
	g := j.group()
	for _, list := range [][]string{g.ignored, g.unready} {
		for _, name := range list {
			delete(j.samples, name)
		}
	}
	if len(j.samples) == 0 {
		return g, errNoSamples
	}
	return g, nil
}

// replicas returns how many replicas there should be. Pods of unknown usage damp the change: they never cause one, nor one
// in the other direction.
func (j *judgment) replicas(g groups, m measure) (int32, usage, error) {
	ratio, use, err := m.ratio(j.samples)
	if err != nil {
		return 0, usage{}, err
	}
	pending := len(g.unready) > 0 && ratio > 1
	if !pending && len(g.missing) == 0 {
		if j.allows(ratio) {
			return j.current, use, nil
		}
		return clamp(math.Ceil(ratio * float64(g.ready))), use, nil
	}
	for _, name := range g.missing {
		switch {
		case ratio < 1:
			j.samples[name] = Sample{Value: m.unknown(name)}
		case ratio > 1:
			j.samples[name] = Sample{}
		}
	}
	if pending {
		for _, name := range g.unready {
			j.samples[name] = Sample{}
		}
	}
	damped, _, err := m.ratio(j.samples)
	if err != nil {
		return 0, use, err
	}
	n := clamp(math.Ceil(damped * float64(len(j.samples))))
	switch {
	case j.allows(damped), ratio < 1 && damped > 1, ratio > 1 && damped < 1,
		damped < 1 && n > j.current, damped > 1 && n < j.current:
		return j.current, use, nil
	}
	return n, use, nil
}

// againstValue compares the average of the samples with a value.
func againstValue(target int64) measure {
	return measure{
		ratio: func(samples map[string]Sample) (float64, usage, error) {
			var sum int64
			for _, s := range samples {
				sum += s.Value
			}
			average := sum / int64(len(samples))
			return float64(average) / float64(target), usage{average: average}, nil
		},
		unknown: func(string) int64 { return target },
	}
}

// againstRequests compares the samples with a part of what the pods request, in percent.
func againstRequests(requests map[string]int64, percent int32) measure {
	return measure{
		ratio: func(samples map[string]Sample) (float64, usage, error) {
			var sum, requested, n int64
			for name, s := range samples {
				if request, ok := requests[name]; ok {
					sum, requested, n = sum+s.Value, requested+request, n+1
				}
			}
			if requested == 0 {
				return 0, usage{}, errors.New("no metrics returned matched known pods")
			}
			use := usage{utilization: int32(sum * 100 / requested), average: sum / n} //nolint:gosec // upstream's
			return float64(use.utilization) / float64(percent), use, nil
		},
		unknown: func(pod string) int64 { return requests[pod] * int64(max(100, percent)) / 100 },
	}
}

// byRatio returns how many replicas there should be if a value that is not of a pod has a ratio to its target. Without
// replicas it counts what the ratio asks for.
func byRatio(list []*corev1.Pod, current int32, ratio float64, t tolerance) (int32, error) {
	switch {
	case current == 0:
		return clamp(math.Ceil(ratio)), nil
	case t.allows(ratio):
		return current, nil
	case len(list) == 0:
		return 0, errNoPods
	}
	ready := 0
	for _, pod := range list {
		if pod.Status.Phase == corev1.PodRunning && pods.Ready(pod) {
			ready++
		}
	}
	return clamp(math.Ceil(ratio * float64(ready))), nil
}

// byShare returns how many replicas there should be if each takes its share of a value, and what the share is now. Without
// replicas it is all of it.
func byShare(current int32, value, target int64, t tolerance) (int32, int64) {
	n := current
	if !t.allows(float64(value) / (float64(target) * float64(current))) {
		n = clamp(math.Ceil(float64(value) / float64(target)))
	}
	share := math.Ceil(float64(value) / float64(max(current, 1)))
	if share >= math.MaxInt64 {
		return n, math.MaxInt64
	}
	return n, int64(share)
}
