package kubelet_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/kubelet"
)

// TestPodsOfTheAPIAreNotStatic: a pod of the API is not static, whatever its annotation says.
func TestPodsOfTheAPIAreNotStatic(t *testing.T) {
	simulate(t, simulated.Options{Images: []string{"nginx"}}, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web", func(p *corev1.Pod) {
			p.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
		}))
		n.after(5 * time.Second)
		if got := n.pod("web"); got.Status.Phase != corev1.PodRunning || got.Annotations["kubernetes.io/config.source"] != "file" {
			t.Errorf("%s, %v", got.Status.Phase, got.Annotations)
		}
		n.remove("web", 1)
		n.after(time.Minute)
		if _, there := n.pods.Get("default", "web"); there {
			t.Error("it is not removed")
		}
	})
}
