package scheduling

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

// The priority classes of the system, and the limits of everyone else's.
const (
	// SystemPrefix opens the names that only the system's own classes may have.
	SystemPrefix = "system-"
	// HighestUserPriority is the highest value of a class that is not the system's.
	HighestUserPriority int32 = 1_000_000_000
	// ClusterCritical is for pods that a cluster needs somewhere.
	ClusterCritical = SystemPrefix + "cluster-critical"
	// NodeCritical is for pods that a node needs where they are.
	NodeCritical = SystemPrefix + "node-critical"
)

// Defaults returns the classes that a cluster has from its start, new objects at each call.
func Defaults() []*schedulingv1.PriorityClass {
	return []*schedulingv1.PriorityClass{
		{
			ObjectMeta:  metav1.ObjectMeta{Name: NodeCritical},
			Value:       2*HighestUserPriority + 1000,
			Description: "Used for system critical pods that must not be moved from their current node.",
		},
		{
			ObjectMeta:  metav1.ObjectMeta{Name: ClusterCritical},
			Value:       2 * HighestUserPriority,
			Description: "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
		},
	}
}

func priorityClasses() registry.Kind {
	return registry.Definition[*schedulingv1.PriorityClass]{
		Names: registry.Names{
			Kind: "PriorityClass", Plural: "priorityclasses", Singular: "priorityclass", Short: []string{"pc"},
		},
		GroupVersion: schedulingv1.SchemeGroupVersion,
		New:          func() *schedulingv1.PriorityClass { return &schedulingv1.PriorityClass{} },
		NewList:      func() runtime.Object { return &schedulingv1.PriorityClassList{} },
		Rules: registry.Rules[*schedulingv1.PriorityClass]{
			Default:        defaultPriorityClass,
			PrepareCreate:  func(_ context.Context, class *schedulingv1.PriorityClass) { class.Generation = 1 },
			Validate:       validatePriorityClass,
			ValidateUpdate: validatePriorityClassUpdate,
			Deletion:       registry.Deletion[*schedulingv1.PriorityClass]{Guard: keepSystemClass},
		},
		Columns: priorityClassColumns(),
	}.Kind()
}

// keepSystemClass refuses to delete what the system's own pods need to be created again. Upstream's
// deletion of a collection passes its rule over; this one does not.
func keepSystemClass(name string) error {
	for _, known := range Defaults() {
		if known.Name == name {
			key := registry.ObjectKey{Resource: schema.GroupResource{Group: schedulingv1.GroupName, Resource: "priorityclasses"}, Name: name}
			return registry.Errorf(registry.ErrForbidden, key, "this is a system priority class and cannot be deleted")
		}
	}
	return nil
}

func defaultPriorityClass(class *schedulingv1.PriorityClass) {
	if class.PreemptionPolicy == nil {
		class.PreemptionPolicy = new(corev1.PreemptLowerPriority)
	}
}

func validatePriorityClass(class *schedulingv1.PriorityClass) field.ErrorList {
	var errs field.ErrorList
	if strings.HasPrefix(class.Name, SystemPrefix) {
		if err := knownSystemClass(class); err != nil {
			errs = append(errs, field.Forbidden(field.NewPath("metadata", "name"),
				"priority class names with '"+SystemPrefix+"' prefix are reserved for system use only. error: "+err.Error()))
		}
	} else if class.Value > HighestUserPriority {
		errs = append(errs, field.Forbidden(field.NewPath("value"),
			fmt.Sprintf("maximum allowed value of a user defined priority is %v", HighestUserPriority)))
	}
	if class.PreemptionPolicy != nil {
		errs = append(errs, check.RequiredOneOf(field.NewPath("preemptionPolicy"), *class.PreemptionPolicy,
			corev1.PreemptLowerPriority, corev1.PreemptNever)...)
	}
	return errs
}

// knownSystemClass says what keeps a class with a system name from being the system's.
func knownSystemClass(class *schedulingv1.PriorityClass) error {
	for _, known := range Defaults() {
		if known.Name != class.Name {
			continue
		}
		if known.Value != class.Value {
			return fmt.Errorf("value of %v PriorityClass must be %v", known.Name, known.Value)
		}
		if known.GlobalDefault != class.GlobalDefault {
			return fmt.Errorf("globalDefault of %v PriorityClass must be %v", known.Name, known.GlobalDefault)
		}
		return nil
	}
	return fmt.Errorf("%v is not a known system priority class", class.Name)
}

// validatePriorityClassUpdate keeps what pods were given their priority by.
func validatePriorityClassUpdate(class, old *schedulingv1.PriorityClass) field.ErrorList {
	var errs field.ErrorList
	if class.Value != old.Value {
		errs = append(errs, field.Forbidden(field.NewPath("value"), "may not be changed in an update."))
	}
	return append(errs, check.Immutable(field.NewPath("preemptionPolicy"), class.PreemptionPolicy, old.PreemptionPolicy)...)
}
