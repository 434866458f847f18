package ownership

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/informer"
)

// Index is the name of the index that ByOwner and Orphans read.
const Index = "controller"

// AddIndex indexes the objects of an informer by their controller.
func AddIndex[T informer.Object](in *informer.Informer[T]) {
	in.AddIndex(Index, func(obj T) []string {
		return []string{indexKey(obj.GetNamespace(), metav1.GetControllerOfNoCopy(obj))}
	})
}

// ByOwner returns the objects whose controller is owner, in key order.
func ByOwner[T informer.Object](in *informer.Informer[T], kind string, owner metav1.Object) []T {
	return in.ByIndex(Index, indexKey(owner.GetNamespace(), &metav1.OwnerReference{
		Kind: kind, Name: owner.GetName(), UID: owner.GetUID(),
	}))
}

// Orphans returns the objects of a namespace that have no controller, in key order.
func Orphans[T informer.Object](in *informer.Informer[T], namespace string) []T {
	return in.ByIndex(Index, indexKey(namespace, nil))
}

func indexKey(namespace string, ref *metav1.OwnerReference) string {
	if ref == nil {
		return namespace
	}
	return namespace + "/" + ref.Kind + "/" + ref.Name + "/" + string(ref.UID)
}

// Resolve returns the cached object that a controller reference names. It returns nothing when the reference is nil or
// of another kind, or when the object of that name has another uid.
func Resolve[T informer.Object](in *informer.Informer[T], kind, namespace string, ref *metav1.OwnerReference) (T, bool) {
	var none T
	if ref == nil || ref.Kind != kind {
		return none, false
	}
	owner, ok := in.Get(namespace, ref.Name)
	if !ok || owner.GetUID() != ref.UID {
		return none, false
	}
	return owner, true
}

// SameController reports whether two objects have the same controller reference, or both none.
func SameController(a, b metav1.Object) bool {
	x, y := metav1.GetControllerOfNoCopy(a), metav1.GetControllerOfNoCopy(b)
	if x == nil || y == nil {
		return x == y
	}
	return x.UID == y.UID && x.Name == y.Name && x.Kind == y.Kind && x.APIVersion == y.APIVersion
}
