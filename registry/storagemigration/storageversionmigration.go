package storagemigration

import (
	"context"
	"strings"
	"time"

	svmv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/api/storagemigration/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

// Kinds returns the kinds of the group.
func Kinds() []registry.Kind { return []registry.Kind{migrations()} }

func migrations() registry.Kind {
	parts := registry.Parts[*svmv1.StorageVersionMigration]{
		Spec:      registry.PartOf(func(m *svmv1.StorageVersionMigration) *svmv1.StorageVersionMigrationSpec { return &m.Spec }),
		Status:    registry.PartOf(func(m *svmv1.StorageVersionMigration) *svmv1.StorageVersionMigrationStatus { return &m.Status }),
		Uncounted: true,
	}
	return registry.Definition[*svmv1.StorageVersionMigration]{
		Names: registry.Names{
			Kind: "StorageVersionMigration", Plural: "storageversionmigrations", Singular: "storageversionmigration",
		},
		GroupVersion: svmv1.SchemeGroupVersion,
		Older: []registry.Older{{
			GroupVersion: v1beta1.SchemeGroupVersion,
			New:          func() runtime.Object { return &v1beta1.StorageVersionMigration{} },
			ToStored:     func(obj runtime.Object) registry.Object { return fromV1beta1(obj.(*v1beta1.StorageVersionMigration)) },
			Written:      true,
		}},
		New:     func() *svmv1.StorageVersionMigration { return &svmv1.StorageVersionMigration{} },
		NewList: func() runtime.Object { return &svmv1.StorageVersionMigrationList{} },
		Rules: registry.Rules[*svmv1.StorageVersionMigration]{
			PrepareCreate: parts.PrepareCreate,
			PrepareUpdate: parts.PrepareUpdate,
			Validate:      validate,
			ValidateUpdate: func(m, old *svmv1.StorageVersionMigration) field.ErrorList {
				return append(validate(m), check.ImmutableAs(field.NewPath("spec"), m.Spec, old.Spec, shownSpec(m.Spec))...)
			},
			ConditionalUpdate: true,
		},
		Sub: registry.Subresources[*svmv1.StorageVersionMigration]{Views: map[string]registry.View[*svmv1.StorageVersionMigration]{"status": {
			PrepareUpdate: func(ctx context.Context, m, old *svmv1.StorageVersionMigration) {
				parts.PrepareStatus(ctx, m, old)
				metav1.ResetObjectMetaForStatus(&m.ObjectMeta, old.ObjectMeta.DeepCopy())
			},
			ValidateUpdate: validateStatus,
			Resets:         []string{"metadata", "spec"},
		}}},
		Columns: columns(),
	}.Kind()
}

// fromV1beta1 converts from the version that is stored.
func fromV1beta1(m *v1beta1.StorageVersionMigration) *svmv1.StorageVersionMigration {
	return &svmv1.StorageVersionMigration{
		ObjectMeta: m.ObjectMeta,
		Spec:       svmv1.StorageVersionMigrationSpec(m.Spec),
		Status:     svmv1.StorageVersionMigrationStatus(m.Status),
	}
}

// shownSpec is the form of a spec in errors.
type shownSpec struct{ Resource metav1.GroupResource }

func validate(m *svmv1.StorageVersionMigration) field.ErrorList {
	path, resource := field.NewPath("spec", "resource"), m.Spec.Resource
	var errs field.ErrorList
	if resource.Resource == "" {
		errs = append(errs, field.Required(path.Child("resource"), "resource is required to be set"))
	} else if messages := validation.IsDNS1035Label(resource.Resource); len(messages) > 0 {
		errs = append(errs, field.Invalid(path.Child("resource"), resource.Resource, strings.Join(messages, ",")))
	}
	if resource.Group != "" {
		if messages := validation.IsDNS1123Subdomain(resource.Group); len(messages) > 0 {
			errs = append(errs, field.Invalid(path.Child("group"), resource.Group, strings.Join(messages, ",")))
		}
	}
	return errs
}

func validateStatus(m, old *svmv1.StorageVersionMigration) field.ErrorList {
	path, version, before := field.NewPath("status"), m.Status.ResourceVersion, old.Status.ResourceVersion
	conditions := path.Child("conditions")
	var errs field.ErrorList
	if version != "" {
		if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
			errs = append(errs, field.Invalid(path.Child("resourceVersion"), version, err.Error()))
		}
	}
	errs = append(errs, metavalidation.ValidateConditions(m.Status.Conditions, conditions)...)
	if before != "" && before != version {
		errs = append(errs, field.Invalid(path.Child("resourceVersion"), version, "field is immutable"))
	}
	if is(m, svmv1.MigrationSucceeded) && is(m, svmv1.MigrationFailed) {
		errs = append(errs, field.Invalid(conditions, m.Status.Conditions, "Both success and failed conditions cannot be true at the same time"))
	}
	if is(old, svmv1.MigrationSucceeded) && !is(m, svmv1.MigrationSucceeded) {
		errs = append(errs, field.Invalid(conditions, m.Status.Conditions, "Success condition cannot be set to false once it is true"))
	}
	if is(old, svmv1.MigrationFailed) && !is(m, svmv1.MigrationFailed) {
		errs = append(errs, field.Invalid(conditions, m.Status.Conditions, "Failed condition cannot be set to false once it is true"))
	}
	return errs
}

func is(m *svmv1.StorageVersionMigration, condition svmv1.MigrationConditionType) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, string(condition))
}

func columns() registry.Columns[*svmv1.StorageVersionMigration] {
	name := registry.NameColumn()
	name.Format = ""
	return registry.Columns[*svmv1.StorageVersionMigration]{
		Definitions: []metav1.TableColumnDefinition{
			name,
			registry.TextColumn("Resource", "GroupResource to migrate"),
			registry.TextColumn("Status", "Status of the migration"),
		},
		Cells: func(m *svmv1.StorageVersionMigration, _ time.Time) []any {
			status := "Unknown"
			for _, c := range m.Status.Conditions {
				if c.Status != metav1.ConditionTrue {
					continue
				}
				switch svmv1.MigrationConditionType(c.Type) {
				case svmv1.MigrationRunning, svmv1.MigrationSucceeded, svmv1.MigrationFailed:
					status = c.Type
				}
			}
			return []any{m.Name, m.Spec.Resource.String(), status}
		},
	}
}
