package scheduler_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/scheduler"
)

// What pods take adds up by every resource, and is gone with them.
func TestResourcesAddUp(t *testing.T) {
	asking := func(name string, n int64, scalar corev1.ResourceName) *corev1.Pod {
		p := on(pod(name, "", ""), "n")
		for _, r := range []corev1.ResourceName{"cpu", "memory", "ephemeral-storage", "pods", scalar} {
			p.Spec.Containers[0].Resources.Requests[r] = *resource.NewQuantity(n, resource.DecimalSI)
		}
		return p
	}
	none, n := pod("none", "", ""), node("n", "8", "8Gi")
	one, two, other := asking("one", 1, "example.com/a"), asking("two", 2, "example.com/a"), asking("other", 4, "example.com/b")
	taken := func(pods ...*corev1.Pod) scheduler.Resources { return scheduler.NewNodeInfo(n, pods...).Requested }
	of := func(units, a, b int64) scheduler.Resources {
		r := scheduler.Resources{MilliCPU: 1000 * units, Memory: units, EphemeralStorage: units}
		for name, n := range map[corev1.ResourceName]int64{"example.com/a": a, "example.com/b": b} {
			if n != 0 && r.Scalars == nil {
				r.Scalars = map[corev1.ResourceName]int64{}
			}
			if n != 0 {
				r.Scalars[name] = n
			}
		}
		return r
	}
	same(t, of(0, 0, 0), taken())
	same(t, of(1, 1, 0), taken(one))
	same(t, of(3, 3, 0), taken(one, none, two))
	same(t, of(7, 3, 4), taken(one, two, other))
	state := scheduler.NewSnapshot([]*corev1.Node{n}, []*corev1.Pod{one, two, other}).State()
	for _, step := range []struct {
		gone *corev1.Pod
		want scheduler.Resources
	}{{two, of(5, 1, 4)}, {one, of(4, 0, 4)}, {other, of(0, 0, 0)}} {
		same(t, true, state.RemovePod(step.gone))
		same(t, step.want, state.Snapshot().Node("n").Requested)
	}
	same(t, of(2, 2, 0), scheduler.Requests(two))
	same(t, of(2, 2, 0), scheduler.NewPodInfo(two).Requests)
}

// Names that begin as counted resources do are counted whatever follows, and of others only those that are names.
func TestScalarNames(t *testing.T) {
	long := strings.Repeat("x", 70)
	for name, counts := range map[string]bool{
		"hugepages-" + long: true, "attachable-volumes-" + long: true, "kubernetes.io/" + long: true, "example.com/" + long: false, "example.com/x": true,
	} {
		r := scheduler.ResourcesOf(corev1.ResourceList{corev1.ResourceName(name): resource.MustParse("1")})
		if (len(r.Scalars) == 1) != counts {
			t.Errorf("%s: %v", name, r.Scalars)
		}
	}
}

// What a pod asks for as a whole stands in for its containers, resource by resource.
func TestPodInfoAsAWhole(t *testing.T) {
	whole := func(names ...string) *corev1.Pod {
		p := pod("p", "", "")
		p.Spec.Containers = append(p.Spec.Containers, p.Spec.Containers[0])
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{}}
		for _, name := range names {
			p.Spec.Resources.Requests[corev1.ResourceName(name)] = resource.MustParse("3")
		}
		return p
	}
	both := whole("cpu", "memory")
	shrinking := whole("cpu", "memory")
	shrinking.Status.Resources = requiring("5")
	half := pod("p", "1", "5")
	half.Spec.Containers = append(half.Spec.Containers, corev1.Container{Name: "silent"})
	memory := pod("p", "", "7")
	memory.Spec.Resources = requiring("3")
	for name, tt := range map[string]struct {
		pod                *corev1.Pod
		cpu, memory, taken int64
	}{
		"both":                   {both, 3000, 3, 3000},
		"CPU":                    {whole("cpu"), 3000, 2 * 200 << 20, 3000},
		"memory":                 {whole("memory"), 200, 3, 0},
		"what it still has":      {shrinking, 5000, 3, 5000},
		"the rest of one":        {memory, 3000, 7, 3000},
		"one of two, not at all": {half, 1100, 5 + 200<<20, 1000},
	} {
		p := scheduler.NewPodInfo(tt.pod)
		if p.NonZeroMilliCPU != tt.cpu || p.NonZeroMemory != tt.memory || p.Requests.MilliCPU != tt.taken {
			t.Errorf("%s: counts as %dm and %d bytes, takes %dm", name, p.NonZeroMilliCPU, p.NonZeroMemory, p.Requests.MilliCPU)
		}
	}
}

func TestHostPorts(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	ports := func(all ...corev1.ContainerPort) corev1.Container { return corev1.Container{Ports: all} }
	sidecar := ports(corev1.ContainerPort{HostPort: 3})
	sidecar.RestartPolicy = &always
	p := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{ports(corev1.ContainerPort{HostPort: 9}), sidecar},
		Containers: []corev1.Container{
			ports(corev1.ContainerPort{ContainerPort: 80}, corev1.ContainerPort{HostPort: 1, HostIP: "10.0.0.1", Protocol: corev1.ProtocolUDP}),
			ports(corev1.ContainerPort{HostPort: 2}),
		},
	}}
	want := []scheduler.HostPort{{IP: "0.0.0.0", Protocol: "TCP", Port: 3}, {IP: "10.0.0.1", Protocol: "UDP", Port: 1}, {IP: "0.0.0.0", Protocol: "TCP", Port: 2}}
	same(t, want, scheduler.HostPorts(p))
	same(t, want, scheduler.NewNodeInfo(node("n", "1", "1Gi"), p).Ports)
}

func TestHostPortConflicts(t *testing.T) {
	a := scheduler.HostPort{IP: "10.0.0.1", Protocol: "TCP", Port: 80}
	for want, others := range map[bool][]scheduler.HostPort{
		true:  {a, {IP: "0.0.0.0", Protocol: "TCP", Port: 80}},
		false: {{IP: "10.0.0.2", Protocol: "TCP", Port: 80}, {IP: "10.0.0.1", Protocol: "UDP", Port: 80}, {IP: "10.0.0.1", Protocol: "TCP", Port: 81}},
	} {
		for _, other := range others {
			if a.Conflicts(other) != want || other.Conflicts(a) != want {
				t.Errorf("%v and %v: %t, %t", a, other, a.Conflicts(other), other.Conflicts(a))
			}
		}
	}
}
