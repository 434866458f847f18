package deployment

import (
	"cmp"
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
)

// scaling is a new size for a set. The annotations about the Deployment's size are updated with it; if restate is set,
// even when the size does not change.
type scaling struct {
	set     *appsv1.ReplicaSet
	to      int32
	restate bool
}

// roomFor returns how large the current set, or a new one if there is none, may be beside the old ones. Pods of old
// sets count until they are deleted: ReplicaSets are resized independently, and new pods might otherwise exceed
// maxSurge briefly while old ones still exist. (Upstream counts only the sizes.)
func roomFor(d *appsv1.Deployment, s sets) int32 {
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return replicas(d)
	}
	had := int32(0)
	if s.current != nil {
		had = size(s.current)
	}
	room := replicas(d) + maxSurge(d) - had - sum(s.old, func(set *appsv1.ReplicaSet) int32 { return max(size(set), set.Status.Replicas) })
	if room <= 0 {
		return had
	}
	return had + min(room, replicas(d)-had)
}

// planRolling returns the next step of a rolling update: to grow the current set, or to cut it to the Deployment's
// size, or else to shrink old ones. An empty plan means that no step is left.
func planRolling(d *appsv1.Deployment, s sets) []scaling {
	to := size(s.current)
	switch {
	case to > replicas(d):
		to = replicas(d)
	case to < replicas(d):
		to = roomFor(d, s)
	}
	if to != size(s.current) {
		return []scaling{{set: s.current, to: to}}
	}
	return planShrink(d, s)
}

// planShrink removes pods from old sets as long as enough pods stay available. It first removes unavailable pods,
// oldest sets first, which costs nothing; then as many available ones as can be spared. Unavailable pods of the current
// set count as lost, which keeps a bad template from taking down the good one.
func planShrink(d *appsv1.Deployment, s sets) []scaling {
	old := active(s.old)
	if len(old) == 0 {
		return nil
	}
	least := replicas(d) - maxUnavailable(d)
	spare := sum(s.all(), size) - least - (size(s.current) - available(s.current))
	if spare <= 0 {
		return nil
	}
	sizes := make([]int32, len(old))
	for i, set := range old {
		sizes[i] = size(set)
	}
	plan, settled := planUnhealthy(old, sizes, spare)
	if !settled {
		return plan
	}
	toSpare := sum(append(slices.Clone(old), s.current), available) - least
	for i, set := range old {
		if toSpare <= 0 {
			break
		}
		if sizes[i] == 0 {
			continue
		}
		less := min(sizes[i], toSpare)
		toSpare -= less
		sizes[i] -= less
		plan = append(plan, scaling{set: set, to: sizes[i]})
	}
	return plan
}

// planUnhealthy removes up to spare unavailable pods from old sets and from sizes. It returns settled=false if it finds
// a set that was shrunk so recently that its status still counts more available pods than its new size.
func planUnhealthy(old []*appsv1.ReplicaSet, sizes []int32, spare int32) (plan []scaling, settled bool) {
	for i, set := range old {
		if spare <= 0 {
			break
		}
		unhealthy := min(spare, sizes[i]-available(set))
		if unhealthy < 0 {
			return plan, false
		}
		if unhealthy == 0 {
			continue
		}
		spare -= unhealthy
		sizes[i] -= unhealthy
		plan = append(plan, scaling{set: set, to: sizes[i]})
	}
	return plan, true
}

// planEndOld scales all old sets to 0, the first step of Recreate.
func planEndOld(s sets) []scaling {
	var plan []scaling
	for _, set := range active(s.old) {
		plan = append(plan, scaling{set: set})
	}
	return plan
}

// planScale applies a new size of the Deployment without advancing the rollout. The only active set, or else the
// latest, gets all of it; if the current set is saturated, all others are scaled to 0; in the middle of a rolling
// update every set is scaled in proportion, which keeps the risk of the rollout the same.
func planScale(d *appsv1.Deployment, s sets) []scaling {
	if only := activeOrLatest(s); only != nil {
		if size(only) == replicas(d) {
			return nil
		}
		return []scaling{{set: only, to: replicas(d)}}
	}
	switch {
	case len(active(s.all())) == 0:
		return nil
	case saturated(d, s.current):
		return planEndOld(s)
	case d.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType:
		return planShares(d, active(s.all()))
	}
	return nil
}

// activeOrLatest returns the only active set, the latest set if none is active, or nil if several are.
func activeOrLatest(s sets) *appsv1.ReplicaSet {
	switch asking := active(s.all()); {
	case len(asking) == 1:
		return asking[0]
	case len(asking) > 1:
		return nil
	case s.current != nil:
		return s.current
	case len(s.old) > 0:
		return s.old[len(s.old)-1]
	}
	return nil
}

// saturated reports whether the set has the Deployment's full size, has recorded it, and has all its pods available.
func saturated(d *appsv1.Deployment, set *appsv1.ReplicaSet) bool {
	if set == nil {
		return false
	}
	desired, ok := countAnnotation(set, desiredReplicas)
	return ok && desired == replicas(d) && size(set) == replicas(d) && available(set) == replicas(d)
}

// planShares adds or removes replicas of the active sets in proportion to their size, largest first; the remainder from
// rounding goes to the largest. Among sets of the same size the newer grow and the older shrink first.
func planShares(d *appsv1.Deployment, sets []*appsv1.ReplicaSet) []scaling {
	var allowed int32
	if replicas(d) > 0 {
		allowed = replicas(d) + maxSurge(d)
	}
	toAdd := allowed - sum(sets, size)
	switch {
	case toAdd > 0:
		slices.SortStableFunc(sets, func(a, b *appsv1.ReplicaSet) int { return cmp.Or(cmp.Compare(size(b), size(a)), byAge(b, a)) })
	case toAdd < 0:
		slices.SortStableFunc(sets, func(a, b *appsv1.ReplicaSet) int { return cmp.Or(cmp.Compare(size(b), size(a)), byAge(a, b)) })
	}
	plan := make([]scaling, len(sets))
	added := int32(0)
	for i, set := range sets {
		plan[i] = scaling{set: set, to: size(set), restate: true}
		if toAdd == added {
			continue
		}
		share := fraction(d, set)
		if toAdd > 0 {
			share = min(share, toAdd-added)
		} else {
			share = max(share, toAdd-added)
		}
		plan[i].to += share
		added += share
	}
	plan[0].to = max(0, plan[0].to+toAdd-added)
	return plan
}

// fraction returns by how much a set grows in proportion to its Deployment. The Deployment's previous size is in an
// annotation of the set.
func fraction(d *appsv1.Deployment, set *appsv1.ReplicaSet) int32 {
	if replicas(d) == 0 {
		return -size(set)
	}
	before, _ := countAnnotation(set, maxReplicas)
	if before == 0 {
		before = d.Status.Replicas
	}
	if before == 0 {
		return 0
	}
	grown := float64(size(set)) * float64(replicas(d)+maxSurge(d)) / float64(before)
	return int32(math.Round(grown)) - size(set)
}
