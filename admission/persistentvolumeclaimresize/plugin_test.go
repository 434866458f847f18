package persistentvolumeclaimresize_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/persistentvolumeclaimresize"
)

// classes maps names to whether volumes of the class may grow.
type classes map[string]*bool

func (c classes) Get(_, name string) (*storagev1.StorageClass, bool) {
	grow, ok := c[name]
	if !ok {
		return nil, false
	}
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, AllowVolumeExpansion: grow}, true
}

func claim(size, class string, phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"},
		Spec:       corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}}},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: phase},
	}
	if class != "" {
		c.Spec.StorageClassName = &class
	}
	return c
}

func annotated(c *corev1.PersistentVolumeClaim, class string) *corev1.PersistentVolumeClaim {
	c.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: class}
	return c
}

func TestResize(t *testing.T) {
	const bound, pending = corev1.ClaimBound, corev1.ClaimPending
	const unbound = `persistentvolumeclaims "c" is forbidden: Only bound persistent volume claims can be expanded`
	const fixed = `persistentvolumeclaims "c" is forbidden: only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize`
	p := persistentvolumeclaimresize.New(classes{"grows": new(true), "fixed": new(false), "unset": nil})
	admissiontest.TestPlugin(t, p, admissiontest.Update(t, claim("1Gi", "grows", bound), claim("2Gi", "grows", bound)))
	for name, tt := range map[string]struct {
		old, now *corev1.PersistentVolumeClaim
		refused  string
	}{
		"allowed":            {old: claim("1Gi", "grows", bound), now: claim("2Gi", "grows", bound)},
		"by annotation":      {old: annotated(claim("1Gi", "fixed", bound), "grows"), now: annotated(claim("2Gi", "fixed", bound), "grows")},
		"the same":           {old: claim("1Gi", "fixed", bound), now: claim("1Gi", "fixed", bound)},
		"smaller":            {old: claim("2Gi", "fixed", bound), now: claim("1Gi", "fixed", bound)},
		"pending":            {claim("1Gi", "grows", pending), claim("2Gi", "grows", bound), unbound},
		"not allowed":        {claim("1Gi", "fixed", bound), claim("2Gi", "fixed", bound), fixed},
		"not said":           {claim("1Gi", "unset", bound), claim("2Gi", "unset", bound), fixed},
		"no such class":      {claim("1Gi", "gone", bound), claim("2Gi", "gone", bound), fixed},
		"no class":           {claim("1Gi", "", bound), claim("2Gi", "", bound), fixed},
		"another class":      {claim("1Gi", "fixed", bound), claim("2Gi", "grows", bound), fixed},
		"a class for no one": {claim("1Gi", "", bound), claim("2Gi", "grows", bound), fixed},
	} {
		t.Run(name, func(t *testing.T) {
			r := admissiontest.Update(t, tt.old, tt.now)
			if tt.refused == "" {
				admissiontest.Admits(t, p, r, tt.now)
			} else {
				admissiontest.Refuses(t, p, r, tt.refused)
			}
		})
	}
	status := admissiontest.Update(t, claim("1Gi", "fixed", bound), claim("2Gi", "fixed", bound), admissiontest.Subresource("status"))
	admissiontest.Admits(t, p, status, claim("2Gi", "fixed", bound))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	admissiontest.Admits(t, p, admissiontest.Update(t, pod, pod), pod)
	for _, r := range []*admission.Request{
		{Operation: admission.Update, Object: pod, OldObject: claim("1Gi", "fixed", bound)}, {Operation: admission.Update, Object: claim("2Gi", "fixed", bound), OldObject: pod},
	} {
		if err := p.Validate(t.Context(), r); err != nil {
			t.Errorf("%T to %T: %v", r.OldObject, r.Object, err)
		}
	}
	if p.Handles(admission.Create) || p.Handles(admission.Delete) || p.Handles(admission.Connect) {
		t.Error("it is for updates only")
	}
}

func Example() {
	plugin := persistentvolumeclaimresize.New(classes{"fixed": new(false)})
	r := &admission.Request{Operation: admission.Update, Name: "c", OldObject: claim("1Gi", "fixed", corev1.ClaimBound), Object: claim("2Gi", "fixed", corev1.ClaimBound)}
	r.Resource.Resource = "persistentvolumeclaims"
	fmt.Println(plugin.Validate(context.Background(), r))
	// Output: persistentvolumeclaims "c" is forbidden: only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize
}
