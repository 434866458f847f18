package pvbinder_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/pvbinder"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

// A volume is reserved for a claim, which therefore gets it. The API and the caches of it are in memory.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	resource := corev1.SchemeGroupVersion.WithResource
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	size := corev1.ResourceList{corev1.ResourceStorage: apiresource.MustParse("1Gi")}
	disk := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Spec: corev1.PersistentVolumeSpec{
		Capacity: size, AccessModes: modes, ClaimRef: &corev1.ObjectReference{Namespace: "ns", Name: "data"},
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/disk"}},
	}}
	data := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: modes, Resources: corev1.VolumeResourceRequirements{Requests: size},
	}}
	api, err := controllerstest.New(controllerstest.Options{
		Objects: []informer.Object{disk, data},
		Before: func(r faults.Request) error {
			if c, ok := r.Object.(*corev1.PersistentVolumeClaim); ok && c.Status.Phase == corev1.ClaimBound {
				fmt.Println(c.Name, c.Status.Phase, c.Spec.VolumeName)
				stop()
			}
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	in := pvbinder.Sources{
		Volumes: informer.New(controllerstest.Source[*corev1.PersistentVolume](api, resource("persistentvolumes")), informer.Options{}),
		Claims:  informer.New(controllerstest.Source[*corev1.PersistentVolumeClaim](api, resource("persistentvolumeclaims")), informer.Options{}),
		Classes: informer.New(controllerstest.Source[*storagev1.StorageClass](api, storagev1.SchemeGroupVersion.WithResource("storageclasses")), informer.Options{}),
		Pods:    informer.New(controllerstest.Source[*corev1.Pod](api, controllerstest.Pods()), informer.Options{}),
	}
	loop := controllers.NewLoop(pvbinder.New(in, api, events.Discard(), pvbinder.Options{}), controllers.Options{})
	if err := lifecycle.Group(api, in.Volumes, in.Claims, in.Classes, in.Pods, loop).Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: data Bound disk
}
