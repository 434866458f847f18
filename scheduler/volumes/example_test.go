package volumes_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
	"github.com/keelson-dev/keelson/scheduler/volumes"
)

// none returns an informer of a kind that the cluster has no objects of.
func none[T informer.Object]() *informer.Informer[T] {
	return informer.New[T](memory.New[T](), informer.Options{})
}

// A pod goes where the volume of its claim is. Here the informers are filled by hand; in a scheduler they run.
func Example() {
	in := volumes.Sources{
		Nodes: none[*corev1.Node](), Claims: none[*corev1.PersistentVolumeClaim](), Volumes: none[*corev1.PersistentVolume](),
		Classes: none[*storagev1.StorageClass](), CSINodes: none[*storagev1.CSINode](), CSIDrivers: none[*storagev1.CSIDriver](),
		Capacities: none[*storagev1.CSIStorageCapacity](), Attachments: none[*storagev1.VolumeAttachment](),
	}
	in.Claims.Put(&corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "disk"},
	})
	in.Volumes.Put(&corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "disk"},
		Spec: corev1.PersistentVolumeSpec{NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"b"}},
			}}},
		}}},
	})
	profile := scheduler.Profile{Plugins: plugins.WithVolumes(
		[]scheduler.Enabled{{Plugin: plugins.VolumeBinding{}}}, volumes.New(in, nil, volumes.Options{}),
	)}
	node := func(name string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{{
		Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}},
	}}}}
	fmt.Print(profile.Schedule(pod, scheduler.NewSnapshot([]*corev1.Node{node("a"), node("b")}, nil)))
	// Output:
	// default/db goes to b: 1/2 nodes are available
	//   b passes and was not scored
	//   NODE  REFUSED BY     REASON                                                 PREEMPTION
	//   a     VolumeBinding  node(s) didn't match PersistentVolume's node affinity  no help
}
