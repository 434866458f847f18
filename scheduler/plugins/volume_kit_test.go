package plugins_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
	"github.com/keelson-dev/keelson/scheduler/volumes"
)

// stock is what a cluster has of volumes.
type stock struct {
	in volumes.Sources
	*volumes.Volumes
}

func empty[T informer.Object]() *informer.Informer[T] {
	return informer.New[T](memory.New[T](), informer.Options{})
}

// stocked returns a cluster with objects, and with the classes "late", whose claims wait for pods and for which volumes
// are made, "local", which has none made, and "now", whose claims do not wait.
func stocked(objects ...informer.Object) *stock {
	s := &stock{in: volumes.Sources{
		Nodes: empty[*corev1.Node](), Claims: empty[*corev1.PersistentVolumeClaim](), Volumes: empty[*corev1.PersistentVolume](),
		Classes: empty[*storagev1.StorageClass](), CSINodes: empty[*storagev1.CSINode](), CSIDrivers: empty[*storagev1.CSIDriver](),
		Capacities: empty[*storagev1.CSIStorageCapacity](), Attachments: empty[*storagev1.VolumeAttachment](),
	}}
	s.Volumes = volumes.New(s.in, nil, volumes.Options{})
	s.put(class("late", "disk.example.com", storagev1.VolumeBindingWaitForFirstConsumer), class("local", "kubernetes.io/no-provisioner", storagev1.VolumeBindingWaitForFirstConsumer),
		class("now", "disk.example.com", storagev1.VolumeBindingImmediate))
	s.put(objects...)
	return s
}

func (s *stock) put(objects ...informer.Object) {
	for _, obj := range objects {
		switch obj := obj.(type) {
		case *corev1.Node:
			s.in.Nodes.Put(obj)
		case *corev1.PersistentVolumeClaim:
			s.in.Claims.Put(obj)
		case *corev1.PersistentVolume:
			s.in.Volumes.Put(obj)
		case *storagev1.StorageClass:
			s.in.Classes.Put(obj)
		case *storagev1.CSINode:
			s.in.CSINodes.Put(obj)
		case *storagev1.CSIDriver:
			s.in.CSIDrivers.Put(obj)
		case *storagev1.CSIStorageCapacity:
			s.in.Capacities.Put(obj)
		case *storagev1.VolumeAttachment:
			s.in.Attachments.Put(obj)
		}
	}
}

func class(name, provisioner string, mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: &mode}
}

// changed changes an object and returns it.
func changed[T any](obj T, changes ...func(T)) T {
	for _, change := range changes {
		change(obj)
	}
	return obj
}

// claimed returns an unbound claim for 1Gi of a class.
func claimed(name, class string, changes ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	return changed(&corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), ResourceVersion: "1"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: list("storage", "1Gi")},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}, changes...)
}

// has binds a claim to a volume.
func has(volume string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeName, c.Status.Phase = volume, corev1.ClaimBound
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, "pv.kubernetes.io/bind-completed", "yes")
	}
}

// disk returns an available volume of a size and of the class "local".
func disk(name, size string, changes ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	return changed(&corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: "local", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Capacity: list("storage", size),
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}, changes...)
}

// at makes a volume reachable from nodes with one of the values of a label.
func at(key string, values ...string) func(*corev1.PersistentVolume) {
	return func(pv *corev1.PersistentVolume) {
		pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}},
		}}}}
	}
}

// from makes a volume one of a CSI driver.
func from(driver, handle string) func(*corev1.PersistentVolume) {
	return func(pv *corev1.PersistentVolume) {
		pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}
	}
}

// using returns a pod with claims.
func using(claims ...string) *corev1.Pod {
	p := pod()
	p.Namespace, p.Name, p.UID = "ns", "p", "p"
	for _, name := range claims {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}})
	}
	return p
}

// inline returns a pod with a volume of its own.
func inline(source corev1.VolumeSource) *corev1.Pod {
	p := using()
	p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}}
	return p
}

// ephemeral returns a pod with the ephemeral volume "e", whose claim is "p-e".
func ephemeral() *corev1.Pod {
	p := inline(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}})
	p.Spec.Volumes[0].Name = "e"
	return p
}

// owned makes a claim that of a pod's ephemeral volume.
func owned(uid types.UID) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: "p", UID: uid, Controller: ptr.To(true)}}
	}
}

// labeled returns the node "n" with labels, from pairs.
func labeled(pairs ...string) *corev1.Node {
	n := node("n", "pods", "10")
	n.Labels = map[string]string{corev1.LabelHostname: "n"}
	for i := 0; i < len(pairs); i += 2 {
		n.Labels[pairs[i]] = pairs[i+1]
	}
	return n
}

// described tells all that a refusal says, which cmp does not compare where errors are compared by their text.
func described(r *scheduler.Refusal) string {
	switch {
	case r == nil:
		return "passes"
	case r.Err != nil:
		return fmt.Sprintf("fails: %v, %q", r.Err, r.Reasons)
	}
	return fmt.Sprintf("refused because of %q, unresolvable %t", r.Reasons, r.Unresolvable)
}

// placing is a case of a plugin about volumes.
type placing struct {
	stock *stock
	pod   *corev1.Pod
	node  *corev1.Node
	there []*corev1.Pod // on the node
	want  *scheduler.Refusal
}

// decides tests what a profile of one plugin says of the node "n", or of the pod as a whole.
func decides(t *testing.T, p scheduler.Plugin, tests map[string]placing) {
	t.Helper()
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			all := plugins.WithVolumes([]scheduler.Enabled{{Plugin: p}}, tt.stock.Volumes)
			for _, other := range tt.there {
				other.Spec.NodeName = "n"
			}
			if tt.node == nil {
				tt.node = labeled()
			}
			d := (&scheduler.Profile{Plugins: all}).Schedule(tt.pod, scheduler.NewSnapshot([]*corev1.Node{tt.node}, tt.there))
			var got *scheduler.Refusal
			if len(d.Verdicts) > 0 {
				got = d.Verdicts[0].Refusal
			}
			if got == nil && d.Err != nil {
				got = &scheduler.Refusal{Err: d.Err}
			}
			if diff := cmp.Diff(described(tt.want), described(got)); diff != "" {
				t.Errorf("%s\n%v", diff, d)
			}
		})
	}
}
