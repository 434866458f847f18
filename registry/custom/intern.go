package custom

import (
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/keelson-dev/keelson/registry/codec"
)

// Objects of a kind mostly have the same fields, set by the same programs. As maps, the names of these fields take more
// memory than the fields.
const (
	mostTrees = 64
	mostTree  = 16 << 10 // bytes of JSON
)

// trees are recent sets of fields, for the objects of a kind to share. It is safe for concurrent use.
type trees struct {
	mu    sync.Mutex
	known map[string]map[string]any // by their JSON
}

// share lets the managed fields of an object share the sets that it knows. The object must not be shared yet, and they must
// not be changed from now on.
func (t *trees) share(obj object) {
	meta, _ := obj.Object["metadata"].(map[string]any)
	entries, _ := meta["managedFields"].([]any)
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		set, _ := entry["fieldsV1"].(map[string]any)
		if len(set) == 0 {
			continue
		}
		if data, err := codec.Body(&unstructured.Unstructured{Object: set}); err == nil && len(data) <= mostTree {
			entry["fieldsV1"] = t.same(data, set)
		}
	}
}

// same returns the known set whose JSON is data, or else set, which is known from now on.
func (t *trees) same(data []byte, set map[string]any) map[string]any {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.known[string(data)]; ok {
		return known
	}
	if t.known == nil || len(t.known) == mostTrees {
		t.known = map[string]map[string]any{}
	}
	t.known[string(data)] = set
	return set
}
