package decision_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/decision"
)

// list makes a resource list of words such as cpu=1.
func list(words ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, word := range words {
		name, q, _ := strings.Cut(word, "=")
		out[corev1.ResourceName(name)] = resource.MustParse(q)
	}
	return out
}

// requirements reads "cpu=1 memory=1Gi / cpu=2": requests, and limits after the slash.
func requirements(text string) corev1.ResourceRequirements {
	var r corev1.ResourceRequirements
	requests, limits, _ := strings.Cut(text, "/")
	if words := strings.Fields(requests); len(words) > 0 {
		r.Requests = list(words...)
	}
	if words := strings.Fields(limits); len(words) > 0 {
		r.Limits = list(words...)
	}
	return r
}

// give sets resources of containers, and of the pod under the name "".
func give(pod *corev1.Pod, resources map[string]string) {
	for name, text := range resources {
		r := requirements(text)
		if name == "" {
			pod.Spec.Resources = &r
			continue
		}
		if c, _, ok := decision.Container(pod, name); ok {
			c.Resources = r
		}
	}
}

// did renders a resize.
func did(r decision.ResizeActions) string {
	var words []string
	for _, l := range []struct {
		name string
		list []decision.Update
	}{{"memory", r.Memory}, {"cpu", r.CPU}} {
		for _, u := range l.list {
			words = append(words, l.name+"("+u.Name+")")
		}
	}
	if r.Pod {
		words = append(words, "pod")
	}
	return strings.Join(words, " ")
}

// TestResizeActions: what has changed is updated in what runs, and restarted where the policy says so.
func TestResizeActions(t *testing.T) {
	restartFor := func(names ...corev1.ResourceName) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			for _, name := range names {
				policy := corev1.ContainerResizePolicy{ResourceName: name, RestartPolicy: corev1.RestartContainer}
				p.Spec.Containers[0].ResizePolicy = append(p.Spec.Containers[0].ResizePolicy, policy)
			}
		}
	}
	for name, tt := range map[string]struct {
		scene
		before, after map[string]string
		resize, other string
		resizing      bool
	}{
		"nothing":      {scene{containers: "main=running"}, map[string]string{"main": "cpu=1"}, map[string]string{"main": "cpu=1000m"}, "", "", false},
		"a request":    {scene{containers: "main=running"}, map[string]string{"main": "cpu=1"}, map[string]string{"main": "cpu=2"}, "cpu(main)", "", true},
		"a limit":      {scene{containers: "main=running"}, map[string]string{"main": "cpu=1 / cpu=2"}, map[string]string{"main": "cpu=1 / cpu=3"}, "cpu(main)", "", true},
		"an added one": {scene{containers: "main=running"}, map[string]string{"main": "cpu=1"}, map[string]string{"main": "cpu=1 / memory=1Gi"}, "memory(main)", "", true},
		"both":         {scene{containers: "main=running"}, map[string]string{"main": "cpu=1 memory=1Gi"}, map[string]string{"main": "cpu=2 memory=2Gi"}, "memory(main) cpu(main)", "", true},
		"first who gives up": {scene{names: "a b c", containers: "a=running b=running c=running"},
			map[string]string{"a": "cpu=1", "b": "cpu=2", "c": "cpu=2"}, map[string]string{"a": "cpu=2", "b": "cpu=1", "c": "cpu=1"}, "cpu(c) cpu(b) cpu(a)", "", true},
		"the limit decides": {scene{names: "a b", containers: "a=running b=running"},
			map[string]string{"a": "cpu=1 / cpu=1", "b": "cpu=1 / cpu=3"}, map[string]string{"a": "cpu=2 / cpu=2", "b": "cpu=2 / cpu=2"}, "cpu(b) cpu(a)", "", true},
		"for a restart": {scene{containers: "main=running", change: restartFor("cpu")}, map[string]string{"main": "cpu=1"}, map[string]string{"main": "cpu=2"},
			"pod", "kill(main: Container main resize requires restart) start(main)", true},
		"for another's restart": {scene{containers: "main=running", change: restartFor("memory")}, map[string]string{"main": "cpu=1"}, map[string]string{"main": "cpu=2"}, "cpu(main)", "", true},
		"for both's restart": {scene{containers: "main=running", change: restartFor("cpu", "memory")}, map[string]string{"main": "cpu=1 memory=1Gi"}, map[string]string{"main": "cpu=2 memory=2Gi"},
			"pod", "kill(main: Container main resize requires restart) start(main)", true},
		"of one that does not run": {scene{names: "a b", containers: "a=running b=1"}, map[string]string{"b": "cpu=1"}, map[string]string{"b": "cpu=2"}, "pod", "start(b)", false},
		"of one that has ended":    {scene{policy: "Never", names: "a b", containers: "a=running b=1"}, map[string]string{"b": "cpu=1"}, map[string]string{"b": "cpu=2"}, "", "", false},
		"of a sidecar":             {scene{inits: "s+", containers: "main=running s=running"}, map[string]string{"s": "cpu=1"}, map[string]string{"s": "cpu=2"}, "cpu(s)", "", true},
		"of a sidecar, by restart": {scene{inits: "s+", containers: "main=running s=running", change: func(p *corev1.Pod) {
			p.Spec.InitContainers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: "cpu", RestartPolicy: corev1.RestartContainer}}
		}}, map[string]string{"s": "cpu=1"}, map[string]string{"s": "cpu=2"}, "pod", "kill(s: Container s resize requires restart) start(s)", true},
		"of an init container": {scene{inits: "i", containers: "i=running"}, map[string]string{"i": "cpu=1"}, map[string]string{"i": "cpu=2"}, "cpu(i)", "", false},
		"of an unfit one": {scene{containers: "main=running", probes: map[string]decision.ProbeResult{"main Liveness": decision.ProbeFailure}},
			map[string]string{"main": "cpu=1"}, map[string]string{"main": "cpu=2"}, "pod", "kill(main: Container main failed liveness probe, will be restarted) start(main)", true},
		"of the pod": {scene{containers: "main=running"}, map[string]string{"": "/ memory=1Gi"}, map[string]string{"": "/ memory=2Gi"}, "memory(main) pod", "", true},
		"of the pod, not of who has its own": {scene{containers: "main=running"}, map[string]string{"": "/ memory=1Gi", "main": "/ memory=1Gi"}, map[string]string{"": "/ memory=2Gi", "main": "/ memory=1Gi"},
			"pod", "", true},
		"in a dead sandbox": {scene{sandbox: "dead", containers: "main=running"}, map[string]string{"main": "cpu=1"}, map[string]string{"main": "cpu=2"}, "pod", "kill-pod sandbox#2 start(main)", true},
	} {
		t.Run(name, func(t *testing.T) {
			tt.sandbox = cmp.Or(tt.sandbox, "ready")
			in := tt.build()
			give(in.Pod, tt.before)
			before := decision.AllocationOf(&in.Pod.Spec)
			give(in.Pod, tt.after)
			in.Resize.InForce = &before
			d := decision.Decide(in)
			if got := did(d.Actions.Resize); got != tt.resize {
				t.Errorf("resized %q, want %q", got, tt.resize)
			}
			if got := todo(d.Actions, in.Pod); got != tt.other {
				t.Errorf("did %q, want %q", got, tt.other)
			}
			if got := decision.Resizing(in); got != tt.resizing {
				t.Errorf("resizing is %t", got)
			}
			if got := in.Resize.Settled(in.Pod); got != (tt.resize == "" && tt.other == "" && !tt.resizing && name == "nothing") {
				t.Errorf("settled is %t", got)
			}
			in.Resize.InForce = nil
			if d := decision.Decide(in); !d.Actions.Resize.None() || decision.Resizing(in) || !in.Resize.Settled(in.Pod) {
				t.Errorf("without a record: %q", did(d.Actions.Resize))
			}
		})
	}
}

// TestResizeSteps: the limits of the pod rise before those of its containers, and fall after them.
func TestResizeSteps(t *testing.T) {
	containers := decision.ResizeActions{Memory: []decision.Update{{Name: "a"}, {Name: "b"}}, CPU: []decision.Update{{Name: "c"}}}
	for name, tt := range map[string]struct {
		decision.ResizeActions
		now, want cri.Resources
		steps     string
	}{
		"nothing":                {},
		"up":                     {containers, cri.Resources{MemoryLimit: 1, CPUQuota: 1, CPUShares: 1}, cri.Resources{MemoryLimit: 2, CPUQuota: 2, CPUShares: 2}, "memory:2 a b quota:2 shares:2 c"},
		"down":                   {containers, cri.Resources{MemoryLimit: 2, CPUQuota: 2, CPUShares: 2}, cri.Resources{MemoryLimit: 1, CPUQuota: 1, CPUShares: 1}, "a b memory:1 c shares:1 quota:1"},
		"apart":                  {containers, cri.Resources{MemoryLimit: 2, CPUQuota: 1, CPUShares: 2}, cri.Resources{MemoryLimit: 1, CPUQuota: 2, CPUShares: 1}, "a b memory:1 quota:2 c shares:1"},
		"the same":               {containers, cri.Resources{MemoryLimit: 1, CPUQuota: 1, CPUShares: 1}, cri.Resources{MemoryLimit: 1, CPUQuota: 1, CPUShares: 1}, "a b c"},
		"a limit where was none": {containers, cri.Resources{MemoryLimit: -1, CPUQuota: -1}, cri.Resources{MemoryLimit: 1, CPUQuota: 1}, "a b memory:1 c quota:1"},
		"none where was a limit": {containers, cri.Resources{MemoryLimit: 1, CPUQuota: 1}, cri.Resources{MemoryLimit: -1, CPUQuota: -1}, "memory:-1 a b quota:-1 c"},
		"none is asked for":      {containers, cri.Resources{MemoryLimit: 1, CPUQuota: 1, CPUShares: 1}, cri.Resources{}, "a b c"},
		"none is managed":        {containers, cri.Resources{}, cri.Resources{MemoryLimit: 1, CPUQuota: 1, CPUShares: 1}, "a b c"},
		"of the pod alone":       {decision.ResizeActions{Pod: true}, cri.Resources{MemoryLimit: 1, CPUQuota: 1, CPUShares: 2}, cri.Resources{MemoryLimit: 2, CPUQuota: 2, CPUShares: 1}, "memory:2 quota:2 shares:1"},
		"of memory alone":        {decision.ResizeActions{Memory: containers.Memory}, cri.Resources{MemoryLimit: 1, CPUQuota: 1}, cri.Resources{MemoryLimit: 2, CPUQuota: 2}, "memory:2 a b"},
		"of CPU alone":           {decision.ResizeActions{CPU: containers.CPU}, cri.Resources{MemoryLimit: 1, CPUQuota: 1}, cri.Resources{MemoryLimit: 2, CPUQuota: 2}, "quota:2 c"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.want.CPUPeriod = 7
			var words []string
			for _, s := range tt.Steps(tt.now, tt.want) {
				switch {
				case s.Container != nil:
					words = append(words, s.Container.Name)
				case s.Pod.MemoryLimit != 0:
					words = append(words, fmt.Sprintf("memory:%d", s.Pod.MemoryLimit))
				case s.Pod.CPUQuota != 0:
					words = append(words, fmt.Sprintf("quota:%d", s.Pod.CPUQuota))
					if s.Pod.CPUPeriod != 7 {
						t.Errorf("the period is %d", s.Pod.CPUPeriod)
					}
				default:
					words = append(words, fmt.Sprintf("shares:%d", s.Pod.CPUShares))
				}
			}
			if got := strings.Join(words, " "); got != tt.steps {
				t.Errorf("got %q, want %q", got, tt.steps)
			}
		})
	}
}

// TestUpdateSet: memory is set before CPU.
func TestUpdateSet(t *testing.T) {
	u := decision.Update{Now: decision.Amounts{CPURequest: 1, CPULimit: 2, MemoryRequest: 3, MemoryLimit: 4}, Want: decision.Amounts{CPURequest: 10, CPULimit: 20, MemoryRequest: 30, MemoryLimit: 40}}
	for name, want := range map[corev1.ResourceName]string{"memory": "1m 30 2m 40", "cpu": "10m 30 20m 40"} {
		r := u.Set(name)
		if got := fmt.Sprint(r.Requests.Cpu(), r.Requests.Memory(), r.Limits.Cpu(), r.Limits.Memory()); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestCheckMemory: a limit of memory does not fall to what is used, or below.
func TestCheckMemory(t *testing.T) {
	update := func(now, want int64) decision.ResizeActions {
		return decision.ResizeActions{Memory: []decision.Update{{Name: "a", Now: decision.Amounts{MemoryLimit: now}, Want: decision.Amounts{MemoryLimit: want}}}}
	}
	for name, tt := range map[string]struct {
		decision.ResizeActions
		now, want int64 // of the pod
		use       decision.Usage
		shrinks   bool
		err       string
	}{
		"grows":           {update(1, 10), 1, 10, decision.Usage{Pod: 100, Containers: map[string]uint64{"a": 100}}, false, ""},
		"enough":          {update(20, 10), 20, 10, decision.Usage{Pod: 9, Containers: map[string]uint64{"a": 9}}, true, ""},
		"the container's": {update(20, 10), 20, 20, decision.Usage{Pod: 10, Containers: map[string]uint64{"a": 10}}, true, `attempting to set container "a" memory limit (10) below current usage (10)`},
		"added":           {update(0, 10), 20, 20, decision.Usage{Pod: 10, Containers: map[string]uint64{"a": 11}}, true, `attempting to set container "a" memory limit (10) below current usage (11)`},
		"taken away":      {update(10, 0), 20, 20, decision.Usage{Containers: map[string]uint64{"a": 11}}, false, ""},
		"unknown":         {update(20, 10), 20, 20, decision.Usage{}, true, ""},
		"the pod's":       {decision.ResizeActions{Pod: true}, 20, 10, decision.Usage{Pod: 10}, true, `attempting to set pod memory limit (10) below current usage (10)`},
		"the pod's first": {decision.ResizeActions{Pod: true}, -1, 10, decision.Usage{Pod: 10}, true, `attempting to set pod memory limit (10) below current usage (10)`},
		"not of memory":   {decision.ResizeActions{CPU: make([]decision.Update, 1)}, 20, 10, decision.Usage{Pod: 10}, false, ""},
		"both": {update(20, 10), 20, 10, decision.Usage{Pod: 12, Containers: map[string]uint64{"a": 11}}, true,
			`[attempting to set pod memory limit (10) below current usage (12), attempting to set container "a" memory limit (10) below current usage (11)]`},
	} {
		t.Run(name, func(t *testing.T) {
			now, want := cri.Resources{MemoryLimit: tt.now}, cri.Resources{MemoryLimit: tt.want}
			if got := tt.ShrinksMemory(now, want); got != tt.shrinks {
				t.Errorf("shrinks is %t", got)
			}
			got := ""
			if err := tt.CheckMemory(now, want, tt.use); err != nil {
				got = strings.TrimPrefix(err.Error(), "cannot decrease memory limits: ")
			}
			if got != tt.err {
				t.Errorf("got %q, want %q", got, tt.err)
			}
		})
	}
}

// TestWishes: the order in which pods get what they request.
func TestWishes(t *testing.T) {
	wish := func(name string, priority int32, requests string, since time.Duration) decision.Wish {
		before, after := &corev1.Pod{}, &corev1.Pod{}
		for pod, r := range map[*corev1.Pod]string{before: "cpu=1 memory=1Gi", after: requests} {
			pod.Name, pod.Spec.Priority = name, &priority
			pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: requirements(r)}}
		}
		if priority == 0 {
			after.Spec.Priority = nil
		}
		w := decision.Wish{Wanted: after, Given: before}
		if since > 0 {
			w.Since = t0.Add(since)
		}
		return w
	}
	want := []decision.Wish{
		wish("less", 0, "cpu=1 memory=1Mi", 0),
		wish("important", 9, "cpu=2", 9),
		wish("less important", 1, "memory=2Gi", 1),
		wish("guaranteed", 0, "cpu=2 memory=1Gi / cpu=2 memory=1Gi", 9),
		wish("early", 0, "cpu=2", 1),
		wish("late", 0, "cpu=3", 2),
		wish("new", 0, "cpu=2", 0),
	}
	for i := range want {
		for j := range want {
			if got := want[i].Compare(want[j]); got != cmp.Compare(i, j) {
				t.Errorf("%s and %s: %d", want[i].Wanted.Name, want[j].Wanted.Name, got)
			}
		}
	}
	if !slices.IsSortedFunc(want, decision.Wish.Compare) {
		t.Error("they are not in order")
	}
}

// TestFrees: room appears when a pod has less than before, in its spec or in force.
func TestFrees(t *testing.T) {
	pod := func(requests, given, inForce string) *corev1.Pod {
		p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: requirements(requests)}}}}
		r := requirements(inForce)
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", AllocatedResources: requirements(given).Requests, Resources: &r}}
		return p
	}
	for i, tt := range []struct {
		before, after *corev1.Pod
		want          bool
	}{
		{pod("cpu=2", "cpu=2", "cpu=2"), pod("cpu=2", "cpu=2", "cpu=2"), false},
		{pod("cpu=2", "cpu=2", "cpu=2"), pod("cpu=1", "cpu=2", "cpu=2"), false},
		{pod("cpu=1", "cpu=1", "cpu=2"), pod("cpu=1", "cpu=1", "cpu=1"), true},
		{pod("memory=2Gi", "memory=2Gi", "memory=2Gi"), pod("memory=1Gi", "memory=1Gi", "memory=1Gi"), true},
		{pod("cpu=1 memory=1Gi", "", ""), pod("cpu=2 memory=1Gi", "", ""), false},
	} {
		if got := decision.Frees(tt.before, tt.after); got != tt.want {
			t.Errorf("%d: got %t", i, got)
		}
	}
}

// TestResourcesInForce: the status of what runs has what the runtime reports, as upstream's kubelet converts it.
func TestResourcesInForce(t *testing.T) {
	for name, tt := range map[string]struct {
		spec, inForce string
		reported      *cri.Resources
		want          string
	}{
		"nothing":                    {"", "", &cri.Resources{CPUShares: 2048, MemoryLimit: 1 << 30}, " / "},
		"nothing reported":           {"cpu=1 / cpu=2", "cpu=3 / cpu=4", nil, "cpu=1 / cpu=2"},
		"what it has":                {"cpu=1 memory=1Gi / cpu=2 memory=2Gi", "memory=1Mi", &cri.Resources{CPUShares: 512, CPUQuota: 50_000, CPUPeriod: 100_000, MemoryLimit: 1 << 20}, "cpu=500m memory=1Mi / cpu=500m memory=1Mi"},
		"no more than a share":       {"cpu=1m", "", &cri.Resources{CPUShares: 2}, "cpu=1m / "},
		"more than that":             {"cpu=3m", "", &cri.Resources{CPUShares: 2}, "cpu=2m / "},
		"no more than a quota":       {"/ cpu=5m", "", &cri.Resources{CPUQuota: 1000, CPUPeriod: 100_000}, " / cpu=5m"},
		"more than that of a quota":  {"/ cpu=11m", "", &cri.Resources{CPUQuota: 1000, CPUPeriod: 100_000}, " / cpu=10m"},
		"no quota":                   {"/ cpu=1", "", &cri.Resources{CPUQuota: -1, CPUPeriod: 100_000}, " / cpu=1"},
		"no memory request in force": {"memory=2Gi", "cpu=1", &cri.Resources{}, "memory=2Gi / "},
	} {
		t.Run(name, func(t *testing.T) {
			for _, state := range []string{"running", "1"} {
				in := scene{sandbox: "ready", containers: "main=" + state}.build()
				give(in.Pod, map[string]string{"main": tt.spec})
				in.Resize.InForce = &decision.Allocation{Containers: map[string]corev1.ResourceRequirements{"main": requirements(tt.inForce)}}
				in.Observed.Containers[0].Resources = tt.reported
				r := decision.Status(in).ContainerStatuses[0].Resources
				got := words(r.Requests) + " / " + words(r.Limits)
				want := tt.want
				if state != "running" {
					spec := requirements(tt.spec)
					want = words(spec.Requests) + " / " + words(spec.Limits)
				}
				if got != want {
					t.Errorf("%s: %q, want %q", state, got, want)
				}
			}
		})
	}
}

func words(list corev1.ResourceList) string {
	var out []string
	for name, q := range list {
		out = append(out, string(name)+"="+q.String())
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// TestResizeConditions: they are the kubelet's, keep their generations and times, and go with the pod.
func TestResizeConditions(t *testing.T) {
	pending := decision.ResizeCondition(corev1.PodResizePending, nil, decision.Waiting{Reason: "Deferred", Message: "a"}, 2, t0)
	again := decision.ResizeCondition(corev1.PodResizePending, pending, decision.Waiting{Reason: "Deferred", Message: "b"}, 3, t0.Add(time.Hour))
	if !again.LastTransitionTime.Equal(&pending.LastTransitionTime) || !again.LastProbeTime.Time.Equal(t0.Add(time.Hour)) || again.ObservedGeneration != 3 || again.Message != "b" {
		t.Errorf("the next condition is %v", again)
	}
	other := decision.ResizeCondition(corev1.PodResizePending, pending, decision.Waiting{Reason: "Infeasible"}, 3, t0.Add(time.Hour))
	if other.LastTransitionTime.Equal(&pending.LastTransitionTime) {
		t.Error("another reason has the time of the first")
	}
	of := func(stage decision.Stage) string {
		in := scene{sandbox: "ready", containers: "main=running", stage: stage, change: func(p *corev1.Pod) {
			p.Generation = 7
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizeInProgress, Reason: "old"}, {Type: "theirs"}}
		}}.build()
		in.Resize.Pending = pending
		in.Resize.Progress = &corev1.PodCondition{Type: corev1.PodResizeInProgress, ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(t0)}
		var out []string
		for _, c := range decision.Status(in).Conditions[:3] {
			out = append(out, fmt.Sprintf("%s@%d", c.Type, c.ObservedGeneration))
		}
		return strings.Join(out, " ")
	}
	for stage, want := range map[decision.Stage]string{
		decision.Running:     "theirs@0 PodResizePending@2 PodResizeInProgress@1",
		decision.Terminating: "theirs@0 PodResizePending@2 PodResizeInProgress@1",
		decision.Over:        "theirs@0 PodReadyToStartContainers@7 Initialized@7",
	} {
		if got := of(stage); got != want {
			t.Errorf("stage %d: %s, want %s", stage, got, want)
		}
	}
}

// TestAllocation: what a pod was given is applied to its newest state.
func TestAllocation(t *testing.T) {
	pod := scene{inits: "i"}.build().Pod
	give(pod, map[string]string{"": "/ cpu=4", "i": "cpu=1", "main": "cpu=2"})
	a := decision.AllocationOf(&pod.Spec)
	if a.Apply(pod) != pod {
		t.Error("a pod with its own resources was copied")
	}
	next := pod.DeepCopy()
	give(next, map[string]string{"": "/ cpu=5", "i": "cpu=2", "main": ""})
	got := a.Apply(next)
	if !decision.SameResources(&got.Spec, &pod.Spec) || decision.SameResources(&next.Spec, &pod.Spec) {
		t.Errorf("got %v", got.Spec)
	}
	if held := decision.Hold(next, pod); !decision.SameResources(&held.Spec, &pod.Spec) || held == pod {
		t.Errorf("held %v", held.Spec)
	}
	clone := a.Clone()
	clone.Started(next, &next.Spec.Containers[0])
	if first := a.Containers["main"].Requests; words(first) != "cpu=2" || words(clone.Containers["main"].Limits) != "cpu=5" {
		t.Errorf("a container that was started has %v", clone.Containers["main"])
	}
	if got := (decision.Allocation{}).Apply(pod); got.Spec.Resources != nil || len(got.Spec.Containers[0].Resources.Requests) > 0 {
		t.Errorf("nothing is %v", got.Spec)
	}
}

// TestResourcesBefore: a kubelet without records takes a pod's resources from its status.
func TestResourcesBefore(t *testing.T) {
	pod := scene{inits: "s+", names: "a b"}.build().Pod
	give(pod, map[string]string{"": "cpu=8", "s": "cpu=1", "a": "cpu=2", "b": "cpu=3"})
	status := func(name, r string, running bool) corev1.ContainerStatus {
		resources := requirements(r)
		s := corev1.ContainerStatus{Name: name, Resources: &resources}
		if running {
			s.State.Running = &corev1.ContainerStateRunning{}
		}
		return s
	}
	whole := requirements("cpu=80")
	pod.Status.Resources = &whole
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{status("s", "cpu=10", true)}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{status("a", "cpu=20", true), status("b", "cpu=30", false), status("c", "cpu=40", true)}
	if decision.HeldBefore(pod) != pod {
		t.Error("a pod without a condition is held to something")
	}
	inForce := decision.InForceBefore(pod)
	if got := fmt.Sprint(words(inForce.Containers["s"].Requests), words(inForce.Containers["a"].Requests), words(inForce.Containers["b"].Requests), len(inForce.Containers)); got != "cpu=10cpu=20cpu=33" {
		t.Errorf("in force is %s", got)
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending}}
	held := decision.HeldBefore(pod).Spec
	if got := fmt.Sprint(held.Resources.Requests.Cpu(), held.InitContainers[0].Resources.Requests.Cpu(), held.Containers[0].Resources.Requests.Cpu(), held.Containers[1].Resources.Requests.Cpu()); got != "80 10 20 30" {
		t.Errorf("held to %s", got)
	}
}
