package eviction_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/kubelet/eviction"
)

func parse(t *testing.T, c eviction.Config) []eviction.Threshold {
	t.Helper()
	out, err := eviction.Parse(c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// show renders a threshold as a line.
func show(list []eviction.Threshold) string {
	var out []string
	for _, t := range list {
		value := func(v eviction.Value) string {
			if v.Share != 0 {
				return fmt.Sprintf("%.4g%%", v.Share*100)
			}
			return v.Quantity.String()
		}
		out = append(out, fmt.Sprintf("%s<%s+%s after %s", t.Signal, value(t.Value), value(t.MinReclaim), t.GracePeriod))
	}
	return strings.Join(out, "\n")
}

func TestParse(t *testing.T) {
	got := show(parse(t, eviction.Config{
		Hard:            map[string]string{"memory.available": "150Mi", "nodefs.available": "10%", "imagefs.available": "100%", "pid.available": "0%"},
		Soft:            map[string]string{"memory.available": "300Mi"},
		SoftGracePeriod: map[string]string{"memory.available": "30s"},
		MinimumReclaim:  map[string]string{"memory.available": "0", "nodefs.available": "5%"},
	}))
	want := `memory.available<150Mi+0 after 0s
nodefs.available<10%+5% after 0s
memory.available<300Mi+0 after 30s
allocatableMemory.available<150Mi+0 after 0s`
	if got != want {
		t.Errorf("%s\nnot\n%s", got, want)
	}
	if none := parse(t, eviction.Config{Hard: map[string]string{"nodefs.available": "0%"}}); none == nil || len(none) != 0 {
		t.Errorf("what is turned off: %v", none)
	}
	one := func(value string) map[string]string { return map[string]string{"memory.available": value} }
	for name, bad := range map[string]eviction.Config{
		"unknown signal":                     {Hard: map[string]string{"mem.available": "1Mi"}},
		"invalid quantity":                   {Hard: one("xMi")},
		"zero":                               {Hard: one("0")},
		"negative":                           {Hard: one("-150Mi")},
		"negative percentage":                {Hard: one("-15%")},
		"above 100%":                         {Hard: one("150%")},
		"invalid percentage":                 {Hard: one("x%")},
		"not a number":                       {Hard: one("NaN%")},
		"infinite":                           {Hard: one("Inf%")},
		"no grace period":                    {Soft: one("150Mi")},
		"invalid grace period":               {Soft: one("150Mi"), SoftGracePeriod: one("30")},
		"negative grace period":              {Soft: one("150Mi"), SoftGracePeriod: one("-30s")},
		"grace period for an unknown signal": {SoftGracePeriod: map[string]string{"x": "1s"}},
		"negative reclaim":                   {Hard: one("150Mi"), MinimumReclaim: one("-1")},
		"reclaim of 0%":                      {Hard: one("150Mi"), MinimumReclaim: one("0%")},
		"reclaim of nothing":                 {MinimumReclaim: map[string]string{"x": "1"}},
		"invalid reclaim":                    {MinimumReclaim: one("?")},
	} {
		if list, err := eviction.Parse(bad); !errors.Is(err, eviction.ErrThreshold) {
			t.Errorf("%s: %v, %v", name, list, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("memory.available", "10%", "1m")
	f.Add("nodefs.available", "1Gi", "-3s")
	f.Fuzz(func(t *testing.T, signal, value, grace string) {
		m := func(v string) map[string]string { return map[string]string{signal: v} }
		list, err := eviction.Parse(eviction.Config{Hard: m(value), Soft: m(value), SoftGracePeriod: m(grace), MinimumReclaim: m(value)})
		if err != nil {
			return
		}
		for _, one := range list {
			if one.Value.Share < 0 || one.Value.Share > 1 || one.Value.Share == 0 && one.Value.Quantity.Sign() <= 0 || one.GracePeriod < 0 {
				t.Errorf("%+v", one)
			}
		}
		core := eviction.NewCore(list, time.Minute)
		core.Look(time.Unix(0, 0), eviction.Observe(summary(time.Unix(0, 0), gibi, gibi)))
	})
}

func TestForLayout(t *testing.T) {
	c := eviction.Config{Hard: map[string]string{"nodefs.available": "10%", "imagefs.available": "15%", "nodefs.inodesFree": "5%", "containerfs.available": "33%"}}
	for _, test := range []struct {
		layout eviction.Layout
		want   string
	}{
		{eviction.Layout{}, "containerfs.available<10%+0 after 0s\ncontainerfs.inodesFree<5%+0 after 0s"},
		{eviction.Layout{DedicatedImages: true}, "containerfs.available<15%+0 after 0s"},
		{eviction.Layout{DedicatedImages: true, SplitContainers: true}, "containerfs.available<10%+0 after 0s\ncontainerfs.inodesFree<5%+0 after 0s"},
	} {
		got := show(eviction.ForLayout(parse(t, c), test.layout))
		if !strings.HasSuffix(got, "\n"+test.want) || strings.Contains(got, "33") {
			t.Errorf("%+v: %s", test.layout, got)
		}
	}
}

func TestReserved(t *testing.T) {
	got := eviction.Reserved(parse(t, eviction.Default()), list("memory", "1Gi", "ephemeral-storage", "100Gi", "cpu", "1"))
	memory, storage := got[corev1.ResourceMemory], got[corev1.ResourceEphemeralStorage]
	if len(got) != 2 || memory.String() != "100Mi" || storage.Value() != 10737418400 { // 10 % in 32 bits, as upstream
		t.Errorf("%v", got)
	}
}

func TestCore(t *testing.T) {
	core := eviction.NewCore(parse(t, eviction.Config{
		Hard:            map[string]string{"memory.available": "1Gi", "nodefs.available": "10%"},
		Soft:            map[string]string{"memory.available": "2Gi"},
		SoftGracePeriod: map[string]string{"memory.available": "2m"},
		MinimumReclaim:  map[string]string{"memory.available": "500Mi"},
	}), 5*time.Minute)
	start := time.Unix(10_000, 0)
	var conditions []corev1.NodeConditionType
	for _, step := range []struct {
		after        time.Duration
		memory, disk uint64
		observed     time.Duration // when, if not now
		want         string        // the signals that require action
		conditions   string
	}{
		{0, 5 * gibi, 5 * gibi, 0, "", "[]"},
		{10 * time.Second, 1500 * mebi, 5 * gibi, 0, "", "[MemoryPressure]"}, // soft, in its grace period
		{120 * time.Second, 1500 * mebi, 5 * gibi, 0, "", "[MemoryPressure]"},
		{130 * time.Second, 1500 * mebi, 5 * gibi, 0, "memory.available", "[MemoryPressure]"},
		{140 * time.Second, 1500 * mebi, 5 * gibi, 130 * time.Second, "", "[MemoryPressure]"},                                // nothing new is known
		{150 * time.Second, 2100 * mebi, 5 * gibi, 0, "memory.available", "[MemoryPressure]"},                                // not enough was reclaimed
		{160 * time.Second, 3000 * mebi, 5 * gibi, 0, "", "[MemoryPressure]"},                                                // now it was
		{170 * time.Second, 2100 * mebi, 5 * gibi, 0, "", "[MemoryPressure]"},                                                // above the threshold is enough again
		{300 * time.Second, 500 * mebi, 900 * mebi, 0, "memory.available nodefs.available", "[MemoryPressure DiskPressure]"}, // hard ones at once
		{310 * time.Second, 5 * gibi, 5 * gibi, 0, "", "[MemoryPressure DiskPressure]"},
		{599 * time.Second, 5 * gibi, 5 * gibi, 0, "", "[MemoryPressure DiskPressure]"},
		{600 * time.Second, 5 * gibi, 5 * gibi, 0, "", "[]"},
	} {
		at := start.Add(step.after)
		observed := at
		if step.observed != 0 {
			observed = start.Add(step.observed)
		}
		var signals []string
		for _, threshold := range core.Look(at, eviction.Observe(summary(observed, step.memory, step.disk))) {
			signals = append(signals, string(threshold.Signal))
		}
		conditions = core.Conditions()
		if got := strings.Join(signals, " "); got != step.want || fmt.Sprint(conditions) != step.conditions {
			t.Errorf("after %s: %q, %v, not %q, %s", step.after, got, conditions, step.want, step.conditions)
		}
	}
	if core.Relieved(eviction.Observe(summary(start, 2100*mebi, 5*gibi))) || !core.Relieved(eviction.Observe(summary(start, 3*gibi, 5*gibi))) {
		t.Error("whether a reclaim was enough")
	}
}

func TestRank(t *testing.T) {
	memory := func(m string) corev1.ResourceList { return list("memory", m) }
	storage := func(m string) corev1.ResourceList { return list("ephemeral-storage", m) }
	none := eviction.Layout{}
	for name, test := range map[string]struct {
		pods   []*corev1.Pod
		stats  eviction.Stats
		signal eviction.Signal
		layout eviction.Layout
		want   string
	}{
		"memory: unknown, above request, priority, excess": {
			pods: []*corev1.Pod{
				newPod("below", 0, memory("1Gi"), nil), newPod("high-above", 100, nil, nil), newPod("low-little", 0, memory("100Mi"), nil),
				newPod("low-much", 0, memory("100Mi"), nil), newPod("unknown", 1000, nil, nil), newPod("low-most", 0, nil, nil),
			},
			stats: statsOf(use("below", 900*mebi, 0, 0, 0), use("high-above", 900*mebi, 0, 0, 0), use("low-little", 150*mebi, 0, 0, 0),
				use("low-much", 300*mebi, 0, 0, 0), use("low-most", 250*mebi, 0, 0, 0)),
			signal: eviction.MemoryAvailable,
			want:   "unknown low-most low-much low-little high-above below",
		},
		"use equal to the request is not above it": {
			pods:   []*corev1.Pod{newPod("equal", 0, memory("1Gi"), nil), newPod("above", 100, memory("1Gi"), nil)},
			stats:  statsOf(use("equal", gibi, 0, 0, 0), use("above", gibi+1, 0, 0, 0)),
			signal: eviction.MemoryAvailable, want: "above equal",
		},
		"process IDs: priority, then number": {
			pods:   []*corev1.Pod{newPod("high", 5, nil, nil), newPod("few", 0, nil, nil), newPod("many", 0, nil, nil)},
			stats:  statsOf(use("high", 900*mebi, 0, 0, 0), use("few", 3*mebi, 0, 0, 0), use("many", 400*mebi, 0, 0, 0)),
			signal: eviction.PIDAvailable, want: "many few high",
		},
		"one disk: all that is written": {
			pods:   []*corev1.Pod{newPod("layer", 0, nil, nil), newPod("logs", 0, storage("200Mi"), nil), newPod("below", 0, storage("1Gi"), nil)},
			stats:  statsOf(use("layer", 0, 50*mebi, 0, 0), use("logs", 0, 1*mebi, 300*mebi, 0), use("below", 0, 500*mebi, 0, 0)),
			signal: eviction.NodeFsAvailable, want: "logs layer below",
		},
		"images elsewhere: logs and volumes on the node's disk": {
			pods:   []*corev1.Pod{withVolume(newPod("volume", 0, nil, nil)), newPod("layer", 0, nil, nil), newPod("logs", 0, nil, nil)},
			stats:  statsOf(use("volume", 0, 0, 0, 90*mebi), use("layer", 0, 500*mebi, 0, 500*mebi), use("logs", 0, 0, 80*mebi, 0)),
			signal: eviction.NodeFsAvailable, layout: eviction.Layout{DedicatedImages: true}, want: "volume logs layer",
		},
		"images elsewhere: layers on theirs": {
			pods:   []*corev1.Pod{newPod("logs", 0, nil, nil), newPod("layer", 0, nil, nil)},
			stats:  statsOf(use("layer", 0, 1*mebi, 0, 0), use("logs", 0, 0, 80*mebi, 0)),
			signal: eviction.ImageFsAvailable, layout: eviction.Layout{DedicatedImages: true}, want: "layer logs",
		},
		"inodes": {
			pods:   []*corev1.Pod{newPod("few", 0, nil, nil), newPod("many", 0, nil, nil)},
			stats:  statsOf(use("few", 0, 10*4096, 0, 0), use("many", 0, 99*4096, 0, 0)),
			signal: eviction.NodeFsInodesFree, layout: none, want: "many few",
		},
	} {
		before := append([]*corev1.Pod(nil), test.pods...)
		var got []string
		for _, pod := range eviction.Rank(test.pods, test.stats, test.signal, test.layout) {
			got = append(got, pod.Name)
		}
		if s := strings.Join(got, " "); s != test.want {
			t.Errorf("%s: %s, not %s", name, s, test.want)
		}
		if !reflect.DeepEqual(before, test.pods) {
			t.Errorf("%s: the argument was changed", name)
		}
	}
}

func withVolume(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	return pod
}

func TestEvict(t *testing.T) {
	hard := parse(t, eviction.Config{Hard: map[string]string{"memory.available": "1Gi"}})[0]
	soft := hard
	soft.GracePeriod = time.Minute
	pod := newPod("web", 0, list("memory", "100Mi"), nil)
	stats := statsOf(use("web", 300*mebi, 0, 0, 0))
	observed := eviction.Observe(summary(time.Unix(0, 0), 512*mebi, gibi))

	e := eviction.Evict(pod, stats, hard, observed, 40)
	want := "The node was low on resource: memory. Threshold quantity: 1Gi, available: 512Mi. " +
		"Container c was using 300Mi, request is 100Mi, has larger consumption of memory. "
	if e.Message != want || e.Grace != 1 || e.Signal != "memory.available" {
		t.Errorf("%+v", e)
	}
	if e.Annotations["offending_containers"] != "c" || e.Annotations["offending_containers_usage"] != "300Mi" || e.Annotations["starved_resource"] != "memory" {
		t.Errorf("annotations %v", e.Annotations)
	}
	status := corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady}, {Type: corev1.DisruptionTarget}}}
	e.Status(&status)
	wantCondition := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "TerminationByKubelet", Message: want, ObservedGeneration: 3,
	}
	if status.Phase != corev1.PodFailed || status.Reason != "Evicted" || status.Message != want ||
		len(status.Conditions) != 2 || status.Conditions[1] != wantCondition {
		t.Errorf("status %+v", status)
	}

	// A soft threshold leaves as much time as the pod wants, but no more than it may have.
	if e := eviction.Evict(pod, nil, soft, observed, 40); e.Grace != 40 || strings.Contains(e.Message, "Container") {
		t.Errorf("soft: %+v", e)
	}
	pod.Spec.TerminationGracePeriodSeconds = ptr[int64](7)
	if e := eviction.Evict(pod, nil, soft, observed, 40); e.Grace != 7 {
		t.Errorf("soft with its own grace: %+v", e)
	}
	// A pod that asked for memory as a whole is named itself.
	pod.Spec.Resources = &corev1.ResourceRequirements{Requests: list("memory", "200Mi")}
	if e := eviction.Evict(pod, stats, hard, nil, 0); !strings.HasPrefix(e.Message,
		"The node was low on resource: memory. Pod web was using 300Mi, request is 200Mi, has larger consumption of memory. ") {
		t.Errorf("pod-level: %s", e.Message)
	}
}

func TestLocalStorage(t *testing.T) {
	limit := resource.MustParse("64Mi")
	limited := withVolume(newPod("volume", 0, nil, nil))
	limited.Spec.Volumes[0].EmptyDir.SizeLimit = &limit
	storage := list("ephemeral-storage", "10Mi")
	sidecarred := newPod("pod", 0, nil, storage)
	for name, test := range map[string]struct {
		pod    *corev1.Pod
		stats  v1alpha1.PodStats
		layout eviction.Layout
		want   string
		signal string
	}{
		"a volume within its limit": {pod: limited, stats: use("volume", 0, 0, 0, 64*mebi)},
		"a volume beyond its limit": {pod: limited, stats: use("volume", 0, 0, 0, 65*mebi), want: `Usage of EmptyDir volume "v" exceeds the limit "64Mi". `, signal: "emptydirfs.limit"},
		"no limit":                  {pod: newPod("free", 0, nil, nil), stats: use("free", 0, gibi, gibi, gibi)},
		"a pod within its limit":    {pod: sidecarred, stats: use("pod", 0, 5*mebi, 5*mebi, 0)},
		"a pod beyond its limit":    {pod: sidecarred, stats: use("pod", 0, 5*mebi, 5*mebi, 1*mebi), want: "Pod ephemeral local storage usage exceeds the total limit of containers 10Mi. ", signal: "ephemeralpodfs.limit"},
		"a container":               {pod: sidecarred, stats: container(use("pod", 0, 8*mebi, 5*mebi, 0)), want: `Container c exceeded its local ephemeral storage limit "10Mi". `, signal: "ephemeralcontainerfs.limit"},
		"a layer elsewhere":         {pod: sidecarred, stats: container(use("pod", 0, 8*mebi, 5*mebi, 0)), layout: eviction.Layout{DedicatedImages: true}},
	} {
		got, over := eviction.LocalStorage(test.pod, &test.stats, test.layout)
		if over != (test.want != "") || got.Message != test.want || got.Signal != test.signal || over && (got.Grace != 1 || got.Condition != nil) {
			t.Errorf("%s: %+v, %v", name, got, over)
		}
	}
	if _, over := eviction.LocalStorage(limited, nil, eviction.Layout{}); over {
		t.Error("nothing is known, and the pod is evicted")
	}
}

// container leaves the sum for the pod out.
func container(s v1alpha1.PodStats) v1alpha1.PodStats {
	s.EphemeralStorage = nil
	return s
}

func TestAdmit(t *testing.T) {
	memory, disk := corev1.NodeMemoryPressure, corev1.NodeDiskPressure
	idle := newPod("idle", 0, nil, nil)
	asking := newPod("asking", 0, list("cpu", "1m"), nil)
	tolerant := newPod("tolerant", 0, nil, nil)
	tolerant.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists}}
	other := newPod("other", 0, nil, nil)
	other.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeDiskPressure, Operator: corev1.TolerationOpExists}}
	everything := newPod("everything", 0, nil, nil)
	everything.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	static := newPod("static", 0, nil, nil)
	static.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	ownClass := newPod("own", 0, nil, nil)
	ownClass.Status.QOSClass = corev1.PodQOSBurstable
	for _, test := range []struct {
		pod        *corev1.Pod
		conditions []corev1.NodeConditionType
		want       string
	}{
		{idle, nil, ""},
		{idle, []corev1.NodeConditionType{memory}, "The node had condition: [MemoryPressure]. "},
		{asking, []corev1.NodeConditionType{memory}, ""},
		{ownClass, []corev1.NodeConditionType{memory}, ""},
		{tolerant, []corev1.NodeConditionType{memory}, ""},
		{everything, []corev1.NodeConditionType{memory}, ""},
		{other, []corev1.NodeConditionType{memory}, "The node had condition: [MemoryPressure]. "},
		{asking, []corev1.NodeConditionType{disk}, "The node had condition: [DiskPressure]. "},
		{asking, []corev1.NodeConditionType{memory, disk}, "The node had condition: [MemoryPressure DiskPressure]. "},
		{static, []corev1.NodeConditionType{disk}, ""},
		{newPod("critical", 2_000_000_000, nil, nil), []corev1.NodeConditionType{disk, memory}, ""},
	} {
		if got, ok := eviction.Admit(test.pod, test.conditions); got != test.want || ok != (test.want == "") {
			t.Errorf("%s under %v: %q %v", test.pod.Name, test.conditions, got, ok)
		}
	}
}

func TestCondition(t *testing.T) {
	got, event := eviction.Condition(corev1.NodeDiskPressure, true)
	want := corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue, Reason: "KubeletHasDiskPressure", Message: "kubelet has disk pressure"}
	if got != want || event != "NodeHasDiskPressure" {
		t.Errorf("%+v %s", got, event)
	}
	if got, event = eviction.Condition(corev1.NodePIDPressure, false); got.Status != corev1.ConditionFalse || event != "NodeHasSufficientPID" {
		t.Errorf("%+v %s", got, event)
	}
}
