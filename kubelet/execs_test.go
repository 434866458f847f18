package kubelet_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/kubelet"
)

// plodding is a runtime whose commands take ten minutes, whatever their timeout is.
type plodding struct {
	*simulated.Runtime
	mu   sync.Mutex
	took []string
}

func (d *plodding) ExecSync(ctx context.Context, _ string, _ []string, _ time.Duration) (cri.ExecResult, error) {
	start := time.Now()
	var err error
	select {
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(10 * time.Minute):
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.took = append(d.took, time.Since(start).String())
	return cri.ExecResult{}, err
}

// all says how long each command was waited for.
func (d *plodding) all() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.took, " ")
}

// TestCommandsThatHang: the runtime has two minutes more than a probe to say how that went; a hook may take as long as it
// likes.
func TestCommandsThatHang(t *testing.T) {
	hook := &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"prepare"}}}}
	for name, c := range map[string]struct {
		change func(*corev1.Container)
		after  time.Duration
		want   string
		phase  corev1.PodPhase
	}{
		"a probe":         {func(c *corev1.Container) { c.ReadinessProbe = execProbe(10, 0) }, 5 * time.Minute, "2m1s 2m1s", corev1.PodRunning},
		"a hook":          {func(c *corev1.Container) { c.Lifecycle = hook }, 9 * time.Minute, "", corev1.PodPending},
		"a hook that has": {func(c *corev1.Container) { c.Lifecycle = hook }, 11 * time.Minute, "10m0s", corev1.PodRunning},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			d := &plodding{Runtime: simulated.New(simulated.Options{})}
			n := w.runOn(d, d.Runtime, kubelet.Options{})
			w.pods.Put(newPod("web", func(p *corev1.Pod) { c.change(&p.Spec.Containers[0]) }))
			n.after(c.after)
			if got := d.all(); got != c.want {
				t.Errorf("%s: commands have ended after %q, want %q", name, got, c.want)
			}
			if got := n.pod("web").Status.Phase; got != c.phase {
				t.Errorf("%s: the pod is %s, want %s", name, got, c.phase)
			}
			n.stop()
			d.Close()
		})
	}
}

// TestProbesBesideAFailure: a container is probed as soon as it has started, although another one cannot start and the
// runtime tells nothing.
func TestProbesBesideAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rt := simulated.New(simulated.Options{Behave: func(op simulated.Operation) simulated.Outcome {
			if op.Verb == simulated.StartContainer && op.Container.Name == "other" {
				return simulated.Outcome{Err: errors.New("no such program")}
			}
			return simulated.Outcome{}
		}})
		n := w.runOn(silent{rt, rt}, rt, kubelet.Options{})
		w.pods.Put(newPod("web", func(p *corev1.Pod) {
			p.Spec.Containers[0].ReadinessProbe = execProbe(10, 0)
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "other", Image: "nginx"})
		}))
		n.after(500 * time.Millisecond)
		var said []string
		for _, s := range n.pod("web").Status.ContainerStatuses {
			said = append(said, fmt.Sprint(s.Name, " ready: ", s.Ready))
		}
		if got := strings.Join(said, ", "); got != "main ready: true, other ready: false" {
			t.Error(got)
		}
		n.stop()
		rt.Close()
	})
}

// TestWishThatIsTakenBack: of the changes that have come while the kubelet was busy the newest counts, although an older one
// requests a resize that has to wait.
func TestWishThatIsTakenBack(t *testing.T) {
	o := kubelet.Options{Registration: kubelet.Registration{Capacity: quantities("cpu", "4")}}
	o.Host.Admitters = []kubelet.Admitter{kubelet.AdmitFunc(func(pod *corev1.Pod) *kubelet.Refusal {
		if pod.Name == "slow" {
			time.Sleep(time.Second)
		}
		return nil
	})}
	simulate(t, simulated.Options{}, o, func(n *node) {
		n.pods.Put(resizable("web", "1"))
		n.pods.Put(resizable("other", "2"))
		n.after(time.Second)
		change := func(cpu string, deadline int64) {
			pod := n.pod("web").DeepCopy()
			cpuOf(cpu)(&pod.Spec)
			pod.Spec.ActiveDeadlineSeconds = ptr.To(deadline)
			pod.Generation++
			n.pods.Put(pod)
			n.after(100 * time.Millisecond)
		}
		sent := n.count("patch pods/status")
		n.pods.Put(newPod("slow"))
		n.after(100 * time.Millisecond)
		change("3", 100)
		change("1", 50)
		n.after(5 * time.Second)
		n.expectResized("web", "given cpu:1, has cpu:1")
		if got := n.pod("web").Status.ObservedGeneration; got != 3 {
			t.Errorf("generation %d is observed", got)
		}
		if got := n.count("patch pods/status") - sent; got != 2 { // of the slow pod, which runs, and of this one, once
			t.Errorf("%d statuses are sent", got)
		}
		n.after(50 * time.Second)
		if got := n.pod("web").Status; got.Reason != "DeadlineExceeded" {
			t.Errorf("the pod is %s (%s)", got.Phase, got.Reason)
		}
	})
}
