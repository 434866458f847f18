package scheduling_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

var cases = flag.Int("cases", 20000, "how many verdicts about a pod and a node TestMixed compares")

// mixed are the plugins of TestMixed: all that decide about pods without resource claims.
func mixed() []string {
	return append(contested(), "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread", "InterPodAffinity",
		"NodeResourcesBalancedAllocation", "ImageLocality", "NodeDeclaredFeatures")
}

// TestMixed compares whole decisions, with everything on which they depend at once.
func TestMixed(t *testing.T) {
	seen, compared := tally{}, 0
	for i := uint64(0); compared < *cases; i++ {
		passed := t.Run(fmt.Sprint(*seed+i), func(t *testing.T) {
			g := &generator{Rand: rand.New(rand.NewPCG(*seed+i, 8))}
			w := newWorld(t, g.mixed(), mixed()...)
			for _, pod := range w.pending {
				feasible, state := w.decide(pod)
				seen.note(w.profile.Schedule(pod, w.state.Snapshot()))
				compared += len(w.nodes)
				if len(feasible) > 0 && g.chance(0.8) {
					w.place(pod, pick(g, feasible...), state, true)
				}
				if len(w.bound) > 0 && g.chance(0.2) {
					j := g.IntN(len(w.bound))
					w.state.RemovePod(w.bound[j])
					w.bound = append(w.bound[:j:j], w.bound[j+1:]...)
				}
			}
		})
		if !passed {
			return
		}
	}
	seen.log(t)
	t.Logf("%d verdicts", compared)
}

// mixed makes a cluster in which pods have everything that plugins read.
func (g *generator) mixed() objects {
	o, v := g.topology(), g.volumes()
	o.claims, o.volumes, o.classes, o.csiNodes, o.drivers = v.claims, v.volumes, v.classes, v.csiNodes, v.drivers
	o.capacities, o.attachments = v.capacities, v.attachments
	for i, n := range o.nodes {
		if i < len(v.nodes) {
			for key, value := range v.nodes[i].Labels {
				if _, ok := n.Labels[key]; !ok {
					n.Labels[key] = value
				}
			}
		}
		g.furnish(n)
	}
	for _, p := range slices.Concat(o.bound, o.pending) {
		like := g.contender(p.Name, 3, 0.3)
		p.Spec.Containers, p.Spec.Priority = like.Spec.Containers, like.Spec.Priority
		p.Spec.Containers[0].Image = pick(g, "a:1", "b", "registry.example/c:v1", "")
		if g.chance(0.3) {
			p.Spec.Volumes = g.pod(p.Name).Spec.Volumes
		}
		if g.chance(0.05) {
			p.Spec.NodeName = ""
		}
	}
	o.bound = slices.DeleteFunc(o.bound, func(p *corev1.Pod) bool { return p.Spec.NodeName == "" })
	g.own(&o)
	return o
}

// furnish gives a node resources and images.
func (g *generator) furnish(n *corev1.Node) {
	n.Status.Allocatable = corev1.ResourceList{
		"cpu": *resource.NewQuantity(int64(2+g.IntN(14)), resource.DecimalSI), "memory": *resource.NewQuantity(int64(2+g.IntN(14))<<30, resource.BinarySI),
		"pods": *resource.NewQuantity(int64(3+g.IntN(20)), resource.DecimalSI), "example.com/gpu": *resource.NewQuantity(int64(g.IntN(3)), resource.DecimalSI),
	}
	for _, name := range []string{"docker.io/library/a:1", "a:1", "b:latest", "registry.example/c:v1"} {
		if g.chance(0.4) {
			n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{name}, SizeBytes: int64(g.IntN(2 << 30))})
		}
	}
}
