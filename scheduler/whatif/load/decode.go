package load

import (
	"fmt"
	"io"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/keelson-dev/keelson/client/manifest"
)

// Decode adds the objects of a YAML or JSON text, as package manifest reads it. Pods and nodes get no defaults.
func (o *Objects) Decode(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	decoder, err := newDecoder()
	if err != nil {
		return err
	}
	for is, err := range manifest.Read(text) {
		if err != nil {
			return err
		}
		if err := o.decode(decoder, is.JSON); err != nil {
			return fmt.Errorf("document %d: %w", is.Document, err)
		}
	}
	return nil
}

func (o *Objects) decode(d runtime.Decoder, data []byte) error {
	obj, _, err := d.Decode(data, nil, nil)
	switch {
	case runtime.IsNotRegisteredError(err):
		return nil
	case err != nil:
		return err
	}
	return o.Add(obj)
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
