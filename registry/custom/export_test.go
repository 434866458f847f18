package custom

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// Canonical reports whether metadata is recognised as what it becomes.
var Canonical = canonical

// Recognised reports whether an object is recognised as valid, as pruned, and as one that has all its defaults.
func (v *Version) Recognised(obj *unstructured.Unstructured) (valid, pruned, complete bool) {
	by, err := v.validators()
	return err == nil && by.sureWhole.valid(obj.Object), v.shape().pruned(obj.Object), v.shape().complete(obj.Object)
}
