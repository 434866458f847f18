package upkeep

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestOwn: the entry about the condition is replaced; those of others, about other parts and of other operations stay behind it.
func TestOwn(t *testing.T) {
	entry := func(name string, o metav1.ManagedFieldsOperationType, part string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: name, Operation: o, Subresource: part}
	}
	others := []metav1.ManagedFieldsEntry{
		entry("kubectl", metav1.ManagedFieldsOperationApply, "status"),
		entry(manager, metav1.ManagedFieldsOperationUpdate, "status"),
		entry(manager, metav1.ManagedFieldsOperationApply, ""),
	}
	meta := &metav1.ObjectMeta{ManagedFields: append([]metav1.ManagedFieldsEntry{entry(manager, metav1.ManagedFieldsOperationApply, "status")}, others...)}
	own(meta)
	if len(meta.ManagedFields) != 4 || meta.ManagedFields[0].FieldsV1 == nil {
		t.Fatalf("%+v", meta.ManagedFields)
	}
	for i, want := range others {
		if got := meta.ManagedFields[i+1]; got.Manager != want.Manager || got.Operation != want.Operation || got.Subresource != want.Subresource {
			t.Errorf("entry %d is %+v instead of %+v", i+1, got, want)
		}
	}
}
