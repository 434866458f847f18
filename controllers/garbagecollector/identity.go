package garbagecollector

import (
	"cmp"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// identity identifies an object. For an owner known only from a reference, the namespace is that of the dependent,
// since a namespaced owner must be there.
type identity struct {
	apiVersion, kind string
	namespace, name  string
	uid              types.UID
}

// claimed returns the owner that a dependent in the namespace refers to.
func claimed(ref metav1.OwnerReference, namespace string) identity {
	return identity{apiVersion: ref.APIVersion, kind: ref.Kind, namespace: namespace, name: ref.Name, uid: ref.UID}
}

// is reports whether the reference names this object, in any namespace.
func (id identity) is(ref metav1.OwnerReference) bool {
	return id.uid == ref.UID && id.name == ref.Name && id.kind == ref.Kind && id.apiVersion == ref.APIVersion
}

// String returns the identity in upstream's format, as used in events.
func (id identity) String() string {
	return fmt.Sprintf("[%s/%s, namespace: %s, name: %s, uid: %s]", id.apiVersion, id.kind, id.namespace, id.name, id.uid)
}

// compare orders identities by kind first.
func (id identity) compare(other identity) int {
	return cmp.Or(strings.Compare(id.kind, other.kind), strings.Compare(id.apiVersion, other.apiVersion),
		strings.Compare(id.namespace, other.namespace), strings.Compare(id.name, other.name),
		strings.Compare(string(id.uid), string(other.uid)))
}
