package kubelet_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/kubelet"
)

func TestSandboxThatDiesIsReplaced(t *testing.T) {
	simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web"))
		n.after(time.Second)
		n.expectEventsAbout("nothing")
		sandboxes, err := n.runtime.ListSandboxes(t.Context(), cri.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		if err := n.runtime.StopPodSandbox(t.Context(), sandboxes[0].ID); err != nil {
			t.Fatal(err)
		}
		n.after(time.Second)
		n.expectStatuses("0s web Running Ready main=running", "1s web Running Ready main=running#1")
		n.expectEventsAbout("Sandbox", "1s web Normal SandboxChanged: Pod sandbox changed, it will be killed and re-created.")
		last := n.pod("web").Status.ContainerStatuses[0].LastTerminationState.Terminated
		if last == nil || last.ExitCode != 137 {
			t.Errorf("the container ended with %+v", last)
		}
	})
}

func TestRuntimeThatIsAwayForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		rt := simulated.New(simulated.Options{Behave: func(simulated.Operation) simulated.Outcome {
			if away.Load() {
				return simulated.Outcome{Err: cri.ErrUnavailable}
			}
			return simulated.Outcome{}
		}})
		defer rt.Close()
		w := newWorld(t)
		n := w.run(rt, kubelet.Options{})
		w.pods.Put(newPod("before"))
		n.after(5 * time.Second)
		away.Store(true)
		w.pods.Put(newPod("meanwhile"))
		n.after(15 * time.Second)
		if got := conditions(w.node())[3]; got != "Ready=False KubeletNotReady: container runtime is down" {
			t.Errorf("the node is %s", got)
		}
		away.Store(false)
		n.after(12 * time.Second)
		w.expectStatuses("0s before Running Ready main=running", "25s meanwhile Running Ready main=running")
		w.expectEventsAbout("FailedSync") // reported in the node's status, not in events about pods
		if got := conditions(w.node())[3]; got != "Ready=True KubeletReady: kubelet is posting ready status" {
			t.Errorf("the node is %s", got)
		}
		n.stop()
	})
}

func TestStopThatHangsIsTriedAgain(t *testing.T) {
	stops := 0
	rt := simulated.Options{Behave: func(op simulated.Operation) simulated.Outcome {
		if op.Verb == simulated.StopContainer {
			stops++
			return simulated.Outcome{Hang: stops == 1}
		}
		return simulated.Outcome{}
	}}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web"))
		n.after(time.Second)
		n.remove("web", 30)
		n.after(5 * time.Minute)
		n.expectEventsAbout("FailedKillPod",
			"151s web Warning FailedKillPod: error killing pod: stopping container main: context deadline exceeded")
		n.expectStatuses("0s web Running Ready main=running", "1.02s web Running Ready main=running",
			"151s web Succeeded main=Completed(0)", "151s web deleted")
		n.leftNothing()
	})
}

func TestNewImageRestartsTheContainer(t *testing.T) {
	simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web"))
		n.after(time.Second)
		pod := n.pod("web").DeepCopy()
		pod.Spec.Containers[0].Image = "nginx:2"
		pod.Generation++
		n.pods.Put(pod)
		n.after(time.Second)
		n.expectStatuses("0s web Running Ready main=running", "1s web Running Ready main=running#1")
		status := n.pod("web").Status
		if status.ContainerStatuses[0].Image != "nginx:2" || status.ObservedGeneration != 2 {
			t.Errorf("image %s, generation %d", status.ContainerStatuses[0].Image, status.ObservedGeneration)
		}
	})
}

func TestEphemeralContainer(t *testing.T) {
	simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web"))
		n.after(time.Second)
		pod := n.pod("web").DeepCopy()
		pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "busybox"}}}
		pod.Generation++
		n.pods.Put(pod)
		n.after(time.Second)
		if list := n.pod("web").Status.EphemeralContainerStatuses; len(list) != 1 || list[0].State.Running == nil {
			t.Errorf("ephemeral containers: %+v", list)
		}
	})
}

func TestPodOfTheSameNameIsAnotherPod(t *testing.T) {
	simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web"))
		n.after(time.Second)
		n.pods.Delete("default", "web")
		n.pods.Put(newPod("web", func(p *corev1.Pod) { p.UID = "another" }))
		n.after(5 * time.Second)
		list := n.containers()
		if len(list) != 1 || list[0].Labels[cri.LabelPodUID] != "another" {
			t.Errorf("containers: %+v", list)
		}
		n.expectStatuses("0s web Running Ready main=running", "1s web Running Ready main=running")
	})
}

func TestPodThatEndedBeforeTheKubeletStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rt := simulated.New(simulated.Options{})
		defer rt.Close()
		elsewhere := map[string]string{"zone": "b"} // where the node is no more
		w.pods.Put(newPod("done", func(p *corev1.Pod) { p.Status.Phase, p.Spec.NodeSelector = corev1.PodSucceeded, elsewhere }))
		w.pods.Put(newPod("leaving", func(p *corev1.Pod) {
			p.Spec.NodeSelector = elsewhere
			now, zero := p.CreationTimestamp, int64(30)
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &now, &zero
		}))
		n := w.run(rt, kubelet.Options{})
		n.after(time.Minute)
		w.expectStatuses("0s leaving Failed main=ContainerStatusUnknown(137)", "0s leaving deleted")
		w.expectEventsAbout(" Warning ")
		n.leftNothing()
		n.stop()
	})
}

func TestAddressesOfTheNodeForItsPods(t *testing.T) {
	o := kubelet.Options{Registration: kubelet.Registration{
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.9.9.9"}},
	}}
	simulate(t, simulated.Options{}, o, func(n *node) {
		n.pods.Put(newPod("host", func(p *corev1.Pod) { p.Spec.HostNetwork = true }))
		n.pods.Put(newPod("pod"))
		n.after(time.Second)
		host, pod := n.pod("host").Status, n.pod("pod").Status
		if host.PodIP != "10.9.9.9" || host.HostIP != "10.9.9.9" || pod.HostIP != "10.9.9.9" || pod.PodIP == "" || pod.PodIP == "10.9.9.9" {
			t.Errorf("host network %s on %s, pod network %s on %s", host.PodIP, host.HostIP, pod.PodIP, pod.HostIP)
		}
		n.remove("pod", 1)
		address := pod.PodIP
		n.after(100 * time.Microsecond)
		n.after(time.Second)
		for _, c := range n.containers() {
			if c.Labels[cri.LabelPodName] == "pod" {
				t.Errorf("left behind, with %s: %+v", address, c)
			}
		}
	})
}

func TestManyPodsComeAndGo(t *testing.T) {
	simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
		for round := range 3 {
			for i := range 100 {
				n.pods.Put(newPod(fmt.Sprintf("pod-%d", i), func(p *corev1.Pod) { p.UID = types.UID(fmt.Sprintf("%d-%d", round, i)) }))
			}
			n.after(time.Second)
			for i := range 100 {
				n.remove(fmt.Sprintf("pod-%d", i), 30)
			}
			n.after(time.Second)
			n.leftNothing()
		}
		if got := n.count("patch pods/status"); got != 600 {
			t.Errorf("%d status writes for 300 lives, want two each", got)
		}
		if got := n.count("delete pods"); got != 300 {
			t.Errorf("%d deletions for 300 lives", got)
		}
	})
}

func TestLongTerminationMessagesShareTheRoom(t *testing.T) {
	rt := simulated.Options{Program: func(simulated.Process) simulated.Program {
		return simulated.Program{Exits: true, ExitCode: 1, Message: strings.Repeat("x", 20_000)}
	}}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web", func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "second", Image: "nginx"})
		}))
		n.after(time.Second)
		for _, s := range n.pod("web").Status.ContainerStatuses {
			if got := len(s.State.Terminated.Message); got != 6<<10 {
				t.Errorf("%s has a message of %d bytes", s.Name, got)
			}
		}
	})
}

func TestKubeletRunsOnce(t *testing.T) {
	rt := simulated.New(simulated.Options{})
	defer rt.Close()
	w := newWorld(t)
	pods := informer.New(w.pods, informer.Options{})
	k, err := kubelet.New(kubelet.Sources{Pods: pods}, w, rt, nil, kubelet.Options{NodeName: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := k.Run(ctx); err != nil {
		t.Error(err)
	}
	if err := k.Run(ctx); !errors.Is(err, kubelet.ErrStarted) {
		t.Errorf("a second run: %v", err)
	}
}

func TestFieldsOfOthersAreKept(t *testing.T) {
	simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web", func(p *corev1.Pod) {
			p.Status.NominatedNodeName = "n1"
			claim := "claim"
			p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: &claim}}
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: "example.com/mine", Status: corev1.ConditionFalse})
		}))
		n.after(time.Second)
		status := n.pod("web").Status
		if status.NominatedNodeName != "n1" || len(status.ResourceClaimStatuses) != 1 || len(status.Conditions) != 6 {
			t.Errorf("%+v", status)
		}
	})
}

func TestPodThatCanNeitherEndNorGoOn(t *testing.T) {
	rt := simulated.Options{
		Behave: func(op simulated.Operation) simulated.Outcome {
			if op.Verb == simulated.PullImage && strings.HasPrefix(op.Image, "missing") {
				return simulated.Outcome{Err: errors.New("manifest unknown")}
			}
			return simulated.Outcome{}
		},
		Program: func(simulated.Process) simulated.Program {
			return simulated.Program{Exits: true, After: time.Second}
		},
	}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web", func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "second", Image: "missing"})
		}))
		n.after(5 * time.Second)
		sandboxes, err := n.runtime.ListSandboxes(t.Context(), cri.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		if err := n.runtime.StopPodSandbox(t.Context(), sandboxes[0].ID); err != nil {
			t.Fatal(err)
		}
		n.after(time.Minute)
		if phase := n.pod("web").Status.Phase; phase != corev1.PodPending {
			t.Errorf("the pod is %s", phase)
		}
		n.remove("web", 30)
		n.after(time.Second)
		n.leftNothing()
	})
}

func TestOldSandboxesDoNotPileUp(t *testing.T) {
	simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web"))
		for range 6 {
			n.after(400 * time.Second)
			sandboxes, err := n.runtime.ListSandboxes(t.Context(), cri.Filter{})
			if err != nil || len(sandboxes) > 3 {
				t.Fatalf("sandboxes: %v, %v", sandboxes, err)
			}
			if err := n.runtime.StopPodSandbox(t.Context(), sandboxes[0].ID); err != nil {
				t.Fatal(err)
			}
		}
		n.after(400 * time.Second)
		if status := n.pod("web").Status; status.Phase != corev1.PodRunning || status.ContainerStatuses[0].RestartCount != 6 {
			t.Errorf("the pod is %s after %d restarts", status.Phase, status.ContainerStatuses[0].RestartCount)
		}
	})
}
