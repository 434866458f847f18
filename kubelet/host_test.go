package kubelet_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/kubelet"
)

// brittle is a host of which one part first fails and then succeeds.
type brittle struct {
	part  string
	whole atomic.Bool
}

func (b *brittle) fail(part string) error {
	if part != b.part || b.whole.Load() {
		return nil
	}
	return errors.New("out of order")
}

func (b *brittle) host() kubelet.Host {
	return kubelet.Host{
		Volumes: brittleVolumes{b}, Cgroups: brittleCgroups{b}, Resolver: brittleResolver{b}, Security: brittleSecurity{b},
		Environment: brittleEnvironment{b}, Credentials: brittleCredentials{b},
	}
}

type (
	brittleVolumes     struct{ *brittle }
	brittleCgroups     struct{ *brittle }
	brittleResolver    struct{ *brittle }
	brittleSecurity    struct{ *brittle }
	brittleEnvironment struct{ *brittle }
	brittleCredentials struct{ *brittle }
)

func (b brittleVolumes) Prepare(context.Context, *corev1.Pod) error { return b.fail("volumes") }
func (b brittleVolumes) Mounts(context.Context, kubelet.MountRequest) ([]cri.Mount, error) {
	return nil, b.fail("mounts")
}
func (brittleVolumes) NextRefresh(types.UID) time.Time                   { return time.Time{} }
func (brittleVolumes) Release(context.Context, types.UID) error          { return nil }
func (brittleVolumes) Orphans(func(types.UID) bool) ([]types.UID, error) { return nil, nil }
func (b brittleCgroups) Ensure(context.Context, *corev1.Pod) (string, error) {
	return "", b.fail("cgroups")
}
func (brittleCgroups) Limits(context.Context, *corev1.Pod) (now, want cri.Resources, err error) {
	return now, want, nil
}
func (brittleCgroups) Limit(context.Context, *corev1.Pod, cri.Resources) error    { return nil }
func (brittleCgroups) Remove(context.Context, types.UID) error                    { return nil }
func (brittleCgroups) Resources(*corev1.Pod, *corev1.Container) (r cri.Resources) { return r }
func (brittleCgroups) Orphans(func(types.UID) bool) ([]types.UID, error)          { return nil, nil }
func (b brittleResolver) Resolve(*corev1.Pod) (cri.DNS, []string, error) {
	return cri.DNS{}, nil, b.fail("resolver")
}
func (b brittleResolver) Names(*corev1.Pod) (kubelet.Names, error) {
	return kubelet.Names{}, b.fail("names")
}
func (b brittleSecurity) Namespaces(*corev1.Pod, string) (cri.Namespaces, error) {
	return cri.Namespaces{}, b.fail("namespaces")
}
func (b brittleSecurity) Sandbox(*corev1.Pod) (cri.SandboxSecurity, error) {
	return cri.SandboxSecurity{}, b.fail("security of the pod")
}
func (b brittleSecurity) Container(*corev1.Pod, *corev1.Container, cri.Image) (cri.Security, error) {
	return cri.Security{}, b.fail("security of the container")
}
func (b brittleEnvironment) Environment(context.Context, kubelet.EnvironmentRequest) ([]cri.EnvVar, []string, error) {
	return nil, nil, b.fail("environment")
}
func (b brittleCredentials) For(context.Context, *corev1.Pod, string) ([]cri.Auth, error) {
	return nil, b.fail("credentials")
}

// TestNothingRunsWithoutItsHost: if a part of the host fails, the pod does not run without it; the failure is reported,
// and retried.
func TestNothingRunsWithoutItsHost(t *testing.T) {
	for part, want := range map[string]struct {
		event, waiting string
		sandbox        bool
	}{
		"volumes":                   {"FailedMount: out of order", "ContainerCreating", false},
		"cgroups":                   {"FailedCreatePodContainer: unable to ensure pod container exists: out of order", "ContainerCreating", false},
		"resolver":                  {"FailedCreatePodSandBox: Failed to create pod sandbox: out of order", "ContainerCreating", false},
		"names":                     {"FailedCreatePodSandBox: Failed to create pod sandbox: out of order", "ContainerCreating", false},
		"namespaces":                {"FailedCreatePodSandBox: Failed to create pod sandbox: out of order", "ContainerCreating", false},
		"security of the pod":       {"FailedCreatePodSandBox: Failed to create pod sandbox: out of order", "ContainerCreating", false},
		"security of the container": {"Failed: Error: out of order", "CreateContainerConfigError", true},
		"environment":               {"Failed: Error: out of order", "CreateContainerConfigError", true},
		"mounts":                    {"Failed: Error: out of order", "CreateContainerConfigError", true},
		"credentials":               {`Failed: Failed to pull image "nginx": out of order`, "ErrImagePull", true},
	} {
		t.Run(part, func(t *testing.T) {
			b := &brittle{part: part}
			simulate(t, simulated.Options{}, kubelet.Options{Host: b.host()}, func(n *node) {
				n.pods.Put(newPod("web"))
				n.after(400 * time.Millisecond)
				where := "web"
				if want.sandbox {
					where = "web spec.containers{main}"
				}
				n.expectEventsAbout("out of order", "0s "+where+" Warning "+want.event)
				if list := n.containers(); len(list) != 0 {
					t.Errorf("there is %+v", list)
				}
				sandboxes, err := n.runtime.ListSandboxes(t.Context(), cri.Filter{})
				if err != nil || (len(sandboxes) > 0) != want.sandbox {
					t.Errorf("sandboxes %+v, %v", sandboxes, err)
				}
				n.expectStatuses("0s web Pending main=" + want.waiting)
				b.whole.Store(true)
				n.after(30 * time.Second)
				if pod := n.pod("web"); pod.Status.Phase != corev1.PodRunning {
					t.Errorf("at last it is %s", pod.Status.Phase)
				}
			})
		})
	}
}

// TestNoSandboxWithoutSecurity: whatever of a sandbox's configuration is missing, having a place for logs does not make
// up for it.
func TestNoSandboxWithoutSecurity(t *testing.T) {
	for _, part := range []string{"resolver", "namespaces", "security of the pod"} {
		b := &brittle{part: part}
		host := b.host()
		host.Logs.Dir = t.TempDir()
		simulate(t, simulated.Options{}, kubelet.Options{Host: host}, func(n *node) {
			n.pods.Put(newPod("web"))
			n.after(9 * time.Second)
			sandboxes, err := n.runtime.ListSandboxes(t.Context(), cri.Filter{})
			if err != nil || len(sandboxes) > 0 {
				t.Errorf("without %s: sandboxes %+v, %v", part, sandboxes, err)
			}
			b.whole.Store(true)
			n.after(2 * time.Second)
			if phase := n.pod("web").Status.Phase; phase != corev1.PodRunning {
				t.Errorf("without %s: the pod is %s ten seconds later", part, phase)
			}
		})
	}
}

// TestMountsAreTriedAgain: failed mounts are retried after half a second, then after twice as long each time, up to two
// minutes.
func TestMountsAreTriedAgain(t *testing.T) {
	b := &brittle{part: "volumes"}
	simulate(t, simulated.Options{}, kubelet.Options{Host: b.host()}, func(n *node) {
		n.pods.Put(newPod("web"))
		n.after(10 * time.Minute)
		n.mu.Lock()
		var times []string
		for _, line := range n.events {
			if at, rest, _ := strings.Cut(line, " "); strings.Contains(rest, "FailedMount") {
				times = append(times, at)
			}
		}
		n.mu.Unlock()
		want := "0s 0.5s 1.5s 3.5s 7.5s 15.5s 31.5s 63.5s 127.5s 249.5s 371.5s 493.5s"
		if got := strings.Join(times, " "); got != want {
			t.Errorf("tried at %s, want %s", got, want)
		}
	})
}
