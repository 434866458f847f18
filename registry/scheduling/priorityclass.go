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

	"github.com/keelson-dev/keelson/podspec/critical"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

// Defaults returns the system classes, as new objects at each call.
func Defaults() []*schedulingv1.PriorityClass {
	var list []*schedulingv1.PriorityClass
	for _, class := range critical.Classes() {
		list = append(list, &schedulingv1.PriorityClass{
			ObjectMeta: metav1.ObjectMeta{Name: class.Name}, Value: class.Value, Description: class.Description,
		})
	}
	return list
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

// keepSystemClass refuses to delete the system classes, without which the system's own pods cannot be created.
// Upstream's deletion of a collection bypasses this rule; this one does not.
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
	if strings.HasPrefix(class.Name, critical.SystemPrefix) {
		if err := knownSystemClass(class); err != nil {
			errs = append(errs, field.Forbidden(field.NewPath("metadata", "name"),
				"priority class names with '"+critical.SystemPrefix+"' prefix are reserved for system use only. error: "+err.Error()))
		}
	} else if class.Value > critical.HighestUserPriority {
		errs = append(errs, field.Forbidden(field.NewPath("value"),
			fmt.Sprintf("maximum allowed value of a user defined priority is %v", critical.HighestUserPriority)))
	}
	if class.PreemptionPolicy != nil {
		errs = append(errs, check.RequiredOneOf(field.NewPath("preemptionPolicy"), *class.PreemptionPolicy,
			corev1.PreemptLowerPriority, corev1.PreemptNever)...)
	}
	return errs
}

// knownSystemClass returns an error if a class with a system name is not the system's.
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

// validatePriorityClassUpdate keeps the fields from which pods took their priority.
func validatePriorityClassUpdate(class, old *schedulingv1.PriorityClass) field.ErrorList {
	var errs field.ErrorList
	if class.Value != old.Value {
		errs = append(errs, field.Forbidden(field.NewPath("value"), "may not be changed in an update."))
	}
	return append(errs, check.Immutable(field.NewPath("preemptionPolicy"), class.PreemptionPolicy, old.PreemptionPolicy)...)
}
