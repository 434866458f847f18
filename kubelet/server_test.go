package kubelet_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/kubelet"
)

// breaks makes requests fail, as long as err returns an error for them, and returns a function that says when those
// were made, and clears the record. The request is a verb and a resource, such as "patch nodes/status".
func (w *world) breaks(request string, err func() error) (times func() string) {
	var mu sync.Mutex
	var list []string
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.fail
	w.fail = func(verb string, t client.Target) error {
		if verb+" "+strings.TrimSuffix(t.Resource.Resource+"/"+t.Subresource, "/") != request {
			if before != nil {
				return before(verb, t)
			}
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		list = append(list, w.at())
		return err()
	}
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		text := strings.Join(list, " ")
		list = nil
		return text
	}
}

func works() error { return nil }

func away() error { return errors.New("no answer") }

func expectTimes(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s at\n%s, not\n%s", what, got, want)
	}
}

// TestRegistrationIsTriedAgain: at first soon, and then every seven seconds.
func TestRegistrationIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		times := w.breaks("create nodes", func() error {
			if time.Since(w.start) < 25*time.Second {
				return away()
			}
			return nil
		})
		rt := simulated.New(simulated.Options{})
		var registered string
		n := w.run(rt, kubelet.Options{OnRegistered: func(node *corev1.Node) { registered = w.at() + " " + node.Name }})
		n.after(time.Minute)
		if w.lease == nil || len(w.lease.OwnerReferences) != 1 || w.lease.OwnerReferences[0].UID != "uid-of-n1" {
			t.Errorf("the lease is %v", w.lease)
		}
		expectTimes(t, "registered", times(), "0s 0.1s 0.3s 0.7s 1.5s 3.1s 6.3s 12.7s 19.7s 26.7s")
		if registered != "26.7s n1" {
			t.Errorf("said to be registered: %q", registered)
		}
		n.stop()
		w = newWorld(t)
		w.breaks("create nodes", away)
		n = w.run(rt, kubelet.Options{OnRegistered: func(*corev1.Node) { t.Error("it is registered") }})
		n.after(time.Minute)
		n.stop()
		rt.Close()
	})
}

// TestNodeThatIsKnown: a kubelet whose node is known runs its pods before it has reached the server.
func TestNodeThatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		old := &corev1.Node{}
		old.Name = "n1"
		w.nodes.Put(old)
		w.breaks("create nodes", away)
		rt := simulated.New(simulated.Options{})
		n := w.run(rt, kubelet.Options{})
		w.pods.Put(newPod("web"))
		n.after(time.Second)
		n.expectStatuses("0s web Running Ready main=running")
		n.stop()
		rt.Close()
	})
}

// TestPodsThatCannotBeRead: a kubelet ends with an error if its pods will never be known.
func TestPodsThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rt := simulated.New(simulated.Options{})
		pods := informer.New(w.pods, informer.Options{})
		k, err := kubelet.New(kubelet.Sources{Pods: pods}, w, rt, w, kubelet.Options{NodeName: "n1"})
		if err != nil {
			t.Fatal(err)
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		_ = pods.Run(over)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := k.Run(ctx); err == nil || !strings.HasPrefix(err.Error(), "reading the pods of node n1: ") {
			t.Errorf("it ends with %v", err)
		}
		rt.Close()
	})
}

// TestTakingOverIsTriedAgain: a node that exists already is read, and its labels are put right, until that succeeds.
func TestTakingOverIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		old := &corev1.Node{}
		old.Name = "n1"
		w.nodes.Put(old)
		until := func(seconds time.Duration) func() error {
			return func() error {
				if time.Since(w.start) < seconds*time.Second {
					return away()
				}
				return nil
			}
		}
		reads, writes := w.breaks("get nodes", until(1)), w.breaks("patch nodes", until(3))
		rt := simulated.New(simulated.Options{})
		n := w.run(rt, kubelet.Options{})
		n.after(5 * time.Second)
		expectTimes(t, "read", reads(), "0s 0.1s 0.3s 0.7s 1.5s 3.1s")
		expectTimes(t, "written", writes(), "1.5s 3.1s")
		if got := w.node().Labels["kubernetes.io/hostname"]; got != "n1" {
			t.Errorf("the hostname is %q", got)
		}
		n.stop()
		n = w.run(rt, kubelet.Options{}) // nothing to put right
		n.after(5 * time.Second)
		expectTimes(t, "written", writes(), "")
		n.stop()
		rt.Close()
	})
}

// TestNodeStatusIsTriedAgain: a status that cannot be sent is tried five times at once, from the node's newest state,
// and then with the next.
func TestNodeStatusIsTriedAgain(t *testing.T) {
	for request, want := range map[string][2]string{
		"patch nodes/status": {"10s 10s 10s 10s 10s 20s 20s 20s 20s 20s", "30s"},
		"get nodes":          {"10s 10s 10s 10s 20s 20s 20s 20s", "30s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			var lines []string
			rt := simulated.New(simulated.Options{})
			n := w.run(rt, kubelet.Options{Logger: logger(w, &lines)})
			n.after(5 * time.Second)
			broken := true
			times := w.breaks(request, func() error {
				if broken {
					return away()
				}
				return nil
			})
			first := true
			if request == "get nodes" { // it is read after the first attempt fails
				w.breaks("patch nodes/status", func() error {
					if failed := first; failed {
						first = time.Since(w.start) < 30*time.Second
						return away()
					}
					return nil
				})
			}
			rt.SetStatus(cri.RuntimeStatus{Runtime: cri.Condition{Reason: "Broken", Message: "on fire"}, Network: cri.Condition{Ready: true}})
			n.after(20 * time.Second)
			expectTimes(t, request, times(), want[0])
			if got := conditions(w.node())[3]; !strings.HasPrefix(got, "Ready=True") {
				t.Errorf("the node is %s", got)
			}
			w.mu.Lock()
			broken = false
			w.mu.Unlock()
			n.after(10 * time.Second)
			expectTimes(t, request, times(), want[1])
			const unready = "Ready=False KubeletNotReady: container runtime not ready: RuntimeReady=false reason:Broken message:on fire"
			if got := conditions(w.node())[3]; got != unready {
				t.Errorf("the node is %s", got)
			}
			if got := strings.Join(lines, "\n"); got != "10s reporting the node's status failed: no answer\n20s reporting the node's status failed: no answer" {
				t.Errorf("logged is\n%s", got)
			}
			n.stop()
			rt.Close()
		})
	}
}

// logger is one that adds lines with the time, the message and the error.
func logger(w *world, lines *[]string) *slog.Logger {
	return slog.New(lineHandler{slog.DiscardHandler, w, lines})
}

type lineHandler struct {
	slog.Handler
	w     *world
	lines *[]string
}

func (h lineHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h lineHandler) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h lineHandler) Handle(_ context.Context, r slog.Record) error {
	line := h.w.at() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" {
			line += ": " + a.Value.String()
		}
		return true
	})
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	*h.lines = append(*h.lines, line)
	return nil
}

// TestWithoutNodes: a kubelet without an informer of nodes reads its node before it changes it.
func TestWithoutNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rt := simulated.New(simulated.Options{})
		pods := informer.New(w.pods, informer.Options{})
		o := kubelet.Options{NodeName: "n1", Registration: kubelet.Registration{PodCIDRs: []string{"10.1.0.0/24", "fd00::/64"}, ProviderID: "cloud://1", ServerPort: 10250}}
		k, err := kubelet.New(kubelet.Sources{Pods: pods}, w, rt, w, o)
		if err != nil {
			t.Fatal(err)
		}
		reads := w.breaks("get nodes", works)
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { _ = pods.Run(ctx) })
		group.Go(func() { _ = k.Run(ctx) })
		n := &node{world: w, runtime: rt}
		w.pods.Put(newPod("web"))
		n.after(time.Second)
		if phase := w.pod("web").Status.Phase; phase != corev1.PodRunning {
			t.Errorf("the pod is %s", phase)
		}
		w.expectOwner("uid-of-n1")
		node := w.node()
		if s := node.Spec; s.PodCIDR != "10.1.0.0/24" || !slices.Equal(s.PodCIDRs, o.PodCIDRs) || s.ProviderID != "cloud://1" || node.Status.DaemonEndpoints.KubeletEndpoint.Port != 10250 {
			t.Errorf("the node is %+v, %+v", s, node.Status.DaemonEndpoints)
		}
		// Somebody labels it, and the labels count for pods that come then.
		node = node.DeepCopy()
		node.Labels["zone"] = "a"
		w.nodes.Put(node)
		n.after(10 * time.Second)
		w.pods.Put(newPod("picky", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "a"} }))
		n.after(time.Second)
		if s := w.pod("picky").Status; s.Phase != corev1.PodRunning {
			t.Errorf("the pod is %s: %s", s.Phase, s.Message)
		}
		expectTimes(t, "read", reads(), "10s")
		node = w.node().DeepCopy()
		node.Labels["zone"] = "b"
		w.nodes.Put(node)
		n.after(10 * time.Second) // nothing else about the node changes
		w.pods.Put(newPod("fussy", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "b"} }))
		n.after(time.Second)
		if s := w.pod("fussy").Status; s.Phase != corev1.PodRunning {
			t.Errorf("the pod is %s: %s", s.Phase, s.Message)
		}
		cancel()
		group.Wait()
		rt.Close()
	})
}

// expectOwner checks whose the node's lease is.
func (w *world) expectOwner(want types.UID) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lease == nil || len(w.lease.OwnerReferences) != 1 || w.lease.OwnerReferences[0].UID != want {
		w.t.Errorf("the lease is %v", w.lease)
	}
}

// TestNodeImages: at most fifty images are listed, with at most five names.
func TestNodeImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rt := simulated.New(simulated.Options{})
		var list []cri.Image
		for i := range 51 {
			name := fmt.Sprintf("i%02d", i)
			list = append(list, cri.Image{Digests: []string{name + "@1", name + "@2"}, Tags: []string{name + ":1", name + ":2", name + ":3", name + ":4"}, Size: uint64(i)})
		}
		n := w.runOn(&gallery{Runtime: rt, list: list}, rt, kubelet.Options{})
		n.after(time.Second)
		images := w.node().Status.Images
		if len(images) != 50 || images[49].SizeBytes != 49 || strings.Join(images[7].Names, " ") != "i07@1 i07@2 i07:1 i07:2 i07:3" {
			t.Errorf("%d images, %+v", len(images), images[min(7, len(images)-1)])
		}
		n.stop()
		rt.Close()
	})
}

type gallery struct {
	*simulated.Runtime
	list []cri.Image
}

func (g *gallery) ListImages(context.Context) ([]cri.Image, error) { return g.list, nil }

// TestLeaseIsRegained: a lease that somebody else has changed is read anew, one that is gone is made anew.
func TestLeaseIsRegained(t *testing.T) {
	conflict := func() error {
		return apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, "n1", errors.New("stale"))
	}
	for name, c := range map[string]struct {
		change                  func(w *world)
		update                  func() error // what updates fail with, until it has failed
		reads, writes, creation string       // afterwards, for 20 s
	}{
		"nothing": {func(*world) {}, works, "", "10s 20s", ""},
		"changed": {func(w *world) {
			w.lease.ResourceVersion, w.lease.OwnerReferences[0].UID = "x", "another"
		}, works, "10s", "10s 10s 20s", ""},
		"gone":               {func(w *world) { w.lease = nil }, works, "10s", "10s 20s", "10s"},
		"always conflicting": {func(*world) {}, conflict, "10s 10s 10s 10s 20s 20s 20s 20s 20s", "10s 10s 10s 10s 10s 20s 20s 20s 20s 20s", ""},
		"refused":            {func(*world) {}, away, "20s", "10s 20s", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			synctest.Test(t, func(t *testing.T) {
				rt := simulated.New(simulated.Options{})
				w := newWorld(t)
				n := w.run(rt, kubelet.Options{Logger: logger(w, &lines)})
				n.after(5 * time.Second)
				reads, writes, creation := n.breaks("get leases", works), n.breaks("update leases", c.update), n.breaks("create leases", works)
				n.mu.Lock()
				c.change(n.world)
				n.mu.Unlock()
				n.after(20 * time.Second)
				expectTimes(t, "read", reads(), c.reads)
				expectTimes(t, "written", writes(), c.writes)
				expectTimes(t, "made", creation(), c.creation)
				owner := map[bool]types.UID{true: "another", false: "uid-of-n1"}[name == "changed"]
				if got := n.lease.OwnerReferences; len(got) != 1 || got[0].UID != owner {
					t.Errorf("the lease belongs to %v", got)
				}
				n.stop()
				rt.Close()
			})
			if fails := name == "refused" || name == "always conflicting"; fails != (len(lines) == 2) || len(lines) > 2 {
				t.Errorf("logged is %q", lines)
			}
		})
	}
}

// TestLeaseThatCannotBeRead: a lease that cannot be read, or made, is tried again with the next renewal.
func TestLeaseThatCannotBeRead(t *testing.T) {
	for _, request := range []string{"get leases", "create leases"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			times := w.breaks(request, func() error {
				if time.Since(w.start) < 15*time.Second {
					return away()
				}
				return nil
			})
			rt := simulated.New(simulated.Options{})
			n := w.run(rt, kubelet.Options{})
			n.after(25 * time.Second)
			expectTimes(t, request, times(), "0s 10s 20s")
			if w.lease == nil {
				t.Error("there is no lease")
			}
			n.stop()
			rt.Close()
		})
	}
}

// TestNodeThatIsThereIsReadOnce: a kubelet without an informer of nodes reads a node that exists once to take it over.
func TestNodeThatIsThereIsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		old := &corev1.Node{}
		old.Name, old.UID = "n1", "older"
		w.nodes.Put(old)
		rt := simulated.New(simulated.Options{})
		reads := w.breaks("get nodes", works)
		pods := informer.New(w.pods, informer.Options{})
		n := w.begin(kubelet.Sources{Pods: pods}, rt, kubelet.Options{}, pods.Run)
		n.after(time.Second)
		w.expectOwner("older")
		n.after(14 * time.Second)
		n.stop()
		expectTimes(t, "read", reads(), "0s 10s")
		rt.Close()
	})
}

// TestNodeWithoutHeartbeats: a kubelet without an informer of nodes puts right with the next report what somebody else has
// written to its node's status.
func TestNodeWithoutHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rt := simulated.New(simulated.Options{})
		pods := informer.New(w.pods, informer.Options{})
		n := w.begin(kubelet.Sources{Pods: pods}, rt, kubelet.Options{}, pods.Run)
		n.after(5 * time.Second)
		node := w.node().DeepCopy()
		node.Status.Conditions[3].Status = corev1.ConditionUnknown
		w.nodes.Put(node)
		n.after(6 * time.Second)
		if got := conditions(w.node())[3]; !strings.HasPrefix(got, "Ready=True") {
			t.Errorf("the node is %s", got)
		}
		n.stop()
		rt.Close()
	})
}

// TestTimesOfNodeConditions: a condition's transition time changes only with its status, its heartbeat with each report.
func TestTimesOfNodeConditions(t *testing.T) {
	simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
		expect := func(transition, heartbeat time.Duration) {
			t.Helper()
			c := n.node().Status.Conditions[3]
			if a, b := c.LastTransitionTime.Sub(n.start), c.LastHeartbeatTime.Sub(n.start); a != transition || b != heartbeat {
				t.Errorf("transition after %s, heartbeat after %s", a, b)
			}
		}
		n.after(301 * time.Second)
		expect(0, 300*time.Second)
		n.runtime.SetStatus(cri.RuntimeStatus{Network: cri.Condition{Ready: true}})
		n.after(10 * time.Second)
		expect(310*time.Second, 310*time.Second)
		n.after(300 * time.Second)
		expect(310*time.Second, 610*time.Second)
	})
}
