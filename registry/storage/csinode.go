package storage

import (
	"context"
	"fmt"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

const (
	// maxNodeID is the maximum length of a driver's ID of a node, in bytes.
	maxNodeID = 256
	// maxDriverName is the maximum length of a driver's name, in bytes.
	maxDriverName = 63
)

func csiNodes() registry.Kind {
	parts := registry.Parts[*storagev1.CSINode]{
		Spec:      registry.PartOf(func(n *storagev1.CSINode) *storagev1.CSINodeSpec { return &n.Spec }),
		Status:    registry.PartOf(func(n *storagev1.CSINode) *storagev1.CSINodeStatus { return &n.Status }),
		Uncounted: true,
	}
	return registry.Definition[*storagev1.CSINode]{
		Names:        registry.Names{Kind: "CSINode", Plural: "csinodes", Singular: "csinode"},
		GroupVersion: storagev1.SchemeGroupVersion,
		Older:        older(func() registry.Object { return &storagev1.CSINode{} }, "v1beta1"),
		New:          func() *storagev1.CSINode { return &storagev1.CSINode{} },
		NewList:      func() runtime.Object { return &storagev1.CSINodeList{} },
		Columns:      csiNodeColumns(),
		Rules: registry.Rules[*storagev1.CSINode]{
			PrepareCreate: parts.PrepareCreate,
			PrepareUpdate: parts.PrepareUpdate,
			Validate:      validateCSINode,
			ValidateUpdate: func(n, old *storagev1.CSINode) field.ErrorList {
				return append(validateCSINode(n), validateCSINodeChange(n, old)...)
			},
			ConditionalUpdate: true,
			Deletion:          registry.Deletion[*storagev1.CSINode]{ReturnsObject: true},
		},
		Sub: registry.Subresources[*storagev1.CSINode]{Views: map[string]registry.View[*storagev1.CSINode]{"status": {
			PrepareUpdate: func(ctx context.Context, n, old *storagev1.CSINode) {
				parts.PrepareStatus(ctx, n, old)
				metav1.ResetObjectMetaForStatus(&n.ObjectMeta, old.ObjectMeta.DeepCopy())
				if len(old.Status.StorageHealth) == 0 {
					n.Status.StorageHealth = nil // a feature that is off by default (KEP-1432)
				}
			},
			ValidateUpdate: validateCSINodeStatus,
			Resets:         []string{"metadata", "spec"},
		}}},
	}.Kind()
}

func validateCSINode(n *storagev1.CSINode) field.ErrorList {
	path := field.NewPath("spec", "drivers")
	var errs field.ErrorList
	names := map[string]bool{}
	for i := range n.Spec.Drivers {
		errs = append(errs, validateDriver(&n.Spec.Drivers[i], names, path.Index(i))...)
	}
	return errs
}

// validateDriver validates a driver; names are those of the drivers before it.
func validateDriver(d *storagev1.CSINodeDriver, names map[string]bool, path *field.Path) field.ErrorList {
	errs := validateDriverName(d.Name, path.Child("name"))
	id := path.Child("nodeID")
	if d.NodeID == "" {
		errs = append(errs, field.Required(id, ""))
	}
	if len(d.NodeID) > maxNodeID {
		errs = append(errs, field.Invalid(id, d.NodeID, fmt.Sprintf("must be %d characters or less", maxNodeID)))
	}
	if d.Allocatable != nil {
		errs = append(errs, check.NonnegativeIfSet(path.Child("allocatable", "count"), d.Allocatable.Count)...)
	}
	if names[d.Name] {
		errs = append(errs, field.Duplicate(path.Child("name"), d.Name))
	}
	names[d.Name] = true
	keys := map[string]bool{}
	for _, key := range d.TopologyKeys {
		if key == "" {
			errs = append(errs, field.Required(path, ""))
		}
		if keys[key] {
			errs = append(errs, field.Duplicate(path, key))
		}
		keys[key] = true
		errs = append(errs, check.QualifiedName(path, key)...)
	}
	return errs
}

func validateDriverName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	if len(name) > maxDriverName {
		errs = append(errs, field.TooLong(path, "", maxDriverName))
	}
	return append(errs, check.Messages(path, name, validation.IsDNS1123Subdomain(strings.ToLower(name)))...)
}

// shownDriver is the form of a driver in errors.
type shownDriver struct {
	Name         string
	NodeID       string
	TopologyKeys []string
	Allocatable  *struct{}
}

// validateCSINodeChange allows adding and removing drivers, and changing only what is allocatable
// of the others.
func validateCSINodeChange(n, old *storagev1.CSINode) field.ErrorList {
	path := field.NewPath("spec", "drivers")
	var errs field.ErrorList
	for _, before := range old.Spec.Drivers {
		for _, driver := range n.Spec.Drivers {
			if driver.Name == before.Name {
				errs = append(errs, check.Immutable(path, shown(driver), shown(before))...)
			}
		}
	}
	return errs
}

func shown(d storagev1.CSINodeDriver) shownDriver {
	return shownDriver{Name: d.Name, NodeID: d.NodeID, TopologyKeys: d.TopologyKeys}
}
