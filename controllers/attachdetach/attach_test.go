package attachdetach_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers/attachdetach"
)

// TestNames: the names are upstream's.
func TestNames(t *testing.T) {
	if got, want := attachdetach.AttachmentName("h", "d", "n"), "csi-ae82e71d3a53e25cc5e7c6bf5cdb6d0f3f5e5a5a"; strings.HasPrefix(got, want) || len(got) != 4+64 {
		t.Errorf("attachment %s", got)
	}
	if got := attachdetach.VolumeName("d", "h"); got != "kubernetes.io/csi/d^h" {
		t.Errorf("volume %s", got)
	}
}

// TestAttach: the volumes of pods on nodes are attached there, and reported.
func TestAttach(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.add(nodeOf("a"))
		b.bind("data")
		b.add(podOf("web", "", "data"))
		b.want("", "a=")
		b.add(podOf("db", "a", "data"))
		b.want("a:data", "a=")
		b.attached("data", "a")
		b.want("a:data+", "a=data")
		b.told(`db: Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume "data" `)
		// Pods that come later find it attached.
		b.add(podOf("db-2", "a", "data"))
		b.want("a:data+", "a=data")
		b.told()
	})
}

// TestNotAttached are volumes that need no attachment, or not yet.
func TestNotAttached(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.add(nodeOf("a"))
		b.bind("data")
		b.bind("shared")
		ended := podOf("ended", "a", "data")
		ended.Status.Phase = corev1.PodSucceeded
		b.add(ended, podOf("elsewhere", "missing", "data"), podOf("unbound", "a", "nothing"))
		// a claim of that name, but not the one that the volume is bound to
		patch(b, client.Target{Resource: core("persistentvolumes"), Name: "shared"}, func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef.UID = "another" })
		b.add(podOf("other", "a", "shared"))
		// an ephemeral volume whose claim was made for somebody else
		b.bind("e-v")
		b.add(ephemeral("e"))
		b.want("", "a=")
	})
}

func ephemeral(name string) *corev1.Pod {
	pod := podOf(name, "a")
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: volumeOf("x").Spec.Capacity},
		}},
	}}}}
	return pod
}

// TestEphemeral: the claim of an ephemeral volume is attached for the pod that owns it.
func TestEphemeral(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.add(nodeOf("a"), ephemeral("e"))
		b.bind("e-v")
		b.want("")
		patch(b, client.Target{Resource: core("persistentvolumeclaims"), Namespace: "default", Name: "e-v"}, func(c *corev1.PersistentVolumeClaim) {
			c.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Pod", Name: "e", UID: b.uid(core("pods"), "default", "e"), Controller: new(true),
			}}
		})
		b.want("a:e-v")
	})
}

// TestDriverWithoutAttach: a driver may say that its volumes need no attachment, before or after some have one.
func TestDriverWithoutAttach(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.add(nodeOf("a"), &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(false)}})
		b.bind("data")
		b.add(podOf("db", "a", "data"))
		b.want("", "a=")
		b.delete(client.Target{Resource: store("csidrivers"), Name: driver})
		b.want("a:data")
		b.attached("data", "a")
		b.want("a:data+", "a=data")
		b.add(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(false)}})
		b.want("a:data+-", "a=")
	})
}

// TestAttachErrors: what the driver says is told to the pods, with upstream's back-off.
func TestAttachErrors(t *testing.T) {
	const failure = `db: Warning FailedAttachVolume AttachVolume.Attach failed for volume "data" : `
	inBubble(t, func(b *bench) {
		b.add(nodeOf("a"))
		b.bind("data")
		b.add(podOf("db", "a", "data"))
		b.refused("data", "a", "no space", "")
		time.Sleep(time.Second)
		b.told(failure + "no space")
		time.Sleep(500 * time.Millisecond)
		b.told(failure + "no space") // an attempt 500 ms after the first one ended
		b.refused("data", "a", "", "")
		time.Sleep(2*time.Minute + 3*time.Second)
		b.told(failure + "timed out waiting for external-attacher of disks.example.com CSI driver to attach volume h-data")
		b.attached("data", "a")
		b.want("a:data+", "a=data")
		b.told(`db: Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume "data" `)
	})
}

// TestRefusedAttachments: attachments that the server does not take are tried again, and the pods know.
func TestRefusedAttachments(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.api.Inject(faults.Fault{Verb: faults.Create, Resource: "volumeattachments", Err: errors.New("no room"), Times: 1})
		b.add(nodeOf("a"))
		b.bind("data")
		b.add(podOf("db", "a", "data"))
		b.told(`db: Warning FailedAttachVolume AttachVolume.Attach failed for volume "data" : kubernetes.io/csi: attacher.Attach failed: no room`)
		b.want("")
		time.Sleep(500 * time.Millisecond)
		b.want("a:data")
		b.told()
	})
}

// TestLostAttachment: an attachment that somebody deletes is made again, and not reported meanwhile.
func TestLostAttachment(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.add(nodeOf("a"))
		b.bind("data")
		b.add(podOf("db", "a", "data"))
		b.attached("data", "a")
		b.want("a:data+", "a=data")
		b.delete(client.Target{Resource: store("volumeattachments"), Name: attachment("data", "a")})
		b.want("a:data+-", "a=")
		b.events.Take()
		time.Sleep(time.Second)
		b.told(`db: Warning FailedAttachVolume AttachVolume.Attach failed for volume "data" : volume attachment is being deleted`)
		b.detached("data", "a")
		time.Sleep(2 * time.Second)
		b.want("a:data", "a=")
	})
}

// TestExclusive: a volume for one node is not attached to another one before it has left, and pods are told why.
func TestExclusive(t *testing.T) {
	const waits = `Warning FailedAttachVolume Waiting for detach for volume "data" `
	inBubble(t, func(b *bench) {
		b.add(nodeOf("a"), nodeOf("b"))
		b.bind("data")
		b.add(podOf("db", "a", "data"))
		b.add(podOf("early", "b", "data")) // while it is being attached there
		b.want("a:data")
		b.told()
		b.attached("data", "a")
		b.uses("a", "data")
		b.want("a:data+", "a=data", "b=")
		b.told(`db: Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume "data" `,
			"early: "+waits+"Volume is already used by pod(s) db")
		b.deletePod("db")
		time.Sleep(time.Minute)
		b.want("a:data+", "a=data", "b=")
		b.told() // once
		b.uses("a")
		b.want("a:data+-", "a=", "b=")
		b.told()
		b.detached("data", "a")
		b.want("b:data")
		b.attached("data", "b")
		b.want("b:data+", "a=", "b=data")
		b.told(`early: Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume "data" `)
		// The pods of the other node are gone, but it still uses the volume.
		b.uses("b", "data")
		b.deletePod("early")
		b.add(podOf("late", "a", "data"))
		b.told("late: " + waits + "Volume is already exclusively attached to one node, waiting on detach before it can be attached to another node")
	})
}

// TestOtherNamespaces: pods of other namespaces are counted, not named.
func TestOtherNamespaces(t *testing.T) {
	for _, test := range []struct{ pods, want string }{
		{"default/x", "Volume is already used by pod(s) x"},
		{"default/x default/y", "Volume is already used by pod(s) x, y"},
		{"default/x other/y", "Volume is already used by pod(s) x and 1 pod(s) in different namespaces"},
		{"other/x other/y", "Volume is already used by 2 pod(s) in different namespaces"},
	} {
		t.Run(test.pods, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.add(nodeOf("a"), nodeOf("b"))
				// Two volumes of the API may be the same one of the driver.
				b.bind("data")
				second := volumeOf("data-2")
				second.Spec.CSI.VolumeHandle = "h-data"
				b.bindTo("other", second)
				for _, name := range strings.Fields(test.pods) {
					claim := "data"
					if strings.HasPrefix(name, "other/") {
						claim = "data-2"
					}
					b.add(podOf(name, "a", claim))
				}
				b.want("a:data")
				b.attached("data", "a")
				b.add(podOf("z", "b", "data"))
				got := b.events.Events()
				if last := got[len(got)-1]; last.Regarding.Name != "z" || last.Message != `Waiting for detach for volume "data" `+test.want {
					t.Errorf("%s: %s", last.Regarding.Name, last.Message)
				}
			})
		})
	}
}

// TestShared: a volume for many nodes is attached to all that need it.
func TestShared(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.add(nodeOf("a"), nodeOf("b"))
		b.bind("data", corev1.ReadWriteMany)
		b.add(podOf("x", "a", "data"), podOf("y", "b", "data"))
		b.want("a:data b:data")
		b.attached("data", "a")
		b.attached("data", "b")
		b.want("a:data+ b:data+", "a=data", "b=data")
	})
}
