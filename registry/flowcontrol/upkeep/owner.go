package upkeep

import (
	"slices"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// manager is the field manager of the condition, as upstream's server calls itself.
const manager = "api-priority-and-fairness-config-consumer-v1"

// dangling are the fields of the condition, as server-side apply notes them.
const dangling = `{"f:status":{"f:conditions":{"k:{\"type\":\"Dangling\"}":{".":{},"f:lastTransitionTime":{},"f:message":{},"f:reason":{},"f:status":{},"f:type":{}}}}}`

// own notes that this server has applied the condition. Entries of operation Apply come first.
func own(meta *metav1.ObjectMeta) {
	entry := metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationApply, Subresource: "status", APIVersion: flowcontrolv1.SchemeGroupVersion.String(),
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(dangling), Time: &metav1.Time{Time: time.Now().UTC().Truncate(time.Second)},
	}
	others := slices.DeleteFunc(slices.Clone(meta.ManagedFields), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == manager && e.Operation == entry.Operation && e.Subresource == entry.Subresource
	})
	meta.ManagedFields = append([]metav1.ManagedFieldsEntry{entry}, others...)
}
