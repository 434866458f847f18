package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-dev/keelson/internal/boundedyaml"
)

// Object is one object of a text.
type Object struct {
	// TypeMeta is the object's kind and version. Either may be empty: that is for whoever decodes the object to refuse.
	metav1.TypeMeta
	// Document is the number of the object's document in the text, from 1 on. Empty documents do not count.
	Document int
	// JSON is the object.
	JSON []byte
}

// Read yields the objects of a text in their order, those of lists one by one. It ends after an error, which names the
// document: YAML that cannot be parsed or has equal keys, aliases that expand to more than the document's own size and 3 MiB, or
// a list in a list.
func Read(text []byte) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		for i, document := range boundedyaml.Documents(text) {
			data, err := boundedyaml.ToJSONStrict(document, max(len(document), boundedyaml.Limit))
			var all []Object
			if err == nil && string(data) != "null" {
				all, err = objects(data)
			}
			if err != nil {
				yield(Object{}, inDocument(i+1, err))
				return
			}
			for _, obj := range all {
				obj.Document = i + 1
				if !yield(obj, nil) {
					return
				}
			}
		}
	}
}

func inDocument(number int, err error) error { return fmt.Errorf("document %d: %w", number, err) }

// head is what tells an object from a list: that has items, whatever its kind.
type head struct {
	metav1.TypeMeta `json:",inline"`

	Items json.RawMessage `json:"items"`
}

func (h *head) isList() bool { return bytes.HasPrefix(h.Items, []byte("[")) }

// objects returns an object, or those of a list.
func objects(data []byte) ([]Object, error) {
	var of head
	if !bytes.HasPrefix(data, []byte("{")) {
		return nil, fmt.Errorf("it is not an object: %.40s", data)
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &of); err != nil {
		return nil, err
	}
	if !of.isList() {
		return []Object{{TypeMeta: of.TypeMeta, JSON: data}}, nil
	}
	var items []json.RawMessage
	if err := json.Unmarshal(of.Items, &items); err != nil {
		return nil, err
	}
	of.Kind = strings.TrimSuffix(of.Kind, "List")
	all := make([]Object, len(items))
	for i, item := range items {
		var err error
		if all[i], err = itemOf(of.TypeMeta, item); err != nil {
			return nil, fmt.Errorf("items[%d]: %w", i, err)
		}
	}
	return all, nil
}

var errNested = errors.New("a list in a list")

// itemOf is an object of a list. Servers leave out its type where the list's own says it.
func itemOf(is metav1.TypeMeta, item []byte) (Object, error) {
	var of head
	if err := kjson.UnmarshalCaseSensitivePreserveInts(item, &of); err != nil {
		return Object{}, err
	}
	switch {
	case of.isList():
		return Object{}, errNested
	case of.Kind != "" || is.Kind == "":
		return Object{TypeMeta: of.TypeMeta, JSON: item}, nil
	}
	fields := map[string]json.RawMessage{} // which keep their numbers as they are
	if err := json.Unmarshal(item, &fields); err != nil {
		return Object{}, err
	}
	fields["apiVersion"], fields["kind"] = quoted(is.APIVersion), quoted(is.Kind)
	data, err := json.Marshal(fields)
	return Object{TypeMeta: is, JSON: data}, err
}

func quoted(s string) []byte {
	data, _ := json.Marshal(s) //nolint:errchkjson // strings marshal
	return data
}

// Decode yields the objects of a text that the decoder knows, as Go values, and passes over those of other kinds. Otherwise it
// is as Read.
func Decode(text []byte, d runtime.Decoder) iter.Seq2[runtime.Object, error] {
	return func(yield func(runtime.Object, error) bool) {
		for is, err := range Read(text) {
			var obj runtime.Object
			if err == nil {
				if obj, _, err = d.Decode(is.JSON, nil, nil); runtime.IsNotRegisteredError(err) {
					continue
				}
				if err != nil {
					err = inDocument(is.Document, err)
				}
			}
			if !yield(obj, err) || err != nil {
				return
			}
		}
	}
}
