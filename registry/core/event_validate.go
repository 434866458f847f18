package core

import (
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry/internal/check"
)

const (
	maxEventWord = 128
	maxEventNote = 1024
)

// validateEvent validates any event. Those with an eventTime, which newer clients send, must meet more rules.
// controller is the name of the field reportingController in the request's version.
func validateEvent(e *corev1.Event, controller string) field.ErrorList {
	var errs field.ErrorList
	about := e.InvolvedObject.Namespace
	mismatch := field.Invalid(field.NewPath("involvedObject", "namespace"), about, "does not match event.namespace")
	if e.EventTime.IsZero() {
		if about == "" && e.Namespace != metav1.NamespaceNone && e.Namespace != metav1.NamespaceDefault ||
			about != "" && e.Namespace != about {
			errs = append(errs, mismatch)
		}
		return errs
	}
	if about == "" && e.Namespace != metav1.NamespaceDefault && e.Namespace != metav1.NamespaceSystem {
		errs = append(errs, mismatch)
	}
	path := field.NewPath(controller)
	if e.ReportingController == "" {
		errs = append(errs, field.Required(path, ""))
	}
	errs = append(errs, check.QualifiedName(path, e.ReportingController)...)
	errs = append(errs, validateEventWord(field.NewPath("reportingInstance"), e.ReportingInstance)...)
	errs = append(errs, validateEventWord(field.NewPath("action"), e.Action)...)
	errs = append(errs, validateEventWord(field.NewPath("reason"), e.Reason)...)
	if len(e.Message) > maxEventNote {
		errs = append(errs, field.Invalid(field.NewPath("message"), "", fmt.Sprintf("can have at most %v characters", maxEventNote)))
	}
	return errs
}

func validateEventWord(path *field.Path, value string) field.ErrorList {
	switch {
	case value == "":
		return field.ErrorList{field.Required(path, "")}
	case len(value) > maxEventWord:
		return field.ErrorList{field.Invalid(path, "", fmt.Sprintf("can have at most %v characters", maxEventWord))}
	}
	return nil
}

// validateNewEvent validates an event that is created in events.k8s.io/v1.
func validateNewEvent(e *corev1.Event) field.ErrorList {
	errs := validateEvent(e, "reportingController")
	if e.Name != "" {
		errs = append(errs, check.Messages(field.NewPath("metadata", "name"), e.Name, apivalidation.NameIsDNSSubdomain(e.Name, false))...)
	}
	errs = append(errs, validateEventSeries(e.Series)...)
	if e.EventTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("eventTime"), ""))
	}
	if e.Type != corev1.EventTypeNormal && e.Type != corev1.EventTypeWarning {
		errs = append(errs, field.Invalid(field.NewPath("type"), "", fmt.Sprintf("has invalid value: %v", e.Type)))
	}
	unset := func(name string, set bool) {
		if set {
			errs = append(errs, field.Invalid(field.NewPath(name), "", "needs to be unset"))
		}
	}
	unset("firstTimestamp", !e.FirstTimestamp.IsZero())
	unset("lastTimestamp", !e.LastTimestamp.IsZero())
	unset("count", e.Count != 0)
	unset("source", e.Source != corev1.EventSource{})
	return errs
}

func validateEventSeries(s *corev1.EventSeries) field.ErrorList {
	if s == nil {
		return nil
	}
	var errs field.ErrorList
	if s.Count < 2 {
		errs = append(errs, field.Invalid(field.NewPath("series.count"), "", "should be at least 2"))
	}
	if s.LastObservedTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("series.lastObservedTime"), ""))
	}
	return errs
}

// shownReference and shownSource are the forms of these in errors.
type shownReference struct {
	Kind, Namespace, Name                  string
	UID                                    types.UID
	APIVersion, ResourceVersion, FieldPath string
}

type shownSource struct{ Component, Host string }

// validateChangedEvent validates an event that is updated in events.k8s.io/v1: only its series may change.
func validateChangedEvent(e, old *corev1.Event) field.ErrorList {
	errs := validateEvent(e, "reportingController")
	if !reflect.DeepEqual(e.Series, old.Series) {
		errs = append(errs, validateEventSeries(e.Series)...)
	}
	keep := func(name string, value, before, shown any) {
		errs = append(errs, check.ImmutableAs(field.NewPath(name), value, before, shown)...)
	}
	keep("involvedObject", e.InvolvedObject, old.InvolvedObject, shownReference(e.InvolvedObject))
	keep("reason", e.Reason, old.Reason, e.Reason)
	keep("message", e.Message, old.Message, e.Message)
	keep("source", e.Source, old.Source, shownSource(e.Source))
	keep("firstTimestamp", e.FirstTimestamp, old.FirstTimestamp, e.FirstTimestamp)
	keep("lastTimestamp", e.LastTimestamp, old.LastTimestamp, e.LastTimestamp)
	keep("count", e.Count, old.Count, e.Count)
	keep("reason", e.Reason, old.Reason, e.Reason)
	keep("type", e.Type, old.Type, e.Type)
	// Finer differences come from encodings.
	if !e.EventTime.Truncate(time.Microsecond).Equal(old.EventTime.Truncate(time.Microsecond)) {
		keep("eventTime", e.EventTime, old.EventTime, e.EventTime)
	}
	keep("action", e.Action, old.Action, e.Action)
	var related *shownReference
	if e.Related != nil {
		related = new(shownReference(*e.Related))
	}
	keep("related", e.Related, old.Related, related)
	keep("reportingController", e.ReportingController, old.ReportingController, e.ReportingController)
	keep("reportingInstance", e.ReportingInstance, old.ReportingInstance, e.ReportingInstance)
	return errs
}
