package schedulertest

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// oneIn is true once in n times on average.
func oneIn(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func zones() []string { return []string{"a", "b", "c"} }
func images() []string {
	return []string{"nginx", "redis:7", "example.com/app", "example.com:5000/db:1"}
}

// RandomNode generates a node with the given number. Its labels, taints, resources and images come from small
// sets, so that they sometimes match those of RandomPod; some are missing.
func RandomNode(r *rand.Rand, number int) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%02d", number)}}
	if !oneIn(r, 8) {
		n.Labels = map[string]string{corev1.LabelTopologyZone: pick(r, zones()...)}
		if oneIn(r, 2) {
			n.Labels["disk"] = pick(r, "ssd", "hdd")
		}
		if oneIn(r, 3) {
			n.Labels["cores"] = pick(r, "4", "8", "many")
		}
	}
	for range r.IntN(3) {
		if oneIn(r, 2) {
			n.Spec.Taints = append(n.Spec.Taints, randomTaint(r))
		}
	}
	n.Spec.Unschedulable = oneIn(r, 8)
	if oneIn(r, 20) {
		return n // has not reported yet
	}
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse(pick(r, "500m", "2", "4", "8")),
		corev1.ResourceMemory: resource.MustParse(pick(r, "512Mi", "4Gi", "16Gi", "3333M")),
		corev1.ResourcePods:   resource.MustParse(pick(r, "3", "10", "110")),
	}
	if oneIn(r, 2) {
		n.Status.Allocatable[corev1.ResourceEphemeralStorage] = resource.MustParse("10Gi")
	}
	if oneIn(r, 3) {
		n.Status.Allocatable["example.com/gpu"] = resource.MustParse(pick(r, "1", "4"))
	}
	for _, image := range images() {
		if oneIn(r, 4) {
			n.Status.Images = append(n.Status.Images, corev1.ContainerImage{
				Names: []string{image, image + ":latest"}, SizeBytes: r.Int64N(2 << 30),
			})
		}
	}
	return n
}

func randomTaint(r *rand.Rand) corev1.Taint {
	return corev1.Taint{
		Key: pick(r, "dedicated", "spot", corev1.TaintNodeUnschedulable), Value: pick(r, "", "x", "y"),
		Effect: pick(r, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule),
	}
}

// RandomPod generates a pod with the given number, without a node. Most fields are missing most of the time.
func RandomPod(r *rand.Rand, number int) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pick(r, "default", "prod"), Name: fmt.Sprintf("pod-%03d", number),
		UID: types.UID(fmt.Sprintf("uid-%03d", number)),
	}}
	if oneIn(r, 30) {
		return p // not even a container
	}
	p.Spec.SchedulerName = corev1.DefaultSchedulerName
	for range 1 + r.IntN(2) {
		p.Spec.Containers = append(p.Spec.Containers, randomContainer(r))
	}
	if oneIn(r, 4) {
		c := randomContainer(r)
		if oneIn(r, 2) {
			always := corev1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	if oneIn(r, 8) {
		p.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m")}
	}
	if oneIn(r, 8) {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: randomRequests(r)}
	}
	if oneIn(r, 3) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{
			Key:      pick(r, "", "dedicated", "spot", corev1.TaintNodeUnschedulable),
			Operator: pick(r, "", corev1.TolerationOpExists, corev1.TolerationOpEqual, corev1.TolerationOpLt),
			Value:    pick(r, "", "x"),
			Effect:   pick(r, "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule),
		})
	}
	if oneIn(r, 5) {
		p.Spec.NodeSelector = map[string]string{"disk": pick(r, "ssd", "hdd")}
	}
	if oneIn(r, 3) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: randomAffinity(r)}
	}
	if oneIn(r, 20) {
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
	}
	if oneIn(r, 4) {
		priority := r.Int32N(3)
		p.Spec.Priority = &priority
	}
	relate(r, p)
	return p
}

// relate gives a pod labels and makes it want other pods near or apart.
func relate(r *rand.Rand, p *corev1.Pod) {
	if !oneIn(r, 4) {
		p.Labels = map[string]string{"app": pick(r, "a", "b")}
	}
	if oneIn(r, 4) {
		if p.Spec.Affinity == nil {
			p.Spec.Affinity = &corev1.Affinity{}
		}
		p.Spec.Affinity.PodAffinity = &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution:  randomPodTerms(r),
			PreferredDuringSchedulingIgnoredDuringExecution: weigh(r, randomPodTerms(r)),
		}
		p.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution:  randomPodTerms(r),
			PreferredDuringSchedulingIgnoredDuringExecution: weigh(r, randomPodTerms(r)),
		}
	}
	for range 2 {
		if oneIn(r, 4) {
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
				MaxSkew: 1 + r.Int32N(2), TopologyKey: randomTopology(r), LabelSelector: randomSelector(r),
				WhenUnsatisfiable: pick(r, corev1.DoNotSchedule, corev1.ScheduleAnyway),
				NodeTaintsPolicy:  pick(r, nil, ptr.To(corev1.NodeInclusionPolicyHonor)),
			})
		}
	}
}

func randomTopology(r *rand.Rand) string { return pick(r, corev1.LabelTopologyZone, "disk", "cores") }

func randomSelector(r *rand.Rand) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(r, "a", "b")}}
}

func randomPodTerms(r *rand.Rand) (terms []corev1.PodAffinityTerm) {
	for range 2 {
		if oneIn(r, 4) {
			terms = append(terms, corev1.PodAffinityTerm{
				LabelSelector: randomSelector(r), TopologyKey: randomTopology(r),
				Namespaces: pick(r, nil, []string{"default", "prod"}),
			})
		}
	}
	return terms
}

func weigh(r *rand.Rand, terms []corev1.PodAffinityTerm) (weighted []corev1.WeightedPodAffinityTerm) {
	for _, term := range terms {
		weighted = append(weighted, corev1.WeightedPodAffinityTerm{Weight: 1 + r.Int32N(100), PodAffinityTerm: term})
	}
	return weighted
}

func randomContainer(r *rand.Rand) corev1.Container {
	c := corev1.Container{Name: "c", Image: pick(r, images()...)}
	if !oneIn(r, 4) {
		c.Resources.Requests = randomRequests(r)
	}
	if oneIn(r, 6) {
		c.Ports = []corev1.ContainerPort{{
			HostPort: pick[int32](r, 80, 443), HostIP: pick(r, "", "10.0.0.1", "0.0.0.0"),
			Protocol: pick(r, "", corev1.ProtocolTCP, corev1.ProtocolUDP),
		}}
	}
	return c
}

func randomRequests(r *rand.Rand) corev1.ResourceList {
	l := corev1.ResourceList{}
	if !oneIn(r, 4) {
		l[corev1.ResourceCPU] = resource.MustParse(pick(r, "0", "1m", "100m", "250m", "1", "6"))
	}
	if !oneIn(r, 4) {
		l[corev1.ResourceMemory] = resource.MustParse(pick(r, "0", "64Mi", "1Gi", "100M"))
	}
	if oneIn(r, 8) {
		l[corev1.ResourceEphemeralStorage] = resource.MustParse("1Gi")
	}
	if oneIn(r, 10) {
		l["example.com/gpu"] = resource.MustParse(pick(r, "0", "1", "2"))
	}
	return l
}

func randomAffinity(r *rand.Rand) *corev1.NodeAffinity {
	a := &corev1.NodeAffinity{}
	if oneIn(r, 2) {
		a.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{}
		terms := &a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		for range r.IntN(3) {
			*terms = append(*terms, randomTerm(r))
		}
	}
	for range r.IntN(3) {
		a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution,
			corev1.PreferredSchedulingTerm{Weight: 1 + r.Int32N(100), Preference: randomTerm(r)})
	}
	return a
}

func randomTerm(r *rand.Rand) corev1.NodeSelectorTerm {
	var t corev1.NodeSelectorTerm
	if oneIn(r, 5) {
		t.MatchFields = []corev1.NodeSelectorRequirement{{
			Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn,
			Values: []string{fmt.Sprintf("node-%02d", r.IntN(6))},
		}}
	}
	if !oneIn(r, 4) {
		t.MatchExpressions = []corev1.NodeSelectorRequirement{pick(r,
			corev1.NodeSelectorRequirement{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{pick(r, zones()...), "d"}},
			corev1.NodeSelectorRequirement{Key: "disk", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"hdd"}},
			corev1.NodeSelectorRequirement{Key: "disk", Operator: corev1.NodeSelectorOpExists},
			corev1.NodeSelectorRequirement{Key: "cores", Operator: corev1.NodeSelectorOpGt, Values: []string{"4"}},
			corev1.NodeSelectorRequirement{Key: "cores", Operator: corev1.NodeSelectorOpGt, Values: []string{"several"}}, // cannot be parsed
		)}
	}
	return t
}

// RandomCluster generates nodes with pods on them, and pods without a node. Each of the latter is followed by a
// twin that differs only in its name.
func RandomCluster(r *rand.Rand, nodes, pods int) (on []*corev1.Node, bound, unbound []*corev1.Pod) {
	for i := range nodes {
		on = append(on, RandomNode(r, i))
	}
	for i := range pods {
		p := RandomPod(r, i)
		if oneIn(r, 2) && nodes > 0 {
			p.Spec.NodeName = pick(r, on...).Name
			bound = append(bound, p)
			continue
		}
		twin := p.DeepCopy()
		twin.Name += "-twin"
		twin.UID += "-twin"
		unbound = append(unbound, p, twin)
	}
	return on, bound, unbound
}
