package apiserver

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// warn adds a warning to the answer (RFC 7234, 5.5), once.
func (c *call) warn(text string) {
	header, err := utilnet.NewWarningHeader(299, "-", text)
	if err != nil || slices.Contains(c.w.Header().Values("Warning"), header) {
		return // a text that cannot stand in a header
	}
	c.w.Header().Add("Warning", header)
}

// warnStrict warns of what a lenient decoding passed over.
func (c *call) warnStrict(strict []error) {
	for _, err := range strict {
		// YAML reports several at once.
		text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "), "yaml: unmarshal errors:\n")
		for _, line := range strings.Split(text, "\n") {
			c.warn(strings.TrimSpace(line))
		}
	}
}

// dedupOwners drops owner references that stand in obj twice, and warns of them; when tells at
// which point of the request they were found.
func (c *call) dedupOwners(obj metav1.Object, when string) {
	refs := obj.GetOwnerReferences()
	var kept []metav1.OwnerReference
	var twice []string
	for _, ref := range refs {
		if slices.ContainsFunc(kept, func(k metav1.OwnerReference) bool { return sameOwner(k, ref) }) {
			if uid := string(ref.UID); !slices.Contains(twice, uid) {
				twice = append(twice, uid)
			}
			continue
		}
		kept = append(kept, ref)
	}
	if len(twice) == 0 {
		return
	}
	obj.SetOwnerReferences(kept)
	c.warn(fmt.Sprintf(".metadata.ownerReferences contains duplicate entries%s; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: %s",
		when, strings.Join(twice, ", ")))
}

func sameOwner(a, b metav1.OwnerReference) bool {
	same := func(a, b *bool) bool { return a == b || a != nil && b != nil && *a == *b }
	return a.UID == b.UID && a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Name == b.Name &&
		same(a.Controller, b.Controller) && same(a.BlockOwnerDeletion, b.BlockOwnerDeletion)
}
