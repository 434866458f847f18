package pvbinder_test

import (
	"errors"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/informer"
)

// TestBestMatch: of several volumes, which one a claim gets. The volumes are there before the claim.
func TestBestMatch(t *testing.T) {
	modes := func(m ...corev1.PersistentVolumeAccessMode) func(*corev1.PersistentVolume) {
		return func(v *corev1.PersistentVolume) { v.Spec.AccessModes = m }
	}
	labeled := func(v *corev1.PersistentVolume) { v.Labels = map[string]string{"disk": "fast"} }
	block := func(v *corev1.PersistentVolume) { v.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) }
	attributes := func(v *corev1.PersistentVolume) { v.Spec.VolumeAttributesClassName = new("gold") }
	for name, tt := range map[string]struct {
		claim   *corev1.PersistentVolumeClaim
		volumes []informer.Object
		want    string
	}{
		"the smallest that is large enough": {claim("c", "5Gi"), []informer.Object{pv("a", "10Gi"), pv("b", "7Gi"), pv("c", "4Gi")}, "b"},
		"an equal one":                      {claim("c", "5Gi"), []informer.Object{pv("a", "6Gi"), pv("b", "5Gi")}, "b"},
		"none is large enough":              {claim("c", "5Gi"), []informer.Object{pv("a", "4Gi")}, ""},
		"of its class":                      {claim("c", "5Gi", ofClass("x")), []informer.Object{pv("a", "5Gi"), pv("b", "9Gi", pvClass("x")), pv("d", "5Gi", pvClass("y"))}, "b"},
		"of no class":                       {claim("c", "5Gi", ofClass("")), []informer.Object{pv("a", "5Gi", pvClass("x")), pv("b", "9Gi")}, "b"},
		"of its class, annotated": {claim("c", "5Gi", ofClass("y"), marked(corev1.BetaStorageClassAnnotation, "x")), []informer.Object{
			pv("a", "5Gi", pvClass("y")), pv("b", "9Gi", pvClass("y"), annotated(corev1.BetaStorageClassAnnotation, "x"))}, "b"},
		"of no class, annotated": {claim("c", "5Gi", marked(corev1.BetaStorageClassAnnotation, "")), []informer.Object{pv("a", "5Gi", pvClass("x")), pv("b", "9Gi")}, "b"},
		"first modes": {claim("c", "5Gi"), []informer.Object{
			pv("a", "5Gi", modes(corev1.ReadWriteOnce, corev1.ReadWriteMany)), pv("b", "9Gi", modes(corev1.ReadOnlyMany, corev1.ReadWriteOnce))}, "b"},
		"reserved, of other modes":   {claim("c", "5Gi"), []informer.Object{pv("a", "9Gi"), pv("b", "5Gi", modes(corev1.ReadOnlyMany, corev1.ReadWriteOnce), reserved("c"))}, "a"},
		"reserved, of another class": {claim("c", "5Gi"), []informer.Object{pv("a", "9Gi"), pv("b", "5Gi", pvClass("x"), reserved("c"))}, "b"},
		"fewest other modes": {claim("c", "5Gi"), []informer.Object{
			pv("a", "5Gi", modes(corev1.ReadWriteOnce, corev1.ReadOnlyMany, corev1.ReadWriteMany)), pv("b", "9Gi", modes(corev1.ReadOnlyMany, corev1.ReadWriteOnce))}, "b"},
		"a mode is missing": {claim("c", "5Gi"), []informer.Object{pv("a", "5Gi", modes(corev1.ReadOnlyMany))}, ""},
		"selected": {claim("c", "5Gi", func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "fast"}}
		}), []informer.Object{pv("a", "5Gi"), pv("b", "9Gi", labeled)}, "b"},
		"not a block device": {claim("c", "5Gi"), []informer.Object{pv("a", "5Gi", block), pv("b", "9Gi")}, "b"},
		"a block device": {claim("c", "5Gi", func(c *corev1.PersistentVolumeClaim) {
			c.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
		}), []informer.Object{pv("a", "5Gi"), pv("b", "9Gi", block)}, "b"},
		"with its attributes": {claim("c", "5Gi", func(c *corev1.PersistentVolumeClaim) {
			c.Spec.VolumeAttributesClassName = new("gold")
		}), []informer.Object{pv("a", "5Gi"), pv("b", "9Gi", attributes)}, "b"},
		"reserved for it":            {claim("c", "5Gi"), []informer.Object{pv("a", "5Gi"), pv("b", "9Gi", reserved("c"))}, "b"},
		"reserved for others":        {claim("c", "5Gi"), []informer.Object{pv("a", "5Gi", reserved("d")), pv("b", "9Gi")}, "b"},
		"too small, though reserved": {claim("c", "5Gi"), []informer.Object{pv("a", "1Gi", reserved("c")), pv("b", "9Gi")}, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, tt.volumes, func(b *bench) {
				b.add(tt.claim)
				if tt.want != "" {
					b.wantBound(tt.want, "c")
					return
				}
				b.wantPhases("", "", "c", corev1.ClaimPending)
				if got := b.claim("c").Spec.VolumeName; got != "" {
					b.Errorf("bound to %s", got)
				}
			})
		})
	}
}

// TestBinding: who bound what is annotated, and events tell why a claim waits.
func TestBinding(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.add(claim("c", "5Gi"))
		b.wantPhases("", "", "c", corev1.ClaimPending)
		b.wantEvents("Normal FailedBinding no persistent volumes available for this claim and no storage class is set")
		b.add(pv("a", "5Gi"))
		b.wantPhases("a", corev1.VolumeAvailable, "", "")
		b.round()
		b.wantBound("a", "c")
		if v, c := b.volume("a"), b.claim("c"); v.Annotations[volume.AnnBoundByController] != "yes" || c.Annotations[volume.AnnBoundByController] != "yes" {
			b.Errorf("annotations %v, %v", v.Annotations, c.Annotations)
		}
		b.api.Reset()
		b.recorder.Take()
		b.round()
		b.wantEvents()
		if w := b.api.Writes(); len(w) > 0 {
			b.Errorf("writes when all is bound: %v", w)
		}
	})
}

// TestTwoClaims: one volume goes to one claim only, whatever happens at once.
func TestTwoClaims(t *testing.T) {
	inBubble(t, []informer.Object{claim("c", "5Gi"), claim("d", "5Gi"), pv("a", "5Gi")}, func(b *bench) {
		b.round()
		first, second := "c", "d"
		if b.claim("d").Status.Phase == corev1.ClaimBound {
			first, second = second, first
		}
		b.wantBound("a", first)
		b.wantPhases("", "", second, corev1.ClaimPending)
	})
}

// TestRequested: claims that name their volume.
func TestRequested(t *testing.T) {
	for name, tt := range map[string]struct {
		volume *corev1.PersistentVolume
		claim  *corev1.PersistentVolumeClaim
		event  string // of a claim that stays pending
	}{
		"free":           {volume: pv("a", "5Gi"), claim: claim("c", "1Gi", wants("a"))},
		"reserved":       {volume: pv("a", "5Gi", reserved("c")), claim: claim("c", "1Gi", wants("a"))},
		"not there":      {volume: pv("b", "5Gi"), claim: claim("c", "1Gi", wants("a")), event: "-"},
		"of another":     {volume: pv("a", "5Gi", reserved("d")), claim: claim("c", "1Gi", wants("a")), event: `Warning FailedBinding volume "a" already bound to a different claim.`},
		"too small":      {volume: pv("a", "5Gi"), claim: claim("c", "6Gi", wants("a")), event: `Warning VolumeMismatch Cannot bind to requested volume "a": requested PV is too small`},
		"another class":  {volume: pv("a", "5Gi"), claim: claim("c", "1Gi", wants("a"), ofClass("x")), event: `Warning VolumeMismatch Cannot bind to requested volume "a": storageClassName does not match`},
		"another access": {volume: pv("a", "5Gi"), claim: claim("c", "1Gi", wants("a"), func(c *corev1.PersistentVolumeClaim) { c.Spec.AccessModes[0] = corev1.ReadWriteMany }), event: `Warning VolumeMismatch Cannot bind to requested volume "a": incompatible accessMode`},
		"another mode":   {volume: pv("a", "5Gi"), claim: claim("c", "1Gi", wants("a"), func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) }), event: `Warning VolumeMismatch Cannot bind to requested volume "a": incompatible volumeMode`},
		"attributes":     {volume: pv("a", "5Gi"), claim: claim("c", "1Gi", wants("a"), func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = new("x") }), event: `Warning VolumeMismatch Cannot bind to requested volume "a": volumeAttributesClassName does not match`},
		"being deleted":  {volume: pv("a", "5Gi", func(v *corev1.PersistentVolume) { v.Finalizers = []string{"example.com/hold"} }), claim: claim("c", "1Gi", wants("a")), event: `Warning VolumeMismatch Cannot bind to requested volume "a": the volume is marked for deletion "a"`},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, []informer.Object{tt.volume}, func(b *bench) {
				if len(tt.volume.Finalizers) > 0 {
					b.delete(target("a"))
				}
				b.add(tt.claim)
				switch tt.event {
				case "":
					b.wantBound("a", "c")
					b.wantEvents()
					if c := b.claim("c"); metav1.HasAnnotation(c.ObjectMeta, volume.AnnBoundByController) {
						b.Error("a claim that its maker bound is annotated as bound by the controller")
					}
				case "-":
					b.wantPhases("", "", "c", corev1.ClaimPending)
					b.wantEvents()
				default:
					b.wantPhases("", "", "c", corev1.ClaimPending)
					b.wantEvents(tt.event)
				}
			})
		})
	}
}

// TestStolen: a claim whose completed binding somebody erased is an error while another has its volume.
func TestStolen(t *testing.T) {
	inBubble(t, []informer.Object{pv("a", "5Gi", reserved("d"))}, func(b *bench) {
		b.add(claim("c", "1Gi", wants("a"), func(c *corev1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{volume.AnnBoundByController: "yes"}
		}))
		b.wantEvents(`Warning FailedBinding volume "a" already bound to a different claim.`)
	})
}

// TestLost: bound claims without their volume.
func TestLost(t *testing.T) {
	bound := func(volumeName string) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) {
			c.Annotations, c.Spec.VolumeName = map[string]string{volume.AnnBindCompleted: "yes"}, volumeName
			c.Status = corev1.PersistentVolumeClaimStatus{
				Phase: corev1.ClaimBound, Capacity: size("5Gi"), AccessModes: c.Spec.AccessModes, CurrentVolumeAttributesClassName: new("gold"),
			}
		}
	}
	for want, tt := range map[string]struct {
		volume string
		change func(*corev1.PersistentVolume)
	}{
		"Warning ClaimLost Bound claim has lost reference to PersistentVolume. Data on the volume is lost!": {"", nil},
		"Warning ClaimLost Bound claim has lost its PersistentVolume. Data on the volume is lost!":          {"gone", nil},
		"Warning ClaimMisbound Two claims are bound to the same volume, this one is bound incorrectly":      {"a", reserved("d")},
	} {
		change := tt.change
		if change == nil {
			change = func(*corev1.PersistentVolume) {}
		}
		inBubble(t, []informer.Object{pv("a", "5Gi", change), claim("c", "1Gi", bound(tt.volume))}, func(b *bench) {
			b.wantPhases("", "", "c", corev1.ClaimLost)
			b.wantEvents(want)
			if s := b.claim("c").Status; s.Capacity != nil || s.AccessModes != nil || s.CurrentVolumeAttributesClassName != nil {
				b.Errorf("a lost claim has status %+v", s)
			}
			b.round()
			b.wantEvents()
		})
	}
	inBubble(t, []informer.Object{pv("a", "5Gi"), claim("c", "1Gi")}, func(b *bench) {
		b.wantBound("a", "c")
		b.delete(target("a"))
		b.wantPhases("", "", "c", corev1.ClaimLost)
	})
	inBubble(t, []informer.Object{pv("a", "5Gi"), claim("c", "1Gi")}, func(b *bench) {
		b.wantBound("a", "c")
		change(b, b.volume("a"), func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil })
		b.round()
		b.wantBound("a", "c") // again
	})
}

// TestDefaultClass: a claim without a class gets the newest default one, also later.
func TestDefaultClass(t *testing.T) {
	inBubble(t, []informer.Object{class("other", "x.io/p")}, func(b *bench) {
		b.add(claim("c", "1Gi"))
		b.add(claim("none", "1Gi", ofClass("")))
		b.round()
		b.recorder.Take()
		b.add(class("old", "x.io/p", func(c *storagev1.StorageClass) {
			c.Annotations = map[string]string{"storageclass.beta.kubernetes.io/is-default-class": "true"}
		}))
		b.add(class("same", "x.io/p", byDefault))
		b.round()
		if got := b.claim("c").Spec.StorageClassName; got == nil || *got != "old" {
			b.Errorf("class %v", got)
		}
		if got := b.claim("none").Spec.StorageClassName; *got != "" {
			b.Errorf("a claim of no class has class %q", *got)
		}
		b.add(class("young", "x.io/p", byDefault))
		b.add(claim("d", "1Gi"))
		if got := b.claim("d").Spec.StorageClassName; got == nil || *got != "young" {
			b.Errorf("class %v", got)
		}
	})
	inBubble(t, []informer.Object{class("d", "x.io/p", byDefault), claim("annotated", "1Gi", marked(corev1.BetaStorageClassAnnotation, ""))}, func(b *bench) {
		if got := b.claim("annotated").Spec.StorageClassName; got != nil {
			b.Errorf("a claim of no class has class %q", *got)
		}
	})
	inBubble(t, []informer.Object{class("d", "x.io/p", byDefault), pv("a", "5Gi")}, func(b *bench) {
		b.add(claim("c", "1Gi"))
		b.wantBound("a", "c") // a volume of no class comes first
	})
}

// TestExternal: an external provisioner is asked by annotations, and its volume bound.
func TestExternal(t *testing.T) {
	inBubble(t, []informer.Object{class("x", "x.io/p")}, func(b *bench) {
		b.add(claim("c", "1Gi", ofClass("x")))
		a := b.claim("c").Annotations
		if a[volume.AnnStorageProvisioner] != "x.io/p" || a[volume.AnnBetaStorageProvisioner] != "x.io/p" {
			b.Errorf("annotations %v", a)
		}
		b.wantEvents("Normal ExternalProvisioning Waiting for a volume to be created either by the external provisioner 'x.io/p' " +
			"or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.")
		b.add(pv("made", "1Gi", pvClass("x"), annotated(volume.AnnDynamicallyProvisioned, "x.io/p"), func(v *corev1.PersistentVolume) {
			v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "c", UID: b.claim("c").UID, Kind: "PersistentVolumeClaim", APIVersion: "v1"}
		}))
		b.wantBound("made", "c")
	})
}

// TestNotProvisioned: classes whose volumes nobody makes.
func TestNotProvisioned(t *testing.T) {
	for name, tt := range map[string]struct {
		class *storagev1.StorageClass
		want  string
	}{
		"no class":       {nil, `Warning ProvisioningFailed storageclass.storage.k8s.io "x" not found`},
		"no provisioner": {class("x", volume.NotSupportedProvisioner), "Warning ProvisioningFailed no volume plugin matched name: kubernetes.io/no-provisioner"},
		"NFS":            {class("x", "kubernetes.io/nfs"), "Warning ProvisioningFailed no provisionable volume plugin matched"},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []informer.Object
			if tt.class != nil {
				objects = append(objects, tt.class)
			}
			inBubble(t, objects, func(b *bench) {
				b.add(claim("c", "1Gi", ofClass("x")))
				b.wantEvents(tt.want)
				b.wantPhases("", "", "c", corev1.ClaimPending)
			})
		})
	}
}

// TestMigrated: a CSI driver has taken over from a plugin of Kubernetes.
func TestMigrated(t *testing.T) {
	inBubble(t, []informer.Object{class("x", "kubernetes.io/gce-pd")}, func(b *bench) {
		b.add(claim("c", "1Gi", ofClass("x")))
		if a := b.claim("c").Annotations; a[volume.AnnStorageProvisioner] != "pd.csi.storage.gke.io" || a[volume.AnnMigratedTo] != "" {
			b.Errorf("annotations %v", a)
		}
		b.add(claim("old", "1Gi", ofClass("none"), func(c *corev1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{volume.AnnBetaStorageProvisioner: "kubernetes.io/aws-ebs"}
		}))
		if a := b.claim("old").Annotations; a[volume.AnnMigratedTo] != "ebs.csi.aws.com" {
			b.Errorf("annotations %v", a)
		}
		b.add(claim("back", "1Gi", ofClass("none"), func(c *corev1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{volume.AnnStorageProvisioner: "x.io/p", volume.AnnMigratedTo: "y"}
		}))
		if a := b.claim("back").Annotations; metav1.HasAnnotation(metav1.ObjectMeta{Annotations: a}, volume.AnnMigratedTo) {
			b.Errorf("annotations %v", a)
		}
	})
}

// TestFirstConsumer: claims of such a class wait for a pod, and for the scheduler's choice of a node.
func TestFirstConsumer(t *testing.T) {
	inBubble(t, []informer.Object{class("w", "x.io/p", waiting), pv("a", "5Gi", pvClass("w")), pv("mine", "5Gi", pvClass("w"), reserved("r"))}, func(b *bench) {
		b.add(claim("c", "1Gi", ofClass("w")))
		b.wantEvents("Normal WaitForFirstConsumer waiting for first consumer to be created before binding")
		b.wantPhases("a", corev1.VolumeAvailable, "c", corev1.ClaimPending)

		done := using("done", "c")
		done.Status.Phase = corev1.PodSucceeded
		placed := using("placed", "c")
		placed.Spec.NodeName = "n"
		ephemeral := using("e", "other")
		b.add(done)
		b.add(placed)
		b.add(ephemeral)
		b.round()
		b.wantEvents("Normal WaitForFirstConsumer waiting for first consumer to be created before binding")
		b.add(using("p", "c"))
		b.round()
		b.wantEvents("Normal WaitForPodScheduled waiting for pod p to be scheduled")
		b.add(using("q", "c"))
		b.round()
		b.wantEvents("Normal WaitForPodScheduled waiting for pods p,q to be scheduled")

		b.add(claim("r", "1Gi", ofClass("w")))
		b.wantBound("mine", "r")
		b.recorder.Take()

		change(b, b.claim("c"), func(c *corev1.PersistentVolumeClaim) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, volume.AnnSelectedNode, "n")
		})
		if a := b.claim("c").Annotations; a[volume.AnnStorageProvisioner] != "x.io/p" {
			b.Errorf("with a node the provisioner is not asked: %v", a)
		}
	})
}

// TestCapacity: what a claim gets of its volume, and when.
func TestCapacity(t *testing.T) {
	inBubble(t, []informer.Object{
		pv("a", "5Gi", annotated("volume.alpha.kubernetes.io/pre-resize-capacity", "3Gi"), func(v *corev1.PersistentVolume) { v.Spec.VolumeAttributesClassName = new("gold") }),
	}, func(b *bench) {
		b.add(claim("c", "1Gi", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = new("gold") }))
		if s := b.claim("c").Status; sizeOf(s.Capacity) != "3Gi" || s.CurrentVolumeAttributesClassName == nil || *s.CurrentVolumeAttributesClassName != "gold" {
			b.Errorf("status %+v", s)
		}
		change(b, b.volume("a"), func(v *corev1.PersistentVolume) {
			v.Annotations = nil
			v.Spec.Capacity[corev1.ResourceStorage], v.Spec.VolumeAttributesClassName = resource.MustParse("7Gi"), new("silver")
		})
		b.round()
		if s := b.claim("c").Status; sizeOf(s.Capacity) != "3Gi" || *s.CurrentVolumeAttributesClassName != "gold" {
			b.Errorf("a bound claim followed its volume: %+v", s)
		}
	})
}

// TestPreResize: an annotation that is no quantity is as good as none.
func TestPreResize(t *testing.T) {
	inBubble(t, []informer.Object{pv("a", "5Gi", annotated("volume.alpha.kubernetes.io/pre-resize-capacity", "much")), claim("c", "1Gi")}, func(b *bench) {
		b.wantBound("a", "c")
		if capacity := b.claim("c").Status.Capacity; sizeOf(capacity) != "5Gi" {
			b.Errorf("capacity %v", capacity)
		}
	})
}

// TestFailures: each write may fail; the binding is completed later.
func TestFailures(t *testing.T) {
	down := errors.New("down")
	for _, resource := range []string{"persistentvolumes", "persistentvolumes/status", "persistentvolumeclaims", "persistentvolumeclaims/status"} {
		t.Run(resource, func(t *testing.T) {
			inBubble(t, nil, func(b *bench) {
				b.api.Inject(faults.Fault{Verb: faults.Update, Resource: resource, Err: down, Times: 2})
				b.add(pv("a", "5Gi"))
				b.add(claim("c", "1Gi"))
				b.round()
				b.round()
				b.wantBound("a", "c")
			})
		})
	}
	inBubble(t, []informer.Object{class("x", "x.io/p")}, func(b *bench) {
		b.api.Inject(faults.Fault{Verb: faults.Update, Resource: "persistentvolumeclaims", Err: down, Times: 1})
		b.add(claim("c", "1Gi", ofClass("x")))
		b.round()
		got := b.recorder.Take()
		if len(got) == 0 || got[0] != "Warning ProvisioningFailed Error saving claim: down" {
			b.Errorf("events %q", got)
		}
		if a := b.claim("c").Annotations; a[volume.AnnStorageProvisioner] != "x.io/p" {
			b.Errorf("annotations %v", a)
		}
	})
}

// TestLag: a cache behind the controller's own writes does not make it write again.
func TestLag(t *testing.T) {
	inBubble(t, []informer.Object{pv("a", "5Gi"), pv("b", "5Gi")}, func(b *bench) {
		b.add(claim("c", "1Gi"))
		b.wantBound("a", "c")
		b.claimCache.Hold()
		b.add(claim("d", "1Gi"))
		b.claimCache.Resume()
		synctest.Wait()
		b.wantBound("b", "d")
	})
}
