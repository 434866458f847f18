package garbage

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
)

// ContainerPolicy says which dead containers are kept.
type ContainerPolicy struct {
	// MinAge is the minimum age of a container to be removed.
	MinAge time.Duration
	// PerName is how many containers of each name in a pod are kept, and Total how many in all; negative values mean no
	// limit.
	PerName, Total int
}

// unit is the containers of one name in one pod.
type unit struct {
	uid  types.UID
	name string
}

// Containers returns the containers to be removed, oldest first: those of pods that are gone, unless they run, and of
// other pods the oldest beyond what the policy keeps.
func Containers(list []cri.Container, p ContainerPolicy, gone func(types.UID) bool, now time.Time) []cri.Container {
	units := map[unit][]cri.Container{} // newest first
	var out []cri.Container
	for _, c := range list {
		uid := types.UID(c.Labels[cri.LabelPodUID])
		if c.State == cri.ContainerRunning || now.Sub(c.CreatedAt) < p.MinAge {
			continue
		}
		if gone(uid) {
			out = append(out, c)
			continue
		}
		key := unit{uid, cmp.Or(c.Labels[cri.LabelContainerName], c.Metadata.Name)}
		units[key] = append(units[key], c)
	}
	keep := func(n int) {
		for key, dead := range units {
			if len(dead) > n {
				slices.SortStableFunc(dead, newestFirst)
				out = append(out, dead[n:]...)
				units[key] = dead[:n]
			}
		}
	}
	if p.PerName >= 0 {
		keep(p.PerName)
	}
	if p.Total >= 0 && count(units) > p.Total {
		keep(max(p.Total/len(units), 1))
		var rest []cri.Container
		for _, dead := range units {
			rest = append(rest, dead...)
		}
		slices.SortStableFunc(rest, newestFirst)
		out = append(out, rest[min(p.Total, len(rest)):]...)
	}
	slices.SortFunc(out, func(a, b cri.Container) int { return newestFirst(b, a) })
	return out
}

func count(units map[unit][]cri.Container) (n int) {
	for _, dead := range units {
		n += len(dead)
	}
	return n
}

func newestFirst(a, b cri.Container) int {
	return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
}

// Sandboxes returns the sandboxes to be removed, oldest first: those that are not ready, have no containers, and either
// belong to a pod that is gone or are not the newest of their pod.
func Sandboxes(list []cri.Sandbox, containers []cri.Container, gone func(types.UID) bool) []cri.Sandbox {
	used := map[string]bool{}
	for _, c := range containers {
		used[c.SandboxID] = true
	}
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, func(a, b cri.Sandbox) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
	})
	var out []cri.Sandbox
	newer := map[string]bool{}
	for _, s := range sorted {
		newest := !newer[s.Metadata.UID]
		newer[s.Metadata.UID] = true
		if s.State == cri.SandboxReady || used[s.ID] || newest && !gone(types.UID(s.Metadata.UID)) {
			continue
		}
		out = append(out, s)
	}
	slices.Reverse(out)
	return out
}
