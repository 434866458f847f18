package kubelet_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/kubelet"
)

// gpus are Devices that note what they are told.
type gpus struct {
	mu      sync.Mutex
	fail    error
	said    []string
	orphans []types.UID
}

func (g *gpus) note(what string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if last := len(g.said) - 1; last < 0 || g.said[last] != what {
		g.said = append(g.said, what)
	}
	return g.fail
}

func (g *gpus) notes() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Join(g.said, ", ")
}

func (g *gpus) set(fail error, orphans ...types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fail, g.orphans = fail, orphans
}

func (g *gpus) Prepare(_ context.Context, pod *corev1.Pod) error {
	return g.note("prepare " + pod.Name)
}

func (g *gpus) CDIDevices(_ *corev1.Pod, c *corev1.Container) ([]string, error) {
	return []string{"example.com/gpu=" + c.Resources.Claims[0].Name}, g.note("devices of " + c.Name)
}

func (g *gpus) Release(_ context.Context, uid types.UID) error {
	return g.note("release " + string(uid))
}

func (g *gpus) Orphans(live func(types.UID) bool) ([]types.UID, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(g.orphans), live), nil
}

func withClaim(p *corev1.Pod) {
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To("gpu")}}
	p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
}

// A pod's devices are prepared before its containers start, which get them, and given back after they have ended.
func TestDevices(t *testing.T) {
	g := &gpus{fail: errors.New("driver is down")}
	simulate(t, simulated.Options{}, kubelet.Options{Host: kubelet.Host{Devices: kubelet.Devices{Claims: g}}}, func(n *node) {
		n.pods.Put(newPod("web", withClaim))
		n.pods.Put(newPod("plain"))
		n.after(time.Second)
		if phase := n.pod("web").Status.Phase; phase != corev1.PodPending || n.pod("plain").Status.Phase != corev1.PodRunning {
			t.Errorf("without devices, the pod is %s, a pod without claims %s", phase, n.pod("plain").Status.Phase)
		}
		if g.notes() != "prepare web" {
			t.Errorf("said %s", g.notes())
		}
		n.expectEventsAbout("DynamicResources", "0s web Warning FailedPrepareDynamicResources: Failed to prepare dynamic resources: driver is down")
		g.set(nil)
		n.after(time.Minute)
		if phase := n.pod("web").Status.Phase; phase != corev1.PodRunning {
			t.Errorf("with devices, the pod is %s", phase)
		}
		if got := g.notes(); got != "prepare web, devices of main" {
			t.Errorf("said %s", got)
		}
		if got := n.container("main").ID; got == "" {
			t.Error("no container")
		}
		uid := string(n.pod("web").UID)
		n.pods.Delete("default", "web")
		g.set(nil, "left")
		n.after(10 * time.Minute)
		if got := g.notes(); !strings.Contains(got, "release "+uid) || !strings.Contains(got, "release left") {
			t.Errorf("said %s", got)
		}
	})
}
