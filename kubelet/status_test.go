package kubelet

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/keelson-dev/keelson/cri"
)

// goldenStatuses returns those of package decision, by file name.
func goldenStatuses(t *testing.T) map[string]corev1.PodStatus {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("decision", "testdata", "status", "*.json"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no statuses: %v", err)
	}
	all := map[string]corev1.PodStatus{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var status corev1.PodStatus
		if err := json.Unmarshal(data, &status); err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(path)] = status
	}
	return all
}

// TestOrderOfConditions: an order alone is not written, but one that comes with a change is.
func TestOrderOfConditions(t *testing.T) {
	with := func(types ...corev1.PodConditionType) (s corev1.PodStatus) {
		for _, t := range types {
			s.Conditions = append(s.Conditions, corev1.PodCondition{Type: t})
		}
		return s
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Status: with("A", "B")}
	for _, c := range []struct {
		wanted corev1.PodStatus
		patch  string
	}{
		{with("B", "A"), ""},
		{with("C", "B", "A"), `{"metadata":{"uid":"u"},"status":{"$setElementOrder/conditions":[{"type":"C"},{"type":"B"},{"type":"A"}],"conditions":[{"lastProbeTime":null,"lastTransitionTime":null,"status":"","type":"C"}]}}`},
		{with("B"), `{"metadata":{"uid":"u"},"status":{"$setElementOrder/conditions":[{"type":"B"}],"conditions":[{"$patch":"delete","type":"A"}]}}`},
	} {
		if patch, err := podPatch(pod, c.wanted); err != nil || string(patch) != c.patch {
			t.Errorf("%v: the patch is %s, %v", c.wanted.Conditions, patch, err)
		}
	}
}

// TestPatchesArriveAtTheStatus: applying the patch from any status to any other, like an API server, gives the other.
func TestPatchesArriveAtTheStatus(t *testing.T) {
	all := goldenStatuses(t)
	of := func(list corev1.ResourceList) corev1.PodStatus {
		return corev1.PodStatus{AllocatedResources: list, Resources: &corev1.ResourceRequirements{Requests: list}}
	}
	all["two resources"] = of(amounts("cpu", "1", "memory", "1Gi"))
	all["one resource"] = of(amounts("cpu", "2"))
	all["none"] = corev1.PodStatus{}
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

func TestSandboxConfig(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a-pod-with-a-name-that-is-a-good-deal-longer-than-linux-takes-for-x.y", Namespace: "ns", UID: "u", Labels: map[string]string{"app": "a"}}}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Ports: []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080, Protocol: corev1.ProtocolTCP}}}}
	config := sandboxConfig(pod, 2, "")
	labels := map[string]string{"app": "a", cri.LabelPodName: pod.Name, cri.LabelPodNamespace: "ns", cri.LabelPodUID: "u"}
	if len(config.Hostname) > 63 || config.Metadata.Attempt != 2 || !maps.Equal(config.Labels, labels) || len(config.Ports) != 1 ||
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
