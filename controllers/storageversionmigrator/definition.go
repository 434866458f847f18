package storageversionmigrator

import (
	"context"
	"encoding/json"
	"fmt"

	svmv1 "k8s.io/api/storagemigration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
)

// fieldManager owns what the Runner applies, under upstream's name.
const fieldManager = "migration-runner-controller"

// migrating is the condition of a CustomResourceDefinition whose objects are being migrated.
const migrating = "StorageMigrating"

func definitions(name, subresource string) client.Target {
	return client.Target{
		Resource: schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
		Name:     name, Subresource: subresource,
	}
}

// definition is what matters here of a CustomResourceDefinition. The types of all of it would be a library of its own.
type definition struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Versions []struct {
			Name    string `json:"name"`
			Storage bool   `json:"storage"`
		} `json:"versions"`
	} `json:"spec"`
	Status struct {
		Conditions []struct {
			Type               string `json:"type"`
			ObservedGeneration int64  `json:"observedGeneration"`
		} `json:"conditions"`
	} `json:"status"`
}

// definition reads the CustomResourceDefinition of a migration's resource, or returns false if there is none.
func (r *Runner) definition(ctx context.Context, m *svmv1.StorageVersionMigration) (*definition, bool, error) {
	name := m.Spec.Resource.Resource + "." + m.Spec.Resource.Group
	obj, err := r.client.Get(ctx, definitions(name, ""))
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read CustomResourceDefinition %s: %w", name, err)
	}
	data, err := json.Marshal(obj)
	if err != nil {
		return nil, false, fmt.Errorf("encode CustomResourceDefinition %s: %w", name, err)
	}
	d := &definition{}
	if err := json.Unmarshal(data, d); err != nil {
		return nil, false, fmt.Errorf("decode CustomResourceDefinition %s: %w", name, err)
	}
	return d, true, nil
}

// finish marks a definition as not being migrated any more. If that has succeeded, and the definition is as it was when the
// migration started, all objects are in its current storage version. (Upstream concludes that from a failure, too.)
func (r *Runner) finish(ctx context.Context, d *definition, succeeded bool) error {
	if !succeeded {
		return r.apply(ctx, d, mark{metav1.ConditionFalse, "MigrationFailed", "The migration has failed", nil})
	}
	for _, c := range d.Status.Conditions {
		if c.Type == migrating && c.ObservedGeneration == d.Metadata.Generation {
			return r.apply(ctx, d, mark{metav1.ConditionFalse, "MigrationSucceeded",
				"The migration has succeeded and the stored versions have been updated", d.storageVersion()})
		}
	}
	return r.apply(ctx, d, mark{metav1.ConditionFalse, "MigrationSucceeded",
		"The migration has succeeded but the stored versions have not been updated due to a generation mismatch", nil})
}

// storageVersion is the version in which objects are stored now.
func (d *definition) storageVersion() []string {
	for _, v := range d.Spec.Versions {
		if v.Storage {
			return []string{v.Name}
		}
	}
	return nil
}

// mark is the condition of a definition whose objects are or were migrated and, unless nil, the versions in which they are
// stored.
type mark struct {
	is              metav1.ConditionStatus
	reason, message string
	stored          []string
}

// apply applies a mark to a definition. It fails with a conflict if the definition has changed since it was read.
func (r *Runner) apply(ctx context.Context, d *definition, m mark) error {
	status := map[string]any{"conditions": []any{map[string]any{
		"type": migrating, "status": m.is, "reason": m.reason, "message": m.message,
		"lastTransitionTime": metav1.Now(), "observedGeneration": d.Metadata.Generation,
	}}}
	if m.stored != nil {
		status["storedVersions"] = m.stored
	}
	data, err := json.Marshal(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": d.Metadata.Name, "resourceVersion": d.Metadata.ResourceVersion},
		"status":   status,
	})
	if err != nil {
		return fmt.Errorf("encode the status of CustomResourceDefinition %s: %w", d.Metadata.Name, err)
	}
	patch := client.Patch{Type: types.ApplyPatchType, Data: data}
	_, err = r.client.Patch(ctx, definitions(d.Metadata.Name, "status"), patch, metav1.PatchOptions{FieldManager: fieldManager, Force: new(true)})
	if err != nil {
		return fmt.Errorf("apply the status of CustomResourceDefinition %s: %w", d.Metadata.Name, err)
	}
	return nil
}
