package kubelet

import (
	"context"
	"log/slog"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// stateOf reads a container's state: running, started (a sidecar that has), a code of its end, a code after a > for one
// that waits after that, waiting, or empty for one that nothing is known of.
func stateOf(text string) corev1.ContainerStatus {
	end := func(code string) *corev1.ContainerStateTerminated {
		return &corev1.ContainerStateTerminated{ExitCode: int32(code[0] - '0')}
	}
	switch {
	case text == "running":
		return corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	case text == "started":
		return corev1.ContainerStatus{Started: new(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	case text == "waiting":
		return corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}
	case strings.HasPrefix(text, ">"):
		return corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}, LastTerminationState: corev1.ContainerState{Terminated: end(text[1:])}}
	case text == "":
		return corev1.ContainerStatus{}
	}
	return corev1.ContainerStatus{State: corev1.ContainerState{Terminated: end(text)}}
}

// TestPhases: the phase follows from how the containers are and whether they start again, in the order of upstream's rules.
func TestPhases(t *testing.T) {
	const always, onFailure, never = corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever
	const pending, running, succeeded, failed = corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed
	for _, c := range []struct {
		policy            corev1.RestartPolicy
		inits, containers string // states, separated by commas; in front of those of sidecars a +; ? for one without a status
		over, initialized bool
		want              corev1.PodPhase
	}{
		{always, "", "running", false, false, running},
		{always, "", "running,running", false, false, running},
		{always, "", "running,waiting", false, false, pending},
		{always, "", "running,?", false, false, pending},
		{always, "", "running,", false, false, pending},
		{always, "", "waiting", false, false, pending},
		{always, "", "", false, false, pending},
		{always, "", "?", false, false, pending},
		{always, "", "0", false, false, running},
		{always, "", ">1", false, false, running},
		{always, "", "0,running", false, false, running},
		{always, "", "0,?", false, false, pending},
		{never, "", "0,?", false, false, pending},
		{never, "", "1,", true, false, pending},
		{always, "", "0", true, false, succeeded},
		{always, "", "1", true, false, failed},
		{always, "", "0,0", true, false, succeeded},
		{always, "", "0,1", true, false, failed},
		{always, "", ">0", true, false, failed},
		{onFailure, "", "0", false, false, succeeded},
		{onFailure, "", "1", false, false, running},
		{onFailure, "", "0,1", false, false, running},
		{onFailure, "", "1", true, false, failed},
		{never, "", "0", false, false, succeeded},
		{never, "", "1", false, false, failed},
		{never, "", "0,1", false, false, failed},
		{never, "", "0,running", false, false, running},
		{never, "1", "?", false, false, failed},
		{never, "0", "?", false, false, pending},
		{never, "1", "waiting", false, false, failed},
		{never, ">1", "waiting", false, false, failed},
		{onFailure, "1", "waiting", false, false, pending},
		{always, "1", "running", false, true, running},
		{always, "running", "waiting", false, false, pending},
		{always, "running", "running", false, false, pending},
		{always, "?", "running", false, true, pending},
		{always, "waiting", "running", false, true, pending},
		{always, "", "running", false, true, running},
		{always, "0", "running", false, true, running},
		{always, "+running", "running", false, false, pending},
		{always, "+running", "running", false, true, running},
		{always, "+started", "running", false, false, running},
		{always, "+started", "0", true, true, running},
		{always, "+started", "?", false, true, pending},
		{always, "+0", "running", false, false, running},
		{always, "+1", "running", false, true, running},
		{never, "+1", "0", false, true, succeeded},
		{always, "+waiting", "running", false, true, pending},
		{always, "+waiting", "0", true, true, pending},
		{always, "+", "running", false, false, pending},
		{always, "+", "running", false, true, pending},
		{always, "+?", "running", false, true, pending},
		{always, "+>1", "running", false, false, running},
		{never, "+started,1", "waiting", false, false, failed},
	} {
		pod, status := &corev1.Pod{}, corev1.PodStatus{}
		pod.Spec.RestartPolicy = c.policy
		for i, text := range strings.Split(c.inits, ",") {
			if c.inits == "" {
				break
			}
			one := corev1.Container{Name: "i" + string(rune('0'+i))}
			text, sidecar := strings.CutPrefix(text, "+")
			if sidecar {
				one.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
			}
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, one)
			if text != "?" {
				s := stateOf(text)
				s.Name = one.Name
				status.InitContainerStatuses = append(status.InitContainerStatuses, s)
			}
		}
		for i, text := range strings.Split(c.containers, ",") {
			one := corev1.Container{Name: "c" + string(rune('0'+i))}
			pod.Spec.Containers = append(pod.Spec.Containers, one)
			if text != "?" {
				s := stateOf(text)
				s.Name = one.Name
				status.ContainerStatuses = append(status.ContainerStatuses, s)
			}
		}
		if got := phaseOf(pod, status, c.over, c.initialized); got != c.want {
			t.Errorf("%s, init %q, containers %q, over %t, initialized %t: %s, not %s", c.policy, c.inits, c.containers, c.over, c.initialized, got, c.want)
		}
	}
}

// TestClasses: what the API says is a pod's class is it; else the pod's own resources decide, or else those of its containers.
func TestClasses(t *testing.T) {
	list := func(cpu string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("1Gi")}
	}
	best, full := corev1.ResourceRequirements{}, corev1.ResourceRequirements{Requests: list("1"), Limits: list("1")}
	some := corev1.ResourceRequirements{Requests: list("1"), Limits: list("2")}
	for name, c := range map[string]struct {
		said                    corev1.PodQOSClass
		own                     *corev1.ResourceRequirements
		init, container, second corev1.ResourceRequirements
		want                    corev1.PodQOSClass
	}{
		"said":                    {said: corev1.PodQOSBurstable, container: full, second: full, init: full, want: corev1.PodQOSBurstable},
		"the pod's own":           {own: &full, want: corev1.PodQOSGuaranteed},
		"the pod's own limits":    {own: &corev1.ResourceRequirements{Limits: list("1")}, want: corev1.PodQOSGuaranteed},
		"the pod's own requests":  {own: &corev1.ResourceRequirements{Requests: list("1")}, want: corev1.PodQOSBurstable},
		"of its own nothing":      {own: &best, init: full, container: full, second: full, want: corev1.PodQOSGuaranteed},
		"nothing":                 {want: corev1.PodQOSBestEffort},
		"all":                     {init: full, container: full, second: full, want: corev1.PodQOSGuaranteed},
		"not the init container":  {container: full, second: full, want: corev1.PodQOSBurstable},
		"only the init container": {init: full, want: corev1.PodQOSBurstable},
		"not the last":            {init: full, container: full, want: corev1.PodQOSBurstable},
		"one is burstable":        {init: full, container: some, second: full, want: corev1.PodQOSBurstable},
		"a limit of memory without one of CPU": {init: full, second: full, container: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}, want: corev1.PodQOSBurstable},
	} {
		pod := &corev1.Pod{Status: corev1.PodStatus{QOSClass: c.said}}
		pod.Spec.Resources = c.own
		pod.Spec.InitContainers = []corev1.Container{{Resources: c.init}}
		pod.Spec.Containers = []corev1.Container{{Resources: c.container}, {Resources: c.second}}
		if got := qosClass(pod); got != c.want {
			t.Errorf("%s: %s, not %s", name, got, c.want)
		}
	}
	if got := qosClass(&corev1.Pod{}); got != corev1.PodQOSBestEffort {
		t.Errorf("no containers: %s", got)
	}
}

// TestDefaults: what an option does not say is as it is upstream, and what it says stays.
func TestDefaults(t *testing.T) {
	if _, err := (Options{}).complete(); err == nil || err.Error() != "a kubelet needs a node name" {
		t.Errorf("without a name: %v", err)
	}
	short := Options{NodeName: "n"}
	short.Periods.LeaseDuration = time.Second - 1
	if _, err := short.complete(); err == nil || err.Error() != "a node's lease lasts at least a second" {
		t.Errorf("a short lease: %v", err)
	}
	o, err := Options{NodeName: "n"}.complete()
	if err != nil {
		t.Fatal(err)
	}
	if want := (Periods{10 * time.Second, 5 * time.Minute, 40 * time.Second}); o.Periods != want {
		t.Errorf("periods %v", o.Periods)
	}
	if want := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}, {Type: corev1.NodeHostName, Address: "n"}}; !slices.Equal(o.Addresses, want) {
		t.Errorf("addresses %v", o.Addresses)
	}
	for name, want := range map[corev1.ResourceName]string{"cpu": "8", "memory": "32Gi", "ephemeral-storage": "256Gi", "pods": "110"} {
		for _, list := range []corev1.ResourceList{o.Capacity, o.Allocatable} {
			if got := list[name]; got.String() != want || len(list) != 4 {
				t.Errorf("%s of %s in %v", got.String(), name, list)
			}
		}
	}
	if o.Info.OperatingSystem != runtime.GOOS || o.Info.Architecture != runtime.GOARCH || o.Info.KubeletVersion != "v1.37.1" || o.MaxRestartDelay != 5*time.Minute {
		t.Errorf("%+v, %s", o.Info, o.MaxRestartDelay)
	}
	said := Options{NodeName: "n", MaxRestartDelay: time.Minute}
	said.Periods = Periods{1 * time.Second, 2 * time.Second, time.Second}
	said.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}
	said.Capacity = corev1.ResourceList{"cpu": resource.MustParse("2"), "example.com/x": resource.MustParse("1")}
	said.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("1")}
	said.Info = corev1.NodeSystemInfo{OperatingSystem: "os", Architecture: "arch", KubeletVersion: "v1"}
	o, err = said.complete()
	if err != nil {
		t.Fatal(err)
	}
	if o.Periods != said.Periods || o.MaxRestartDelay != time.Minute || o.Info != said.Info || !slices.Equal(o.Addresses, said.Addresses) {
		t.Errorf("%+v", o)
	}
	for list, want := range map[*corev1.ResourceList]map[corev1.ResourceName]string{
		&o.Capacity: {"cpu": "2", "example.com/x": "1", "pods": "110"}, &o.Allocatable: {"cpu": "1", "example.com/x": "1", "pods": "110"},
	} {
		for name, quantity := range want {
			if got := (*list)[name]; got.String() != quantity || len(*list) != 5 {
				t.Errorf("%s of %s", got.String(), name)
			}
		}
	}
}

// TestHostAddresses: pods are told at most two of the node's addresses, the internal ones if it has any.
func TestHostAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "InternalIP=1": "1", "ExternalIP=2": "2", "ExternalIP=2 InternalIP=1": "1", "Hostname=h": "", "InternalDNS=d ExternalIP=2 ExternalIP=3": "2 3",
		"InternalIP=1 InternalIP=2 InternalIP=3": "1 2",
	} {
		var o Options
		for _, word := range strings.Fields(text) {
			kind, address, _ := strings.Cut(word, "=")
			o.Addresses = append(o.Addresses, corev1.NodeAddress{Type: corev1.NodeAddressType(kind), Address: address})
		}
		if got := strings.Join(o.hostIPs(), " "); got != want {
			t.Errorf("%s: %s, not %s", text, got, want)
		}
	}
}

// TestWhatIsSent: the first status of a pod is news, whatever it says; the same again is not, until the pod has ended.
func TestWhatIsSent(t *testing.T) {
	s := newSender(nil, slog.New(slog.DiscardHandler))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns", UID: "u"}}
	news := func(want bool, take func()) {
		t.Helper()
		before := 0
		if r := s.reports["u"]; r != nil {
			before = int(r.version)
		}
		take()
		if got := int(s.reports["u"].version) > before; got != want {
			t.Errorf("news: %t", got)
		}
	}
	running := corev1.PodStatus{Phase: corev1.PodRunning}
	news(true, func() { s.set(pod, corev1.PodStatus{}, provisional) })
	if s.reports["u"].due.IsZero() {
		t.Error("it is not sent")
	}
	news(false, func() { s.set(pod, corev1.PodStatus{}, settled) })
	news(true, func() { s.set(pod, running, settled) })
	news(false, func() { s.set(pod, running, settled) })
	news(true, func() { s.finish(pod, running) })
	news(false, func() { s.finish(pod, running) })
	if got, known := s.status("u"); !known || !reflect.DeepEqual(got, running) {
		t.Errorf("%v, %t", got, known)
	}
	if _, known := s.status("unheard-of"); known {
		t.Error("the status of a pod of which nobody has heard")
	}
}

// TestTurns: a sidecar waits for what ends before it, no longer than it may, and others for nobody.
func TestTurns(t *testing.T) {
	turns := &turns{after: map[string][]string{"side": {"gone", "main"}}, ended: map[string]chan struct{}{"main": make(chan struct{}), "side": make(chan struct{})}}
	if got := turns.wait(t.Context(), "main", time.Hour); got != 0 {
		t.Errorf("a container waited %s", got)
	}
	if got := turns.wait(t.Context(), "side", time.Millisecond); got != time.Millisecond {
		t.Errorf("a sidecar waited %s", got)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if got := turns.wait(over, "side", time.Hour); got >= time.Hour {
		t.Errorf("a sidecar waited %s for nobody", got)
	}
	turns.over("main")
	if got := turns.wait(t.Context(), "side", time.Hour); got >= time.Hour {
		t.Errorf("a sidecar waited %s for what has ended", got)
	}
}

// TestHostnames: a name is cut where Linux takes no more, and does not end with what no name ends with then.
func TestHostnames(t *testing.T) {
	x := strings.Repeat("x", 60)
	for name, want := range map[string]string{
		"web": "web", x + "abc": x + "abc", x + "ab-": x + "ab-", x + "abcd": x + "abc", x + "ab-d": x + "ab", x + "a.-d": x + "a", strings.Repeat("-", 70): "",
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if got := hostname(pod); got != want {
			t.Errorf("%s: %s", name, got)
		}
		pod.Name, pod.Spec.Hostname = "other", name
		if got := hostname(pod); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestBareResources: a host that knows nothing more tells the runtime what requests and limits say, and nothing of what they do not.
func TestBareResources(t *testing.T) {
	list := func(pairs ...string) corev1.ResourceList {
		out := corev1.ResourceList{}
		for i := 0; i < len(pairs); i += 2 {
			out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
		}
		return out
	}
	for name, c := range map[string]struct {
		requests, limits              corev1.ResourceList
		shares, quota, period, memory int64
	}{
		"nothing":     {},
		"no limit":    {requests: list("cpu", "0"), limits: list("cpu", "0", "memory", "0"), shares: 2},
		"the least":   {requests: list("cpu", "1m"), limits: list("cpu", "1m"), shares: 2, quota: 1000, period: 100000},
		"requests":    {requests: list("cpu", "2", "memory", "1Gi"), shares: 2048},
		"limits only": {limits: list("cpu", "2", "memory", "1Gi"), quota: 200000, period: 100000, memory: 1 << 30},
	} {
		got := bare{}.Resources(nil, &corev1.Container{Resources: corev1.ResourceRequirements{Requests: c.requests, Limits: c.limits}})
		if got.CPUShares != c.shares || got.CPUQuota != c.quota || got.CPUPeriod != c.period || got.MemoryLimit != c.memory {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestTimesAreCut: every time in a status has the seconds that the API keeps, and no zone of its own.
func TestTimesAreCut(t *testing.T) {
	at := func() metav1.Time {
		return metav1.NewTime(time.Date(2026, 1, 1, 1, 0, 0, 999, time.FixedZone("x", 3600)))
	}
	want := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	state := func() corev1.ContainerState {
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at()}, Terminated: &corev1.ContainerStateTerminated{StartedAt: at(), FinishedAt: at()}}
	}
	statuses := func() []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{State: state(), LastTerminationState: state()}, {}}
	}
	status := corev1.PodStatus{
		StartTime: new(at()), Conditions: []corev1.PodCondition{{LastTransitionTime: at(), LastProbeTime: at()}, {}},
		InitContainerStatuses: statuses(), ContainerStatuses: statuses(), EphemeralContainerStatuses: statuses(),
	}
	normalize(&status)
	times := []metav1.Time{*status.StartTime, status.Conditions[0].LastTransitionTime, status.Conditions[0].LastProbeTime}
	for _, list := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
		for _, s := range []corev1.ContainerState{list[0].State, list[0].LastTerminationState} {
			times = append(times, s.Running.StartedAt, s.Terminated.StartedAt, s.Terminated.FinishedAt)
		}
	}
	for i, got := range times {
		if got.Time != want.Time {
			t.Errorf("time %d is %s", i, got)
		}
	}
	if !status.Conditions[1].LastProbeTime.IsZero() {
		t.Error("what never was has become a time")
	}
}

// TestWasInitialized: regular containers had their turn when one of them ran, or the last init container ended well.
func TestWasInitialized(t *testing.T) {
	for _, c := range []struct {
		inits, containers string
		want              bool
	}{
		{"", "", true}, {"?", "waiting", false}, {"?", "running", true}, {"?", "0", true}, {"?", ">0", true}, {"?", "", true},
		{"0", "waiting", true}, {"1", "waiting", false}, {">0", "waiting", true}, {">1", "waiting", false}, {"running", "waiting", false},
		{"0,1", "waiting", false}, {"1,0", "waiting", true}, {"+started", "waiting", true}, {"+running", "waiting", false}, {"+0", "waiting", false}, {"0,+waiting", "waiting", false},
	} {
		pod, status := &corev1.Pod{}, corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{stateOf(c.containers)}}
		for i, text := range strings.Split(c.inits, ",") {
			if c.inits == "" {
				break
			}
			one := corev1.Container{Name: "i" + string(rune('0'+i))}
			text, sidecar := strings.CutPrefix(text, "+")
			if sidecar {
				one.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
			}
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, one)
			if text != "?" {
				s := stateOf(text)
				s.Name = one.Name
				status.InitContainerStatuses = append(status.InitContainerStatuses, s)
			}
		}
		if got := wasInitialized(pod, status); got != c.want {
			t.Errorf("init %q, container %q: %t", c.inits, c.containers, got)
		}
	}
}

// TestMergedConditions: the kubelet's own conditions replace those that there are, others' stay, and that of a disruption
// is added where nobody has told of one.
func TestMergedConditions(t *testing.T) {
	condition := func(kind corev1.PodConditionType, reason string) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Reason: reason}
	}
	for name, c := range map[string]struct {
		old, own []corev1.PodCondition
		want     string
	}{
		"others'":                {[]corev1.PodCondition{condition("x/y", "theirs")}, []corev1.PodCondition{condition("x/y", "own"), condition("x/z", "own")}, "x/y=theirs"},
		"own":                    {[]corev1.PodCondition{condition(corev1.PodReady, "old"), condition(corev1.PodInitialized, "old")}, []corev1.PodCondition{condition(corev1.PodReady, "new")}, "Ready=new"},
		"a disruption":           {nil, []corev1.PodCondition{condition(corev1.DisruptionTarget, "own")}, "DisruptionTarget=own"},
		"a disruption, known of": {[]corev1.PodCondition{condition(corev1.DisruptionTarget, "theirs")}, []corev1.PodCondition{condition(corev1.DisruptionTarget, "own")}, "DisruptionTarget=theirs"},
	} {
		merged := mergeStatus(&corev1.Pod{Status: corev1.PodStatus{Conditions: c.old}}, corev1.PodStatus{Conditions: c.own}, false)
		var got []string
		for _, m := range merged.Conditions {
			got = append(got, string(m.Type)+"="+m.Reason)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, not %s", name, got, c.want)
		}
	}
}

// TestNews: what was relevant stays so until it is taken, and a pod that is gone stays gone.
func TestNews(t *testing.T) {
	pod := func(version string, labels map[string]string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", ResourceVersion: version, Labels: labels}}
	}
	n := &news{pod: pod("1", nil)}
	if !n.receive(pod("2", map[string]string{"a": "b"}), false) {
		t.Error("labels are of no concern")
	}
	if n.receive(pod("3", map[string]string{"a": "b"}), false) {
		t.Error("the version alone is of concern")
	}
	if got, gone, changed := n.take(); got.ResourceVersion != "3" || gone || !changed {
		t.Errorf("took %s, %t, %t", got.ResourceVersion, gone, changed)
	}
	if _, _, changed := n.take(); changed {
		t.Error("what was taken is news")
	}
	if !n.receive(pod("3", nil), true) || n.receive(pod("3", nil), false) || !n.isGone() {
		t.Error("a pod that is gone is back")
	}
}
