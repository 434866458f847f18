package storage

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
)

func storageClassColumns() registry.Columns[*storagev1.StorageClass] {
	describe := storagev1.StorageClass{}.SwaggerDoc()
	cells := func(class *storagev1.StorageClass, name string, now time.Time) []any {
		policy, mode := corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingImmediate
		if class.ReclaimPolicy != nil {
			policy = *class.ReclaimPolicy
		}
		if class.VolumeBindingMode != nil {
			mode = *class.VolumeBindingMode
		}
		return []any{
			name, class.Provisioner, string(policy), string(mode), isTrue(class.AllowVolumeExpansion),
			registry.Age(class.CreationTimestamp, now),
		}
	}
	return registry.Columns[*storagev1.StorageClass]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("Provisioner", describe["provisioner"]),
			registry.TextColumn("ReclaimPolicy", describe["reclaimPolicy"]),
			registry.TextColumn("VolumeBindingMode", describe["volumeBindingMode"]),
			registry.TextColumn("AllowVolumeExpansion", describe["allowVolumeExpansion"]),
			registry.AgeColumn(),
		},
		Cells: func(class *storagev1.StorageClass, now time.Time) []any { return cells(class, class.Name, now) },
		Among: func(all []*storagev1.StorageClass) func(*storagev1.StorageClass, time.Time) []any {
			standard := defaultClass(all)
			return func(class *storagev1.StorageClass, now time.Time) []any {
				name := class.Name
				if standard != nil && name == standard.Name {
					name += " (default)"
				}
				return cells(class, name, now)
			}
		},
	}
}

func isTrue(value *bool) bool { return value != nil && *value }

// defaultClass returns the class that volumes have whose claims name none: of those that are marked the newest, and of
// several the first by name. It returns nil if none is marked.
func defaultClass(all []*storagev1.StorageClass) *storagev1.StorageClass {
	var found *storagev1.StorageClass
	for _, class := range all {
		switch marked := isDefault(class); {
		case !marked:
		case found == nil, class.CreationTimestamp.After(found.CreationTimestamp.Time),
			class.CreationTimestamp.Equal(&found.CreationTimestamp) && class.Name < found.Name:
			found = class
		}
	}
	return found
}

func isDefault(class *storagev1.StorageClass) bool {
	return class.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" ||
		class.Annotations["storageclass.beta.kubernetes.io/is-default-class"] == "true"
}
