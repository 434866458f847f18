package noderestriction

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/internal/apireference"
)

func (p *Plugin) pod(q request) error {
	switch q.Subresource {
	case "":
		return p.wholePod(q)
	case "status":
		return podStatus(q)
	case "eviction":
		return p.eviction(q)
	}
	return q.forbidden("unexpected pod subresource %q, only 'status' and 'eviction' are allowed", q.Subresource)
}

func (p *Plugin) wholePod(q request) error {
	switch q.Operation {
	case admission.Create:
		return p.mirror(q)
	case admission.Delete:
		pod, err := p.findPod(q.Namespace, q.Name)
		if err != nil {
			return err
		}
		if pod.Spec.NodeName != q.node {
			return q.forbidden("node %q can only delete pods with spec.nodeName set to itself", q.node)
		}
		return nil
	}
	return q.forbidden("unexpected operation %q, node %q can only create and delete mirror pods", q.Operation, q.node)
}

// mirror lets a node create the mirror of a static pod: a pod that already runs, and that gives the node access
// to nothing.
func (p *Plugin) mirror(q request) error {
	pod, err := as[*corev1.Pod](q, q.Object)
	if err != nil {
		return err
	}
	if _, isMirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; !isMirror {
		return q.forbidden("pod does not have %q annotation, node %q can only create mirror pods", corev1.MirrorPodAnnotationKey, q.node)
	}
	if pod.Spec.NodeName != q.node {
		return q.forbidden("node %q can only create pods with spec.nodeName set to itself", q.node)
	}
	if err := p.owner(q, pod.OwnerReferences); err != nil {
		return err
	}
	switch resource, err := apireference.Of(pod); {
	case err != nil:
		return q.forbidden("error checking mirror pod for API references: %w", err)
	case resource != "":
		return q.forbidden("node %q can not create pods that reference %s", q.node, resource)
	}
	return nil
}

// owner requires the node itself with its current UID: pods of a deleted node are garbage-collected.
func (p *Plugin) owner(q request, owners []metav1.OwnerReference) error {
	switch len(owners) {
	case 0:
		return q.forbidden("node %q can only create pods with an owner reference set to itself", q.node)
	case 1:
	default:
		return q.forbidden("node %q can only create pods with a single owner reference set to itself", q.node)
	}
	owner := owners[0]
	switch {
	case owner.APIVersion != "v1" || owner.Kind != "Node" || owner.Name != q.node:
		return q.forbidden("node %q can only create pods with an owner reference set to itself", q.node)
	case owner.Controller == nil || !*owner.Controller:
		return q.forbidden("node %q can only create pods with a controller owner reference set to itself", q.node)
	case owner.BlockOwnerDeletion != nil && *owner.BlockOwnerDeletion:
		return q.forbidden("node %q must not set blockOwnerDeletion on an owner reference", q.node)
	}
	node, err := p.findNode(q.node)
	if err != nil {
		return err
	}
	if owner.UID != node.UID {
		return q.forbidden("node %s UID mismatch: expected %s got %s", q.node, owner.UID, node.UID)
	}
	return nil
}

// podStatus lets a node report the status of its pods, except for fields by which others select or find them.
func podStatus(q request) error {
	if q.Operation != admission.Update {
		return q.unexpected()
	}
	old, err := as[*corev1.Pod](q, q.OldObject)
	if err != nil {
		return err
	}
	if old.Spec.NodeName != q.node {
		return q.forbidden("node %q can only update pod status for pods with spec.nodeName set to itself", q.node)
	}
	pod, err := as[*corev1.Pod](q, q.Object)
	if err != nil {
		return err
	}
	was, is := &old.Status, &pod.Status
	switch {
	case !labels.Equals(old.Labels, pod.Labels):
		return q.forbidden("node %q cannot update labels through pod status", q.node)
	case !equality.Semantic.DeepEqual(was.ResourceClaimStatuses, is.ResourceClaimStatuses):
		return q.forbidden("node %q cannot update resource claim statues", q.node) // upstream's spelling
	case !equality.Semantic.DeepEqual(was.ExtendedResourceClaimStatus, is.ExtendedResourceClaimStatus):
		return q.forbidden("node %q cannot update extended resource claim status", q.node)
	case !equality.Semantic.DeepEqual(was.NodeAllocatableResourceClaimStatuses, is.NodeAllocatableResourceClaimStatuses):
		return q.forbidden("node %q cannot update node allocatable resource claim statuses", q.node)
	}
	return nil
}

func (p *Plugin) eviction(q request) error {
	if q.Operation != admission.Create {
		return q.forbidden("unexpected operation %s", q.Operation)
	}
	eviction, err := as[*policyv1.Eviction](q, q.Object)
	if err != nil {
		return err
	}
	name := q.Name
	if name == "" {
		name = eviction.Name
	}
	if name == "" {
		return q.forbidden("could not determine pod from request data")
	}
	pod, err := p.findPod(q.Namespace, name)
	if err != nil {
		return err
	}
	if pod.Spec.NodeName != q.node {
		return q.forbidden("node %s can only evict pods with spec.nodeName set to itself", q.node)
	}
	return nil
}
