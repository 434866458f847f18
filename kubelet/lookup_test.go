package kubelet_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/kubelet"
)

// TestPodsOfAKubelet: a kubelet's pods are found with their newest statuses, by name the one created last.
func TestPodsOfAKubelet(t *testing.T) {
	withStatic(t, slow(), func(n *staticNode) {
		n.breaks("patch pods/status", away)
		n.pods.Put(newPod("web"))
		n.pods.Put(newPod("other"))
		n.pods.Put(newPod("elsewhere", func(p *corev1.Pod) { p.Spec.NodeName = "n2" }))
		n.after(time.Second)
		pod, found := n.kubelet.Pod("default", "web")
		if !found || pod.UID != "uid-of-web" || pod.Status.Phase != corev1.PodRunning {
			t.Errorf("found: %t, %v", found, pod)
		}
		pod.Spec.Containers[0].Name = "mine now"
		var names []string
		for _, pod := range n.kubelet.Pods() {
			names = append(names, fmt.Sprintf("%s %s %s", pod.Name, pod.Spec.Containers[0].Name, pod.Status.Phase))
		}
		slices.Sort(names)
		if got := strings.Join(names, ", "); got != "other main Running, web main Running" {
			t.Errorf("the pods are %s", got)
		}
		for _, name := range [][2]string{{"default", "nobody"}, {"elsewhere", "web"}, {"default", "elsewhere"}} {
			if pod, found := n.kubelet.Pod(name[0], name[1]); found || pod != nil {
				t.Errorf("found is %v", pod)
			}
		}
		n.pods.Delete("default", "web")
		n.after(time.Second)
		n.pods.Put(newPod("web", func(p *corev1.Pod) { p.UID = "next" }))
		n.after(time.Second)
		for range 20 { // in whatever order they are looked at
			if pod, _ := n.kubelet.Pod("default", "web"); pod.UID != "next" {
				t.Errorf("found is %s", pod.UID)
			}
		}
		if len(n.kubelet.Pods()) != 3 || !n.kubelet.Known() {
			t.Errorf("%d pods", len(n.kubelet.Pods()))
		}
	})
}

// TestChangesAtOnce: of a pod that changes before the kubelet has seen it, the newest state counts.
func TestChangesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.breaks("create nodes", func() error {
			if time.Since(w.start) < 5*time.Second {
				return away()
			}
			return nil
		})
		rt := simulated.New(simulated.Options{})
		n := w.runStatic(rt)
		n.after(time.Second)
		n.pods.Put(newPod("brief"))
		n.pods.Put(newPod("web"))
		n.after(time.Second)
		n.pods.Delete("default", "brief")
		n.pods.Put(newPod("web", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "nginx:2" }))
		n.after(10 * time.Second)
		n.expectStatuses("6.3s web Running Ready main=running")
		n.expectEventsAbout("Started", "6.3s web spec.containers{main} Normal Started: Container started")
		if list := n.containers(); len(list) != 1 || list[0].Image.UserSpecified != "nginx:2" {
			t.Errorf("there is %v", list)
		}
		if !n.kubelet.Gone("uid-of-brief") || n.kubelet.Gone("uid-of-web") {
			t.Error("what is gone is not known")
		}
		n.stop()
		rt.Close()
	})
}

// TestSyncOnDemand: Sync makes the kubelet prepare a pod's volumes again.
func TestSyncOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &furniture{}
		rt := simulated.New(simulated.Options{})
		n := newWorld(t).runStaticOn(rt, kubelet.Host{Volumes: f})
		n.pods.Put(newPod("web"))
		n.after(30 * time.Second)
		n.kubelet.Sync("uid-of-web")
		n.kubelet.Sync("nobody")
		n.after(30 * time.Second)
		if got := strings.Join(slices.Compact(f.prepared), " "); got != "00 30" {
			t.Errorf("prepared in the seconds %s", got)
		}
		n.stop()
		rt.Close()
	})
}

// TestDeletionThatFails: a pod that has ended is deleted until it is gone, and never another of its name.
func TestDeletionThatFails(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "web", errors.New("stale"))
	for name, c := range map[string]struct {
		err           error
		deletes, gets string
	}{
		"no answer":  {away(), "2s 3s 5s 9s", ""},
		"a conflict": {conflict, "2s 3s 5s 9s", "2s 3s 5s"},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
				n.pods.Put(newPod("web"))
				n.after(2 * time.Second)
				deletes, gets := n.breaks("delete pods", func() error {
					if time.Since(n.start) < 8*time.Second {
						return c.err
					}
					return nil
				}), n.breaks("get pods", works)
				n.remove("web", 30)
				n.after(20 * time.Second)
				expectTimes(t, "deleted", deletes(), c.deletes)
				expectTimes(t, "read", gets(), c.gets)
				n.leftNothing()
			})
		})
	}
}

// TestStatusConflicts: a conflict is resolved with the newest state; another pod of the name is left alone.
func TestStatusConflicts(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(n *node)
		patches   string
		want      corev1.PodPhase
	}{
		"the same pod": {func(*node) {}, "2s 3s", corev1.PodRunning},
		"another pod": {func(n *node) {
			n.pods.Put(newPod("web", func(p *corev1.Pod) { p.UID, p.Spec.NodeName = "another", "n2" }))
		}, "2s", corev1.PodPending},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
				n.after(2 * time.Second)
				patches := n.breaks("patch pods/status", func() error {
					if time.Since(n.start) < 2500*time.Millisecond {
						c.meanwhile(n)
						return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "web", errors.New("stale"))
					}
					return nil
				})
				n.pods.Put(newPod("web"))
				n.after(10 * time.Second)
				expectTimes(t, "patched", patches(), c.patches)
				if got := n.pod("web").Status.Phase; got != c.want {
					t.Errorf("the pod is %s", got)
				}
			})
		})
	}
}

// TestStatusOfAPodThatIsGone: no status is sent of a pod that is not in the API any more.
func TestStatusOfAPodThatIsGone(t *testing.T) {
	simulate(t, slow(), kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web"))
		n.after(2 * time.Second)
		patches := n.breaks("patch pods/status", func() error { return notFound(client.Target{Name: "web"}) })
		if err := n.runtime.Exit(n.containers()[0].ID, 1); err != nil {
			t.Fatal(err)
		}
		n.after(20 * time.Second)
		if err := n.runtime.Exit(n.container("main").ID, 1); err != nil {
			t.Fatal(err)
		}
		n.after(20 * time.Second)
		expectTimes(t, "patched", patches(), "2s")
	})
}

// TestStatusesThatFail: after a failure, a status is tried again after one second, then after twice as long each time,
// up to sixteen; what changes meanwhile is sent with it.
func TestStatusesThatFail(t *testing.T) {
	simulate(t, slow(), kubelet.Options{}, func(n *node) {
		patches := n.breaks("patch pods/status", func() error {
			if time.Since(n.start) < 70*time.Second {
				return away()
			}
			return nil
		})
		n.pods.Put(newPod("web"))
		n.after(20 * time.Second)
		if err := n.runtime.Exit(n.containers()[0].ID, 1); err != nil {
			t.Fatal(err)
		}
		n.touchStatus("web")
		n.after(100 * time.Second)
		expectTimes(t, "patched", patches(), "0s 1s 3s 7s 15s 31s 47s 63s 79s")
		n.expectStatuses("79s web Running Ready main=running#1")
	})
}

// touchStatus has somebody else write something of a pod's status.
func (n *node) touchStatus(name string) {
	pod := n.pod(name).DeepCopy()
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: "example.com/theirs", Status: corev1.ConditionTrue})
	n.pods.Put(pod)
}

// TestPulls: what a pod waits for if its image cannot be pulled.
func TestPulls(t *testing.T) {
	for name, c := range map[string]struct {
		err             error
		reason, message string
	}{
		"away":     {fmt.Errorf("%w: dial tcp: no route", cri.ErrRegistryUnavailable), cri.ErrRegistryUnavailable.Error(), "image pull failed for nginx because the registry is unavailable: dial tcp: no route"},
		"unsigned": {fmt.Errorf("%w: by nobody", cri.ErrSignatureValidation), cri.ErrSignatureValidation.Error(), "image pull failed for nginx because the signature validation failed: by nobody"},
		"other":    {errors.New("manifest unknown"), "ErrImagePull", "manifest unknown"},
	} {
		rt := simulated.Options{Behave: func(op simulated.Operation) simulated.Outcome {
			if op.Verb == simulated.PullImage {
				return simulated.Outcome{Err: c.err}
			}
			return simulated.Outcome{}
		}}
		simulate(t, rt, kubelet.Options{}, func(n *node) {
			n.pods.Put(newPod("web"))
			n.after(500 * time.Millisecond)
			if w := n.pod("web").Status.ContainerStatuses[0].State.Waiting; w == nil || w.Reason != c.reason || w.Message != c.message {
				t.Errorf("%s: it waits for %+v", name, w)
			}
		})
	}
}

// TestImageVolumes: the images of volumes are pulled by the volumes' policies; without one, the container waits for it.
func TestImageVolumes(t *testing.T) {
	for policy, want := range map[corev1.PullPolicy]string{
		corev1.PullNever: "ErrImageNeverPull", corev1.PullAlways: "", corev1.PullIfNotPresent: "", "none": "",
	} {
		furnished(t, func(n *node, _ *furniture, _ *recording, _ string) {
			n.pods.Put(newPod("web", func(p *corev1.Pod) {
				other := corev1.Volume{Name: "other", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "other:1", PullPolicy: corev1.PullNever}}}
				files := corev1.Volume{Name: "files", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "files:1", PullPolicy: policy}}}
				p.Spec.Volumes = []corev1.Volume{{Name: "empty"}, other}
				if policy != "none" {
					p.Spec.Volumes = append(p.Spec.Volumes, files)
				}
			}))
			n.after(time.Second)
			got := ""
			if w := n.pod("web").Status.ContainerStatuses[0].State.Waiting; w != nil {
				got = w.Reason
			}
			if got != want {
				t.Errorf("%s: it waits for %q", policy, got)
			}
		})
	}
}

// TestImageWithoutDigest: an image that has no digest is used by its ID.
func TestImageWithoutDigest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rt := simulated.New(simulated.Options{Images: []string{"nginx"}})
		n := w.run(rt, kubelet.Options{})
		n.pods.Put(newPod("other"))
		n.after(time.Second)
		if got := n.containers()[0].Image.Image; !strings.HasPrefix(got, "docker.io/library/nginx@sha256:") {
			t.Errorf("the image is %s", got)
		}
		n.stop()
		n = w.runOn(&local{Runtime: rt}, rt, kubelet.Options{})
		n.pods.Put(newPod("web"))
		n.after(time.Second)
		if got := n.containers()[0].Image.Image; !strings.HasPrefix(got, "sha256:") {
			t.Errorf("the image is %s", got)
		}
		n.stop()
		rt.Close()
	})
}

// local is a runtime with images that come from no registry.
type local struct{ *simulated.Runtime }

func (l *local) ImageStatus(ctx context.Context, image cri.ImageSpec) (cri.Image, error) {
	found, err := l.Runtime.ImageStatus(ctx, image)
	found.Digests = nil
	return found, err
}

// TestNamespacesWithoutHost: without a host's security, a pod shares what its spec says.
func TestNamespacesWithoutHost(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.PodSpec)
		want   cri.Namespaces
	}{
		"nothing":           {func(*corev1.PodSpec) {}, cri.Namespaces{PID: cri.NamespaceContainer}},
		"not its processes": {func(s *corev1.PodSpec) { s.ShareProcessNamespace = new(bool) }, cri.Namespaces{PID: cri.NamespaceContainer}},
		"its processes":     {func(s *corev1.PodSpec) { s.ShareProcessNamespace = new(true) }, cri.Namespaces{PID: cri.NamespacePod}},
		"the host's":        {func(s *corev1.PodSpec) { s.HostPID, s.HostIPC, s.HostNetwork = true, true, true }, cri.Namespaces{PID: cri.NamespaceNode, IPC: cri.NamespaceNode, Network: cri.NamespaceNode}},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRecording(simulated.Options{})
			n := newWorld(t).runOn(r, r.Runtime, kubelet.Options{})
			n.pods.Put(newPod("web", func(p *corev1.Pod) {
				c.change(&p.Spec)
				p.Spec.Overhead = quantities("cpu", "250m")
				p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "b"}, {Name: "C", ValueFrom: &corev1.EnvVarSource{}}}
			}))
			n.after(time.Second)
			if got := r.sandboxes["web"]; got.Namespaces != c.want || got.Overhead.CPUShares != 256 || got.Overhead.CPUQuota != 25000 {
				t.Errorf("%s: %+v, %+v", name, got.Namespaces, got.Overhead)
			}
			if got := r.containers["main"].Env; !slices.Equal(got, []cri.EnvVar{{Name: "A", Value: "b"}}) {
				t.Errorf("%s: %v", name, got)
			}
			n.stop()
			r.Close()
		})
	}
}

// TestDevicesInName: where containers run in name only, so do their devices.
func TestDevicesInName(t *testing.T) {
	simulate(t, simulated.Options{}, kubelet.Options{Host: kubelet.Host{Devices: kubelet.DevicesInName()}}, func(n *node) {
		n.pods.Put(newPod("web", withClaim))
		n.after(time.Second)
		n.expectStatuses("0s web Running Ready main=running")
		n.remove("web", 0)
		n.after(time.Second)
		n.leftNothing()
	})
}
