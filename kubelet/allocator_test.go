package kubelet_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/kubelet"
)

// giver is an Allocator that notes what it is asked.
type giver struct {
	mu      sync.Mutex
	asked   []string
	refusal *kubelet.Refusal // of resizes
}

func (g *giver) note(what string, pod *corev1.Pod) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, what+" "+pod.Name)
}

// told returns what it was asked since the last call.
func (g *giver) told() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := g.asked
	g.asked = nil
	return out
}

func (g *giver) Admit(pod *corev1.Pod) *kubelet.Refusal {
	g.note("admit", pod)
	if pod.Name == "refused" {
		return &kubelet.Refusal{Reason: "UnexpectedAdmissionError", Message: "no"}
	}
	return nil
}

func (g *giver) Resume(pod *corev1.Pod) { g.note("resume", pod) }

func (g *giver) AdmitResize(given, wanted *corev1.Pod) *kubelet.Refusal {
	before, after := given.Spec.Containers[0].Resources.Requests.Cpu(), wanted.Spec.Containers[0].Resources.Requests.Cpu()
	g.note("resize from "+before.String()+" to "+after.String(), wanted)
	return g.refusal
}

// TestAllocator: an allocator is asked once for each pod, before its requests are compared with the node's; about a resize it is
// asked in another way, and first; and the next one learns of the pods that are there.
func TestAllocator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rt := simulated.New(simulated.Options{Images: []string{"nginx"}})
		defer rt.Close()
		g := &giver{}
		o := kubelet.Options{
			Registration: kubelet.Registration{Capacity: quantities("cpu", "4")},
			Host: kubelet.Host{
				Memory:    &diary{waits: map[types.UID]map[string]kubelet.Wait{}},
				Admitters: []kubelet.Admitter{g},
			},
		}
		n := w.run(rt, o)
		expect := func(what string, want ...string) {
			t.Helper()
			if got := g.told(); !slices.Equal(got, want) {
				t.Errorf("%s: asked %q, want %q", what, got, want)
			}
		}
		reason := func(name string) string { return n.pod(name).Status.Reason }
		n.pods.Put(newPod("web", func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = quantities("cpu", "1") }))
		time.Sleep(5 * time.Second)
		expect("a pod", "admit web")
		n.pods.Put(newPod("refused", func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = quantities("cpu", "100") }))
		time.Sleep(5 * time.Second)
		expect("a refused pod", "admit refused")
		if got := reason("refused"); got != "UnexpectedAdmissionError" {
			t.Errorf("refused: %s", got)
		}
		n.pods.Put(newPod("large", func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = quantities("cpu", "100") }))
		time.Sleep(5 * time.Second)
		expect("a pod without room", "admit large")
		if got := reason("large"); got != "OutOfcpu" {
			t.Errorf("without room: %s", got)
		}
		g.refusal = &kubelet.Refusal{Reason: corev1.PodReasonInfeasible, Message: "never"}
		n.resize("web", cpuOf("2"))
		expect("a resize", "resize from 1 to 2 web")
		n.expectResized("web", "PodResizePending=Infeasible@2 since 15s given cpu:1, has cpu:1")
		if n.live(n.pod("large").UID) || !n.live(n.pod("web").UID) || n.live("unknown") {
			t.Error("which pods live")
		}
		n.stop()
		n = w.run(rt, o)
		defer n.stop()
		time.Sleep(5 * time.Second)
		if got := g.told(); !slices.Contains(got, "resume web") || slices.Contains(got, "admit web") {
			t.Errorf("a new kubelet: asked %q", got)
		}
	})
}
