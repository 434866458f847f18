// Package strategicpatch applies strategic merge patches in memory and time roughly proportional to the patch and the
// object.
//
// Results and error texts are those of k8s.io/apimachinery/pkg/util/strategicpatch, whose parsing of struct tags it
// uses. But that package searches lists linearly for every item, even while sorting: ordering 4,000 items takes half a
// minute. It also panics on lists of nulls and on merge keys that are objects, which are ErrUnmergeable here.
package strategicpatch
