package attachdetach_test

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers/attachdetach"
)

// mounted is a bench with a volume that a pod db on node a uses.
func mounted(b *bench) {
	b.Helper()
	b.add(nodeOf("a"), nodeOf("b"))
	b.bind("data")
	b.add(podOf("db", "a", "data"))
	b.attached("data", "a")
	b.uses("a", "data")
	b.want("a:data+", "a=data")
	b.events.Take()
}

func notReady(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }

// TestDetach: a volume is detached once no pod needs it and the node does not use it.
func TestDetach(t *testing.T) {
	inBubble(t, func(b *bench) {
		mounted(b)
		b.deletePod("db")
		time.Sleep(time.Hour) // a healthy node may take its time
		b.want("a:data+", "a=data")
		b.uses("a")
		b.want("a:data+-", "a=")
		b.detached("data", "a")
		b.want("", "a=")
		b.told()
	})
}

// TestEndedPods need no volumes, nor do those that are being deleted and run no container.
func TestEndedPods(t *testing.T) {
	running := []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	ended := []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
	for _, test := range []struct {
		name    string
		status  corev1.PodStatus
		deleted bool
		want    string
	}{
		{"succeeded", corev1.PodStatus{Phase: corev1.PodSucceeded}, false, "a:data+-"},
		{"failed", corev1.PodStatus{Phase: corev1.PodFailed}, false, "a:data+-"},
		{"ended containers", corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: ended}, false, "a:data+"},
		{"deleted and ended", corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: ended}, true, "a:data+-"},
		{"deleted and running", corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: running}, true, "a:data+"},
		{"deleted, a sidecar running", corev1.PodStatus{Phase: corev1.PodRunning, InitContainerStatuses: running}, true, "a:data+"},
		{"deleted, a debugger running", corev1.PodStatus{Phase: corev1.PodRunning, EphemeralContainerStatuses: running}, true, "a:data+"},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				mounted(b)
				b.uses("a")
				pod := client.Target{Resource: core("pods"), Namespace: "default", Name: "db", Subresource: "status"}
				patch(b, pod, func(p *corev1.Pod) { p.Status = test.status })
				if test.deleted {
					pod.Subresource = ""
					if err := b.api.Others.Delete(b.Context(), pod, metav1.DeleteOptions{}); err != nil {
						b.Fatal(err)
					}
				}
				b.want(test.want)
			})
		})
	}
}

// TestForce: volumes are taken from nodes that have not been ready for six minutes, or do not exist.
func TestForce(t *testing.T) {
	inBubble(t, func(b *bench) {
		mounted(b)
		b.node("a", notReady)
		b.deletePod("db")
		time.Sleep(6*time.Minute - time.Second)
		b.want("a:data+", "a=data")
		time.Sleep(2 * time.Second)
		b.want("a:data+-", "a=")
	})
}

// TestForceStopsCounting: the six minutes begin anew if a pod needs the volume meanwhile.
func TestForceStopsCounting(t *testing.T) {
	inBubble(t, func(b *bench) {
		mounted(b)
		b.node("a", notReady)
		b.deletePod("db")
		time.Sleep(5 * time.Minute)
		b.add(podOf("again", "a", "data"))
		b.deletePod("again")
		time.Sleep(5 * time.Minute)
		b.want("a:data+")
		time.Sleep(2 * time.Minute)
		b.want("a:data+-")
	})
}

// TestOutOfService: an administrator says that a node is off.
func TestOutOfService(t *testing.T) {
	inBubble(t, func(b *bench) {
		mounted(b)
		b.deletePod("db")
		b.want("a:data+")
		patch(b, client.Target{Resource: core("nodes"), Name: "a"}, func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
		})
		b.want("a:data+-", "a=")
	})
}

// TestDeletedNode: what a deleted node used is detached after six minutes, the rest at once; its pods keep theirs.
func TestDeletedNode(t *testing.T) {
	for _, used := range []bool{true, false} {
		inBubble(t, func(b *bench) {
			mounted(b)
			if !used {
				b.uses("a")
			}
			b.delete(client.Target{Resource: core("nodes"), Name: "a"})
			b.want("a:data+")
			b.deletePod("db")
			want := "a:data+-"
			if used {
				want = "a:data+"
			}
			b.want(want)
			time.Sleep(6*time.Minute + time.Second)
			b.want("a:data+-")
		})
	}
}

// TestInUseAfterAll: the cache does not know yet that a node uses a volume; the server does.
func TestInUseAfterAll(t *testing.T) {
	inBubble(t, func(b *bench) {
		mounted(b)
		b.uses("a")
		b.nodes.Hold()
		b.uses("a", "data")
		b.deletePod("db")
		time.Sleep(time.Minute)
		b.want("a:data+", "a=")
		b.nodes.Resume()
		time.Sleep(time.Hour)
		b.want("a:data+")
		b.uses("a")
		b.want("a:data+-")
	})
}

// TestUnreported: a volume is not detached from a node that may still believe it is attached.
func TestUnreported(t *testing.T) {
	inBubble(t, func(b *bench) {
		mounted(b)
		b.uses("a")
		b.api.Inject(faults.Fault{Verb: faults.Patch, Resource: "nodes/status", Err: errors.New("down"), Times: 3})
		b.deletePod("db")
		b.want("a:data+", "a=data")
		time.Sleep(5 * time.Second)
		b.want("a:data+-", "a=")
	})
}

// TestFailedDeletion: deleting an attachment is tried again.
func TestFailedDeletion(t *testing.T) {
	inBubble(t, func(b *bench) {
		mounted(b)
		b.uses("a")
		b.api.Inject(faults.Fault{Verb: faults.Delete, Resource: "volumeattachments", Err: errors.New("down"), Times: 2})
		b.deletePod("db")
		b.want("a:data+", "a=")
		time.Sleep(5 * time.Second)
		b.want("a:data+-", "a=")
	})
}

// TestDetachErrors: a volume that cannot be detached is left to its attacher; after an error, or two minutes, other
// nodes may try.
func TestDetachErrors(t *testing.T) {
	for name, after := range map[string]func(b *bench){
		"error":   func(b *bench) { b.refused("data", "a", "", "stuck") },
		"timeout": func(*bench) { time.Sleep(2 * time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				mounted(b)
				b.uses("a")
				b.deletePod("db")
				b.add(podOf("next", "b", "data"))
				b.want("a:data+-", "b=")
				time.Sleep(time.Minute)
				b.want("a:data+-", "b=")
				after(b)
				b.settle()
				if got := b.attachments(); got != "a:data+- b:data" && got != "a:data- b:data" {
					t.Errorf("attachments: %s", got)
				}
				b.told()
			})
		})
	}
}

// TestBackWhileDetaching: a pod that comes back waits until the volume has left, and is told only if that takes long.
func TestBackWhileDetaching(t *testing.T) {
	inBubble(t, func(b *bench) {
		mounted(b)
		b.uses("a")
		b.deletePod("db")
		b.want("a:data+-")
		b.add(podOf("again", "a", "data"))
		time.Sleep(time.Minute)
		b.want("a:data+-", "a=")
		b.told()
		b.detached("data", "a")
		b.want("a:data", "a=")
		b.attached("data", "a")
		b.want("a:data+", "a=data")
	})
}

// TestRestart: a controller that starts anew finds what is attached, and repeats no event.
func TestRestart(t *testing.T) {
	inBubble(t, func(b *bench) {
		mounted(b)
		b.kill()
		b.start()
		b.want("a:data+", "a=data")
		b.told()
		// It was attached, but that was not reported.
		b.kill()
		b.node("a", func(n *corev1.Node) { n.Status.VolumesAttached = nil })
		b.start()
		b.want("a:data+", "a=data")
		b.told(`db: Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume "data" `)
		// The pod ends while nobody looks.
		b.kill()
		b.uses("a")
		b.deletePod("db")
		b.start()
		b.want("a:data+-", "a=")
	})
}

// TestUnknownVolumes: a volume that is gone is detached by what the node reports. What is not the controller's is left alone.
func TestUnknownVolumes(t *testing.T) {
	inBubble(t, func(b *bench) {
		mounted(b)
		b.uses("a")
		b.kill()
		b.deletePod("db")
		patch(b, client.Target{Resource: core("persistentvolumes"), Name: "data"}, func(pv *corev1.PersistentVolume) { pv.Finalizers = nil })
		b.delete(client.Target{Resource: core("persistentvolumes"), Name: "data"})
		b.node("a", func(n *corev1.Node) {
			n.Status.VolumesAttached = append(n.Status.VolumesAttached,
				corev1.AttachedVolume{Name: attachdetach.VolumeName(driver, "h-lost")}, corev1.AttachedVolume{Name: "example.com/disk/x"})
		})
		other := "other"
		b.add(&storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: "by-hand"},
			Spec:       storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: "a", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &other}},
		})
		b.delete(client.Target{Resource: store("volumeattachments"), Name: "by-hand-2"})
		b.start()
		b.settle()
		if got := b.reported("a"); got != "example.com/disk/x" {
			t.Errorf("reported: %s", got)
		}
		va, err := client.As[*storagev1.VolumeAttachment](b.api.Others.Get(b.Context(), client.Target{Resource: store("volumeattachments"), Name: attachment("data", "a")}))
		if err != nil || va.DeletionTimestamp == nil {
			t.Errorf("%v, %v", va, err)
		}
		if _, err := b.api.Others.Get(b.Context(), client.Target{Resource: store("volumeattachments"), Name: "by-hand"}); err != nil {
			t.Error(err)
		}
	})
}

// TestRestoredReport: a node that lost its report gets it again.
func TestRestoredReport(t *testing.T) {
	inBubble(t, func(b *bench) {
		mounted(b)
		b.node("a", func(n *corev1.Node) { n.Status.VolumesAttached = nil })
		b.want("a:data+", "a=data")
	})
}

// TestNewNode: a node of the name of a deleted one knows nothing of its volumes.
func TestNewNode(t *testing.T) {
	inBubble(t, func(b *bench) {
		mounted(b)
		b.delete(client.Target{Resource: core("nodes"), Name: "a"})
		b.add(nodeOf("a"))
		b.want("a:data+", "a=data")
		b.deletePod("db")
		b.want("a:data+-", "a=")
	})
}
