// Package strategicpatch applies strategic merge patches in memory and time that grow with the patch and the
// object and hardly faster.
//
// What comes out, and the words of errors, are those of k8s.io/apimachinery/pkg/util/strategicpatch, whose
// reading of struct tags it uses. But that package searches lists from their beginning for every item, and
// sorts them by such searches: an order of 4,000 items takes it half a minute. It also panics at lists of
// nulls and at merge keys that are objects, which are ErrUnmergeable here.
package strategicpatch
