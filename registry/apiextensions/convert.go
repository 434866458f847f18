package apiextensions

import (
	upstream "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/registry"
)

// internal returns the form of a definition that upstream's library works on: what all versions have in common is
// in the spec, and JSON values are parsed. It shares memory with its argument. It fails if a JSON value is malformed.
func internal(crd *apiextensionsv1.CustomResourceDefinition) (*upstream.CustomResourceDefinition, error) {
	out := &upstream.CustomResourceDefinition{}
	return out, apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, out, nil)
}

// versioned is the inverse of internal. Its result shares memory with nothing.
func versioned(crd *upstream.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	out := &apiextensionsv1.CustomResourceDefinition{}
	// Only JSON values could fail to be written, and these have been read.
	_ = apiextensionsv1.Convert_apiextensions_CustomResourceDefinition_To_v1_CustomResourceDefinition(crd, out, nil)
	return out.DeepCopy()
}

// older returns the version in which upstream's servers store definitions to this day, because it is smaller.
func older() []registry.Older {
	return []registry.Older{{
		GroupVersion: apiextensionsv1beta1.SchemeGroupVersion,
		New:          func() runtime.Object { return &apiextensionsv1beta1.CustomResourceDefinition{} },
		ToStored: func(obj runtime.Object) registry.Object {
			return fromV1beta1(obj.(*apiextensionsv1beta1.CustomResourceDefinition))
		},
	}}
}

// fromV1beta1 changes its argument. Of a definition with malformed JSON values, which only protobuf can contain, only
// metadata remains.
func fromV1beta1(old *apiextensionsv1beta1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	apiextensionsv1beta1.SetObjectDefaults_CustomResourceDefinition(old)
	common := &upstream.CustomResourceDefinition{}
	err := apiextensionsv1beta1.Convert_v1beta1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(old, common, nil)
	if err != nil {
		return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: old.ObjectMeta}
	}
	return versioned(common)
}
