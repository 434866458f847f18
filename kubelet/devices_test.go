package kubelet_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/cri"
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

// cards are DevicePlugins that say what they are told to say.
type cards struct {
	*gpus
	refusal *kubelet.Refusal
	found   kubelet.DeviceResources
	taken   map[corev1.ResourceName]int64
	health  []corev1.ResourceStatus
	gives   kubelet.ContainerDevices
}

func (c *cards) do(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

func (c *cards) Resources() kubelet.DeviceResources {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.found
}

func (c *cards) Admit(pod *corev1.Pod) *kubelet.Refusal {
	_ = c.note("admit " + pod.Name)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refusal
}

func (c *cards) Container(_ context.Context, _ *corev1.Pod, of *corev1.Container) (kubelet.ContainerDevices, error) {
	err := c.note("container " + of.Name)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gives, err
}

func (c *cards) Allocated() map[corev1.ResourceName]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taken
}

func (c *cards) Health(types.UID, string) []corev1.ResourceStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.health
}

func (c *cards) Release(_ context.Context, uid types.UID) error {
	_ = c.note("release " + string(uid))
	return nil
}

const card = "example.com/card"

func withCard(p *corev1.Pod) {
	p.Spec.Containers[0].Resources.Requests = quantities(card, "1")
	p.Spec.Containers[0].Resources.Limits = quantities(card, "1")
}

// withCards runs a test with a kubelet whose device plugins are cards, on a host that provides everything else, too.
func withCards(t *testing.T, test func(n *node, c *cards, r *recording)) {
	t.Helper()
	logs := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c, r := &cards{gpus: &gpus{}}, newRecording(simulated.Options{})
		host := (&furniture{}).host(logs)
		host.Devices = kubelet.Devices{Claims: c, Plugins: c}
		n := newWorld(t).runOn(r, r.Runtime, kubelet.Options{Host: host})
		n.after(time.Second)
		test(n, c, r)
		n.stop()
		r.Close()
	})
}

// TestDevicePlugins: what plugins give to a container reaches the runtime, after what the container has of its own.
func TestDevicePlugins(t *testing.T) {
	withCards(t, func(n *node, c *cards, r *recording) {
		status := []corev1.ResourceStatus{{Name: card, Resources: []corev1.ResourceHealth{{ResourceID: "a", Health: corev1.ResourceHealthStatusHealthy}}}}
		c.do(func() {
			c.health, c.taken = status, map[corev1.ResourceName]int64{card: 1}
			c.gives = kubelet.ContainerDevices{
				Env:    []cri.EnvVar{{Name: "CARD", Value: "a"}, {Name: "WHO", Value: "card"}},
				Mounts: []cri.Mount{{ContainerPath: "/driver", HostPath: "/lib/driver", ReadOnly: true}}, Devices: []cri.Device{{ContainerPath: "/dev/card", HostPath: "/dev/null"}},
				CDIDevices: []string{"example.com/card=a"}, Annotations: map[string]string{"card": "a", "io.kubernetes.container.restartCount": "9"},
			}
		})
		n.pods.Put(newPod("web", withCard, withClaim, func(p *corev1.Pod) { p.Spec.Containers[0].Args = []string{"$(CARD) $(WHO)"} }))
		n.after(time.Second)
		got := r.containers["main"]
		if want := []cri.EnvVar{{Name: "CARD", Value: "a"}, {Name: "WHO", Value: "me"}}; !slices.Equal(got.Env, want) || !slices.Equal(got.Args, []string{"a me"}) {
			t.Errorf("the container has %v and says %q", got.Env, got.Args)
		}
		if len(got.Mounts) != 3 || got.Mounts[0].ContainerPath != "/driver" || !got.Mounts[0].ReadOnly || got.Mounts[1].ContainerPath != "/data" {
			t.Errorf("mounts are %+v", got.Mounts)
		}
		if len(got.Devices) != 1 || !slices.Equal(got.CDIDevices, []string{"example.com/gpu=gpu", "example.com/card=a"}) {
			t.Errorf("devices are %v and %v", got.Devices, got.CDIDevices)
		}
		if got.Annotations["card"] != "a" || got.Annotations["io.kubernetes.container.restartCount"] != "0" {
			t.Errorf("annotations are %v", got.Annotations)
		}
		if s := n.pod("web").Status.ContainerStatuses[0].AllocatedResourcesStatus; !reflect.DeepEqual(s, status) {
			t.Errorf("health is %+v", s)
		}
		if got := c.notes(); got != "admit web, prepare web, devices of main, container main" {
			t.Errorf("said %s", got)
		}
		n.pods.Delete("default", "web")
		n.after(time.Minute)
		if got := c.notes(); !strings.HasSuffix(got, "release uid-of-web") {
			t.Errorf("said %s", got)
		}
	})
}

// TestDevicePluginsRefuse: a pod is rejected for which there are no devices, or whose plugin refuses it, and leaves nothing.
func TestDevicePluginsRefuse(t *testing.T) {
	withCards(t, func(n *node, c *cards, _ *recording) {
		c.do(func() { c.refusal = &kubelet.Refusal{Reason: "UnexpectedAdmissionError", Message: "too few"} })
		n.pods.Put(newPod("few", withCard))
		n.after(time.Second)
		c.do(func() {
			c.refusal, c.fail = nil, &kubelet.Refusal{Reason: "UnexpectedAdmissionError", Message: "broken"}
		})
		n.pods.Put(newPod("broken", withCard))
		n.after(time.Second)
		c.do(func() { c.fail = errors.New("hangs") })
		n.pods.Put(newPod("later", withCard))
		n.after(time.Second)
		for name, want := range map[string]string{
			"few": "Failed UnexpectedAdmissionError Pod was rejected: too few", "broken": "Failed UnexpectedAdmissionError Pod was rejected: broken", "later": "Pending  ",
		} {
			if s := n.pod(name).Status; string(s.Phase)+" "+s.Reason+" "+s.Message != want {
				t.Errorf("%s is %s, %s: %s", name, s.Phase, s.Reason, s.Message)
			}
		}
		for _, name := range []string{"few", "broken"} {
			if !strings.Contains(c.notes(), "release uid-of-"+name) {
				t.Errorf("said %s", c.notes())
			}
		}
		c.do(func() { c.fail = nil })
		n.after(time.Minute)
		if phase := n.pod("later").Status.Phase; phase != corev1.PodRunning {
			t.Errorf("the pod is %s", phase)
		}
	})
}

// TestDeviceResources: the node's status has the resources of plugins, and none of another machine's.
func TestDeviceResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c, r := &cards{gpus: &gpus{}}, newRecording(simulated.Options{})
		c.found = kubelet.DeviceResources{Reset: true}
		o := kubelet.Options{Host: kubelet.Host{Devices: kubelet.Devices{Plugins: c}}}
		o.Capacity = quantities("example.com/own", "3")
		old := &corev1.Node{}
		old.Name = "n1"
		old.Status.Capacity, old.Status.Allocatable = quantities("example.com/old", "2", "cpu", "1"), quantities("example.com/old", "2", "cpu", "1")
		w.nodes.Put(old)
		n := w.runOn(r, r.Runtime, o)
		n.after(time.Minute)
		has := func(want string) {
			t.Helper()
			var all []string
			node, _ := w.nodes.Get("", "n1")
			for _, name := range []corev1.ResourceName{"example.com/old", "example.com/own", card} {
				capacity, allocatable := node.Status.Capacity[name], node.Status.Allocatable[name]
				all = append(all, capacity.String()+"/"+allocatable.String())
			}
			if got := strings.Join(all, " "); got != want {
				t.Errorf("the node has %s, want %s", got, want)
			}
		}
		has("0/0 3/3 0/0")
		c.do(func() { c.found.Capacity, c.found.Allocatable = quantities(card, "2"), quantities(card, "1") })
		n.after(10 * time.Second)
		has("0/0 3/3 2/1")
		n.stop()
		r.Close()
	})
}
