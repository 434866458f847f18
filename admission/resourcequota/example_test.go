package resourcequota_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/resourcequota"
)

// inMemory is one quota.
type inMemory struct{ quota *corev1.ResourceQuota }

// List implements resourcequota.Quotas.
func (m *inMemory) List(string) []*corev1.ResourceQuota { return []*corev1.ResourceQuota{m.quota} }

// Modify implements resourcequota.Charger.
func (m *inMemory) Modify(_ context.Context, _, _ string, change func(*corev1.ResourceQuota) error) error {
	next := m.quota.DeepCopy()
	if err := change(next); err != nil {
		return err
	}
	m.quota = next
	return nil
}

// A namespace may have one pod. Its quota is in memory.
func Example() {
	pods := func(n string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourcePods: resource.MustParse(n)}
	}
	quota := &inMemory{&corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "small"},
		Spec:       corev1.ResourceQuotaSpec{Hard: pods("1")},
		Status:     corev1.ResourceQuotaStatus{Hard: pods("1"), Used: pods("0")},
	}}
	plugin := resourcequota.New(quota, quota, resourcequota.Options{})
	for range 2 {
		fmt.Println(plugin.Validate(context.Background(), &admission.Request{
			Operation: admission.Create, Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespace: "ns", Name: "p",
			Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}},
		}))
	}
	// Output:
	// <nil>
	// pods "p" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1
}
