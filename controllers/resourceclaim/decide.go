package resourceclaim

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// reference is what a pod's claim refers to.
type reference struct {
	name string // of the claim; empty if the pod needs none
	made bool   // whether the claim is one that was made for the pod
}

// refers returns the claim behind a pod's reference; false if it is yet to be made, or the reference is of no known kind.
func refers(pod *corev1.Pod, c *corev1.PodResourceClaim) (reference, bool) {
	if c.ResourceClaimName != nil {
		return reference{name: *c.ResourceClaimName}, true
	}
	for _, s := range pod.Status.ResourceClaimStatuses {
		if s.Name == c.Name {
			if s.ResourceClaimName == nil {
				return reference{}, true
			}
			return reference{name: *s.ResourceClaimName, made: true}, true
		}
	}
	return reference{}, false
}

// done reports whether a pod will not use its claims any more.
func done(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed ||
		pod.DeletionTimestamp != nil && pod.Spec.NodeName == ""
}

// wants reports whether claims are made and reserved for a pod. Upstream also makes and reserves them for pods that have
// finished, and deletes and releases them again, without end.
func wants(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && !done(pod) }

// used returns the names of the claims of a pod, as far as they are known.
func used(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.ResourceClaims {
		if r, _ := refers(pod, &pod.Spec.ResourceClaims[i]); r.name != "" {
			names = append(names, r.name)
		}
	}
	return names
}

// lacks reports whether a pod lacks a claim or a reservation that the controller is to make. claim returns a claim by name.
func lacks(pod *corev1.Pod, claim func(name string) (*resourcev1.ResourceClaim, bool)) bool {
	if !wants(pod) {
		return false
	}
	for i := range pod.Spec.ResourceClaims {
		c := &pod.Spec.ResourceClaims[i]
		r, ok := refers(pod, c)
		switch {
		case !ok:
			return true
		case r.name == "":
			continue
		}
		found, ok := claim(r.name)
		switch {
		case !ok && c.ResourceClaimTemplateName != nil:
			return true
		case !ok, r.made && !metav1.IsControlledBy(found, pod):
		case pod.Spec.NodeName != "" && unreserved(found, pod):
			return true
		}
	}
	return false
}

// unreserved reports whether a claim is allocated, but not for a pod.
func unreserved(c *resourcev1.ResourceClaim, pod *corev1.Pod) bool {
	if c.Status.Allocation == nil {
		return false
	}
	for _, r := range c.Status.ReservedFor {
		if r.UID == pod.UID {
			return false
		}
	}
	return true
}

// maxBase is how long the beginning of a generated name may be: five characters and a hyphen follow.
const maxBase = 57

// generateName returns the beginning of the names of a pod's claims.
func generateName(pod, claim string) string {
	name := pod + "-" + claim + "-"
	if n := len(name); n > maxBase {
		// The hyphen behind the claim's name is missing, as it is with upstream.
		return pod[:len(pod)*maxBase/n] + "-" + claim[:len(claim)*maxBase/n]
	}
	return name
}

// claimFor returns the claim that a template describes, for a pod. It shares memory with the template.
func claimFor(pod *corev1.Pod, name string, t *resourcev1.ResourceClaimTemplate) *resourcev1.ResourceClaim {
	annotations := maps.Clone(t.Spec.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[resourcev1.PodResourceClaimAnnotation] = name
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, GenerateName: generateName(pod.Name, name), Labels: t.Spec.Labels, Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true)}},
		},
		Spec: t.Spec.Spec,
	}
}

// owner returns the pod that a claim was made for; empty if there is none.
func owner(c *resourcev1.ResourceClaim) (name string, uid types.UID) {
	for _, o := range c.OwnerReferences {
		if o.Controller != nil && *o.Controller && o.APIVersion == "v1" && o.Kind == "Pod" {
			return o.Name, o.UID
		}
	}
	return "", ""
}

// ofPod reports whether a reservation is a pod's. Others are nobody's here to end.
func ofPod(r resourcev1.ResourceClaimConsumerReference) bool {
	return r.APIGroup == "" && r.Resource == "pods"
}
