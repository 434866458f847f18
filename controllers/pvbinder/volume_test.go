package pvbinder_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-helpers/storage/volume"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/informer"
)

func target(volume string) client.Target { return client.Target{Resource: volumes(), Name: volume} }

// made marks a volume as made by a provisioner.
func made(by string) func(*corev1.PersistentVolume) {
	return annotated(volume.AnnDynamicallyProvisioned, by)
}

func withSource(s corev1.PersistentVolumeSource) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) { v.Spec.PersistentVolumeSource = s }
}

// TestReclaim: what becomes of a volume when its claim is deleted.
func TestReclaim(t *testing.T) {
	const (
		retain, remove, recycle = corev1.PersistentVolumeReclaimRetain, corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle
		noDeleter               = `error getting deleter volume plugin for volume "a": no volume plugin matched`
		notDeletable            = `error getting deleter volume plugin for volume "a": no deletable volume plugin matched`
	)
	host := withSource(corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}})
	nfs := withSource(corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/x"}})
	for name, tt := range map[string]struct {
		volume          *corev1.PersistentVolume
		phase           corev1.PersistentVolumePhase
		reason, message string // of the event and the status
	}{
		"retained":                   {volume: pv("a", "5Gi", policy(retain)), phase: corev1.VolumeReleased},
		"by a provisioner":           {volume: pv("a", "5Gi", policy(remove), host, made("x.io/p")), phase: corev1.VolumeReleased},
		"by a CSI driver":            {volume: pv("a", "5Gi", policy(remove)), phase: corev1.VolumeReleased},
		"by a driver that took over": {volume: pv("a", "5Gi", policy(remove), host, made("kubernetes.io/gce-pd")), phase: corev1.VolumeReleased},
		"by nobody":                  {pv("a", "5Gi", policy(remove), host), corev1.VolumeFailed, "VolumeFailedDelete", noDeleter},
		"by nobody, NFS":             {pv("a", "5Gi", policy(remove), nfs), corev1.VolumeFailed, "VolumeFailedDelete", notDeletable},
		"by a plugin":                {pv("a", "5Gi", policy(remove), made("kubernetes.io/rbd")), corev1.VolumeFailed, "VolumeFailedDelete", "no volume plugin matched name: kubernetes.io/rbd"},
		"by the plugin of NFS":       {pv("a", "5Gi", policy(remove), made("kubernetes.io/nfs")), corev1.VolumeFailed, "VolumeFailedDelete", "no deletable volume plugin matched"},
		"recycled":                   {pv("a", "5Gi", policy(recycle), nfs), corev1.VolumeFailed, "VolumeFailedRecycle", "No recycler plugin found for the volume!"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, []informer.Object{tt.volume, claim("c", "1Gi")}, func(b *bench) {
				b.wantBound("a", "c")
				b.recorder.Take()
				b.delete(claimAt("c"))
				b.wantPhases("a", tt.phase, "", "")
				v := b.volume("a")
				if v.Status.Message != tt.message || v.Spec.ClaimRef == nil {
					b.Errorf("message %q, claim %v", v.Status.Message, v.Spec.ClaimRef)
				}
				if tt.message == "" {
					b.wantEvents()
				} else {
					b.wantEvents("Warning " + tt.reason + " " + tt.message)
				}
				b.add(claim("c", "1Gi", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "a" }))
				b.round()
				b.wantPhases("a", tt.phase, "c", corev1.ClaimPending) // it is not the claim that the volume belongs to
			})
		})
	}
}

// TestRecycledWhileUsed: pods that still use a volume are waited for.
func TestRecycledWhileUsed(t *testing.T) {
	inBubble(t, []informer.Object{pv("a", "5Gi", policy(corev1.PersistentVolumeReclaimRecycle)), claim("c", "1Gi")}, func(b *bench) {
		b.wantBound("a", "c")
		b.add(using("p", "c"))
		b.add(using("o", "c"))
		b.recorder.Take()
		b.delete(claimAt("c"))
		b.wantPhases("a", corev1.VolumeReleased, "", "")
		b.wantEvents("Normal VolumeFailedRecycle Volume is used by pods: ns/o,ns/p")
		for _, pod := range []string{"p", "o"} {
			b.delete(client.Target{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespace: "ns", Name: pod})
		}
		b.round()
		b.wantPhases("a", corev1.VolumeFailed, "", "")
	})
}

// TestElsewhere: volumes for claims that are bound to another volume.
func TestElsewhere(t *testing.T) {
	inBubble(t, []informer.Object{pv("a", "5Gi"), claim("c", "1Gi")}, func(b *bench) {
		b.wantBound("a", "c")
		bound := func(v *corev1.PersistentVolume) {
			v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "c", UID: b.claim("c").UID}
		}
		b.add(pv("user", "5Gi", bound))
		b.add(pv("controller", "5Gi", bound, annotated(volume.AnnBoundByController, "yes")))
		b.add(pv("made", "5Gi", bound, made("x.io/p"), policy(corev1.PersistentVolumeReclaimDelete)))
		b.wantPhases("user", corev1.VolumeAvailable, "", "")
		if ref := b.volume("user").Spec.ClaimRef; ref == nil || ref.UID != "" || ref.Name != "c" {
			b.Errorf("a reserved volume is reserved for %v", ref)
		}
		b.wantPhases("controller", corev1.VolumeAvailable, "", "")
		if v := b.volume("controller"); v.Spec.ClaimRef != nil || len(v.Annotations) > 0 {
			b.Errorf("reserved for %v, annotated %v", v.Spec.ClaimRef, v.Annotations)
		}
		b.wantPhases("made", corev1.VolumeReleased, "", "")
		b.wantBound("a", "c")
	})
}

// TestModesDiffer: a volume that was made for a claim of another mode stays unbound, and both are told.
func TestModesDiffer(t *testing.T) {
	inBubble(t, []informer.Object{claim("c", "1Gi", ofClass("x"))}, func(b *bench) {
		b.recorder.Take()
		b.add(pv("a", "5Gi", pvClass("x"), func(v *corev1.PersistentVolume) {
			v.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
			v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "c", UID: b.claim("c").UID}
		}))
		b.wantEvents(`Warning VolumeMismatch Cannot bind PersistentVolume to requested PersistentVolumeClaim "c" due to incompatible volumeMode.`,
			`Warning VolumeMismatch Cannot bind PersistentVolume "a" to requested PersistentVolumeClaim due to incompatible volumeMode.`)
		b.wantPhases("a", corev1.VolumePending, "c", corev1.ClaimPending)
	})
}

// TestNotReleasedByLag: a claim that the cache does not have yet is looked for on the server.
func TestNotReleasedByLag(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.claimCache.Hold()
		b.add(claim("c", "1Gi"))
		b.add(pv("a", "5Gi", func(v *corev1.PersistentVolume) {
			v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "c", UID: b.claim("c").UID, Kind: "PersistentVolumeClaim", APIVersion: "v1"}
		}))
		if phase := b.volume("a").Status.Phase; phase == corev1.VolumeReleased {
			b.Error("released")
		}
		b.claimCache.Resume()
		b.round()
		b.wantBound("a", "c")

		b.api.Inject(faults.Fault{Verb: faults.Get, Resource: "persistentvolumeclaims", Err: apierrors.NewInternalError(apierrors.NewBadRequest("x")), Times: -1})
		b.add(pv("b", "5Gi", func(v *corev1.PersistentVolume) {
			v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "gone", UID: "x"}
		}))
		b.wantPhases("b", corev1.VolumePending, "", "")
	})
}

// TestFinalizers: those of Kubernetes' plugins follow the policy and who made the volume.
func TestFinalizers(t *testing.T) {
	const own, external = volume.PVDeletionInTreeProtectionFinalizer, volume.PVDeletionProtectionFinalizer
	for name, tt := range map[string]struct {
		by     string
		policy corev1.PersistentVolumeReclaimPolicy
		have   []string
		want   []string
		driver string
	}{
		"of a plugin":              {by: "kubernetes.io/rbd", policy: "Delete", have: []string{external}, want: []string{own}},
		"kept by a plugin":         {by: "kubernetes.io/rbd", policy: "Delete", have: []string{own}, want: []string{own}},
		"retained":                 {by: "kubernetes.io/rbd", policy: "Retain", have: []string{own}},
		"recycled":                 {by: "kubernetes.io/rbd", policy: "Recycle", have: []string{"x.io/mine", own, external}, want: []string{"x.io/mine"}},
		"beside others":            {by: "kubernetes.io/rbd", policy: "Delete", have: []string{"x.io/mine", external}, want: []string{"x.io/mine", own}},
		"without any":              {by: "kubernetes.io/rbd", policy: "Delete", want: []string{own}},
		"of a driver, without own": {by: "kubernetes.io/cinder", policy: "Delete", have: []string{external}, want: []string{external}, driver: "cinder.csi.openstack.org"},
		"of a provisioner":         {by: "x.io/p", policy: "Delete", have: []string{external}, want: []string{external}},
		"of a driver":              {by: "kubernetes.io/cinder", policy: "Delete", have: []string{own, external}, want: []string{external}, driver: "cinder.csi.openstack.org"},
		"of a volume made by hand": {policy: "Retain", have: []string{own}, want: []string{own}},
	} {
		t.Run(name, func(t *testing.T) {
			v := pv("a", "5Gi", policy(tt.policy), func(v *corev1.PersistentVolume) { v.Finalizers = tt.have })
			if tt.by != "" {
				made(tt.by)(v)
			}
			inBubble(t, []informer.Object{v}, func(b *bench) {
				got := b.volume("a")
				if !slices.Equal(got.Finalizers, tt.want) || got.Annotations[volume.AnnMigratedTo] != tt.driver {
					b.Errorf("finalizers %v, annotations %v", got.Finalizers, got.Annotations)
				}
				b.wantPhases("a", corev1.VolumeAvailable, "", "")
			})
		})
	}
}
