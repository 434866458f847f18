package cgroup_test

import (
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/cgroup"
)

const mebi = 1 << 20

func always(c corev1.Container) corev1.Container {
	policy := corev1.ContainerRestartPolicyAlways
	c.RestartPolicy = &policy
	return c
}

func never(c corev1.Container) corev1.Container {
	policy := corev1.ContainerRestartPolicyNever
	c.RestartPolicy = &policy
	return c
}

// with adds init containers and the pod's own resources to a pod.
func with(p *corev1.Pod, own *corev1.ResourceRequirements, inits ...corev1.Container) *corev1.Pod {
	p.Spec.Resources, p.Spec.InitContainers = own, inits
	return p
}

func TestPodLimits(t *testing.T) {
	half, full := list("cpu", "100m", "memory", "100Mi"), list("cpu", "200m", "memory", "200Mi")
	tuned := cgroup.Quotas{Period: 5 * time.Millisecond}
	overhead := func(p *corev1.Pod) *corev1.Pod {
		p.Spec.Overhead = list("cpu", "100m", "memory", "10Mi")
		return p
	}
	for name, test := range map[string]struct {
		pod    *corev1.Pod
		quotas cgroup.Quotas
		want   cgroup.Limits
	}{
		"besteffort":          {pod: bestEffort("a"), want: cgroup.Limits{CPUShares: 2}},
		"burstable no limits": {pod: pod("a", container("a", half, nil)), want: cgroup.Limits{CPUShares: 102}},
		"burstable": {pod: pod("a", container("a", half, full)),
			want: cgroup.Limits{CPUShares: 102, CPUQuota: 20000, CPUPeriod: 100000, Memory: 200 * mebi}},
		"burstable without quotas": {pod: pod("a", container("a", half, full)), quotas: cgroup.Quotas{Off: true},
			want: cgroup.Limits{CPUShares: 102, CPUQuota: -1, CPUPeriod: 100000, Memory: 200 * mebi}},
		"burstable, one without limits": {pod: pod("a", container("a", half, full), container("b", half, nil)),
			want: cgroup.Limits{CPUShares: 204}},
		"burstable with another period": {pod: pod("a", container("a", half, full)), quotas: tuned,
			want: cgroup.Limits{CPUShares: 102, CPUQuota: 1000, CPUPeriod: 5000, Memory: 200 * mebi}},
		"guaranteed": {pod: pod("a", container("a", half, half)),
			want: cgroup.Limits{CPUShares: 102, CPUQuota: 10000, CPUPeriod: 100000, Memory: 100 * mebi}},
		"guaranteed, the least quota": {pod: pod("a", container("a", half, half)), quotas: tuned,
			want: cgroup.Limits{CPUShares: 102, CPUQuota: 1000, CPUPeriod: 5000, Memory: 100 * mebi}},
		"an init container needs more": {pod: with(pod("a", container("a", half, half)), nil, container("i", full, full)),
			want: cgroup.Limits{CPUShares: 204, CPUQuota: 20000, CPUPeriod: 100000, Memory: 200 * mebi}},
		"a sidecar adds": {pod: with(pod("a", container("a", half, half)), nil, always(container("s", full, full))),
			want: cgroup.Limits{CPUShares: 307, CPUQuota: 30000, CPUPeriod: 100000, Memory: 300 * mebi}},
		"an init container without limits": {pod: with(pod("a", container("a", half, half)), nil, container("i", nil, nil)),
			want: cgroup.Limits{CPUShares: 102}},
		"an init container without limits after a sidecar": {
			pod:  with(pod("a", container("a", half, half)), nil, always(container("s", full, full)), container("i", nil, nil)),
			want: cgroup.Limits{CPUShares: 307, CPUQuota: 30000, CPUPeriod: 100000, Memory: 300 * mebi}},
		"overhead adds": {pod: overhead(pod("a", container("a", half, half))),
			want: cgroup.Limits{CPUShares: 204, CPUQuota: 20000, CPUPeriod: 100000, Memory: 110 * mebi}},
		"the pod's own requests": {pod: with(bestEffort("a"), &corev1.ResourceRequirements{Requests: half}),
			want: cgroup.Limits{CPUShares: 102}},
		"the pod's own limits": {pod: with(bestEffort("a"), &corev1.ResourceRequirements{Requests: half, Limits: full}),
			want: cgroup.Limits{CPUShares: 102, CPUQuota: 20000, CPUPeriod: 100000, Memory: 200 * mebi}},
		"the pod's own resources, guaranteed": {pod: with(bestEffort("a"), &corev1.ResourceRequirements{Requests: half, Limits: half}),
			want: cgroup.Limits{CPUShares: 102, CPUQuota: 10000, CPUPeriod: 100000, Memory: 100 * mebi}},
		"huge pages": {pod: pod("a", container("a", list("memory", "1Mi", "hugepages-2Mi", "4Mi"), list("hugepages-2Mi", "4Mi")),
			container("b", list("hugepages-2Mi", "2Mi", "hugepages-1Gi", "1Gi"), nil)),
			want: cgroup.Limits{CPUShares: 2, Hugepages: map[int64]int64{2 * mebi: 6 * mebi, 1 << 30: 1 << 30}}},
		"huge pages of a best effort": {pod: func() *corev1.Pod {
			p := pod("a", container("a", list("cpu", "4", "hugepages-2Mi", "4Mi", "hugepages-x", "1", "1Ki", "1", "hugepages-0", "1", "hugepages--2Mi", "1"), list("cpu", "4", "memory", "1Gi")))
			p.Status.QOSClass = corev1.PodQOSBestEffort // as in the API
			return p
		}(), want: cgroup.Limits{CPUShares: 2, Hugepages: map[int64]int64{2 * mebi: 4 * mebi}}},
		"guaranteed, though the containers are not": {pod: func() *corev1.Pod {
			p := pod("a", container("a", half, nil), container("b", nil, list("memory", "64Mi")))
			p.Status.QOSClass = corev1.PodQOSGuaranteed
			return p
		}(), want: cgroup.Limits{CPUShares: 102, CPUPeriod: 100000, Memory: 64 * mebi}},
		"the pod's own CPU limit, the containers' memory": {
			pod:  with(pod("a", container("a", half, list("memory", "200Mi"))), &corev1.ResourceRequirements{Requests: half, Limits: list("cpu", "200m")}),
			want: cgroup.Limits{CPUShares: 102, CPUQuota: 20000, CPUPeriod: 100000, Memory: 200 * mebi}},
		"the pod's own memory limit, the containers' CPU": {
			pod:  with(pod("a", container("a", half, list("cpu", "200m"))), &corev1.ResourceRequirements{Requests: half, Limits: list("memory", "200Mi")}),
			want: cgroup.Limits{CPUShares: 102, CPUQuota: 20000, CPUPeriod: 100000, Memory: 200 * mebi}},
		"two init containers without limits after a sidecar": {
			pod:  with(pod("a", container("a", half, half)), nil, always(container("s", full, full)), container("i", nil, nil), container("j", nil, nil)),
			want: cgroup.Limits{CPUShares: 307, CPUQuota: 30000, CPUPeriod: 100000, Memory: 300 * mebi}},
		"the most shares": {pod: pod("a", container("a", list("cpu", "1000"), nil)), want: cgroup.Limits{CPUShares: 262144}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := cgroup.PodLimits(test.pod, test.quotas); !reflect.DeepEqual(got, test.want) {
				t.Errorf("%+v, not %+v", got, test.want)
			}
		})
	}
}

// TestOOMScore has the cases of upstream's own table, on a machine with 8 GB.
func TestOOMScore(t *testing.T) {
	const machine = 8000000000
	request, limit := list("memory", "1G"), list("memory", "1000001000")
	main := container("main-1", request, limit)
	small := always(container("small", list("memory", "400M"), limit))
	big := always(container("big", list("memory", "4G"), limit))
	class := func(name string, priority int32) *corev1.Pod {
		p := bestEffort("a")
		p.Spec.PriorityClassName, p.Spec.Priority = name, &priority
		return p
	}
	own := &corev1.ResourceRequirements{Requests: list("memory", "2G"), Limits: list("memory", "2000001000")}
	mirror := class("system-node-critical", 0)
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	for name, test := range map[string]struct {
		pod       *corev1.Pod
		container *corev1.Container // nil is the first
		memory    int64
		want      int64
	}{
		"CPU limit":                 {pod: pod("a", container("a", nil, list("cpu", "10"))), want: 999},
		"memory limit, CPU request": {pod: pod("a", container("a", list("cpu", "0"), list("memory", "10G"))), want: 999},
		"zero memory limit":         {pod: pod("a", container("a", nil, list("memory", "0"))), want: 1000},
		"nothing":                   {pod: bestEffort("a"), want: 1000},
		"guaranteed":                {pod: guaranteed("a"), want: -997},
		"half of the memory":        {pod: pod("a", container("a", list("memory", "4G"), list("memory", "10G"))), want: 500},
		"nearly all of the memory":  {pod: pod("a", container("a", list("memory", "7999999999"), nil)), want: 3},
		"cluster critical":          {pod: class("system-cluster-critical", 2000000000), want: 1000},
		"node critical":             {pod: class("system-node-critical", 2000001000), want: -997},
		"a mirror, node critical":   {pod: mirror, want: -997},
		"an eighth":                 {pod: pod("a", main), want: 875},
		"a small sidecar":           {pod: with(pod("a", main), nil, small), container: &small, want: 875},
		"a big sidecar":             {pod: with(pod("a", main), nil, big), container: &big, want: 500},
		"beside a big sidecar":      {pod: with(pod("a", main), nil, big), container: &main, want: 875},
		"unclaimed by two":          {pod: with(pod("a", container("a", nil, nil), container("b", nil, nil)), own), want: 875},
		"unclaimed and claimed":     {pod: with(pod("a", main, container("b", nil, nil)), own), want: 813},
		"node critical, of the API": {pod: func() *corev1.Pod {
			p := class("system-node-critical", 1_999_999_999)
			p.Annotations = map[string]string{"kubernetes.io/config.source": "api"}
			return p
		}(), want: 1000},
		"node critical, from a file": {pod: func() *corev1.Pod {
			p := class("system-node-critical", 0)
			p.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
			return p
		}(), want: -997},
		"node critical by priority": {pod: class("system-node-critical", 2_000_000_000), want: -997},
		"node critical by name": {pod: func() *corev1.Pod {
			p := bestEffort("a")
			p.Spec.PriorityClassName = "system-node-critical"
			return p
		}(), want: 1000},
		"invalid machine memory":                  {pod: burstable("a"), memory: -2, want: 999},
		"an init container that is not a sidecar": {pod: with(pod("a", main), nil, container("i", list("memory", "400M"), limit)), container: new(container("i", list("memory", "400M"), limit)), want: 950},
		"an init container that may end":          {pod: with(pod("a", main), nil, never(container("i", list("memory", "400M"), limit))), container: new(never(container("i", list("memory", "400M"), limit))), want: 950},
		"Always, but not an init container":       {pod: pod("a", main, always(container("b", list("memory", "400M"), limit))), container: new(always(container("b", list("memory", "400M"), limit))), want: 950},
		"a small sidecar beside two":              {pod: with(pod("a", container("x", list("memory", "4G"), nil), main), nil, small), container: &small, want: 875},
		"a sidecar with what is unclaimed":        {pod: with(pod("a", container("x", nil, nil)), &corev1.ResourceRequirements{Requests: list("memory", "2G")}, always(container("s", nil, nil))), container: new(always(container("s", nil, nil))), want: 875},
		"CPU only for the pod as a whole":         {pod: with(pod("a", main), &corev1.ResourceRequirements{Requests: list("cpu", "1")}), want: 875},
		"an init container shares":                {pod: with(pod("a", container("x", nil, nil)), &corev1.ResourceRequirements{Requests: list("memory", "2G")}, container("i", nil, nil)), want: 875},
		"the largest product without overflow":    {pod: pod("a", container("a", list("memory", "9223372036854775"), nil)), memory: 1 << 60, want: 993},
		"the unclaimed part is added to the smallest request": {
			pod:       with(pod("a", main), &corev1.ResourceRequirements{Requests: list("memory", "2400M")}, small),
			container: &small, want: 813},
		"a byte less than two thousandths": {pod: pod("a", container("a", list("memory", "15999999"), nil)), want: 999},
		"a container of another pod":       {pod: with(pod("a"), own), container: new(container("e", list("memory", "15999999"), nil)), want: 999},
		"memory unknown":                   {pod: burstable("a"), memory: -1, want: 999},
		"far more than the capacity":       {pod: pod("a", container("a", list("memory", "9E"), nil)), want: 3},
	} {
		c := test.container
		if c == nil {
			c = &test.pod.Spec.Containers[0]
		}
		memory := int64(machine)
		if test.memory != 0 {
			memory = test.memory
		}
		if got := cgroup.OOMScore(test.pod, c, memory); got != test.want {
			t.Errorf("%s: %d, not %d", name, got, test.want)
		}
	}
}

func TestResources(t *testing.T) {
	sizes := []string{"1GB", "2MB"}
	own := &corev1.ResourceRequirements{
		Requests: list("cpu", "2", "memory", "1Gi"), Limits: list("cpu", "2", "memory", "1Gi", "hugepages-2Mi", "8Mi"),
	}
	machine := cgroup.Machine{MemoryCapacity: 8 << 30}
	for name, test := range map[string]struct {
		pod     *corev1.Pod
		machine cgroup.Machine
		want    cri.Resources
	}{
		"nothing": {pod: bestEffort("a"), machine: machine,
			want: cri.Resources{CPUShares: 2, CPUPeriod: 100000, OOMScoreAdj: 1000}},
		"a missing request is the limit": {pod: pod("a", container("a", nil, list("cpu", "1", "memory", "1Gi"))), machine: machine,
			want: cri.Resources{CPUShares: 1024, CPUPeriod: 100000, CPUQuota: 100000, MemoryLimit: 1 << 30, OOMScoreAdj: 999}},
		"a zero request is not missing": {pod: pod("a", container("a", list("cpu", "0"), list("cpu", "1"))), machine: machine,
			want: cri.Resources{CPUShares: 2, CPUPeriod: 100000, CPUQuota: 100000, OOMScoreAdj: 999}},
		"the pod's own limits": {pod: with(bestEffort("a"), own), machine: cgroup.Machine{MemoryCapacity: 8 << 30, HugepageSizes: sizes},
			want: cri.Resources{CPUShares: 2048, CPUPeriod: 100000, CPUQuota: 200000, MemoryLimit: 1 << 30, OOMScoreAdj: -997,
				Hugepages: []cri.HugepageLimit{{PageSize: "1GB"}, {PageSize: "2MB", Limit: 8 * mebi}}}},
		"the container's own come first": {
			pod:     with(pod("a", container("a", nil, list("cpu", "500m", "memory", "64Mi", "hugepages-2Mi", "2Mi"))), own),
			machine: cgroup.Machine{MemoryCapacity: 8 << 30, HugepageSizes: sizes},
			want: cri.Resources{CPUShares: 512, CPUPeriod: 100000, CPUQuota: 50000, MemoryLimit: 64 * mebi, OOMScoreAdj: -997,
				Hugepages: []cri.HugepageLimit{{PageSize: "1GB"}, {PageSize: "2MB", Limit: 2 * mebi}}}},
		"no quotas": {pod: guaranteed("a"), machine: cgroup.Machine{Quotas: cgroup.Quotas{Off: true}},
			want: cri.Resources{CPUShares: 512, MemoryLimit: 64 * mebi, OOMScoreAdj: -997}},
		"no swap, v1": {pod: guaranteed("a"), machine: cgroup.Machine{Swap: true},
			want: cri.Resources{CPUShares: 512, CPUPeriod: 100000, CPUQuota: 50000, MemoryLimit: 64 * mebi, MemorySwapLimit: 64 * mebi, OOMScoreAdj: -997}},
		"OOM in groups, not v2": {pod: bestEffort("a"), machine: cgroup.Machine{OOMGroup: true},
			want: cri.Resources{CPUShares: 2, CPUPeriod: 100000, OOMScoreAdj: 1000}},
		"v2 without any": {pod: bestEffort("a"), machine: cgroup.Machine{Unified: true},
			want: cri.Resources{CPUShares: 2, CPUPeriod: 100000, OOMScoreAdj: 1000}},
		"sizes of pages": {pod: pod("a", container("a", list("cpu", "1"), list("hugepages-64Ki", "128Ki", "hugepages-1Ti", "1Ti", "hugepages-512", "1024", "hugepages-1536", "3072", "hugepages-1Mi", "-1"))),
			machine: cgroup.Machine{HugepageSizes: []string{"64KB", "1024GB", "512B", "1536B", "1MB", "2MB"}},
			want: cri.Resources{CPUShares: 1024, CPUPeriod: 100000, OOMScoreAdj: 999, Hugepages: []cri.HugepageLimit{
				{PageSize: "64KB", Limit: 128 << 10}, {PageSize: "1024GB", Limit: 1 << 40}, {PageSize: "512B", Limit: 1024}, {PageSize: "1536B", Limit: 3072}, {PageSize: "1MB"}, {PageSize: "2MB"},
			}}},
		"no swap and OOM in groups, v2": {pod: bestEffort("a"), machine: cgroup.Machine{Swap: true, Unified: true, OOMGroup: true},
			want: cri.Resources{CPUShares: 2, CPUPeriod: 100000, OOMScoreAdj: 1000,
				Unified: map[string]string{"memory.swap.max": "0", "memory.oom.group": "1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := cgroup.Resources(test.pod, &test.pod.Spec.Containers[0], test.machine); !reflect.DeepEqual(got, test.want) {
				t.Errorf("%+v, not %+v", got, test.want)
			}
		})
	}
}
