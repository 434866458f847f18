package attachdetach_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/attachdetach"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

// A pod on a node has its volume attached there. The API and the caches of it are in memory.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "default"},
		Spec: corev1.PersistentVolumeClaimSpec{
			VolumeName: "disk", AccessModes: modes, Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
	disk := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "disk"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes,
			ClaimRef:               &corev1.ObjectReference{Namespace: "default", Name: "data", UID: "uid-00001"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "disks.example.com", VolumeHandle: "1"}},
		},
	}
	pod := controllerstest.Complete(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "default"},
		Spec: corev1.PodSpec{NodeName: "a", Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}},
	})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	api, err := controllerstest.New(controllerstest.Options{
		Objects: []informer.Object{claim, disk, node, pod},
		Before: func(r faults.Request) error {
			if va, ok := r.Object.(*storagev1.VolumeAttachment); ok {
				fmt.Println(va.Spec.Attacher, *va.Spec.Source.PersistentVolumeName, "to", va.Spec.NodeName)
				stop()
			}
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	in := attachdetach.Sources{
		Pods:        cache[*corev1.Pod](api, corev1.SchemeGroupVersion.WithResource("pods")),
		Nodes:       cache[*corev1.Node](api, corev1.SchemeGroupVersion.WithResource("nodes")),
		Claims:      cache[*corev1.PersistentVolumeClaim](api, corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")),
		Volumes:     cache[*corev1.PersistentVolume](api, corev1.SchemeGroupVersion.WithResource("persistentvolumes")),
		Drivers:     cache[*storagev1.CSIDriver](api, storagev1.SchemeGroupVersion.WithResource("csidrivers")),
		Attachments: cache[*storagev1.VolumeAttachment](api, storagev1.SchemeGroupVersion.WithResource("volumeattachments")),
	}
	loop := controllers.NewLoop(attachdetach.New(in, api, events.Discard()), controllers.Options{})
	group := lifecycle.Group(api, in.Pods, in.Nodes, in.Claims, in.Volumes, in.Drivers, in.Attachments, loop)
	if err := group.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: disks.example.com disk to a
}

func cache[T informer.Object](api *controllerstest.API, resource schema.GroupVersionResource) *informer.Informer[T] {
	return informer.New(controllerstest.Source[T](api, resource), informer.Options{})
}
