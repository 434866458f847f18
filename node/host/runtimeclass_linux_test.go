package host_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/node/bundled"
	"github.com/keelson-dev/keelson/node/containerd"
	"github.com/keelson-dev/keelson/node/internal/nodetest"
	"github.com/keelson-dev/keelson/node/nodetools"
)

// TestRuntimeClasses: a pod runs by the handler of its class, its overhead counts in its cgroup, and a handler that is
// not configured is an event.
func TestRuntimeClasses(t *testing.T) {
	t.Parallel()
	w := nodetest.Start(t, nodetest.Options{Node: func(o *bundled.Options, _ *nodetools.Tools) {
		o.Handlers = map[string]containerd.Handler{"other": {Annotations: []string{"example.com/*"}}}
	}})
	class := func(name, handler string, overhead corev1.ResourceList) {
		t.Helper()
		c := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Handler: handler}
		if overhead != nil {
			c.Overhead = &nodev1.Overhead{PodFixed: overhead}
		}
		_, err := w.Clients.NodeV1().RuntimeClasses().Create(t.Context(), c, metav1.CreateOptions{})
		w.Check(err)
	}
	class("other", "other", corev1.ResourceList{"memory": resource.MustParse("16Mi"), "cpu": resource.MustParse("50m")})
	class("missing", "missing", nil)
	of := func(name, class string) *corev1.Pod {
		c := nodetest.Sleeper("main")
		list := corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("64Mi")}
		c.Resources = corev1.ResourceRequirements{Requests: list, Limits: list}
		pod := nodetest.Pod(name, c)
		pod.Spec.RuntimeClassName = &class
		return pod
	}
	w.Create(of("good", "other"))
	w.Create(of("bad", "missing"))
	pod := w.Ready("good")
	pid := w.PID(pod, "main")
	if got := limitOf(t, pid, "memory", 1); got != 80<<20 {
		t.Errorf("the pod may use %d bytes", got)
	}
	if got := limitOf(t, pid, "cpu", 1); got != 15_000 {
		t.Errorf("the pod has a quota of %d", got)
	}
	w.Event("bad", "FailedCreatePodSandBox", `no runtime for "missing" is configured`)
	node, err := w.Clients.CoreV1().Nodes().Get(t.Context(), pod.Spec.NodeName, metav1.GetOptions{})
	w.Check(err)
	var names []string
	for _, h := range node.Status.RuntimeHandlers {
		names = append(names, h.Name)
		if h.Features == nil || h.Features.RecursiveReadOnlyMounts == nil || h.Features.UserNamespaces == nil {
			t.Errorf("the handler %q has features %v", h.Name, h.Features)
		}
	}
	if got := strings.Join(names, ","); got != ",other,runc" {
		t.Errorf("the handlers are %s", got)
	}
	if f := node.Status.Features; f == nil || f.SupplementalGroupsPolicy == nil || !*f.SupplementalGroupsPolicy {
		t.Errorf("the node's features are %v", f)
	}
	w.DeleteAll("good", "bad")
	w.Clean()
}
