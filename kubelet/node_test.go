package kubelet_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/kubelet"
)

func (w *world) node() *corev1.Node {
	node, ok := w.nodes.Get("", "n1")
	if !ok {
		w.t.Error("the node is not registered")
		return &corev1.Node{}
	}
	return node
}

// conditions renders the node's conditions, one per line.
func conditions(node *corev1.Node) []string {
	var list []string
	for _, c := range node.Status.Conditions {
		list = append(list, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return list
}

func TestNodeIsRegistered(t *testing.T) {
	o := kubelet.Options{Registration: kubelet.Registration{
		Labels: map[string]string{"zone": "a"},
		Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}},
		Info:   corev1.NodeSystemInfo{OperatingSystem: "linux", Architecture: "amd64", MachineID: "m"},
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, {Type: corev1.NodeHostName, Address: "n1"},
		},
		Capacity:    corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")},
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3500m")},
	}}
	simulate(t, simulated.Options{Images: []string{"nginx"}}, o, func(n *node) {
		node := n.node()
		wantLabels := map[string]string{
			"kubernetes.io/hostname": "n1", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
			"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64", "zone": "a",
		}
		if fmt.Sprint(node.Labels) != fmt.Sprint(wantLabels) {
			t.Errorf("labels are %v", node.Labels)
		}
		if len(node.Spec.Taints) != 1 || len(node.Status.Addresses) != 2 {
			t.Errorf("taints %v, addresses %v", node.Spec.Taints, node.Status.Addresses)
		}
		if cpu, allocatable := node.Status.Capacity.Cpu().String(), node.Status.Allocatable.Cpu().String(); cpu != "4" || allocatable != "3500m" {
			t.Errorf("capacity is %s CPUs, allocatable %s", cpu, allocatable)
		}
		if pods := node.Status.Allocatable.Pods().Value(); pods != 110 {
			t.Errorf("the node takes %d pods", pods)
		}
		if info := node.Status.NodeInfo; info.KubeletVersion != "v1.37.1" || info.MachineID != "m" || info.ContainerRuntimeVersion != "simulated://1.0" {
			t.Errorf("node info is %+v", info)
		}
		if len(node.Status.Images) != 1 || !strings.HasSuffix(node.Status.Images[0].Names[1], "nginx:latest") {
			t.Errorf("images are %v", node.Status.Images)
		}
		want := []string{
			"MemoryPressure=False KubeletHasSufficientMemory: kubelet has sufficient memory available",
			"DiskPressure=False KubeletHasNoDiskPressure: kubelet has no disk pressure",
			"PIDPressure=False KubeletHasSufficientPID: kubelet has sufficient PID available",
			"Ready=True KubeletReady: kubelet is posting ready status",
		}
		if got := conditions(node); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("conditions:\n%s", strings.Join(got, "\n"))
		}
	})
}

func TestLeaseAndStatusAreKept(t *testing.T) {
	simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
		n.after(25 * time.Second)
		n.expect("node writes", &n.nodeLog, "0s lease", "10s lease", "20s lease")
		n.mu.Lock()
		lease := n.lease.DeepCopy()
		n.mu.Unlock()
		if *lease.Spec.HolderIdentity != "n1" || *lease.Spec.LeaseDurationSeconds != 40 || time.Since(lease.Spec.RenewTime.Time) != 5*time.Second {
			t.Errorf("the lease is %+v", lease.Spec)
		}
		if o := lease.OwnerReferences; len(o) != 1 || o[0].Kind != "Node" || o[0].Name != "n1" || o[0].UID != "uid-of-n1" {
			t.Errorf("the lease belongs to %+v", o)
		}
		n.after(580 * time.Second)
		statuses := 0
		for _, line := range n.nodeLog {
			if strings.HasSuffix(line, "status") {
				statuses++
			}
		}
		if statuses != 2 {
			t.Errorf("an unchanged status was sent %d times in ten minutes, want 2", statuses)
		}
	})
}

// TestNodeIsRegisteredWithItsStatus: a node's status is not sent again right after it was registered with it, however
// long it takes the runtime to tell it.
func TestNodeIsRegisteredWithItsStatus(t *testing.T) {
	rt := simulated.Options{Behave: func(op simulated.Operation) simulated.Outcome {
		return simulated.Outcome{Delay: map[simulated.Verb]time.Duration{simulated.List: time.Second}[op.Verb]}
	}}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		n.after(50 * time.Second)
		n.expect("node writes", &n.nodeLog, "4s lease", "14s lease", "24s lease", "34s lease", "44s lease")
	})
}

func TestNodeFollowsTheRuntime(t *testing.T) {
	simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
		n.expectEventsAbout("nothing")
		n.runtime.SetStatus(cri.RuntimeStatus{
			Runtime: cri.Condition{Ready: true},
			Network: cri.Condition{Reason: "NetworkPluginNotReady", Message: "cni plugin not initialized"},
		})
		n.after(11 * time.Second)
		want := "Ready=False KubeletNotReady: container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:cni plugin not initialized"
		if got := conditions(n.node())[3]; got != want {
			t.Errorf("condition %s, want %s", got, want)
		}
		n.pods.Put(newPod("web"))
		n.after(3 * time.Second)
		if len(n.containers()) > 0 {
			t.Error("a pod was started without a network")
		}
		n.runtime.SetStatus(cri.RuntimeStatus{Runtime: cri.Condition{Ready: true}, Network: cri.Condition{Ready: true}})
		n.after(10 * time.Second)
		n.expectEventsAbout("Node n1",
			"10s n1 Normal NodeNotReady: Node n1 status is now: NodeNotReady",
			"20s n1 Normal NodeReady: Node n1 status is now: NodeReady",
		)
		if phase := n.pod("web").Status.Phase; phase != corev1.PodRunning {
			t.Errorf("the pod is %s", phase)
		}
	})
}

func TestServerThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.fail = func(string, client.Target) error {
			if time.Since(w.start) < time.Minute {
				return errors.New("connection refused")
			}
			return nil
		}
		rt := simulated.New(simulated.Options{})
		defer rt.Close()
		n := w.run(rt, kubelet.Options{})
		w.pods.Put(newPod("web"))
		n.after(70 * time.Second)
		if len(n.containers()) != 1 || n.pod("web").Status.Phase != corev1.PodRunning || w.lease == nil {
			t.Errorf("after the server came back: containers %v, pod %s, lease %v", n.containers(), n.pod("web").Status.Phase, w.lease)
		}
		n.stop()
	})
}

func TestNodeThatIsDeletedIsRegisteredAgain(t *testing.T) {
	simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
		n.after(time.Second)
		n.nodes.Delete("", "n1")
		n.after(6 * time.Minute)
		n.node()
	})
}

// TestNodeThatCannotBeRegisteredAgain: a node that was deleted is registered with the next attempt if one fails.
func TestNodeThatCannotBeRegisteredAgain(t *testing.T) {
	simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
		n.after(time.Second)
		failures := 0
		creations := n.breaks("create nodes", func() error {
			if failures++; failures == 1 {
				return away()
			}
			return nil
		})
		n.nodes.Delete("", "n1")
		n.after(400 * time.Second)
		expectTimes(t, "registered", creations(), "300s 300s")
	})
}

func TestNodeThatExistsIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		old := &corev1.Node{}
		old.Name, old.UID = "n1", "older"
		old.Labels = map[string]string{"kubernetes.io/arch": "vax", "mine": "yes"}
		old.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown"}}
		w.nodes.Put(old)
		rt := simulated.New(simulated.Options{})
		defer rt.Close()
		w.pods.Put(newPod("web", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"mine": "yes"} }))
		n := w.run(rt, kubelet.Options{})
		n.after(time.Second)
		if status := w.pod("web").Status; status.Phase != corev1.PodRunning {
			t.Errorf("a pod that selects a label of the node in the API is %s: %s", status.Phase, status.Message)
		}
		node := w.node()
		if node.Labels["mine"] != "yes" || node.Labels["kubernetes.io/arch"] == "vax" || node.UID != "older" {
			t.Errorf("the node is %+v", node.ObjectMeta)
		}
		if got := node.Status.Conditions[0]; got.Status != corev1.ConditionTrue || got.Reason != "KubeletReady" {
			t.Errorf("the condition is %+v", got)
		}
		n.stop()
	})
}

func TestNodeMayRegisterUnready(t *testing.T) {
	simulate(t, simulated.Options{}, kubelet.Options{Registration: kubelet.Registration{RegisterUnready: true}}, func(n *node) {
		n.expectEventsAbout("Ready",
			"0s n1 Normal NodeNotReady: Node n1 status is now: NodeNotReady",
			"0s n1 Normal NodeReady: Node n1 status is now: NodeReady",
		)
	})
}

func TestPodsThatTheNodeRefuses(t *testing.T) {
	o := kubelet.Options{Registration: kubelet.Registration{Capacity: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourcePods: resource.MustParse("3"),
	}}}
	asks := func(cpu string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
		}
	}
	port := func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, ContainerPort: 80, Protocol: corev1.ProtocolTCP}}
	}
	simulate(t, simulated.Options{}, o, func(n *node) {
		n.pods.Put(newPod("big", asks("1500m")))
		n.pods.Put(newPod("port", port))
		n.after(time.Second)
		n.expectEventsAbout("nothing")
		n.expectStatuses("0s big Running Ready main=running", "0s port Running Ready main=running")
		for _, c := range []struct {
			name, reason, message string
			change                func(*corev1.Pod)
		}{
			{"cpu", "OutOfcpu", "Node didn't have enough resource: cpu, requested: 600, used: 1500, capacity: 2000", asks("600m")},
			{"selector", "NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
				func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "b"} }},
			{"ports", "NodePorts", "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports", port},
			{"os", "PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS",
				func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Windows} }},
		} {
			n.pods.Put(newPod(c.name, c.change))
			n.after(time.Second)
			status := n.pod(c.name).Status
			if status.Phase != corev1.PodFailed || status.Reason != c.reason || status.Message != "Pod was rejected: "+c.message {
				t.Errorf("%s: %s %s %s", c.name, status.Phase, status.Reason, status.Message)
			}
			n.expect("events", &n.events, fmt.Sprintf("%gs %s Warning %s: %s", time.Since(n.start).Seconds()-1, c.name, c.reason, c.message))
		}
		n.pods.Put(newPod("third"))
		n.after(time.Second)
		n.pods.Put(newPod("fourth"))
		n.after(time.Second)
		const full = "Pod was rejected: Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"
		if status := n.pod("fourth").Status; status.Reason != "OutOfpods" || status.Message != full {
			t.Errorf("a pod too many is %s %s: %s", status.Phase, status.Reason, status.Message)
		}
		// A pod that ends frees its resources.
		n.remove("big", 1)
		n.after(time.Second)
		n.pods.Put(newPod("fits", asks("600m")))
		n.after(time.Second)
		if status := n.pod("fits").Status; status.Phase != corev1.PodRunning {
			t.Errorf("a pod that fits is %s %s", status.Phase, status.Message)
		}
	})
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	w := newWorld(t)
	rt := simulated.New(simulated.Options{})
	defer rt.Close()
	if _, err := kubelet.New(kubelet.Sources{}, w, rt, nil, kubelet.Options{NodeName: "n1"}); err == nil {
		t.Error("a kubelet without pods")
	}
	in := kubelet.Sources{Pods: informer.New[*corev1.Pod](w.pods, informer.Options{})}
	if _, err := kubelet.New(in, nil, rt, nil, kubelet.Options{NodeName: "n1"}); err == nil {
		t.Error("a kubelet without a client")
	}
	if _, err := kubelet.New(in, w, nil, nil, kubelet.Options{NodeName: "n1"}); err == nil {
		t.Error("a kubelet without a runtime")
	}
	if _, err := kubelet.New(in, w, rt, nil, kubelet.Options{}); err == nil {
		t.Error("a kubelet without a name")
	}
}
