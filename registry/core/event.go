package core

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
)

// eventTTL is how long an event is kept after its last write.
const eventTTL = time.Hour

// events is the kind Event of core/v1, which events.k8s.io/v1 serves with stricter rules.
func events() registry.Kind {
	names := registry.Names{Kind: "Event", Plural: "events", Singular: "event", Short: []string{"ev"}}
	k := registry.Definition[*corev1.Event]{
		Names:        names,
		GroupVersion: corev1.SchemeGroupVersion,
		Namespaced:   true,
		New:          func() *corev1.Event { return &corev1.Event{} },
		NewList:      func() runtime.Object { return &corev1.EventList{} },
		Rules: registry.Rules[*corev1.Event]{
			AnyFinalizer:   true,
			Validate:       func(e *corev1.Event) field.ErrorList { return validateEvent(e, "reportingComponent") },
			ValidateUpdate: func(e, _ *corev1.Event) field.ErrorList { return validateEvent(e, "reportingComponent") },
			ValidateName:   registry.PathSegmentName,
			CreateOnUpdate: true,
		},
		Fields: eventFields,
		Also: []registry.Version{{
			Names:        names,
			GroupVersion: eventsv1.SchemeGroupVersion,
			New:          func() registry.Object { return &eventsv1.Event{} },
			NewList:      func() runtime.Object { return &eventsv1.EventList{} },
			FromStored: func(_ context.Context, obj registry.Object) (registry.Object, error) {
				return eventToV1(obj.(*corev1.Event)), nil
			},
			ToStored: func(_ context.Context, obj registry.Object) (registry.Object, error) {
				return eventFromV1(obj.(*eventsv1.Event)), nil
			},
			FieldLabel: eventFieldLabel,
		}},
		Older: []registry.Older{{
			GroupVersion: schema.GroupVersion{Group: eventsv1.GroupName, Version: "v1beta1"}, // its fields are those of v1
			New:          func() runtime.Object { return &eventsv1.Event{} },
			ToStored:     func(obj runtime.Object) registry.Object { return eventFromV1(obj.(*eventsv1.Event)) },
		}},
		TTL:     eventTTL,
		Columns: eventColumns(),
	}.Kind()
	stricter := k.Rules
	stricter.Validate = func(obj registry.Object) field.ErrorList { return validateNewEvent(obj.(*corev1.Event)) }
	stricter.ValidateUpdate = func(obj, old registry.Object) field.ErrorList {
		return validateChangedEvent(obj.(*corev1.Event), old.(*corev1.Event))
	}
	k.Also[0].Rules = &stricter
	return k
}

func eventFields(e *corev1.Event) fields.Set {
	source := e.Source.Component
	if source == "" {
		source = e.ReportingController
	}
	return fields.Set{
		"involvedObject.kind":            e.InvolvedObject.Kind,
		"involvedObject.namespace":       e.InvolvedObject.Namespace,
		"involvedObject.name":            e.InvolvedObject.Name,
		"involvedObject.uid":             string(e.InvolvedObject.UID),
		"involvedObject.apiVersion":      e.InvolvedObject.APIVersion,
		"involvedObject.resourceVersion": e.InvolvedObject.ResourceVersion,
		"involvedObject.fieldPath":       e.InvolvedObject.FieldPath,
		"reason":                         e.Reason,
		"reportingComponent":             e.ReportingController,
		"source":                         source,
		"type":                           e.Type,
	}
}

// eventFieldLabel translates the labels of events.k8s.io to those of core/v1.
func eventFieldLabel(label string) (string, bool) {
	switch label {
	case "reason", "type", "metadata.name", "metadata.namespace":
		return label, true
	case "regarding.kind", "regarding.namespace", "regarding.name", "regarding.uid",
		"regarding.apiVersion", "regarding.resourceVersion", "regarding.fieldPath":
		return "involvedObject" + label[len("regarding"):], true
	case "reportingController":
		return "reportingComponent", true
	}
	return "", false
}

func eventToV1(stored *corev1.Event) *eventsv1.Event {
	e := stored.DeepCopy()
	out := &eventsv1.Event{
		TypeMeta:                 e.TypeMeta,
		ObjectMeta:               e.ObjectMeta,
		EventTime:                e.EventTime,
		ReportingController:      e.ReportingController,
		ReportingInstance:        e.ReportingInstance,
		Action:                   e.Action,
		Reason:                   e.Reason,
		Regarding:                e.InvolvedObject,
		Related:                  e.Related,
		Note:                     e.Message,
		Type:                     e.Type,
		DeprecatedSource:         e.Source,
		DeprecatedFirstTimestamp: e.FirstTimestamp,
		DeprecatedLastTimestamp:  e.LastTimestamp,
		DeprecatedCount:          e.Count,
	}
	if e.APIVersion != "" {
		out.APIVersion = eventsv1.SchemeGroupVersion.String()
	}
	if s := e.Series; s != nil {
		out.Series = &eventsv1.EventSeries{Count: s.Count, LastObservedTime: s.LastObservedTime}
	}
	return out
}

func eventFromV1(served *eventsv1.Event) *corev1.Event {
	e := served.DeepCopy()
	out := &corev1.Event{
		TypeMeta:            e.TypeMeta,
		ObjectMeta:          e.ObjectMeta,
		EventTime:           e.EventTime,
		ReportingController: e.ReportingController,
		ReportingInstance:   e.ReportingInstance,
		Action:              e.Action,
		Reason:              e.Reason,
		InvolvedObject:      e.Regarding,
		Related:             e.Related,
		Message:             e.Note,
		Type:                e.Type,
		Source:              e.DeprecatedSource,
		FirstTimestamp:      e.DeprecatedFirstTimestamp,
		LastTimestamp:       e.DeprecatedLastTimestamp,
		Count:               e.DeprecatedCount,
	}
	if e.APIVersion != "" {
		out.APIVersion = corev1.SchemeGroupVersion.String()
	}
	if s := e.Series; s != nil {
		out.Series = &corev1.EventSeries{Count: s.Count, LastObservedTime: s.LastObservedTime}
	}
	return out
}
