package webhook

import (
	"encoding/json"
	"errors"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// truncated is the annotation of an event whose objects were left out.
const truncated = "audit.k8s.io/truncated"

// errTooLarge is upstream's.
var errTooLarge = errors.New("event is too large even after truncating")

const (
	listHead = `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[`
	listTail = "]}\n"
	// alone is by how many bytes an event is larger that is no item of a list, which is how upstream measures it: by its kind,
	// its version and the end of the line.
	alone = int64(len(`"kind":"Event","apiVersion":"audit.k8s.io/v1",` + "\n"))
)

// encode returns an event as an item of a list, without its objects if it is too large with them.
func encode(e *auditv1.Event, limits *Truncate) ([]byte, error) {
	item := *e
	item.TypeMeta = metav1.TypeMeta{}
	data, err := json.Marshal(&item)
	if err != nil || limits == nil {
		return data, err
	}
	size := int64(len(data)) + alone
	if size > limits.MaxEventSize && (item.Level == auditv1.LevelRequest || item.Level == auditv1.LevelRequestResponse) {
		item.RequestObject, item.ResponseObject = nil, nil
		item.Annotations = maps.Clone(item.Annotations)
		if item.Annotations == nil {
			item.Annotations = map[string]string{}
		}
		item.Annotations[truncated] = "true"
		if data, err = json.Marshal(&item); err != nil {
			return nil, err
		}
		size = int64(len(data)) + alone
	}
	if size > limits.MaxEventSize {
		return nil, errTooLarge
	}
	return data, nil
}

// list returns the EventList of items.
func list(items [][]byte) []byte {
	size := len(listHead) + len(listTail)
	for _, item := range items {
		size += len(item) + 1
	}
	body := append(make([]byte, 0, size), listHead...)
	for i, item := range items {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, item...)
	}
	return append(body, listTail...)
}

// split divides items into lists of at most the given size; 0 is no limit. Of no items it makes no list.
func split(items [][]byte, limit int64) [][][]byte {
	if limit == 0 && len(items) > 0 {
		return [][][]byte{items}
	}
	var parts [][][]byte
	var size int64
	for _, item := range items {
		own := int64(len(item)) + alone
		if len(parts) == 0 || size+own > limit {
			parts, size = append(parts, nil), 0
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], item)
		size += own
	}
	return parts
}

// bytes returns the size of items.
func bytes(items [][]byte) int64 {
	var n int64
	for _, item := range items {
		n += int64(len(item))
	}
	return n
}
