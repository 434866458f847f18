package kubelet_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/kubelet"
)

// TestInstancesOfOneNameEnd: if two instances of a container run, whatever started them, both end with their pod.
func TestInstancesOfOneNameEnd(t *testing.T) {
	simulate(t, simulated.Options{Images: []string{"nginx"}}, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web"))
		n.after(5 * time.Second)
		first := n.containers()[0]
		id, err := n.runtime.CreateContainer(t.Context(), first.SandboxID, cri.ContainerConfig{
			Metadata: cri.ContainerMetadata{Name: first.Metadata.Name, Attempt: 1}, Image: cri.ImageSpec{Image: "nginx"}, Labels: first.Labels,
		}, cri.SandboxConfig{})
		if err == nil {
			err = n.runtime.StartContainer(t.Context(), id)
		}
		if err != nil {
			t.Fatal(err)
		}
		n.after(5 * time.Second)
		n.remove("web", 5)
		n.after(time.Minute)
		if _, there := n.pods.Get("default", "web"); there || len(n.containers()) > 0 {
			t.Errorf("left are %v", n.containers())
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		killed := slices.DeleteFunc(n.events, func(line string) bool { return !strings.Contains(line, "Killing") })
		if len(killed) != 2 {
			t.Errorf("killed: %v", killed)
		}
	})
}
