package storageobjectinuseprotection_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/storageobjectinuseprotection"
)

func volume(finalizers ...string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v", Finalizers: finalizers}}
}

func claim(finalizers ...string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", Finalizers: finalizers}}
}

func TestFinalizers(t *testing.T) {
	const pv, pvc = storageobjectinuseprotection.VolumeFinalizer, storageobjectinuseprotection.ClaimFinalizer
	p := storageobjectinuseprotection.New()
	admissiontest.TestPlugin(t, p, admissiontest.Create(t, volume()), admissiontest.Create(t, claim()))
	admissiontest.Admits(t, p, admissiontest.Create(t, volume()), volume(pv))
	admissiontest.Admits(t, p, admissiontest.Create(t, volume(pv, "a/b")), volume(pv, "a/b"))
	admissiontest.Admits(t, p, admissiontest.Create(t, claim("a/b")), claim("a/b", pvc))
	admissiontest.Admits(t, p, admissiontest.Create(t, claim(pvc)), claim(pvc))
	admissiontest.Admits(t, p, admissiontest.Create(t, claim(), admissiontest.Subresource("x")), claim())
	class := func(finalizers ...string) *storagev1.VolumeAttributesClass {
		return &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: "c", Finalizers: finalizers}}
	}
	admissiontest.Admits(t, p, admissiontest.Create(t, class()), class(storageobjectinuseprotection.ClassFinalizer))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	admissiontest.Admits(t, p, admissiontest.Create(t, pod), pod)
	if p.Handles(admission.Update) || p.Handles(admission.Delete) || p.Handles(admission.Connect) {
		t.Error("it is for new objects only")
	}
}

func Example() {
	plugin, claim := storageobjectinuseprotection.New(), claim()
	r := &admission.Request{Operation: admission.Create, Object: claim}
	r.Resource.Resource = "persistentvolumeclaims"
	if err := plugin.Admit(context.Background(), r); err != nil {
		fmt.Println(err)
	}
	fmt.Println(claim.Finalizers)
	// Output: [kubernetes.io/pvc-protection]
}
