package volumes_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/volumes"
)

// csiNode says which drivers run on node "n", with as many volumes at most; 0 is no limit.
func csiNode(limits map[string]int32) *storagev1.CSINode {
	n := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		d := storagev1.CSINodeDriver{Name: name}
		if limits[name] > 0 {
			d.Allocatable = &storagev1.VolumeNodeResources{Count: ptr.To(limits[name])}
		}
		n.Spec.Drivers = append(n.Spec.Drivers, d)
	}
	return n
}

// from returns a volume with a source.
func from(name string, source corev1.PersistentVolumeSource) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: source}}
}

// of returns a claim that has a volume, or a class, or both.
func of(volume, class string) *corev1.PersistentVolumeClaim {
	c := claim("x", class)
	c.Spec.VolumeName, c.Annotations = volume, map[string]string{completed: "yes"}
	return c
}

func ebs(id string) corev1.PersistentVolumeSource {
	return corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: id}}
}

func inline(source corev1.VolumeSource) *corev1.Pod {
	p := pod("a")
	p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}}
	return p
}

// TestAddOf: which volumes of a pod count as a driver's.
func TestAddOf(t *testing.T) {
	csi := func(handle string) corev1.PersistentVolumeSource {
		return corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "disk.example.com", VolumeHandle: handle}}
	}
	files := corev1.PersistentVolumeSource{AzureFile: &corev1.AzureFilePersistentVolumeSource{ShareName: "s", SecretName: "s", SecretNamespace: ptr.To("ns")}}
	former := func(plugin string) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "former"}, Provisioner: plugin}
	}
	ephemeral := inline(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}})
	own := claim("a-v", "made")
	own.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(ephemeral, corev1.SchemeGroupVersion.WithKind("Pod"))}
	here := csiNode(nil)
	for name, tt := range map[string]struct {
		pod     *corev1.Pod // one with the claim x if it is nil
		objects []any
		want    string
	}{
		"a driver's":                              {nil, []any{of("d", ""), from("d", csi("h")), here}, "disk.example.com/h"},
		"a driver's, on a node without any":       {nil, []any{of("d", ""), from("d", csi("h"))}, "disk.example.com/h"},
		"no handle":                               {nil, []any{of("d", ""), from("d", csi("")), here}, ""},
		"a former plugin's":                       {nil, []any{of("d", ""), from("d", ebs("vol-1")), here}, "ebs.csi.aws.com/vol-1"},
		"a former plugin's, without driver":       {nil, []any{of("d", ""), from("d", ebs("vol-1"))}, ""},
		"an invalid one":                          {nil, []any{of("d", ""), from("d", ebs("aws://zone/disk")), here}, ""},
		"of a plugin without limits":              {nil, []any{of("d", ""), from("d", files), here}, ""},
		"local":                                   {nil, []any{of("d", ""), disk("d", "n"), here}, ""},
		"to be made":                              {nil, []any{of("", "made"), here}, "disk.example.com/\x00ns/x"},
		"to be made, whatever volume has no name": {nil, []any{of("", "made"), from("", csi("h"))}, "disk.example.com/\x00ns/x"},
		"missing":                                 {nil, []any{of("gone", "made"), here}, "disk.example.com/\x00ns/x"},
		"to be made for a former plugin":          {nil, []any{of("", "former"), former("kubernetes.io/aws-ebs"), here}, "ebs.csi.aws.com/\x00ns/x"},
		"for one, without driver":                 {nil, []any{of("", "former"), former("kubernetes.io/aws-ebs")}, ""},
		"for one without limits":                  {nil, []any{of("", "former"), former("kubernetes.io/azure-file"), here}, ""},
		"of a class without a driver":             {nil, []any{of("", "former"), former(""), here}, ""},
		"of no class":                             {nil, []any{of("", "none"), here}, ""},
		"no claim":                                {nil, []any{here}, `looking up PVC ns/x: persistentvolumeclaim "x" not found`},
		"no name":                                 {inline(pod("a", "").Spec.Volumes[0].VolumeSource), nil, "PersistentVolumeClaim had no name"},
		"its own":                                 {ephemeral, []any{own, here}, "disk.example.com/\x00ns/a-v"},
		"another's":                               {ephemeral, []any{claim("a-v", "made"), here}, "PVC ns/a-v was not created for pod ns/a (pod is not owner)"},
		"without a claim":                         {inline(corev1.VolumeSource{AWSElasticBlockStore: ebs("vol-2").AWSElasticBlockStore}), []any{here}, "ebs.csi.aws.com/vol-2"},
		"without a claim, without driver":         {inline(corev1.VolumeSource{AWSElasticBlockStore: ebs("vol-2").AWSElasticBlockStore}), nil, ""},
		"without a claim, invalid":                {inline(corev1.VolumeSource{AWSElasticBlockStore: ebs("aws://zone/disk").AWSElasticBlockStore}), []any{here}, "converting volume(v) from inline to csi: "},
		"without a claim, without limits":         {inline(corev1.VolumeSource{AzureFile: &corev1.AzureFileVolumeSource{SecretName: "s", ShareName: "s"}}), []any{here}, ""},
		"a directory":                             {inline(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}), []any{here}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, _ *server, v *volumes.Volumes) {
				p := tt.pod
				if p == nil {
					p = pod("a", "x")
				}
				to := volumes.Attached{}
				err := v.AddOf(p, "n", false, to)
				got := strings.Join(slices.Sorted(maps.Keys(to)), " ")
				if err != nil {
					got += err.Error()
				}
				if tt.want == "" && got != "" || !strings.HasPrefix(got, tt.want) {
					t.Errorf("got %q, want %q", got, tt.want)
				}
				if driver, _, _ := strings.Cut(got, "/"); err == nil && got != "" && to[got] != driver {
					t.Errorf("%q is of driver %q", got, to[got])
				}
			}, with(tt.objects...))
		})
	}
	run(t, func(t *testing.T, _ *server, v *volumes.Volumes) {
		to := volumes.Attached{}
		if err := v.AddOf(pod("a", "gone", "x"), "n", true, to); err != nil || len(to) != 1 {
			t.Errorf("of a pod on a node, one of whose claims has gone: %v, %v", to, err)
		}
	}, with(of("", "made"), here))
}

// TestDriversOfNodes: limits, missing drivers and what is attached.
func TestDriversOfNodes(t *testing.T) {
	driver := func(name string, prevent *bool) *storagev1.CSIDriver {
		return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSIDriverSpec{PreventPodSchedulingIfMissing: prevent}}
	}
	attached := func(name, node, attacher string, volume *string) *storagev1.VolumeAttachment {
		return &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.VolumeAttachmentSpec{
			Attacher: attacher, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: volume},
		}}
	}
	csi := func(name string) *corev1.PersistentVolume {
		return from(name, corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "x", VolumeHandle: "h-" + name}})
	}
	drivers := csiNode(map[string]int32{"a": 3, "b": 0})
	drivers.Spec.Drivers[1].Allocatable = &storagev1.VolumeNodeResources{} // which has no limit either
	run(t, func(t *testing.T, _ *server, v *volumes.Volumes) {
		want(t, "map[a:3]", fmt.Sprint(v.Limits("n")))
		want(t, "map[]", fmt.Sprint(v.Limits("m")))
		for name, installed := range map[string]bool{"a": true, "b": true, "must": false, "may": true, "unknown": true, "silent": true} {
			if v.Installed(name, "n") != installed {
				t.Errorf("%s on n: installed is not %t", name, installed)
			}
		}
		if v.Installed("a", "m") || !v.Installed("may", "m") {
			t.Error("where no driver runs")
		}
		for node, all := range map[string]string{"n": "x/h-1 y/h-3", "m": "x/h-2", "o": ""} {
			to := volumes.Attached{}
			v.AddAttached(node, to)
			want(t, all, strings.Join(slices.Sorted(maps.Keys(to)), " "))
		}
	}, with(drivers, driver("a", ptr.To(true)), driver("must", ptr.To(true)), driver("may", ptr.To(false)), driver("silent", nil),
		csi("1"), csi("2"), csi("3"), disk("4", "n"), attached("a1", "n", "x", ptr.To("1")), attached("a2", "m", "x", ptr.To("2")), attached("a3", "n", "y", ptr.To("3")),
		attached("a4", "n", "x", ptr.To("4")), attached("a5", "n", "x", ptr.To("gone")), attached("a6", "n", "x", nil), attached("a7", "n", "", ptr.To("2"))))
}

// TestWatchAll: each kind tells of the events that can help a pod, and of no others.
func TestWatchAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		v := volumes.New(s.in, s, volumes.Options{})
		var mu sync.Mutex
		told := map[string]string{}
		v.Watch(func(e scheduler.Event) {
			mu.Lock()
			defer mu.Unlock()
			switch e.Kind {
			case scheduler.ObjectAdded:
				told[fmt.Sprintf("%T", e.Object)] += "+" + e.Object.GetName()
			case scheduler.ObjectUpdated:
				told[fmt.Sprintf("%T", e.Object)] += "~" + e.OldObject.GetName()
			case scheduler.ObjectDeleted:
				told[fmt.Sprintf("%T", e.OldObject)] += "-" + e.OldObject.GetName()
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		s.classes.Delete("", "local")
		s.classes.Delete("", "made")
		for _, run := range []func(context.Context) error{
			s.in.Claims.Run, s.in.Volumes.Run, s.in.Classes.Run, s.in.CSINodes.Run, s.in.CSIDrivers.Run, s.in.Capacities.Run, s.in.Attachments.Run, s.in.Nodes.Run,
		} {
			all.Go(func() { _ = run(ctx) })
		}
		named := metav1.ObjectMeta{Name: "x"}
		for range 2 {
			synctest.Wait()
			with(claim("x", ""), disk("x", "n"), &storagev1.StorageClass{ObjectMeta: named}, &storagev1.CSINode{ObjectMeta: named}, &storagev1.CSIDriver{ObjectMeta: named},
				&storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x"}}, &storagev1.VolumeAttachment{ObjectMeta: named})(s)
		}
		synctest.Wait()
		s.claims.Delete("ns", "x")
		s.capacities.Delete("ns", "x")
		s.volumes.Delete("", "x")
		s.classes.Delete("", "x")
		s.csiNodes.Delete("", "x")
		s.drivers.Delete("", "x")
		s.attachments.Delete("", "x")
		synctest.Wait()
		mu.Lock()
		want(t, "map[*v1.CSIDriver:~x *v1.CSINode:+x~x *v1.CSIStorageCapacity:+x~x *v1.PersistentVolume:+x~x *v1.PersistentVolumeClaim:+x~x "+
			"*v1.StorageClass:+x~x *v1.VolumeAttachment:-x]", fmt.Sprint(told))
		mu.Unlock()
		cancel()
		all.Wait()
	})
}
