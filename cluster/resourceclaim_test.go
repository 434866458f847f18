package cluster_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cluster"
)

func gpuSpec() resourcev1.ResourceClaimSpec {
	return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
		{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu.example.com"}},
	}}}
}

// gpuTemplate makes a template of claims, and returns a pod that has a claim of it.
func gpuTemplate(w *world) *corev1.Pod {
	w.t.Helper()
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.ResourceClaimTemplateSpec{
		Spec: gpuSpec(),
	}}
	_, err := w.cs.ResourceV1().ResourceClaimTemplates("default").Create(w.ctx, template, metav1.CreateOptions{})
	w.check(err)
	pod := testPod("train")
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("gpu")}}
	pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	return pod
}

// breakDevice has a pod run with a device, on a node that is not of this cluster, and taints the device. It returns what has
// become of the pod, and the condition of the rule.
func breakDevice(w *world) (disrupted, eviction string) {
	w.t.Helper()
	pod := testPod("train")
	pod.Spec.NodeName = "elsewhere"
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("gpu")}}
	pod, err := w.pods.Create(w.ctx, pod, metav1.CreateOptions{})
	w.check(err)
	claims := w.cs.ResourceV1().ResourceClaims("default")
	claim, err := claims.Create(w.ctx, &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: gpuSpec()}, metav1.CreateOptions{})
	w.check(err)
	claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
		{Request: "r", Driver: "gpu.example.com", Pool: "p", Device: "x"},
	}}}
	claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
	_, err = claims.UpdateStatus(w.ctx, claim, metav1.UpdateOptions{})
	w.check(err)
	rules := w.cs.ResourceV1().DeviceTaintRules()
	_, err = rules.Create(w.ctx, &resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "broken"}, Spec: resourcev1.DeviceTaintRuleSpec{
		DeviceSelector: &resourcev1.DeviceTaintSelector{Driver: new("gpu.example.com")},
		Taint:          resourcev1.DeviceTaint{Key: "broken", Effect: resourcev1.DeviceTaintEffectNoExecute},
	}}, metav1.CreateOptions{})
	w.check(err)
	time.Sleep(15 * time.Second)
	if pod, err = w.pods.Get(w.ctx, "train", metav1.GetOptions{}); err == nil && pod.DeletionTimestamp != nil {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.DisruptionTarget {
				disrupted = c.Reason
			}
		}
	}
	rule, err := rules.Get(w.ctx, "broken", metav1.GetOptions{})
	w.check(err)
	for _, c := range rule.Status.Conditions {
		eviction = c.Reason
	}
	return disrupted, eviction
}

func withoutDeviceTaintEviction(w *world) {
	if disrupted, eviction := breakDevice(w); disrupted != "" || eviction != "" {
		w.t.Errorf("somebody saw to the taint: %q, %q", disrupted, eviction)
	}
}

// TestDeviceTaint: a pod whose device is tainted goes, and the rule says so.
func TestDeviceTaint(t *testing.T) {
	inBubble(t, cluster.Options{}, func(t *testing.T, w *world) {
		if disrupted, eviction := breakDevice(w); disrupted != "DeletionByDeviceTaintManager" || eviction != "Completed" {
			t.Errorf("the pod: %q, the rule: %q", disrupted, eviction)
		}
	})
}

func (w *world) resourceClaims() []resourcev1.ResourceClaim {
	w.t.Helper()
	list, err := w.cs.ResourceV1().ResourceClaims("default").List(w.ctx, metav1.ListOptions{})
	w.check(err)
	return list.Items
}

func withoutResourceClaim(w *world) {
	_, err := w.pods.Create(w.ctx, gpuTemplate(w), metav1.CreateOptions{})
	w.check(err)
	time.Sleep(time.Minute)
	if got := w.resourceClaims(); len(got) > 0 {
		w.t.Errorf("somebody made %v", got)
	}
}

// TestResourceClaim: a pod's claim is made and goes with the pod; until devices can be assigned, the pod waits and says why.
func TestResourceClaim(t *testing.T) {
	inBubble(t, cluster.Options{Nodes: cluster.Nodes{Count: 1}}, func(t *testing.T, w *world) {
		_, err := w.pods.Create(w.ctx, gpuTemplate(w), metav1.CreateOptions{})
		w.check(err)
		time.Sleep(time.Minute)
		claims := w.resourceClaims()
		pod, err := w.pods.Get(w.ctx, "train", metav1.GetOptions{})
		w.check(err)
		if len(claims) != 1 || !metav1.IsControlledBy(&claims[0], pod) || !strings.HasPrefix(claims[0].Name, "train-gpu-") {
			t.Fatalf("claims %+v", claims)
		}
		if s := pod.Status.ResourceClaimStatuses; len(s) != 1 || s[0].Name != "gpu" || *s[0].ResourceClaimName != claims[0].Name {
			t.Errorf("status %+v", s)
		}
		waits := ""
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled {
				waits = c.Message
			}
		}
		if !strings.Contains(waits, `pod requires a resourceclaim for "gpu", which this scheduler does not support`) {
			t.Errorf("the pod waits: %s", waits)
		}
		w.check(w.pods.Delete(w.ctx, "train", metav1.DeleteOptions{}))
		time.Sleep(time.Minute)
		if got := w.resourceClaims(); len(got) > 0 {
			t.Errorf("left: %v", got)
		}
	})
}
