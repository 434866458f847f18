package apiserver

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// dedupOwners drops duplicate owner references and warns of them. when says at which point of the request they were found.
func (c *call) dedupOwners(obj metav1.Object, when string) {
	kept, again := splitDuplicates(obj.GetOwnerReferences(), comparableOwnerOf)
	twice, _ := splitDuplicates(again, func(ref metav1.OwnerReference) types.UID { return ref.UID })
	if len(twice) == 0 {
		return
	}
	obj.SetOwnerReferences(kept)
	uids := make([]string, len(twice))
	for i, ref := range twice {
		uids[i] = string(ref.UID)
	}
	c.warn(fmt.Sprintf(".metadata.ownerReferences contains duplicate entries%s; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: %s",
		when, strings.Join(uids, ", ")))
}

// splitDuplicates splits a list into the elements whose keys come first and those whose keys have come before. It looks at
// each element once: a request may have a hundred thousand.
func splitDuplicates[T any, K comparable](all []T, key func(T) K) (first, again []T) {
	known := make(map[K]bool, len(all))
	for _, e := range all {
		k := key(e)
		if known[k] {
			again = append(again, e)
			continue
		}
		known[k] = true
		first = append(first, e)
	}
	return first, again
}

// comparableOwner is an owner reference that can be compared.
type comparableOwner struct {
	metav1.OwnerReference     // without its pointers
	controller, blockDeletion optionalBool
}

// optionalBool is a *bool that can be compared: unset, false or true.
type optionalBool int8

func comparableOwnerOf(ref metav1.OwnerReference) comparableOwner {
	o := comparableOwner{ref, optionalBoolOf(ref.Controller), optionalBoolOf(ref.BlockOwnerDeletion)}
	o.Controller, o.BlockOwnerDeletion = nil, nil
	return o
}

func optionalBoolOf(b *bool) optionalBool {
	switch {
	case b == nil:
		return 0
	case *b:
		return 2
	}
	return 1
}
