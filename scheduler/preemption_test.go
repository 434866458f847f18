package scheduler_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

// TestNoPreemption: pods that count on preemption get a message that there is none.
func TestNoPreemption(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
		"cpu": resource.MustParse("2"), "pods": resource.MustParse("9"),
	}}}
	asking := func(cpu string, priority *int32, policy corev1.PreemptionPolicy) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p" + cpu}}
		p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}}}
		p.Spec.Priority = priority
		if policy != "" {
			p.Spec.PreemptionPolicy = &policy
		}
		return p
	}
	there := asking("2", nil, "")
	there.Spec.NodeName = "n"
	profile := scheduler.Profile{Plugins: plugins.Default()}
	const full = "0/1 nodes are available: 1 Insufficient cpu."
	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"no priority":        {asking("1", nil, ""), full},
		"the usual priority": {asking("1", ptr.To[int32](0), corev1.PreemptLowerPriority), full},
		"a high priority":    {asking("1", ptr.To[int32](1), corev1.PreemptLowerPriority), full + " preemption: not supported by this scheduler."},
		"without a policy":   {asking("1", ptr.To[int32](1), ""), full + " preemption: not supported by this scheduler."},
		"never":              {asking("1", ptr.To[int32](1), corev1.PreemptNever), full + " preemption: not eligible due to preemptionPolicy=Never."},
		"never, anyway":      {asking("1", nil, corev1.PreemptNever), full + " preemption: not eligible due to preemptionPolicy=Never."},
		"no help":            {asking("3", ptr.To[int32](1), ""), full},
	} {
		t.Run(name, func(t *testing.T) {
			d := profile.Schedule(tt.pod, scheduler.NewSnapshot([]*corev1.Node{n}, []*corev1.Pod{there}))
			if d.Err == nil || d.Err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", d.Err, tt.want)
			}
		})
	}
	held := asking("1", ptr.To[int32](1), "")
	held.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimName: ptr.To("gpu")}}
	d := profile.Schedule(held, scheduler.NewSnapshot([]*corev1.Node{n}, nil))
	if want := `0/1 nodes are available: pod requires resourceclaim "gpu", which this scheduler does not support.`; d.Err == nil || d.Err.Error() != want {
		t.Errorf("got  %v\nwant %s", d.Err, want)
	}
}
