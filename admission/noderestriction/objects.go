package noderestriction

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/diff"

	"github.com/keelson-dev/keelson/admission"
)

// claim lets a node report how far it has expanded a volume.
func claim(q request) error {
	if q.Subresource != "status" {
		return q.forbidden("may only update PVC status")
	}
	if q.Operation != admission.Update {
		return q.unexpected()
	}
	old, err := as[*corev1.PersistentVolumeClaim](q, q.OldObject)
	if err != nil {
		return err
	}
	claim, err := as[*corev1.PersistentVolumeClaim](q, q.Object)
	if err != nil {
		return err
	}
	was, is := settled(old), settled(claim)
	if !equality.Semantic.DeepEqual(was, is) {
		return q.forbidden("node %q is not allowed to update fields other than status.quantity and status.conditions: %v", q.node, diff.Diff(was, is))
	}
	return nil
}

// settled returns a claim without the fields that a node may change, or that change by themselves.
func settled(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	claim = claim.DeepCopy()
	claim.ResourceVersion, claim.ManagedFields = "", nil
	claim.Status.Capacity, claim.Status.Conditions = nil, nil
	claim.Status.AllocatedResources, claim.Status.AllocatedResourceStatuses = nil, nil
	return claim
}

// lease requires the node's own lease: others are heartbeats of other nodes, or elect leaders.
func lease(q request) error {
	if q.Namespace != corev1.NamespaceNodeLease {
		return q.forbidden("can only access leases in the %q system namespace", corev1.NamespaceNodeLease)
	}
	name := q.Name
	if q.Operation == admission.Create {
		lease, err := as[*coordinationv1.Lease](q, q.Object)
		if err != nil {
			return err
		}
		name = lease.Name
	}
	if name != q.node {
		return q.forbidden("can only access node lease with the same name as the requesting node")
	}
	return nil
}

func csiNode(q request) error {
	name := q.Name
	if q.Operation == admission.Create {
		obj, ok := q.Object.(metav1.Object)
		if !ok {
			return q.forbidden("unable to access the object name")
		}
		name = obj.GetName()
	}
	switch {
	case name != q.node:
		return q.forbidden("can only access CSINode with the same name as the requesting node")
	case q.Subresource == "status":
		return q.forbidden("CSIVolumeHealth feature gate is disabled") // alpha in 1.37
	}
	return nil
}

// resourceSlice checks what the Node authorizer does not see: the content of a new slice, and each object of a
// deleted collection.
func resourceSlice(q request) error {
	obj, verb := q.Object, "create"
	switch q.Operation {
	case admission.Create:
	case admission.Delete:
		obj, verb = q.OldObject, "delete"
	default:
		return nil
	}
	slice, err := as[*resourcev1.ResourceSlice](q, obj)
	if err != nil {
		return err
	}
	if slice.Spec.NodeName == nil || *slice.Spec.NodeName != q.node {
		return q.forbidden("can only %s ResourceSlice with the same NodeName as the requesting node", verb)
	}
	return nil
}
