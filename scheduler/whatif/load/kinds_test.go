package load_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/scheduler/whatif/load"
)

// TestKinds: all objects on which scheduling depends are kept, so that a second one of the same name is an error.
func TestKinds(t *testing.T) {
	of := metav1.ObjectMeta{Namespace: "ns", Name: "x"}
	for kept, all := range map[bool][]runtime.Object{
		true: {
			&corev1.Pod{ObjectMeta: of}, &corev1.Node{ObjectMeta: of}, &policyv1.PodDisruptionBudget{ObjectMeta: of}, &corev1.Namespace{ObjectMeta: of},
			&corev1.Service{ObjectMeta: of}, &corev1.ReplicationController{ObjectMeta: of}, &appsv1.ReplicaSet{ObjectMeta: of}, &appsv1.StatefulSet{ObjectMeta: of},
			&corev1.PersistentVolumeClaim{ObjectMeta: of}, &corev1.PersistentVolume{ObjectMeta: of}, &storagev1.StorageClass{ObjectMeta: of}, &storagev1.CSINode{ObjectMeta: of},
			&storagev1.CSIDriver{ObjectMeta: of}, &storagev1.CSIStorageCapacity{ObjectMeta: of}, &storagev1.VolumeAttachment{ObjectMeta: of},
		},
		false: {&corev1.ConfigMap{ObjectMeta: of}, &appsv1.Deployment{ObjectMeta: of}},
	} {
		objects := load.New()
		for _, obj := range all {
			if err := objects.Add(obj); err != nil {
				t.Errorf("%T: %v", obj, err)
			}
			err := objects.Add(obj)
			if (err != nil) != kept || kept && !strings.Contains(err.Error(), `of namespace "ns" and name "x"`) {
				t.Errorf("%T twice: %v", obj, err)
			}
		}
	}
}
