package apiserver

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Once splits a list as the check of owner references does, and counts how often it looks at an element.
func Once(refs []metav1.OwnerReference) (first, again []metav1.OwnerReference, looks int) {
	first, again = splitDuplicates(refs, func(ref metav1.OwnerReference) comparableOwner {
		looks++
		return comparableOwnerOf(ref)
	})
	return first, again, looks
}
