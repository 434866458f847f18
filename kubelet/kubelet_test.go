package kubelet_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/kubelet"
)

func TestPodLifeCycle(t *testing.T) {
	simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
		n.expectEvents(
			"0s n1 Normal Starting: Starting kubelet.",
			"0s n1 Normal NodeHasSufficientMemory: Node n1 status is now: NodeHasSufficientMemory",
			"0s n1 Normal NodeHasNoDiskPressure: Node n1 status is now: NodeHasNoDiskPressure",
			"0s n1 Normal NodeHasSufficientPID: Node n1 status is now: NodeHasSufficientPID",
			"0s n1 Normal NodeReady: Node n1 status is now: NodeReady",
		)
		n.pods.Put(newPod("web"))
		n.after(time.Second)
		n.expectStatuses("0s web Running Ready main=running")
		n.expectEvents(
			`0s web spec.containers{main} Normal Pulling: Pulling image "nginx"`,
			`0s web spec.containers{main} Normal Pulled: Successfully pulled image "nginx" in 0s (0s including waiting). Image size: 52428800 bytes.`,
			"0s web spec.containers{main} Normal Created: Container created",
			"0s web spec.containers{main} Normal Started: Container started",
		)
		n.remove("web", 30)
		n.after(time.Second)
		n.expectStatuses("1s web Succeeded main=Completed(0)", "1s web deleted")
		n.expectEvents("1s web spec.containers{main} Normal Killing: Stopping container main")
		if got := n.count("patch pods/status"); got != 2 {
			t.Errorf("%d status writes for the whole life of a pod, want 2", got)
		}
	})
}

func TestCrashLoopBacksOff(t *testing.T) {
	rt := simulated.Options{Program: func(simulated.Process) simulated.Program {
		return simulated.Program{Exits: true, After: time.Second, ExitCode: 1}
	}, Images: []string{"nginx"}}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		n.expectEventsAbout("web")
		n.pods.Put(newPod("web"))
		n.after(200 * time.Second)
		n.expectStatuses(
			"0s web Running Ready main=running",
			"1s web Running Ready main=running#1",
			"2s web Running main=CrashLoopBackOff#1",
			"12s web Running Ready main=running#2",
			"13s web Running main=CrashLoopBackOff#2",
			"33s web Running Ready main=running#3",
			"34s web Running main=CrashLoopBackOff#3",
			"74s web Running Ready main=running#4",
			"75s web Running main=CrashLoopBackOff#4",
			"155s web Running Ready main=running#5",
			"156s web Running main=CrashLoopBackOff#5",
		)
		status := n.pod("web").Status.ContainerStatuses[0]
		want := "back-off 2m40s restarting failed container=main pod=web_default(uid-of-web)"
		if status.State.Waiting.Message != want {
			t.Errorf("waiting message %q, want %q", status.State.Waiting.Message, want)
		}
		if last := status.LastTerminationState.Terminated; last == nil || last.Reason != "Error" || last.ExitCode != 1 {
			t.Errorf("last termination state is %+v", last)
		}
		n.expectEventsAbout("BackOff",
			"2s web spec.containers{main} Warning BackOff: Back-off restarting failed container main in pod web_default(uid-of-web)",
			"13s web spec.containers{main} Warning BackOff: Back-off restarting failed container main in pod web_default(uid-of-web)",
			"34s web spec.containers{main} Warning BackOff: Back-off restarting failed container main in pod web_default(uid-of-web)",
			"75s web spec.containers{main} Warning BackOff: Back-off restarting failed container main in pod web_default(uid-of-web)",
			"156s web spec.containers{main} Warning BackOff: Back-off restarting failed container main in pod web_default(uid-of-web)",
		)
		// The longest delay is five minutes.
		n.after(1000 * time.Second)
		n.expectStatuses(
			"316s web Running Ready main=running#6",
			"317s web Running main=CrashLoopBackOff#6",
			"617s web Running Ready main=running#7",
			"618s web Running main=CrashLoopBackOff#7",
			"918s web Running Ready main=running#8",
			"919s web Running main=CrashLoopBackOff#8",
		)
		if list := n.containers(); len(list) != 2 {
			t.Errorf("the runtime keeps %d dead containers, want the last one and the one before", len(list))
		}
	})
}

func TestRestartDelayStartsOverAfterCalm(t *testing.T) {
	starts := 0
	rt := simulated.Options{Program: func(simulated.Process) simulated.Program {
		starts++
		after := time.Second
		if starts == 3 {
			after = 11 * time.Minute
		}
		return simulated.Program{Exits: true, After: after, ExitCode: 1}
	}}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web"))
		n.after(12500 * time.Millisecond) // until the second restart of the container that keeps running
		n.expectStatuses(
			"0s web Running Ready main=running",
			"1s web Running Ready main=running#1",
			"2s web Running main=CrashLoopBackOff#1",
			"12s web Running Ready main=running#2",
		)
		n.after(675 * time.Second)
		n.expectStatuses(
			"672s web Running Ready main=running#3",
			"673s web Running main=CrashLoopBackOff#3",
			"683s web Running Ready main=running#4",
			"684s web Running main=CrashLoopBackOff#4",
		)
	})
}

func TestImageThatCannotBePulled(t *testing.T) {
	rt := simulated.Options{Behave: func(op simulated.Operation) simulated.Outcome {
		if op.Verb == simulated.PullImage {
			return simulated.Outcome{Delay: 2 * time.Second, Err: errors.New("manifest unknown")}
		}
		return simulated.Outcome{}
	}}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		n.expectEventsAbout("web")
		n.pods.Put(newPod("web"))
		n.after(40 * time.Second)
		n.expectStatuses(
			"0.02s web Pending main=ContainerCreating",
			"2s web Pending main=ErrImagePull",
			"3s web Pending main=ImagePullBackOff",
			"14s web Pending main=ErrImagePull",
			"15s web Pending main=ImagePullBackOff",
			"36s web Pending main=ErrImagePull",
			"37s web Pending main=ImagePullBackOff",
		)
		waiting := n.pod("web").Status.ContainerStatuses[0].State.Waiting
		if want := `Back-off pulling image "nginx": ErrImagePull: manifest unknown`; waiting.Message != want {
			t.Errorf("waiting message %q, want %q", waiting.Message, want)
		}
		n.mu.Lock()
		n.events = n.events[:min(len(n.events), 5)]
		n.mu.Unlock()
		n.expectEventsAbout("web",
			`0s web spec.containers{main} Normal Pulling: Pulling image "nginx"`,
			`2s web spec.containers{main} Warning Failed: Failed to pull image "nginx": manifest unknown`,
			`2s web spec.containers{main} Warning Failed: Error: ErrImagePull`,
			`3s web spec.containers{main} Normal BackOff: Back-off pulling image "nginx"`,
			`3s web spec.containers{main} Warning Failed: Error: ImagePullBackOff`,
		)
	})
}

// TestPullsAtLeastEveryFiveMinutes: the longest pause between attempts to pull an image is five minutes.
func TestPullsAtLeastEveryFiveMinutes(t *testing.T) {
	var tries []time.Time
	rt := simulated.Options{Behave: func(op simulated.Operation) simulated.Outcome {
		if op.Verb != simulated.PullImage {
			return simulated.Outcome{}
		}
		tries = append(tries, time.Now())
		return simulated.Outcome{Err: errors.New("manifest unknown")}
	}}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web"))
		n.after(time.Hour)
		if last := tries[len(tries)-1].Sub(tries[len(tries)-2]); last < 300*time.Second || last > 310*time.Second {
			t.Errorf("the last pause was %s", last)
		}
	})
}

// TestPullDelayStartsOverAfterCalm: the pauses between attempts to pull an image start over when it could be pulled for ten
// minutes.
func TestPullDelayStartsOverAfterCalm(t *testing.T) {
	var failed []string
	start := time.Now()
	rt := simulated.Options{
		Behave: func(op simulated.Operation) simulated.Outcome {
			since := time.Since(start)
			if op.Verb != simulated.PullImage || since > 60*time.Second && since < 900*time.Second {
				return simulated.Outcome{}
			}
			failed = append(failed, fmt.Sprint(since.Truncate(time.Second)))
			return simulated.Outcome{Err: errors.New("manifest unknown")}
		},
	}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		start = n.start
		n.pods.Put(newPod("web", func(p *corev1.Pod) { p.Spec.Containers[0].ImagePullPolicy = corev1.PullAlways }))
		n.after(1000 * time.Second)
		if err := n.runtime.Exit(n.container("main").ID, 1); err != nil {
			t.Fatal(err)
		}
		n.after(100 * time.Second)
		if got := strings.Join(failed, " "); !strings.HasPrefix(got, "0s 10s 30s 16m40s 16m50s ") {
			t.Errorf("pulling failed after %s", got)
		}
	})
}

func TestPullPolicies(t *testing.T) {
	for policy, want := range map[corev1.PullPolicy]string{
		corev1.PullNever:  `spec.containers{main} Warning ErrImageNeverPull: Container image "other" is not present with pull policy of Never`,
		corev1.PullAlways: `spec.containers{main} Normal Pulling: Pulling image "other"`,
	} {
		simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
			n.expectEventsAbout("web")
			n.pods.Put(newPod("web", func(p *corev1.Pod) {
				p.Spec.Containers[0].Image = "other"
				p.Spec.Containers[0].ImagePullPolicy = policy
			}))
			n.after(time.Second)
			n.mu.Lock()
			n.events = n.events[:1]
			n.mu.Unlock()
			n.expectEventsAbout("web", "0s web "+want)
		})
	}
}

func TestHangingOperationsEndWithThePod(t *testing.T) {
	for _, verb := range []simulated.Verb{simulated.RunSandbox, simulated.PullImage, simulated.CreateContainer, simulated.StartContainer} {
		rt := simulated.Options{Behave: func(op simulated.Operation) simulated.Outcome {
			return simulated.Outcome{Hang: op.Verb == verb}
		}}
		simulate(t, rt, kubelet.Options{}, func(n *node) {
			n.pods.Put(newPod("web"))
			n.after(30 * time.Second)
			n.remove("web", 30)
			n.after(time.Second)
			if _, there := n.pods.Get("default", "web"); there {
				t.Errorf("%s hangs: the pod is still there", verb)
			}
			n.leftNothing()
		})
	}
}

func TestFailingOperationsAreTriedAgain(t *testing.T) {
	for verb, want := range map[simulated.Verb]string{
		simulated.RunSandbox:      "0.02s web Pending main=ContainerCreating",
		simulated.CreateContainer: "0s web Pending main=CreateContainerError",
		simulated.StartContainer:  "0s web Pending main=RunContainerError",
	} {
		failures := 0
		rt := simulated.Options{Behave: func(op simulated.Operation) simulated.Outcome {
			if op.Verb == verb && failures < 1 {
				failures++
				return simulated.Outcome{Err: errors.New("no space left on device")}
			}
			return simulated.Outcome{}
		}}
		simulate(t, rt, kubelet.Options{}, func(n *node) {
			n.pods.Put(newPod("web"))
			n.after(15 * time.Second)
			ready := "10s web Running Ready main=running"
			switch verb {
			case simulated.StartContainer:
				ready += "#1"
			case simulated.RunSandbox:
				want, ready = "0s web Pending main=ContainerCreating", "1s web Running Ready main=running"
			}
			n.expectStatuses(want, ready)
		})
	}
}

func TestContainerThatIgnoresTheRequestToStop(t *testing.T) {
	rt := simulated.Options{Program: func(simulated.Process) simulated.Program {
		return simulated.Program{IgnoresStop: true}
	}}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web"))
		n.after(time.Second)
		n.remove("web", 30)
		n.after(40 * time.Second)
		n.expectStatuses(
			"0s web Running Ready main=running",
			"1.02s web Running Ready main=running",
			"31s web Failed main=Error(137)",
			"31s web deleted",
		)
		n.leftNothing()
	})
}

func TestGraceCanBeShortened(t *testing.T) {
	rt := simulated.Options{Program: func(simulated.Process) simulated.Program {
		return simulated.Program{IgnoresStop: true}
	}}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web"))
		n.after(time.Second)
		n.remove("web", 600)
		n.after(9 * time.Second)
		n.remove("web", 5)
		n.after(10 * time.Second)
		n.mu.Lock()
		n.changes = n.changes[len(n.changes)-1:]
		n.mu.Unlock()
		n.expectStatuses("15s web deleted")
	})
}

func TestForcedDeletionEndsThePodOnTheNode(t *testing.T) {
	rt := simulated.Options{Program: func(simulated.Process) simulated.Program {
		return simulated.Program{IgnoresStop: true}
	}}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web", func(p *corev1.Pod) { *p.Spec.TerminationGracePeriodSeconds = 3 }))
		n.after(time.Second)
		n.pods.Delete("default", "web")
		n.after(2 * time.Second)
		if len(n.containers()) != 1 {
			t.Error("the container did not get its grace period")
		}
		n.after(2 * time.Second)
		n.leftNothing()
	})
}

func TestInitContainersRunInOrder(t *testing.T) {
	rt := simulated.Options{Program: func(p simulated.Process) simulated.Program {
		if p.Container.Name == "main" {
			return simulated.Program{}
		}
		return simulated.Program{Exits: true, After: 2 * time.Second}
	}}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "zero", Image: "busybox"}, {Name: "one", Image: "busybox"}}
		}))
		n.after(5 * time.Second)
		n.expectStatuses(
			"0s web Pending zero=running one=PodInitializing main=PodInitializing",
			"2s web Pending zero=Completed(0) one=running main=PodInitializing",
			"4s web Running Ready zero=Completed(0) one=Completed(0) main=running",
		)
	})
}

func TestInitContainerThatFailsForGood(t *testing.T) {
	rt := simulated.Options{Program: func(p simulated.Process) simulated.Program {
		return simulated.Program{Exits: true, After: time.Second, ExitCode: 3}
	}}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web", func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.Spec.InitContainers = []corev1.Container{{Name: "zero", Image: "busybox"}}
		}))
		n.after(5 * time.Second)
		n.expectStatuses(
			"0s web Pending zero=running main=PodInitializing",
			"1s web Failed zero=Error(3) main=PodInitializing",
		)
	})
}

func TestSidecarsStartFirstAndEndLast(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	rt := simulated.Options{Program: func(p simulated.Process) simulated.Program {
		switch p.Container.Name {
		case "main":
			return simulated.Program{Exits: true, After: 5 * time.Second}
		case "first":
			return simulated.Program{StopAfter: time.Second, StopCode: 143}
		default:
			return simulated.Program{StopAfter: 2 * time.Second}
		}
	}}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		n.expectEventsAbout("web")
		n.pods.Put(newPod("web", func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.Spec.InitContainers = []corev1.Container{
				{Name: "first", Image: "busybox", RestartPolicy: &always},
				{Name: "second", Image: "busybox", RestartPolicy: &always},
			}
		}))
		n.after(20 * time.Second)
		n.expectStatuses(
			"0s web Running Ready first=running second=running main=running",
			"5.02s web Running first=running second=running main=Completed(0)",
			"8s web Succeeded first=Error(143) second=Completed(0) main=Completed(0)",
		)
		n.expectEventsAbout("Started",
			"0s web spec.initContainers{first} Normal Started: Container started",
			"0s web spec.initContainers{second} Normal Started: Container started",
			"0s web spec.containers{main} Normal Started: Container started",
		)
	})
}

func TestSidecarIsRestartedWhateverItsExitCode(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	rt := simulated.Options{Program: func(p simulated.Process) simulated.Program {
		return simulated.Program{Exits: p.Container.Name == "helper" && p.Container.Attempt == 0, After: time.Second}
	}}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web", func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.Spec.InitContainers = []corev1.Container{{Name: "helper", Image: "busybox", RestartPolicy: &always}}
		}))
		n.after(20 * time.Second)
		n.expectStatuses(
			"0s web Running Ready helper=running main=running",
			"1s web Running Ready helper=running#1 main=running",
		)
	})
}

func TestKubeletThatIsRestartedPicksContainersUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rt := simulated.New(simulated.Options{})
		defer rt.Close()
		n := w.run(rt, kubelet.Options{})
		w.pods.Put(newPod("web", func(p *corev1.Pod) {
			p.Spec.Containers[0].ReadinessProbe = execProbe(10, 0)
			p.Spec.Containers[0].StartupProbe = execProbe(10, 0)
		}))
		w.pods.Put(newPod("doomed"))
		n.after(time.Second)
		before := n.containers()
		n.stop()
		w.pods.Delete("default", "doomed") // while no kubelet is running
		w.changes, w.events = nil, nil
		time.Sleep(time.Minute)

		n = w.run(rt, kubelet.Options{})
		n.after(time.Minute)
		w.expectStatuses()
		after := n.containers()
		if len(before) != 2 || len(after) != 1 || after[0].State != cri.ContainerRunning {
			t.Errorf("containers before: %v, after: %v", before, after)
		}
		w.expectEventsAbout("Stopping", "61s doomed Normal Killing: Stopping container main")
		n.stop()
	})
}

func TestPodsThatRunToCompletion(t *testing.T) {
	for _, c := range []struct {
		policy corev1.RestartPolicy
		code   int32
		want   []string
	}{
		{corev1.RestartPolicyNever, 0, []string{"1s web Succeeded main=Completed(0)"}},
		{corev1.RestartPolicyNever, 2, []string{"1s web Failed main=Error(2)"}},
		{corev1.RestartPolicyOnFailure, 0, []string{"1s web Succeeded main=Completed(0)"}},
		{corev1.RestartPolicyOnFailure, 2, []string{"1s web Running Ready main=running#1", "2s web Running main=CrashLoopBackOff#1"}},
		{corev1.RestartPolicyAlways, 0, []string{"1s web Running Ready main=running#1", "2s web Running main=CrashLoopBackOff#1"}},
	} {
		rt := simulated.Options{Program: func(simulated.Process) simulated.Program {
			return simulated.Program{Exits: true, After: time.Second, ExitCode: c.code}
		}}
		simulate(t, rt, kubelet.Options{}, func(n *node) {
			n.pods.Put(newPod("web", func(p *corev1.Pod) { p.Spec.RestartPolicy = c.policy }))
			n.after(5 * time.Second)
			n.expectStatuses(append([]string{"0s web Running Ready main=running"}, c.want...)...)
		})
	}
}

func TestDeadline(t *testing.T) {
	simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
		n.expectEventsAbout("web")
		n.pods.Put(newPod("web", func(p *corev1.Pod) {
			deadline := int64(60)
			p.Spec.ActiveDeadlineSeconds = &deadline
		}))
		n.after(90 * time.Second)
		n.expectStatuses("0s web Running Ready main=running", "60s web Failed (DeadlineExceeded) main=Completed(0)")
		n.expectEventsAbout("Deadline", "60s web Normal DeadlineExceeded: Pod was active on the node longer than the specified deadline")
	})
}

func TestStatusesAreNotLost(t *testing.T) {
	simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
		n.mu.Lock()
		n.fail = func(verb string, target client.Target) error {
			if verb == "patch" && target.Resource.Resource == "pods" && time.Since(n.start) < time.Minute {
				return errors.New("connection refused")
			}
			return nil
		}
		n.mu.Unlock()
		for i := range 3 {
			n.pods.Put(newPod(fmt.Sprintf("web-%d", i)))
		}
		n.after(2 * time.Minute)
		for i := range 3 {
			if phase := n.pod(fmt.Sprintf("web-%d", i)).Status.Phase; phase != corev1.PodRunning {
				t.Errorf("pod %d is %s", i, phase)
			}
		}
		if got := n.count("patch pods/status"); got > 30 {
			t.Errorf("%d attempts in a minute of outage", got)
		}
	})
}

func TestStatusThatSomebodyElseChangedIsPutRight(t *testing.T) {
	simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web"))
		n.after(time.Second)
		n.expectStatuses("0s web Running Ready main=running")
		pod := n.pod("web").DeepCopy()
		for i := range pod.Status.Conditions {
			if pod.Status.Conditions[i].Type == corev1.PodReady {
				pod.Status.Conditions[i].Status = corev1.ConditionFalse
			}
		}
		n.pods.Put(pod)
		n.after(time.Second)
		n.expectStatuses("1s web Running Ready main=running")
	})
}

// TestEndThatSomebodyElseDenies: that a pod has ended is put right, too.
func TestEndThatSomebodyElseDenies(t *testing.T) {
	rt := simulated.Options{Program: func(simulated.Process) simulated.Program { return simulated.Program{Exits: true, After: time.Second} }}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web", func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }))
		n.after(5 * time.Second)
		n.expectStatuses("0s web Running Ready main=running", "1s web Succeeded main=Completed(0)")
		pod := n.pod("web").DeepCopy()
		pod.Status.Phase = corev1.PodRunning
		n.pods.Put(pod)
		n.after(time.Second)
		n.expectStatuses("5s web Succeeded main=Completed(0)")
	})
}

func TestRuntimeThatTellsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rt := simulated.New(simulated.Options{})
		defer rt.Close()
		n := w.runOn(silent{rt, rt}, rt, kubelet.Options{})
		w.pods.Put(newPod("web"))
		n.after(1500 * time.Millisecond)
		if err := rt.Exit(n.containers()[0].ID, 7); err != nil {
			t.Fatal(err)
		}
		n.after(2 * time.Second)
		w.expectStatuses("0s web Running Ready main=running", "2s web Running Ready main=running#1")
		n.stop()
	})
}

// silent is a runtime that is not an event source.
type silent struct {
	cri.RuntimeService
	cri.ImageService
}
