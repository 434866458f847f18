package quota_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/internal/quota"
)

func text(list corev1.ResourceList) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		quantity := list[name]
		parts = append(parts, string(name)+"="+quantity.String())
	}
	return strings.Join(parts, " ")
}

func list(text string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for pair := range strings.FieldsSeq(text) {
		name, quantity, _ := strings.Cut(pair, "=")
		l[corev1.ResourceName(name)] = resource.MustParse(quantity)
	}
	return l
}

// TestUsage covers kinds that the tests of admission and the comparisons with upstream leave out.
func TestUsage(t *testing.T) {
	gold := "gold"
	claim := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: &gold, Resources: corev1.VolumeResourceRequirements{Requests: list("storage=1500m")}}}
	grown := claim.DeepCopy()
	grown.Status.AllocatedResources = list("storage=5")
	devices := &resourcev1.ResourceClaim{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
		{Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gold", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 2}},
		{FirstAvailable: []resourcev1.DeviceSubRequest{
			{DeviceClassName: "gold", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1},
			{DeviceClassName: "gold", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 3},
			{DeviceClassName: "tin", AllocationMode: resourcev1.DeviceAllocationModeAll},
		}},
	}}}}
	const counted = "count/persistentvolumeclaims=1 gold.storageclass.storage.k8s.io/persistentvolumeclaims=1 gold.storageclass.storage.k8s.io/requests.storage="
	for _, c := range []struct {
		gr   schema.GroupResource
		obj  runtime.Object
		want string
	}{
		{schema.GroupResource{Resource: "persistentvolumeclaims"}, claim, counted + "2 persistentvolumeclaims=1 requests.storage=2"},
		{schema.GroupResource{Resource: "persistentvolumeclaims"}, grown, counted + "5 persistentvolumeclaims=1 requests.storage=5"},
		{schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"}, devices,
			"count/resourceclaims.resource.k8s.io=1 gold.deviceclass.resource.k8s.io/devices=5 tin.deviceclass.resource.k8s.io/devices=32"},
		{schema.GroupResource{Resource: "configmaps"}, &corev1.ConfigMap{}, "configmaps=1 count/configmaps=1"},
		{schema.GroupResource{Group: "apps", Resource: "deployments"}, nil, "count/deployments.apps=1"},
	} {
		e := quota.For(c.gr)
		usage := e.Usage(c.obj, time.Now())
		if got := text(usage); got != c.want {
			t.Errorf("%s: %s, want %s", c.gr, got, c.want)
		}
		for name := range usage {
			if !e.Tracks(name) {
				t.Errorf("%s: %s is not tracked", c.gr, name)
			}
		}
	}
}

// TestShared: measuring modifies no object, even one with large quantities.
func TestShared(t *testing.T) {
	large := list("cpu=1.00000000000000000000 memory=92233720368547758070000")
	pod := &corev1.Pod{Spec: corev1.PodSpec{Overhead: large, Containers: []corev1.Container{
		{Name: "a", Resources: corev1.ResourceRequirements{Requests: large}}, {Name: "b", Resources: corev1.ResourceRequirements{Requests: large}}}}}
	before := pod.DeepCopy()
	first := text(quota.For(schema.GroupResource{Resource: "pods"}).Usage(pod, time.Now()))
	second := text(quota.For(schema.GroupResource{Resource: "pods"}).Usage(pod, time.Now()))
	if first != second || !reflect.DeepEqual(pod, before) {
		t.Errorf("%s, then %s", first, second)
	}
}

func TestLists(t *testing.T) {
	a, b := list("x=1 y=2"), list("y=3 z=4")
	for what, got := range map[string]corev1.ResourceList{
		"x=1 y=5 z=4":   quota.Add(a, b),
		"x=1 y=-1 z=-4": quota.Sub(a, b),
		"x=1":           quota.Positive(quota.Sub(a, b)),
		"y=2":           quota.Mask(a, b),
		"x=1 y=0":       quota.Refund(a, b),
	} {
		if text(got) != what {
			t.Errorf("%s, want %s", text(got), what)
		}
	}
	if quota.Equal(a, b) || !quota.Equal(a, list("x=1000m y=2")) {
		t.Error("lists are compared otherwise than by their quantities")
	}
}

func Example() {
	q := &corev1.ResourceQuota{Status: corev1.ResourceQuotaStatus{Hard: list("configmaps=2"), Used: list("configmaps=1")}}
	q.Name = "small"
	claim, err := quota.NewClaim(quota.For(schema.GroupResource{Resource: "configmaps"}), &corev1.ConfigMap{}, nil, time.Now())
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		amount, err := claim.Charge(q)
		fmt.Println(text(amount), err)
		q.Status.Used = quota.Add(q.Status.Used, amount)
	}
	// Output:
	// configmaps=1 <nil>
	//  exceeded quota: small, requested: configmaps=1, used: configmaps=2, limited: configmaps=2
}
