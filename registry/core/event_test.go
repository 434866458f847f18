package core_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

type eventChange = registrytest.Change[*corev1.Event]

func oldEvent() *corev1.Event {
	return &corev1.Event{
		ObjectMeta: named(), InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "p", Namespace: "ns"},
		Reason: "Pulled", Message: "pulled", Type: corev1.EventTypeNormal, Source: corev1.EventSource{Component: "kubelet"},
	}
}

func newEvent() *corev1.Event {
	e := oldEvent()
	e.Source = corev1.EventSource{}
	e.EventTime = metav1.NewMicroTime(time.Unix(1000, 0))
	e.ReportingController, e.ReportingInstance, e.Action = "example.com/c", "c-1", "Pull"
	return e
}

// strict returns the events kind with the rules of events.k8s.io/v1.
func strict(t *testing.T) registry.Kind {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "events")
	k.Rules.Validate, k.Rules.ValidateUpdate = k.Also[0].Rules.Validate, k.Also[0].Rules.ValidateUpdate
	return k
}

func TestEvent(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "events")
	if k.TTL != time.Hour || !k.Rules.CreateOnUpdate || !k.Rules.AnyFinalizer {
		t.Errorf("%+v", k)
	}
	const mismatch = "does not match event.namespace"
	changes := []eventChange{
		{Name: "of another namespace", To: func(e *corev1.Event) { e.InvolvedObject.Namespace = "other" }, Refused: []string{
			`involvedObject.namespace: Invalid value: "other": ` + mismatch}},
		{Name: "of the cluster", To: func(e *corev1.Event) { e.InvolvedObject.Namespace = "" }, Refused: []string{
			`involvedObject.namespace: Invalid value: "": ` + mismatch}},
		{Name: "of the cluster in default", To: func(e *corev1.Event) { e.InvolvedObject.Namespace, e.Namespace = "", "default" }},
		{Name: "of the cluster in none", To: func(e *corev1.Event) { e.InvolvedObject.Namespace, e.Namespace = "", "" }},
		{Name: "anything else", To: func(e *corev1.Event) { e.Type, e.Reason, e.Count = "x", "", -1 }},
	}
	registrytest.Create(t, k, oldEvent(), changes)
	registrytest.Update(t, k, "", oldEvent(), changes)
	long := strings.Repeat("x", 129)
	registrytest.Create(t, k, newEvent(), []eventChange{
		{Name: "of the cluster in kube-system", To: func(e *corev1.Event) { e.InvolvedObject.Namespace, e.Namespace = "", "kube-system" }},
		{Name: "nothing said", To: func(e *corev1.Event) { e.ReportingController, e.ReportingInstance, e.Action, e.Reason = "", "", "", "" }, Refused: []string{
			`reportingComponent: Required value`,
			`reportingComponent: Invalid value: "": name part must be non-empty`,
			`reportingComponent: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
			`reportingInstance: Required value`, `action: Required value`, `reason: Required value`}},
		{Name: "too many bytes", To: func(e *corev1.Event) {
			e.ReportingInstance, e.Action, e.Reason, e.Message = long, long, long, strings.Repeat("x", 1025)
		}, Refused: []string{
			`reportingInstance: Invalid value: "": can have at most 128 characters`,
			`action: Invalid value: "": can have at most 128 characters`,
			`reason: Invalid value: "": can have at most 128 characters`,
			`message: Invalid value: "": can have at most 1024 characters`}},
	})
}

func TestStrictEvent(t *testing.T) {
	k := strict(t)
	registrytest.Create(t, k, newEvent(), []eventChange{
		{Name: "of old", To: func(e *corev1.Event) { *e = *oldEvent() }, Refused: []string{
			`eventTime: Required value`, `source: Invalid value: "": needs to be unset`}},
		{Name: "with old fields", To: func(e *corev1.Event) {
			e.FirstTimestamp, e.LastTimestamp, e.Count = metav1.Unix(1, 0), metav1.Unix(1, 0), 1
		}, Refused: []string{
			`firstTimestamp: Invalid value: "": needs to be unset`, `lastTimestamp: Invalid value: "": needs to be unset`, `count: Invalid value: "": needs to be unset`}},
		{Name: "of no type", To: func(e *corev1.Event) { e.Type = "x" }, Refused: []string{
			`type: Invalid value: "": has invalid value: x`}},
		{Name: "series of one", To: func(e *corev1.Event) { e.Series = &corev1.EventSeries{Count: 1} }, Refused: []string{
			`series.count: Invalid value: "": should be at least 2`, `series.lastObservedTime: Required value`}},
		{Name: "no controller", To: func(e *corev1.Event) { e.ReportingController = "-" }, Refused: []string{
			`reportingController: Invalid value: "-": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`}},
		{Name: "bad name", To: func(e *corev1.Event) { e.Name = "A" }, Refused: []string{
			`metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`}},
	})
	registrytest.Update(t, k, "", newEvent(), []eventChange{
		{Name: "series", To: func(e *corev1.Event) { e.Series = &corev1.EventSeries{Count: 2, LastObservedTime: e.EventTime} }},
		{Name: "series of one", To: func(e *corev1.Event) { e.Series = &corev1.EventSeries{Count: 1} }, Refused: []string{
			`series.count: Invalid value: "": should be at least 2`, `series.lastObservedTime: Required value`}},
		{Name: "a finer time", To: func(e *corev1.Event) { e.EventTime.Time = e.EventTime.Add(time.Nanosecond) }},
		{Name: "object", To: func(e *corev1.Event) { e.InvolvedObject.Name = "q" }, Refused: []string{
			`involvedObject: Invalid value: {"Kind":"Pod","Namespace":"ns","Name":"q","UID":"","APIVersion":"","ResourceVersion":"","FieldPath":""}: field is immutable`}},
		{Name: "words", To: func(e *corev1.Event) { e.Reason, e.Message, e.Source.Host, e.Action = "a", "b", "c", "d" }, Refused: []string{
			`reason: Invalid value: "a": field is immutable`, `message: Invalid value: "b": field is immutable`,
			`source: Invalid value: {"Component":"","Host":"c"}: field is immutable`, `action: Invalid value: "d": field is immutable`}},
		{Name: "related and time", To: func(e *corev1.Event) {
			e.Related, e.EventTime = &corev1.ObjectReference{Kind: "Node"}, metav1.NewMicroTime(time.Unix(2000, 0).UTC())
		}, Refused: []string{
			`eventTime: Invalid value: "1970-01-01T00:33:20.000000Z": field is immutable`,
			`related: Invalid value: {"Kind":"Node","Namespace":"","Name":"","UID":"","APIVersion":"","ResourceVersion":"","FieldPath":""}: field is immutable`}},
	})
}

func TestEventVersions(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "events")
	v := k.Also[0]
	e := oldEvent()
	e.APIVersion, e.Kind = "v1", "Event"
	served, err := v.FromStored(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	if gvk := served.GetObjectKind().GroupVersionKind().String(); gvk != "events.k8s.io/v1, Kind=Event" {
		t.Errorf("served as %s", gvk)
	}
	stored, err := v.ToStored(t.Context(), served)
	if err != nil {
		t.Fatal(err)
	}
	if gvk := stored.GetObjectKind().GroupVersionKind().String(); gvk != "/v1, Kind=Event" {
		t.Errorf("stored as %s", gvk)
	}
	for label, want := range map[string]string{
		"regarding.kind": "involvedObject.kind", "reportingController": "reportingComponent", "reason": "reason", "metadata.name": "metadata.name",
	} {
		if got, ok := v.FieldLabel(label); !ok || got != want {
			t.Errorf("label %s is %q", label, got)
		}
	}
	if _, ok := v.FieldLabel("involvedObject.kind"); ok {
		t.Error("a label of core/v1 is known to events.k8s.io")
	}
	fields := k.Fields(e)
	if fields.Get("source") != "kubelet" || fields.Get("involvedObject.name") != "p" {
		t.Errorf("fields %v", fields)
	}
	if e = newEvent(); k.Fields(e).Get("source") != "example.com/c" {
		t.Errorf("fields %v", k.Fields(e))
	}
}
