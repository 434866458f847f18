package kubelet

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

var update = flag.Bool("update", false, "write the golden files anew")

// statusScenes are the situations that golden files describe.
func statusScenes() map[string]struct {
	scene
	waiting map[string]waiting
	over    bool
	before  func(*corev1.PodStatus)
} {
	type row = struct {
		scene
		waiting map[string]waiting
		over    bool
		before  func(*corev1.PodStatus)
	}
	never := corev1.RestartPolicyNever
	crash := map[string]waiting{"main": {"CrashLoopBackOff", "back-off 10s restarting failed container=main pod=web_default(uid)"}}
	return map[string]row{
		"new":              {},
		"new-init":         {scene: scene{inits: "setup", sandbox: "ready"}},
		"pulling":          {scene: scene{sandbox: "ready"}},
		"pull-failed":      {scene: scene{sandbox: "ready"}, waiting: map[string]waiting{"main": {"ErrImagePull", "manifest unknown"}}},
		"init-running":     {scene: scene{inits: "setup", sandbox: "ready", containers: "setup=running"}},
		"init-crashing":    {scene: scene{inits: "setup", sandbox: "ready", containers: "setup=1"}, waiting: map[string]waiting{"setup": {"CrashLoopBackOff", "back-off"}}},
		"init-failed":      {scene: scene{policy: never, inits: "setup", sandbox: "ready", containers: "setup=1"}},
		"running":          {scene: scene{sandbox: "ready", containers: "main=running"}},
		"running-sidecar":  {scene: scene{inits: "helper+", sandbox: "ready", containers: "main=running helper=running"}},
		"one-of-two":       {scene: scene{names: "main more", sandbox: "ready", containers: "main=running"}},
		"not-ready":        {scene: scene{sandbox: "ready", containers: "main=running", change: func(p *corev1.Pod) { p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{} }}},
		"gated":            {scene: scene{sandbox: "ready", containers: "main=running", change: func(p *corev1.Pod) { p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "x/y"}} }}},
		"crashing":         {scene: scene{sandbox: "ready", containers: "main=1"}, waiting: crash},
		"restarted":        {scene: scene{sandbox: "ready", containers: "main=running main=1"}},
		"succeeded":        {scene: scene{policy: never, sandbox: "dead", containers: "main=0"}, over: true},
		"failed":           {scene: scene{policy: never, sandbox: "dead", containers: "main=2"}, over: true},
		"deleted-pending":  {scene: scene{change: func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: t0} }}, over: true},
		"host-network":     {scene: scene{change: func(p *corev1.Pod) { p.Spec.HostNetwork = true }}},
		"resources":        {scene: scene{sandbox: "ready", containers: "main=running", change: withResources}},
		"mounts":           {scene: scene{sandbox: "ready", containers: "main=running", change: withMounts}},
		"deadline":         {scene: scene{sandbox: "ready", containers: "main=running", change: func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64) }}},
		"lost-container":   {scene: scene{sandbox: "ready"}, before: wasRunning},
		"unknown":          {scene: scene{sandbox: "ready", containers: "main=unknown"}, before: wasRunning},
		"other-conditions": {scene: scene{sandbox: "ready", containers: "main=running", change: withDisruption}},
	}
}

func withResources(p *corev1.Pod) {
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
}

func withMounts(p *corev1.Pod) {
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "token", MountPath: "/run/token", ReadOnly: true}}
}

func withDisruption(p *corev1.Pod) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"}}
}

func wasRunning(s *corev1.PodStatus) {
	started := metav1.NewTime(t0)
	s.Phase = corev1.PodRunning
	s.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", RestartCount: 2, ContainerID: "simulated://id-main",
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}}}
}

func statuses() map[string]corev1.PodStatus {
	all := map[string]corev1.PodStatus{}
	for name, c := range statusScenes() {
		s := c.build()
		s.pod.Generation = 3
		before := *s.pod.Status.DeepCopy()
		start := metav1.NewTime(t0)
		before.StartTime = &start
		if c.before != nil {
			c.before(&before)
		}
		status := generateStatus(portrait{
			pod: s.pod, previous: before, observed: s.observed, waiting: c.waiting, probes: s.probes,
			ending: c.over, over: c.over, hostIPs: []string{"192.168.0.1"}, runtime: "simulated", now: s.now,
		})
		if c.over {
			status = finalStatus(s.pod, status)
		}
		all[name] = status
	}
	return all
}

func TestGoldenStatuses(t *testing.T) {
	for name, status := range statuses() {
		got, err := json.MarshalIndent(status, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, '\n')
		path := filepath.Join("testdata", "status", name+".json")
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s is now\n%s", path, got)
		}
	}
}

// TestPatchesArriveAtTheStatus applies the patch from every status to every other as an API server
// does, and must arrive there.
func TestPatchesArriveAtTheStatus(t *testing.T) {
	all := statuses()
	for from, old := range all {
		for to, wanted := range all {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "uid"}, Status: *old.DeepCopy()}
			patch, err := podPatch(pod, wanted)
			if err != nil {
				t.Fatal(err)
			}
			if patch == nil {
				patch = []byte("{}")
			}
			before, err := json.Marshal(pod)
			if err != nil {
				t.Fatal(err)
			}
			after, err := strategicpatch.StrategicMergePatch(before, patch, corev1.Pod{})
			if err != nil {
				t.Fatalf("%s to %s: %v in %s", from, to, err, patch)
			}
			got := &corev1.Pod{}
			if err := json.Unmarshal(after, got); err != nil {
				t.Fatal(err)
			}
			if g, w := plain(t, got.Status), plain(t, wanted); !reflect.DeepEqual(g, w) {
				t.Errorf("%s to %s: patch %s\narrives at %v\nnot at    %v", from, to, patch, g, w)
			}
		}
	}
}

func plain(t *testing.T, v any) (out map[string]any) {
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestQOSClass(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		out := corev1.ResourceList{}
		if cpu != "" {
			out[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			out[corev1.ResourceMemory] = resource.MustParse(memory)
		}
		return out
	}
	best, burst, guaranteed := corev1.PodQOSBestEffort, corev1.PodQOSBurstable, corev1.PodQOSGuaranteed
	for _, c := range []struct {
		containers []corev1.ResourceRequirements
		want       corev1.PodQOSClass
	}{
		{[]corev1.ResourceRequirements{{}}, best},
		{[]corev1.ResourceRequirements{{Requests: list("1", "")}}, burst},
		{[]corev1.ResourceRequirements{{Requests: list("1", "1Gi"), Limits: list("1", "1Gi")}}, guaranteed},
		{[]corev1.ResourceRequirements{{Limits: list("1", "1Gi")}}, guaranteed},
		{[]corev1.ResourceRequirements{{Limits: list("1", "")}}, burst},
		{[]corev1.ResourceRequirements{{Requests: list("1", "1Gi"), Limits: list("2", "1Gi")}}, burst},
		{[]corev1.ResourceRequirements{{Limits: list("1", "1Gi")}, {}}, burst},
		{[]corev1.ResourceRequirements{{Limits: list("1", "1Gi")}, {Limits: list("2", "1Gi")}}, guaranteed},
	} {
		pod := &corev1.Pod{}
		for _, r := range c.containers {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Resources: r})
		}
		if got := qosClass(pod); got != c.want {
			t.Errorf("%v is %s, want %s", c.containers, got, c.want)
		}
	}
}

func TestSandboxConfig(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a-pod-with-a-name-that-is-a-good-deal-longer-than-linux-takes-for-x.y", Namespace: "ns", UID: "u", Labels: map[string]string{"app": "a"}}}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Ports: []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080, Protocol: corev1.ProtocolTCP}}}}
	config := sandboxConfig(pod, 2, "")
	if len(config.Hostname) > 63 || config.Metadata.Attempt != 2 || config.Labels["app"] != "a" || len(config.Ports) != 1 ||
		config.LogDirectory != "/var/log/pods/ns_"+pod.Name+"_u" {
		t.Errorf("%+v", config)
	}
	if len(pod.Labels) != 1 {
		t.Error("the pod's labels were changed")
	}
}

func TestResourcesForTheRuntime(t *testing.T) {
	got := bare{}.Resources(nil, &corev1.Container{Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
	}})
	if got.CPUShares != 256 || got.CPUQuota != 50_000 || got.CPUPeriod != 100_000 || got.MemoryLimit != 64<<20 {
		t.Errorf("%+v", got)
	}
}
