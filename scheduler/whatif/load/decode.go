package load

import (
	"fmt"
	"io"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/keelson-dev/keelson/internal/boundedyaml"
)

// most is the size of a document in bytes: what kubectl get writes of a large cluster is one.
const most = 1 << 30

// Decode adds the objects of a YAML or JSON text with any number of documents, of which each is an object or a list, as kubectl
// get -o yaml writes them. Pods and nodes get no defaults.
func (o *Objects) Decode(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	decoder, err := newDecoder()
	if err != nil {
		return err
	}
	for i, document := range boundedyaml.Documents(text) {
		data, err := boundedyaml.ToJSON(document, most)
		if err != nil {
			return fmt.Errorf("document %d: %w", i+1, err)
		}
		if string(data) == "null" {
			continue
		}
		if err := o.decode(decoder, data); err != nil {
			return fmt.Errorf("document %d: %w", i+1, err)
		}
	}
	return nil
}

// newDecoder returns a decoder of the groups of the kinds to read.
func newDecoder() (runtime.Decoder, error) {
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme, storagev1.AddToScheme} {
		if err := add(known); err != nil {
			return nil, err
		}
	}
	return serializer.NewCodecFactory(known).UniversalDeserializer(), nil
}

func (o *Objects) decode(d runtime.Decoder, data []byte) error {
	obj, _, err := d.Decode(data, nil, nil)
	switch {
	case runtime.IsNotRegisteredError(err):
		return nil
	case err != nil:
		return err
	case !meta.IsListType(obj):
		return o.Add(obj)
	}
	items, err := meta.ExtractList(obj)
	if err != nil {
		return err
	}
	for _, item := range items {
		if raw, ok := item.(*runtime.Unknown); ok {
			err = o.decode(d, raw.Raw)
		} else {
			err = o.Add(item)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
