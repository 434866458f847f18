package eviction_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/kubelet/eviction"
)

// seen renders observations as lines.
func seen(o eviction.Observations) string {
	var out []string
	for _, signal := range slices.Sorted(maps.Keys(o)) {
		one := o[signal]
		out = append(out, fmt.Sprintf("%s %s of %s at %d", signal, one.Available.String(), one.Capacity.String(), one.At.Unix()))
	}
	return strings.Join(out, "\n")
}

func TestObserve(t *testing.T) {
	at := metav1.NewTime(time.Unix(1000, 0))
	memory := func() *v1alpha1.MemoryStats {
		return &v1alpha1.MemoryStats{Time: at, AvailableBytes: ptr[uint64](1024), WorkingSetBytes: ptr[uint64](2048)}
	}
	files := func() *v1alpha1.FsStats {
		return &v1alpha1.FsStats{Time: at, AvailableBytes: ptr[uint64](1024), CapacityBytes: ptr[uint64](4096), InodesFree: ptr[uint64](1024), Inodes: ptr[uint64](2048)}
	}
	pids := func() *v1alpha1.RlimitStats {
		return &v1alpha1.RlimitStats{Time: at, MaxPID: ptr[int64](1000), NumOfRunningProcesses: ptr[int64](300)}
	}
	only := func(change func(n *v1alpha1.NodeStats)) *v1alpha1.Summary {
		s := &v1alpha1.Summary{}
		change(&s.Node)
		return s
	}
	for name, tt := range map[string]struct {
		summary *v1alpha1.Summary
		want    string
	}{
		"nothing":             {&v1alpha1.Summary{}, ""},
		"memory":              {only(func(n *v1alpha1.NodeStats) { n.Memory = memory() }), "memory.available 1Ki of 3Ki at 1000"},
		"used memory unknown": {only(func(n *v1alpha1.NodeStats) { n.Memory = memory(); n.Memory.WorkingSetBytes = nil }), ""},
		"free memory unknown": {only(func(n *v1alpha1.NodeStats) { n.Memory = memory(); n.Memory.AvailableBytes = nil }), ""},
		"memory of pods": {only(func(n *v1alpha1.NodeStats) {
			n.SystemContainers = []v1alpha1.ContainerStats{{Name: "kubelet", Memory: memory()}, {Name: "pods", Memory: memory()}, {Name: "runtime", Memory: &v1alpha1.MemoryStats{AvailableBytes: ptr[uint64](1), WorkingSetBytes: ptr[uint64](1)}}}
		}), "allocatableMemory.available 1Ki of 3Ki at 1000"},
		"memory of the kubelet": {only(func(n *v1alpha1.NodeStats) {
			n.SystemContainers = []v1alpha1.ContainerStats{{Name: "kubelet", Memory: memory()}}
		}), ""},
		"memory of pods unknown": {only(func(n *v1alpha1.NodeStats) {
			free, used := memory(), memory()
			free.AvailableBytes, used.WorkingSetBytes = nil, nil
			n.SystemContainers = []v1alpha1.ContainerStats{{Name: "pods"}, {Name: "pods", Memory: free}, {Name: "pods", Memory: used}}
		}), ""},
		"the main filesystem":   {only(func(n *v1alpha1.NodeStats) { n.Fs = files() }), "nodefs.available 1Ki of 4Ki at 1000\nnodefs.inodesFree 1024 of 2048 at 1000"},
		"only bytes":            {only(func(n *v1alpha1.NodeStats) { n.Fs = files(); n.Fs.Inodes = nil }), "nodefs.available 1Ki of 4Ki at 1000"},
		"only bytes, too":       {only(func(n *v1alpha1.NodeStats) { n.Fs = files(); n.Fs.InodesFree = nil }), "nodefs.available 1Ki of 4Ki at 1000"},
		"only inodes":           {only(func(n *v1alpha1.NodeStats) { n.Fs = files(); n.Fs.AvailableBytes = nil }), "nodefs.inodesFree 1024 of 2048 at 1000"},
		"only inodes, too":      {only(func(n *v1alpha1.NodeStats) { n.Fs = files(); n.Fs.CapacityBytes = nil }), "nodefs.inodesFree 1024 of 2048 at 1000"},
		"images":                {only(func(n *v1alpha1.NodeStats) { n.Runtime = &v1alpha1.RuntimeStats{ImageFs: files()} }), "imagefs.available 1Ki of 4Ki at 1000\nimagefs.inodesFree 1024 of 2048 at 1000"},
		"containers":            {only(func(n *v1alpha1.NodeStats) { n.Runtime = &v1alpha1.RuntimeStats{ContainerFs: files()} }), "containerfs.available 1Ki of 4Ki at 1000\ncontainerfs.inodesFree 1024 of 2048 at 1000"},
		"processes":             {only(func(n *v1alpha1.NodeStats) { n.Rlimit = pids() }), "pid.available 700 of 1k at 1000"},
		"processes not counted": {only(func(n *v1alpha1.NodeStats) { n.Rlimit = pids(); n.Rlimit.NumOfRunningProcesses = nil }), ""},
		"processes not limited": {only(func(n *v1alpha1.NodeStats) { n.Rlimit = pids(); n.Rlimit.MaxPID = nil }), ""},
	} {
		if got := seen(eviction.Observe(tt.summary)); got != tt.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A value at the threshold is enough, and messages omit what was not observed, or its time.
func TestLook(t *testing.T) {
	now := time.Unix(5000, 0)
	thresholds := []eviction.Threshold{
		{Signal: eviction.NodeFsAvailable, Value: eviction.Value{Quantity: list("x", "10")["x"]}},
		{Signal: eviction.MemoryAvailable, Value: eviction.Value{Quantity: list("x", "10")["x"]}},
	}
	of := func(at time.Time, memory, disk string) eviction.Observations {
		return eviction.Observations{
			eviction.MemoryAvailable: {Available: list("x", memory)["x"], Capacity: list("x", "100")["x"], At: at},
			eviction.NodeFsAvailable: {Available: list("x", disk)["x"], Capacity: list("x", "100")["x"], At: at},
		}
	}
	signals := func(all []eviction.Threshold) (out []eviction.Signal) {
		for _, one := range all {
			out = append(out, one.Signal)
		}
		return out
	}
	for name, tt := range map[string]struct {
		observed []eviction.Observations
		want     []eviction.Signal // of the last look
	}{
		"enough":              {[]eviction.Observations{of(now, "10", "10")}, nil},
		"too little of both":  {[]eviction.Observations{of(now, "9", "9")}, []eviction.Signal{eviction.MemoryAvailable, eviction.NodeFsAvailable}},
		"too little disk":     {[]eviction.Observations{of(now, "11", "9")}, []eviction.Signal{eviction.NodeFsAvailable}},
		"nothing seen":        {[]eviction.Observations{{}}, nil},
		"nothing new":         {[]eviction.Observations{of(now, "9", "9"), of(now, "9", "9")}, nil},
		"older than before":   {[]eviction.Observations{of(now, "9", "9"), of(now.Add(-time.Second), "9", "9")}, nil},
		"newer":               {[]eviction.Observations{of(now, "9", "11"), of(now.Add(1), "9", "11")}, []eviction.Signal{eviction.MemoryAvailable}},
		"without a time":      {[]eviction.Observations{of(time.Time{}, "9", "11"), of(time.Time{}, "9", "11")}, []eviction.Signal{eviction.MemoryAvailable}},
		"without a time once": {[]eviction.Observations{of(now, "9", "11"), of(time.Time{}, "9", "11")}, []eviction.Signal{eviction.MemoryAvailable}},
	} {
		core := eviction.NewCore(thresholds, 0)
		var got []eviction.Signal
		for i, o := range tt.observed {
			got = signals(core.Look(now.Add(time.Duration(i)*time.Second), o))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
	// Without a transition period, conditions last as long as the shortage.
	core := eviction.NewCore(thresholds, 0)
	core.Look(now, of(now, "9", "11"))
	if got := core.Conditions(); !slices.Equal(got, []corev1.NodeConditionType{corev1.NodeMemoryPressure}) {
		t.Errorf("conditions %v", got)
	}
	core.Look(now.Add(1), of(now.Add(1), "11", "11"))
	if got := core.Conditions(); len(got) != 0 {
		t.Errorf("conditions %v afterwards", got)
	}
	if !core.Relieved(of(now, "10", "10")) || core.Relieved(of(now, "9", "10")) {
		t.Error("relieved, or not")
	}
}

func TestStatusOfAnEvictedPod(t *testing.T) {
	condition := func(kind corev1.PodConditionType, message string) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Message: message}
	}
	target := condition(corev1.DisruptionTarget, "new")
	for name, tt := range map[string]struct {
		before []corev1.PodCondition
		with   *corev1.PodCondition
		want   []corev1.PodCondition
	}{
		"none":     {[]corev1.PodCondition{condition("Ready", "old")}, nil, []corev1.PodCondition{condition("Ready", "old")}},
		"first":    {nil, &target, []corev1.PodCondition{target}},
		"another":  {[]corev1.PodCondition{condition("Ready", "old")}, &target, []corev1.PodCondition{condition("Ready", "old"), target}},
		"replaced": {[]corev1.PodCondition{condition(corev1.DisruptionTarget, "old"), condition("Ready", "old")}, &target, []corev1.PodCondition{target, condition("Ready", "old")}},
	} {
		status := corev1.PodStatus{Phase: corev1.PodRunning, Conditions: tt.before}
		eviction.Eviction{Message: "why", Condition: tt.with}.Status(&status)
		if status.Phase != corev1.PodFailed || status.Reason != "Evicted" || status.Message != "why" || !slices.Equal(status.Conditions, tt.want) {
			t.Errorf("%s: %+v", name, status)
		}
	}
}

// Under memory pressure a node accepts pods with requests, and those that tolerate the pressure.
func TestAdmitUnderMemoryPressure(t *testing.T) {
	tolerating := func(toleration corev1.Toleration) *corev1.Pod {
		p := newPod("p", 0, nil, nil)
		p.Spec.Tolerations = []corev1.Toleration{{Key: "other", Operator: "Exists"}, toleration}
		return p
	}
	whole := func(requests corev1.ResourceList) *corev1.Pod {
		p := newPod("p", 0, list("cpu", "1"), nil)
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: requests}
		return p
	}
	initial := newPod("p", 0, nil, nil)
	initial.Spec.InitContainers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: list("cpu", "1")}}}
	told := newPod("p", 0, list("cpu", "1"), nil)
	told.Status.QOSClass = corev1.PodQOSBestEffort
	burstable := newPod("p", 0, nil, nil)
	burstable.Status.QOSClass = corev1.PodQOSBurstable
	const key = corev1.TaintNodeMemoryPressure
	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"nothing":                  {newPod("p", 0, nil, nil), false},
		"zeros":                    {newPod("p", 0, list("cpu", "0", "memory", "0"), list("cpu", "0")), false},
		"storage only":             {newPod("p", 0, list("ephemeral-storage", "1"), nil), false},
		"CPU":                      {newPod("p", 0, list("cpu", "1"), nil), true},
		"memory":                   {newPod("p", 0, list("memory", "1"), nil), true},
		"CPU limit":                {newPod("p", 0, nil, list("cpu", "1")), true},
		"memory limit":             {newPod("p", 0, nil, list("memory", "1")), true},
		"of an init container":     {initial, true},
		"as a whole":               {whole(list("memory", "1")), true},
		"pod-level limits empty":   {whole(nil), false},
		"as the status says":       {told, false},
		"as the status says, more": {burstable, true},
		"exists":                   {tolerating(corev1.Toleration{Key: key, Operator: "Exists"}), true},
		"everything":               {tolerating(corev1.Toleration{Operator: "Exists"}), true},
		"equal":                    {tolerating(corev1.Toleration{Key: key, Operator: "Equal"}), true},
		"by default":               {tolerating(corev1.Toleration{Key: key}), true},
		"no schedule":              {tolerating(corev1.Toleration{Key: key, Effect: "NoSchedule"}), true},
		"no execute":               {tolerating(corev1.Toleration{Key: key, Effect: "NoExecute", Operator: "Exists"}), false},
		"another value":            {tolerating(corev1.Toleration{Key: key, Operator: "Equal", Value: "x"}), false},
		"no key":                   {tolerating(corev1.Toleration{Operator: "Equal"}), false},
		"no key, by default":       {tolerating(corev1.Toleration{}), false},
		"another operator":         {tolerating(corev1.Toleration{Key: key, Operator: "Lt"}), false},
		"another key":              {tolerating(corev1.Toleration{Key: "node.kubernetes.io/disk-pressure", Operator: "Exists"}), false},
	} {
		if _, ok := eviction.Admit(tt.pod, []corev1.NodeConditionType{corev1.NodeMemoryPressure}); ok != tt.want {
			t.Errorf("%s: %v", name, ok)
		}
		if _, ok := eviction.Admit(tt.pod, []corev1.NodeConditionType{corev1.NodeDiskPressure}); ok {
			t.Errorf("%s: admitted under pressure of disk", name)
		}
	}
}

func TestMessage(t *testing.T) {
	memory := eviction.Threshold{Signal: eviction.MemoryAvailable, Value: eviction.Value{Quantity: list("x", "1Gi")["x"]}}
	disk := eviction.Threshold{Signal: eviction.NodeFsAvailable, Value: eviction.Value{Quantity: list("x", "1Gi")["x"]}}
	pod := func(change func(p *corev1.Pod)) *corev1.Pod {
		p := newPod("p", 0, list("memory", "1Mi", "ephemeral-storage", "1Mi"), nil)
		change(p)
		return p
	}
	asIs := func(*corev1.Pod) {}
	stats := func(change func(s *v1alpha1.PodStats)) *v1alpha1.PodStats {
		s := use("p", 3*mebi, 2*mebi, mebi, 0)
		change(&s)
		return &s
	}
	all := func(*v1alpha1.PodStats) {}
	const short, low = "The node was low on resource: memory. ", "The node was low on resource: ephemeral-storage. "
	for name, tt := range map[string]struct {
		pod         *corev1.Pod
		stats       *v1alpha1.PodStats
		because     eviction.Threshold
		want        string
		annotations string
	}{
		"nothing known": {pod(asIs), nil, memory, short, "map[]"},
		"too much memory": {
			pod(asIs), stats(all), memory, short + "Container c was using 3Mi, request is 1Mi, has larger consumption of memory. ",
			"map[offending_containers:c offending_containers_usage:3Mi starved_resource:memory]",
		},
		"too much storage": {
			pod(asIs), stats(all), disk, low + "Container c was using 3Mi, request is 1Mi, has larger consumption of ephemeral-storage. ",
			"map[offending_containers:c offending_containers_usage:3Mi starved_resource:ephemeral-storage]",
		},
		"exactly the request": {
			pod(asIs), stats(func(s *v1alpha1.PodStats) { s.Containers[0].Memory.WorkingSetBytes = ptr[uint64](mebi) }), memory, short,
			"map[offending_containers: offending_containers_usage: starved_resource:memory]",
		},
		"memory unknown": {
			pod(asIs), stats(func(s *v1alpha1.PodStats) { s.Containers[0].Memory = nil }), memory, short,
			"map[offending_containers: offending_containers_usage: starved_resource:memory]",
		},
		"working set unknown": {
			pod(func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = list("memory", "-1") }),
			stats(func(s *v1alpha1.PodStats) { s.Containers[0].Memory = &v1alpha1.MemoryStats{} }), memory, short,
			"map[offending_containers: offending_containers_usage: starved_resource:memory]",
		},
		"layer unknown": {
			pod(asIs), stats(func(s *v1alpha1.PodStats) { s.Containers[0].Rootfs = nil }), disk, low,
			"map[offending_containers: offending_containers_usage: starved_resource:ephemeral-storage]",
		},
		"layer not measured": {
			pod(asIs), stats(func(s *v1alpha1.PodStats) { s.Containers[0].Rootfs.UsedBytes = nil }), disk, low,
			"map[offending_containers: offending_containers_usage: starved_resource:ephemeral-storage]",
		},
		"logs unknown": {
			pod(asIs), stats(func(s *v1alpha1.PodStats) { s.Containers[0].Logs = nil }), disk, low,
			"map[offending_containers: offending_containers_usage: starved_resource:ephemeral-storage]",
		},
		"logs not measured": {
			pod(asIs), stats(func(s *v1alpha1.PodStats) { s.Containers[0].Logs.UsedBytes = nil }), disk, low,
			"map[offending_containers: offending_containers_usage: starved_resource:ephemeral-storage]",
		},
		"a container without requests": {
			pod(asIs), stats(func(s *v1alpha1.PodStats) { s.Containers[0].Name = "debugger" }), memory, short,
			"map[offending_containers: offending_containers_usage: starved_resource:memory]",
		},
		"an init container, and another": {
			pod(func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Name: "i"}} }),
			stats(func(s *v1alpha1.PodStats) {
				s.Containers = append(s.Containers, v1alpha1.ContainerStats{Name: "i", Memory: &v1alpha1.MemoryStats{WorkingSetBytes: ptr[uint64](mebi)}})
			}), memory,
			short + "Container c was using 3Mi, request is 1Mi, has larger consumption of memory. Container i was using 1Mi, request is 0, has larger consumption of memory. ",
			"map[offending_containers:c,i offending_containers_usage:3Mi,1Mi starved_resource:memory]",
		},
		"the pod as a whole": {
			pod(func(p *corev1.Pod) {
				p.Spec.Resources = &corev1.ResourceRequirements{Requests: list("memory", "2Mi")}
				p.Spec.Containers[0].Resources.Requests = list("memory", "4Mi")
			}), stats(all), memory,
			short + "Pod p was using 3Mi, request is 2Mi, has larger consumption of memory. ",
			"map[offending_containers: offending_containers_usage: offending_pod:p offending_pod_usage:3Mi starved_resource:memory]",
		},
		"the pod as a whole, its use unknown": {
			pod(func(p *corev1.Pod) {
				p.Spec.Resources = &corev1.ResourceRequirements{Requests: list("memory", "2Mi")}
				p.Spec.Containers[0].Resources.Requests = list("memory", "4Mi")
			}), stats(func(s *v1alpha1.PodStats) { s.Memory = nil }), memory, short,
			"map[offending_containers: offending_containers_usage: starved_resource:memory]",
		},
		"the pod as a whole without a memory request": {
			pod(func(p *corev1.Pod) {
				p.Spec.Resources = &corev1.ResourceRequirements{Requests: list("cpu", "2")}
				p.Spec.Containers[0].Resources.Requests = list("memory", "4Mi")
			}), stats(all), memory, short,
			"map[offending_containers: offending_containers_usage: starved_resource:memory]",
		},
		"the pod as a whole, short of storage": {
			pod(func(p *corev1.Pod) {
				p.Spec.Resources = &corev1.ResourceRequirements{Requests: list("memory", "2Mi", "ephemeral-storage", "1")}
				p.Spec.Containers[0].Resources.Requests = list("ephemeral-storage", "4Mi")
			}), stats(all), disk, low,
			"map[offending_containers: offending_containers_usage: starved_resource:ephemeral-storage]",
		},
	} {
		got, annotations := eviction.Message(tt.pod, tt.stats, tt.because, nil)
		if got != tt.want || fmt.Sprint(annotations) != tt.annotations {
			t.Errorf("%s: %s\n%v", name, got, annotations)
		}
	}
}

func TestLocalStorageAtTheLimits(t *testing.T) {
	limited := func(limit string, medium corev1.StorageMedium) *corev1.Pod {
		p := newPod("p", 0, nil, nil)
		dir := &corev1.EmptyDirVolumeSource{Medium: medium}
		if limit != "" {
			dir.SizeLimit = ptr(list("x", limit)["x"])
		}
		p.Spec.Volumes = []corev1.Volume{
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
			{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: dir}},
		}
		return p
	}
	other := use("p", 0, 0, 0, mebi)
	other.VolumeStats[0].Name = "config"
	twoContainers := newPod("p", 0, nil, list("ephemeral-storage", "3Mi"))
	twoContainers.Spec.Containers = append(twoContainers.Spec.Containers, corev1.Container{Name: "d", Resources: corev1.ResourceRequirements{Limits: list("ephemeral-storage", "1Mi")}})
	unknown := use("p", 0, 2*mebi, 0, 0)
	unknown.Containers[0].Rootfs.UsedBytes, unknown.EphemeralStorage = nil, nil
	for name, tt := range map[string]struct {
		pod   *corev1.Pod
		stats v1alpha1.PodStats
		want  string
	}{
		"at the limit":           {limited("1Mi", ""), use("p", 0, 0, 0, mebi), ""},
		"beyond it":              {limited("1Mi", ""), use("p", 0, 0, 0, mebi+1), `Usage of EmptyDir volume "v" exceeds the limit "1Mi". `},
		"no limit":               {limited("", ""), use("p", 0, 0, 0, mebi+1), ""},
		"a zero limit":           {limited("0", ""), use("p", 0, 0, 0, mebi+1), ""},
		"another volume":         {limited("1", ""), other, ""},
		"in memory":              {limited("1Mi", corev1.StorageMediumMemory), use("p", 0, 0, 0, mebi+1), `Usage of EmptyDir volume "v" exceeds the limit "1Mi". `},
		"a pod at its limit":     {newPod("p", 0, nil, list("ephemeral-storage", "3Mi")), use("p", 0, mebi, mebi, mebi), ""},
		"a pod beyond its limit": {newPod("p", 0, nil, list("ephemeral-storage", "3Mi")), use("p", 0, mebi, mebi, mebi+1), "Pod ephemeral local storage usage exceeds the total limit of containers 3Mi. "},
		"a limit for another":    {twoContainers, use("p", 0, mebi, mebi, 0), ""},
		"nothing known":          {twoContainers, unknown, ""},
	} {
		got, ok := eviction.LocalStorage(tt.pod, &tt.stats, eviction.Layout{})
		if got.Message != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: %v, %s", name, ok, got.Message)
		}
	}
	both := newPod("p", 0, nil, list("ephemeral-storage", "1Mi"))
	both.Spec.Containers = append(both.Spec.Containers, corev1.Container{Name: "d", Resources: corev1.ResourceRequirements{Limits: list("ephemeral-storage", "9Mi")}})
	for name, tt := range map[string]struct {
		layer, logs uint64
		layout      eviction.Layout
		want        bool
	}{
		"at the limit":          {mebi / 2, mebi / 2, eviction.Layout{}, false},
		"beyond it":             {mebi / 2, mebi/2 + 1, eviction.Layout{}, true},
		"layers are elsewhere":  {mebi, mebi, eviction.Layout{DedicatedImages: true}, false},
		"and logs are too many": {mebi, mebi + 1, eviction.Layout{DedicatedImages: true}, true},
	} {
		stats := use("p", 0, tt.layer, tt.logs, 0)
		if got, ok := eviction.LocalStorage(both, &stats, tt.layout); ok != tt.want || ok && got.Message != `Container c exceeded its local ephemeral storage limit "1Mi". ` {
			t.Errorf("%s: %v, %s", name, ok, got.Message)
		}
	}
}

// Which part of a pod's use counts for a signal depends on the filesystems: each pod uses the most of one thing.
func TestRankByWhatCounts(t *testing.T) {
	plain, split, one := eviction.Layout{DedicatedImages: true}, eviction.Layout{DedicatedImages: true, SplitContainers: true}, eviction.Layout{}
	volume := func(name string, v corev1.VolumeSource) *corev1.Pod {
		p := newPod(name, 0, nil, nil)
		p.Spec.Volumes = []corev1.Volume{{Name: "x"}, {Name: "v", VolumeSource: v}}
		return p
	}
	pods := []*corev1.Pod{
		newPod("idle", 0, nil, nil), newPod("layer", 0, nil, nil), newPod("log", 0, nil, nil),
		volume("dir", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
		volume("host", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}),
		volume("config", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}),
		volume("memory", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}),
		volume("secret", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}),
	}
	var all []v1alpha1.PodStats
	for i, p := range pods {
		amount := uint64(i) * 100
		s := use(p.Name, 0, 0, 0, 0)
		s.Containers[0].Rootfs, s.Containers[0].Logs, s.VolumeStats[0].FsStats = fs(0, 0), nil, v1alpha1.FsStats{}
		s.VolumeStats = append([]v1alpha1.VolumeStats{{Name: "other", FsStats: *fs(1e9, 1e9)}}, s.VolumeStats...)
		switch p.Name {
		case "layer":
			s.Containers[0].Rootfs = fs(amount, amount)
		case "log":
			s.Containers[0].Logs = fs(amount, amount)
		default:
			s.VolumeStats[1].FsStats = *fs(amount, amount)
		}
		all = append(all, s)
	}
	stats := statsOf(all...)
	const everything, logsAndVolumes, layers = "config host dir log layer", "config host dir log", "layer"
	for _, tt := range []struct {
		signals []eviction.Signal
		layout  eviction.Layout
		want    string
	}{
		{[]eviction.Signal{eviction.NodeFsAvailable, eviction.NodeFsInodesFree, eviction.ImageFsAvailable, eviction.ImageFsInodesFree, eviction.ContainerFsAvailable, eviction.ContainerFsInodesFree}, one, everything},
		{[]eviction.Signal{eviction.NodeFsAvailable, eviction.NodeFsInodesFree}, plain, logsAndVolumes},
		{[]eviction.Signal{eviction.ImageFsAvailable, eviction.ImageFsInodesFree, eviction.ContainerFsAvailable, eviction.ContainerFsInodesFree}, plain, layers},
		{[]eviction.Signal{eviction.NodeFsAvailable, eviction.NodeFsInodesFree, eviction.ContainerFsAvailable, eviction.ContainerFsInodesFree}, split, everything},
		{[]eviction.Signal{eviction.ImageFsAvailable, eviction.ImageFsInodesFree}, split, ""},
	} {
		for _, signal := range tt.signals {
			var got []string
			for _, p := range eviction.Rank(pods, stats, signal, tt.layout) {
				if p.Name == "idle" {
					break
				}
				got = append(got, p.Name)
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("%s of %+v: %v, not %s", signal, tt.layout, got, tt.want)
			}
		}
	}
}

// The order of eviction: pods of unknown use, those above their requests, those of low priority, those far above their
// requests.
func TestRankOrder(t *testing.T) {
	names := func(pods []*corev1.Pod) string {
		var out []string
		for _, p := range pods {
			out = append(out, p.Name)
		}
		return strings.Join(out, " ")
	}
	noPriority := newPod("none", 0, nil, nil)
	noPriority.Spec.Priority = nil
	noMemory, noSet := use("nomemory", 0, 0, 0, 0), use("noset", 0, 0, 0, 0)
	noMemory.Memory, noSet.Memory = nil, &v1alpha1.MemoryStats{}
	noCount := use("nocount", 9*mebi, 0, 0, 0)
	noCount.ProcessStats = &v1alpha1.ProcessStats{}
	noProcesses := use("noprocesses", 9*mebi, 0, 0, 0)
	noProcesses.ProcessStats = nil
	for name, tt := range map[string]struct {
		signal eviction.Signal
		pods   []*corev1.Pod
		stats  eviction.Stats
		want   string
	}{
		"memory": {
			eviction.MemoryAvailable,
			[]*corev1.Pod{
				newPod("within", 0, list("memory", "9Mi"), nil), newPod("above", 5, list("memory", "1Mi"), nil), newPod("farabove", 5, nil, nil),
				newPod("low", -5, list("memory", "1Mi"), nil), newPod("unknown", 9, nil, nil), noPriority, newPod("just", 0, list("memory", "2Mi"), nil),
			},
			statsOf(use("within", 2*mebi, 0, 0, 0), use("above", 2*mebi, 0, 0, 0), use("farabove", 2*mebi, 0, 0, 0), use("low", 2*mebi, 0, 0, 0), use("none", 2*mebi, 0, 0, 0), use("just", 2*mebi, 0, 0, 0)),
			"unknown low none farabove above just within",
		},
		"memory not measured": {
			eviction.MemoryAvailable, []*corev1.Pod{newPod("nomemory", 0, nil, nil), newPod("noset", 0, nil, nil), newPod("some", 0, nil, nil)},
			statsOf(noMemory, noSet, use("some", 1, 0, 0, 0)), "some nomemory noset",
		},
		"processes": {
			eviction.PIDAvailable,
			[]*corev1.Pod{newPod("few", 0, nil, nil), newPod("many", 0, nil, nil), newPod("unknown", 0, nil, nil), newPod("low", -1, nil, nil), newPod("nocount", 0, nil, nil), newPod("noprocesses", 0, nil, nil)},
			statsOf(use("few", mebi, 0, 0, 0), use("many", 5*mebi, 0, 0, 0), use("low", mebi, 0, 0, 0), noCount, noProcesses),
			"low unknown many few nocount noprocesses",
		},
		"storage": {
			eviction.NodeFsAvailable,
			[]*corev1.Pod{newPod("within", 0, list("ephemeral-storage", "9Mi"), nil), newPod("above", 0, list("ephemeral-storage", "1Mi"), nil), newPod("farabove", 0, nil, nil)},
			statsOf(use("within", mebi, mebi, 0, 0), use("above", 0, mebi, mebi, 0), use("farabove", 0, mebi, mebi, 0)), "farabove above within",
		},
		"inodes": {
			eviction.NodeFsInodesFree,
			[]*corev1.Pod{newPod("asked", 0, list("ephemeral-storage", "300"), nil), newPod("few", 0, nil, nil), newPod("many", 0, nil, nil)},
			statsOf(use("asked", 0, 4096*300, 0, 0), use("few", 0, 4096*10, 0, 0), use("many", 0, 4096*20, 0, 0)), "many few asked",
		},
	} {
		before := names(tt.pods)
		if got := names(eviction.Rank(tt.pods, tt.stats, tt.signal, eviction.Layout{})); got != tt.want {
			t.Errorf("%s: %s, not %s", name, got, tt.want)
		}
		if names(tt.pods) != before {
			t.Errorf("%s: the argument is changed", name)
		}
	}
}

func TestParseAtTheLimits(t *testing.T) {
	one := func(value string) map[string]string { return map[string]string{"memory.available": value} }
	for name, tt := range map[string]struct {
		config eviction.Config
		want   string
	}{
		"0.0%":                   {eviction.Config{Hard: one("0.0%")}, "memory.available<0+0 after 0s\nallocatableMemory.available<0+0 after 0s"},
		"100.0%":                 {eviction.Config{Hard: one("100.0%")}, "memory.available<100%+0 after 0s\nallocatableMemory.available<100%+0 after 0s"},
		"the least":              {eviction.Config{Hard: one("1")}, "memory.available<1+0 after 0s\nallocatableMemory.available<1+0 after 0s"},
		"without a grace period": {eviction.Config{Soft: one("1"), SoftGracePeriod: one("0s")}, "memory.available<1+0 after 0s\nallocatableMemory.available<1+0 after 0s"},
		"with a grace period":    {eviction.Config{Soft: one("1"), SoftGracePeriod: one("1s"), MinimumReclaim: one("50%")}, "memory.available<1+50% after 1s"},
	} {
		if got := show(parse(t, tt.config)); got != tt.want {
			t.Errorf("%s: %s", name, got)
		}
	}
	for name, tt := range map[string]struct {
		config eviction.Config
		want   string
	}{
		"negative share":         {eviction.Config{Hard: one("-15%")}, "eviction percentage threshold memory.available must be >= 0%: -15%"},
		"share above 100%":       {eviction.Config{Hard: one("101%")}, "eviction percentage threshold memory.available must be <= 100%: 101%"},
		"infinite":               {eviction.Config{Hard: one("Inf%")}, `memory.available: "Inf%" is no percentage`},
		"negatively infinite":    {eviction.Config{Hard: one("-Inf%")}, `memory.available: "-Inf%" is no percentage`},
		"soft":                   {eviction.Config{Soft: one("x"), SoftGracePeriod: one("1s")}, "memory.available: quantities must match the regular expression"},
		"infinite reclaim":       {eviction.Config{Hard: one("1"), MinimumReclaim: one("Inf%")}, `memory.available: "Inf%" is no percentage`},
		"negative reclaim":       {eviction.Config{Hard: one("1"), MinimumReclaim: one("-1")}, "negative eviction minimum reclaim specified for memory.available"},
		"negative reclaim share": {eviction.Config{Hard: one("1"), MinimumReclaim: one("-1%")}, "eviction percentage minimum reclaim memory.available must be positive: -1%"},
		"zero":                   {eviction.Config{Hard: one("0")}, "eviction threshold memory.available must be positive: 0"},
	} {
		list, err := eviction.Parse(tt.config)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, %v", name, list, err)
		}
	}
}

// Only hard thresholds on memory and the main filesystem reserve something.
func TestReservedByHardThresholds(t *testing.T) {
	got := eviction.Reserved(parse(t, eviction.Config{
		Hard:            map[string]string{"memory.available": "1Gi", "imagefs.available": "5Gi", "pid.available": "10", "nodefs.inodesFree": "7"},
		Soft:            map[string]string{"memory.available": "2Gi", "nodefs.available": "3Gi"},
		SoftGracePeriod: map[string]string{"memory.available": "1m", "nodefs.available": "1m"},
	}), list("memory", "8Gi", "ephemeral-storage", "80Gi", "pids", "1000", "inodes", "100"))
	memory := got[corev1.ResourceMemory]
	if len(got) != 1 || memory.String() != "1Gi" {
		t.Errorf("%v", got)
	}
	if got := eviction.Reserved(parse(t, eviction.Default()), list("cpu", "1")); len(got) != 0 {
		t.Errorf("of what there is not: %v", got)
	}
}

// Thresholds for the filesystem of writable layers are derived, not configured.
func TestForLayoutLeavesOutWhatWasGiven(t *testing.T) {
	c := eviction.Config{Hard: map[string]string{"containerfs.available": "33%", "containerfs.inodesFree": "33%", "imagefs.inodesFree": "4%", "pid.available": "5"}}
	got := show(eviction.ForLayout(parse(t, c), eviction.Layout{DedicatedImages: true}))
	if want := "imagefs.inodesFree<4%+0 after 0s\npid.available<5+0 after 0s\ncontainerfs.inodesFree<4%+0 after 0s"; got != want {
		t.Errorf("%s", got)
	}
}
