package apiextensions

import (
	"context"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/registry"
)

func customResourceDefinitions() registry.Kind {
	return registry.Definition[*apiextensionsv1.CustomResourceDefinition]{
		Names: registry.Names{
			Kind: "CustomResourceDefinition", Plural: "customresourcedefinitions", Singular: "customresourcedefinition",
			Short: []string{"crd", "crds"}, Categories: []string{"api-extensions"},
		},
		GroupVersion: apiextensionsv1.SchemeGroupVersion,
		Prefix:       "apiextensions.k8s.io/customresourcedefinitions",
		Older:        older(),
		New: func() *apiextensionsv1.CustomResourceDefinition {
			return &apiextensionsv1.CustomResourceDefinition{}
		},
		NewList: func() runtime.Object { return &apiextensionsv1.CustomResourceDefinitionList{} },
		Rules: registry.Rules[*apiextensionsv1.CustomResourceDefinition]{
			AnyFinalizer:      true,
			ConditionalUpdate: true,
			Default:           setDefaults,
			PrepareCreate:     prepareCreate,
			PrepareUpdate:     prepareUpdate,
			Validate:          validate,
			ValidateUpdate:    validateUpdate,
			Guard:             warn,
			Store:             pruneDefaults,
			Share:             share,
			Deletion:          registry.Deletion[*apiextensionsv1.CustomResourceDefinition]{Begin: beginDeletion, Held: ungraceful},
		},
		Sub: registry.Subresources[*apiextensionsv1.CustomResourceDefinition]{
			Views: map[string]registry.View[*apiextensionsv1.CustomResourceDefinition]{"status": {
				PrepareUpdate:  prepareStatus,
				ValidateUpdate: validateStatus,
			}},
		},
		Columns: columns(),
	}.Kind()
}

// setDefaults also gives the JSON values in schemas the form in which upstream, which parses them, returns them.
func setDefaults(crd *apiextensionsv1.CustomResourceDefinition) {
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(crd)
	if c := crd.Spec.Conversion; c != nil && c.Webhook != nil && c.Webhook.ClientConfig == nil && c.Webhook.ConversionReviewVersions == nil {
		c.Webhook = nil
	}
	for i := range crd.Spec.Versions {
		if s := crd.Spec.Versions[i].Schema; s != nil {
			normalize(s.OpenAPIV3Schema)
		}
	}
}

func prepareCreate(_ context.Context, crd *apiextensionsv1.CustomResourceDefinition) {
	crd.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
	crd.Generation = 1
	recordStorageVersion(crd)
}

func prepareUpdate(_ context.Context, crd, old *apiextensionsv1.CustomResourceDefinition) {
	old.Status.DeepCopyInto(&crd.Status)
	if crd.Generation = old.Generation; !equality.Semantic.DeepEqual(crd.Spec, old.Spec) { // JSON values are normalized
		crd.Generation++
	}
	recordStorageVersion(crd)
}

// prepareStatus lets the status's clients change metadata, too: the controllers of definitions remove their
// finalizer this way.
func prepareStatus(_ context.Context, crd, old *apiextensionsv1.CustomResourceDefinition) {
	crd.Generation = old.Generation
	old.Spec.DeepCopyInto(&crd.Spec)
}

// share makes states of a definition share the spec, which is most of it, while it stays the same.
func share(crd, old *apiextensionsv1.CustomResourceDefinition) {
	if crd.UID == old.UID && crd.Generation == old.Generation {
		crd.Spec = old.Spec
	}
}

// recordStorageVersion adds the storage version to those in which objects may be stored.
func recordStorageVersion(crd *apiextensionsv1.CustomResourceDefinition) {
	i := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage })
	if i >= 0 && !slices.Contains(crd.Status.StoredVersions, crd.Spec.Versions[i].Name) {
		crd.Status.StoredVersions = append(crd.Status.StoredVersions, crd.Spec.Versions[i].Name)
	}
}

// beginDeletion keeps the definition until its objects are gone. Its generation does not rise.
func beginDeletion(crd *apiextensionsv1.CustomResourceDefinition) {
	now := metav1.Now().Rfc3339Copy()
	none := int64(0)
	crd.DeletionTimestamp, crd.DeletionGracePeriodSeconds = &now, &none
	if !slices.Contains(crd.Finalizers, Finalizer) {
		crd.Finalizers = append(crd.Finalizers, Finalizer)
	}
	apihelpers.SetCRDCondition(crd, apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue, Reason: "InstanceDeletionPending",
		Message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
	})
}

// ungraceful makes the first delete leave no grace period in the metadata, as upstream's does; a second one sets it
// to 0. The finalizer alone would hold the object as long.
func ungraceful(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return crd.DeletionGracePeriodSeconds != nil && slices.Contains(crd.Finalizers, Finalizer)
}
