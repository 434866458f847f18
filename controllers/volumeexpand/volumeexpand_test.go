package volumeexpand_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/volumeexpand"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

func core(name string) schema.GroupVersionResource {
	return corev1.SchemeGroupVersion.WithResource(name)
}

func size(s string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(s)}
}

// second is the uid of the second object that an API makes.
const second = "uid-00002"

// claimOf is a claim that has a size and wants one, bound to a volume of its name.
func claimOf(has, wants string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "default"},
		Spec: corev1.PersistentVolumeClaimSpec{
			VolumeName: "data", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: size(wants)},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: size(has)},
	}
}

func volumeOf(source corev1.PersistentVolumeSource) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size("1Gi"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			ClaimRef:               &corev1.ObjectReference{Namespace: "default", Name: "data", UID: second},
			PersistentVolumeSource: source,
		},
	}
}

func csi() corev1.PersistentVolumeSource {
	return corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "disks.example.com", VolumeHandle: "h"}}
}

// bench is a running controller with an API, in a bubble.
type bench struct {
	*testing.T
	api    *controllerstest.API
	events controllerstest.Recorder
}

func inBubble(t *testing.T, pv *corev1.PersistentVolume, test func(*bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, api: controllerstest.Start(t, controllerstest.Options{Objects: []informer.Object{pv}})}
		in := informer.New(controllerstest.Source[*corev1.PersistentVolumeClaim](b.api, core("persistentvolumeclaims")),
			informer.Options{DetectMutations: func(err error) { t.Error(err) }})
		controllerstest.Go(t, in, controllers.NewLoop(volumeexpand.New(in, b.api, &b.events), controllers.Options{Workers: 10}))
		synctest.Wait()
		test(b)
	})
}

func (b *bench) claim() *corev1.PersistentVolumeClaim {
	b.Helper()
	synctest.Wait()
	claim, err := client.As[*corev1.PersistentVolumeClaim](b.api.Others.Get(b.Context(), client.Target{
		Resource: core("persistentvolumeclaims"), Namespace: "default", Name: "data",
	}))
	if err != nil {
		b.Fatal(err)
	}
	return claim
}

// want checks the events since the last time and the annotation.
func (b *bench) want(resizer string, events ...string) {
	b.Helper()
	if got := b.claim().Annotations[volumeexpand.Resizer]; got != resizer {
		b.Errorf("resizer %q, want %q", got, resizer)
	}
	if got := b.events.Take(); !slices.Equal(got, events) {
		b.Errorf("events %q, want %q", got, events)
	}
}

const waiting = "Normal ExternalExpanding waiting for an external controller to expand this PVC"

// TestSources: what is said depends on what the volume is.
func TestSources(t *testing.T) {
	fs := "f"
	for _, test := range []struct {
		name            string
		source          corev1.PersistentVolumeSource
		resizer, plugin string
	}{
		{"CSI", csi(), "", ""},
		{"a directory", corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}}, "", ""},
		{"EBS", corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "x"}}, "ebs.csi.aws.com", "aws-ebs"},
		{"GCE", corev1.PersistentVolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: "x"}}, "pd.csi.storage.gke.io", "gce-pd"},
		{"Azure disk", corev1.PersistentVolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{DiskName: "x", DataDiskURI: "https://a.blob.core.windows.net/c/x.vhd"}}, "disk.csi.azure.com", "azure-disk"},
		{"Azure file", corev1.PersistentVolumeSource{AzureFile: &corev1.AzureFilePersistentVolumeSource{SecretName: "s", ShareName: "x", SecretNamespace: &fs}}, "file.csi.azure.com", "azure-file"},
		{"Cinder", corev1.PersistentVolumeSource{Cinder: &corev1.CinderPersistentVolumeSource{VolumeID: "x"}}, "cinder.csi.openstack.org", "cinder"},
		{"vSphere", corev1.PersistentVolumeSource{VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{VolumePath: "x"}}, "csi.vsphere.vmware.com", "vsphere-volume"},
		{"Portworx", corev1.PersistentVolumeSource{PortworxVolume: &corev1.PortworxVolumeSource{VolumeID: "x"}}, "pxd.portworx.com", "portworx-volume"},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, volumeOf(test.source), func(b *bench) {
				controllerstest.Add(b, b.api, claimOf("1Gi", "2Gi"))
				want := waiting
				if test.plugin != "" {
					want = "Normal ExternalExpanding CSI migration enabled for kubernetes.io/" + test.plugin + "; waiting for external resizer to expand the pvc"
				}
				b.want(test.resizer, want)
			})
		})
	}
}

// TestNothingToExpand: claims that have what they want, and those that are not bound.
func TestNothingToExpand(t *testing.T) {
	unbound := claimOf("1Gi", "2Gi")
	unbound.Status.Phase = corev1.ClaimPending
	free, other, elsewhere := volumeOf(csi()), volumeOf(csi()), volumeOf(csi())
	free.Spec.ClaimRef, other.Spec.ClaimRef.UID, elsewhere.Spec.ClaimRef.Namespace = nil, "another", "another"
	annotated := volumeOf(csi())
	annotated.Annotations = map[string]string{"volume.alpha.kubernetes.io/pre-resize-capacity": "1Gi"}
	for name, test := range map[string]struct {
		pv    *corev1.PersistentVolume
		claim *corev1.PersistentVolumeClaim
		want  []string
	}{
		"enough":               {volumeOf(csi()), claimOf("2Gi", "2Gi"), nil},
		"more than enough":     {volumeOf(csi()), claimOf("3Gi", "2Gi"), nil},
		"unbound":              {volumeOf(csi()), unbound, nil},
		"of another":           {other, claimOf("1Gi", "2Gi"), nil},
		"of another namespace": {elsewhere, claimOf("1Gi", "2Gi"), nil},
		"expanded by halves":   {annotated, claimOf("2Gi", "2Gi"), []string{waiting}},
		"not large enough":     {volumeOf(csi()), claimOf("1Gi", "2Gi"), []string{waiting}},
		"of none":              {free, claimOf("1Gi", "2Gi"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, test.pv, func(b *bench) {
				controllerstest.Add(b, b.api, test.claim)
				b.want("", test.want...)
			})
		})
	}
}

// TestGrowth: a claim is looked at when it wants more, or has got more.
func TestGrowth(t *testing.T) {
	inBubble(t, volumeOf(csi()), func(b *bench) {
		controllerstest.Add(b, b.api, claimOf("1Gi", "1Gi"))
		b.want("")
		update := func(subresource string, change func(*corev1.PersistentVolumeClaim)) {
			b.Helper()
			claim := b.claim().DeepCopy()
			change(claim)
			at := client.Target{Resource: core("persistentvolumeclaims"), Namespace: "default", Name: "data", Subresource: subresource}
			if _, err := b.api.Others.Update(b.Context(), at, claim, metav1.UpdateOptions{}); err != nil {
				b.Fatal(err)
			}
			synctest.Wait()
		}
		update("", func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources.Requests = size("3Gi") })
		b.want("", waiting)
		update("", func(c *corev1.PersistentVolumeClaim) { c.Labels = map[string]string{"a": "b"} })
		b.want("")
		update("status", func(c *corev1.PersistentVolumeClaim) { c.Status.Capacity = size("2Gi") })
		b.want("", waiting)
		update("status", func(c *corev1.PersistentVolumeClaim) { c.Status.Capacity = size("3Gi") })
		b.want("")
	})
}

// TestFailures: failed requests are repeated, and the claim is told of those to annotate it.
func TestFailures(t *testing.T) {
	const migrates = "Normal ExternalExpanding CSI migration enabled for kubernetes.io/cinder; waiting for external resizer to expand the pvc"
	pv := volumeOf(corev1.PersistentVolumeSource{Cinder: &corev1.CinderPersistentVolumeSource{VolumeID: "x"}})
	inBubble(t, pv, func(b *bench) {
		b.api.Inject(faults.Fault{Verb: faults.Get, Err: errors.New("down")})
		b.api.Inject(faults.Fault{Verb: faults.Patch, Err: errors.New("refused")})
		controllerstest.Add(b, b.api, claimOf("1Gi", "2Gi"))
		time.Sleep(time.Second)
		b.want("cinder.csi.openstack.org", migrates,
			`Warning ExternalExpanding error setting resizer annotation to pvc default/data, with error patchPVCStatus failed to patch PVC "data": refused`, migrates)
	})
}

// TestBoundLater: a claim whose volume is not bound to it yet is looked at again.
func TestBoundLater(t *testing.T) {
	free := volumeOf(csi())
	free.Spec.ClaimRef = nil
	inBubble(t, free, func(b *bench) {
		controllerstest.Add(b, b.api, claimOf("1Gi", "2Gi"))
		b.want("")
		at := client.Target{Resource: core("persistentvolumes"), Name: "data"}
		pv, err := client.As[*corev1.PersistentVolume](b.api.Others.Get(b.Context(), at))
		if err != nil {
			b.Fatal(err)
		}
		pv = pv.DeepCopy()
		pv.Spec.ClaimRef = volumeOf(csi()).Spec.ClaimRef
		if _, err := b.api.Others.Update(b.Context(), at, pv, metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
		time.Sleep(time.Minute)
		b.want("", waiting)
	})
}

// A claim that has been enlarged gets an event that says whose turn it is. The API and the cache of it are in memory.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	api, err := controllerstest.New(controllerstest.Options{Objects: []informer.Object{volumeOf(csi()), claimOf("1Gi", "2Gi")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	in := informer.New(controllerstest.Source[*corev1.PersistentVolumeClaim](api, core("persistentvolumeclaims")), informer.Options{})
	recorder := events.Func(func(e events.Event) {
		fmt.Println(e.Regarding.Name+":", e.Message)
		stop()
	})
	loop := controllers.NewLoop(volumeexpand.New(in, api, recorder), controllers.Options{})
	if err := lifecycle.Group(api, in, loop).Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: data: waiting for an external controller to expand this PVC
}
