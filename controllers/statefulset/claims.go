package statefulset

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/controllers/internal/pods"
	"github.com/keelson-dev/keelson/controllers/ownership"
)

// claim is a claim that a pod has, made from a template of that name.
type claim struct {
	*corev1.PersistentVolumeClaim
	template string
}

func claimName(set *appsv1.StatefulSet, template *corev1.PersistentVolumeClaim, ordinal int) string {
	return fmt.Sprintf("%s-%s-%d", template.Name, set.Name, ordinal)
}

// hasClaim reports whether pods of the set can have a claim of that name.
func hasClaim(set *appsv1.StatefulSet, of metav1.Object) bool {
	prefix, n := identity(of.GetName())
	return n >= 0 && slices.ContainsFunc(set.Spec.VolumeClaimTemplates, func(template corev1.PersistentVolumeClaim) bool {
		return prefix == template.Name+"-"+set.Name
	})
}

// claimsOf returns the claims that the pod should have. Of several templates with the same name the last counts.
func claimsOf(set *appsv1.StatefulSet, pod *corev1.Pod) []claim {
	var all []claim
	n := ordinal(pod)
	for i := range set.Spec.VolumeClaimTemplates {
		template := &set.Spec.VolumeClaimTemplates[i]
		c := claim{template.DeepCopy(), template.Name}
		c.Name, c.Namespace = claimName(set, template, n), set.Namespace
		labels := map[string]string{}
		maps.Copy(labels, template.Labels)
		maps.Copy(labels, set.Spec.Selector.MatchLabels)
		c.Labels = labels
		if at := slices.IndexFunc(all, func(before claim) bool { return before.template == c.template }); at >= 0 {
			all[at] = c
			continue
		}
		all = append(all, c)
	}
	return all
}

// retention is the policy of the set; unless it says to delete, claims are retained.
func retention(set *appsv1.StatefulSet) (whenDeleted, whenScaled bool) {
	policy := set.Spec.PersistentVolumeClaimRetentionPolicy
	if policy == nil {
		return false, false
	}
	const remove = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	return policy.WhenDeleted == remove, policy.WhenScaled == remove
}

// wantedOwners says which of a set and a pod should own the claims of the pod, so that they go with their owner: the pod
// if the set was scaled down below it, otherwise the set.
func wantedOwners(set *appsv1.StatefulSet, pod *corev1.Pod) (bySet, byPod bool) {
	whenDeleted, whenScaled := retention(set)
	if !whenScaled {
		return whenDeleted, false
	}
	condemned := !inRange(set, pod)
	return whenDeleted && !condemned, condemned
}

// owners returns the owner references that a claim of the pod should have, and false if it has them already. Claims
// that belong to a set or pod of the same name that is gone are left to the garbage collector. If something else
// controls a claim, set and pod do not own it.
func owners(claim *corev1.PersistentVolumeClaim, set *appsv1.StatefulSet, pod *corev1.Pod) ([]metav1.OwnerReference, bool) {
	if outdated(claim, set, kind()) || outdated(claim, pod, pods.Kind()) {
		return nil, false
	}
	foreign := conflicting(claim, set, pod)
	bySet, byPod := wantedOwners(set, pod)
	if foreign {
		bySet, byPod = false, false
	}
	right := owns(set, claim) == bySet && owns(pod, claim) == byPod
	if right && (foreign || !slices.ContainsFunc(claim.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return (ref.UID == set.UID || ref.UID == pod.UID) && !controls(ref)
	})) {
		return nil, false
	}
	refs := slices.DeleteFunc(slices.Clone(claim.OwnerReferences), func(ref metav1.OwnerReference) bool {
		return names(ref, set, kind()) || names(ref, pod, pods.Kind())
	})
	if bySet {
		refs = own(refs, set, kind().GroupVersionKind)
	}
	if byPod {
		refs = own(refs, pod, pods.Kind().GroupVersionKind)
	}
	return refs, true
}

func own(refs []metav1.OwnerReference, owner metav1.Object, kind schema.GroupVersionKind) []metav1.OwnerReference {
	if slices.ContainsFunc(refs, func(ref metav1.OwnerReference) bool { return ref.UID == owner.GetUID() }) {
		return refs
	}
	return append(refs, *metav1.NewControllerRef(owner, kind))
}

func owns(owner, claim metav1.Object) bool {
	return slices.ContainsFunc(claim.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == owner.GetUID() })
}

func controls(ref metav1.OwnerReference) bool { return ref.Controller != nil && *ref.Controller }

// names reports whether a reference names the object, or another one that had its name.
func names(ref metav1.OwnerReference, obj metav1.Object, kind ownership.Kind) bool {
	return ref.APIVersion == kind.GroupVersion().String() && ref.Kind == kind.Kind && ref.Name == obj.GetName()
}

// outdated reports whether the claim belongs to an object that had the name of obj before.
func outdated(claim *corev1.PersistentVolumeClaim, obj metav1.Object, kind ownership.Kind) bool {
	at := slices.IndexFunc(claim.OwnerReferences, func(ref metav1.OwnerReference) bool { return names(ref, obj, kind) })
	return at >= 0 && claim.OwnerReferences[at].UID != obj.GetUID()
}

// conflicting reports whether something else than the set and the pod controls the claim. That does not matter as long as
// claims are retained in any case.
func conflicting(claim *corev1.PersistentVolumeClaim, set *appsv1.StatefulSet, pod *corev1.Pod) bool {
	if whenDeleted, whenScaled := retention(set); !whenDeleted && !whenScaled {
		return false
	}
	return slices.ContainsFunc(claim.OwnerReferences, func(ref metav1.OwnerReference) bool {
		switch {
		case names(ref, set, kind()):
			return ref.UID != set.UID
		case names(ref, pod, pods.Kind()):
			return ref.UID != pod.UID
		}
		return controls(ref)
	})
}
