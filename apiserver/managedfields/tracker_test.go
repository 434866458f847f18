package managedfields_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/apiserver/managedfields"
)

// house is a user's kind: nothing is known of it but its Go type.
type house struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Rooms             []room                 `json:"rooms,omitempty"`
	Address           *address               `json:"address,omitempty"`
	Template          corev1.PodTemplateSpec `json:"template,omitzero"`
	Next              *house                 `json:"next,omitempty"`
}

type room struct {
	Name string `json:"name"`
	Size int    `json:"size,omitempty"`
}

type address struct {
	Street string `json:"street,omitempty"`
	Number int    `json:"number,omitempty"`
}

func (h *house) DeepCopyObject() runtime.Object {
	c := *h
	c.ObjectMeta = *h.ObjectMeta.DeepCopy()
	c.Rooms = slices.Clone(h.Rooms)
	return &c
}

func houses() *managedfields.Tracker {
	gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "House"}
	return managedfields.New(&managedfields.Schema{}, managedfields.Kind{Versions: []managedfields.Version{{
		GroupVersionKind: gvk, New: func() managedfields.Object { return &house{} },
	}}}, managedfields.Endpoint{Version: gvk.GroupVersion()})
}

// A user's lists move as a whole, what it has of upstream's types merges as upstream's do.
func TestUsersKind(t *testing.T) {
	h := &house{
		Rooms: []room{{Name: "hall"}}, Address: &address{Street: "s"}, Next: &house{Rooms: []room{{Name: "far"}}},
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
	}
	h.Finalizers = []string{"example.com/f"}
	tracker := houses()
	tracker.Update(&house{}, h, "builder")
	const want = `{"f:address":{".":{},"f:street":{}},"f:metadata":{"f:finalizers":{".":{},"v:\"example.com/f\"":{}}},` +
		`"f:next":{".":{},"f:metadata":{},"f:rooms":{}},"f:rooms":{},"f:template":{".":{},"f:metadata":{},` +
		`"f:spec":{".":{},"f:containers":{".":{},"k:{\"name\":\"c\"}":{".":{},"f:image":{},"f:name":{},"f:resources":{}}}}}}`
	if got := h.ManagedFields[0].FieldsV1.GetRawString(); got != want {
		t.Errorf("owned:\n%s, want\n%s", got, want)
	}
	h.UID = "u"
	obj, err := tracker.Apply(h, config(t, "apiVersion: example.com/v1\nkind: House\naddress: {number: 7}"), "postman", false)
	if err != nil {
		t.Fatal(err)
	}
	if got := obj.(*house).Address; got.Street != "s" || got.Number != 7 || len(obj.(*house).Rooms) != 1 {
		t.Errorf("applied: %+v", obj)
	}
}

func config(t *testing.T, document string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(document), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestKeepTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := tracker(corev1.SchemeGroupVersion.WithKind("ConfigMap"), "")
		live := &corev1.ConfigMap{Data: map[string]string{"k": "v"}}
		tracker.Update(&corev1.ConfigMap{}, live, "m")
		time.Sleep(time.Minute)
		later := metav1.Now()
		for name, change := range map[string]struct {
			do   func(*corev1.ConfigMap)
			keep bool
		}{
			"times alone":        {func(c *corev1.ConfigMap) {}, true},
			"also data":          {func(c *corev1.ConfigMap) { c.Data["k"] = "w" }, false},
			"an empty list more": {func(c *corev1.ConfigMap) { c.Finalizers = []string{} }, true},
			"another owner":      {func(c *corev1.ConfigMap) { c.ManagedFields[0].Manager = "n" }, false},
			"other fields":       {func(c *corev1.ConfigMap) { c.ManagedFields[0].FieldsV1 = metav1.NewFieldsV1("{}") }, false},
			"no fields":          {func(c *corev1.ConfigMap) { c.ManagedFields[0].FieldsV1 = nil }, false},
		} {
			obj := live.DeepCopy()
			obj.ManagedFields[0].Time = &later
			change.do(obj)
			tracker.KeepTimes(live, obj)
			if kept := obj.ManagedFields[0].Time.Equal(live.ManagedFields[0].Time); kept != change.keep {
				t.Errorf("%s: kept %v", name, kept)
			}
		}
	})
}

func TestValidate(t *testing.T) {
	good := metav1.ManagedFieldsEntry{Operation: "Update", APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:a":{}}`)}
	change := func(do func(*metav1.ManagedFieldsEntry)) []metav1.ManagedFieldsEntry {
		bad := *good.DeepCopy()
		do(&bad)
		return []metav1.ManagedFieldsEntry{good, bad}
	}
	if err := managedfields.Validate([]metav1.ManagedFieldsEntry{good}); err != nil {
		t.Error(err)
	}
	for want, entries := range map[string][]metav1.ManagedFieldsEntry{
		"operation must be":                      change(func(e *metav1.ManagedFieldsEntry) { e.Operation = "Delete" }),
		"apiVersion must not be empty":           change(func(e *metav1.ManagedFieldsEntry) { e.APIVersion = "" }),
		"missing fieldsType in managed fields":   change(func(e *metav1.ManagedFieldsEntry) { e.FieldsType = "" }),
		`invalid fieldsType "FieldsV2" in manag`: change(func(e *metav1.ManagedFieldsEntry) { e.FieldsType = "FieldsV2" }),
		"error decoding set":                     change(func(e *metav1.ManagedFieldsEntry) { e.FieldsV1 = metav1.NewFieldsV1(`{"f:a"`) }),
	} {
		if err := managedfields.Validate(entries); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestApplyErrors(t *testing.T) {
	tracker := houses()
	var bad *managedfields.ConfigError
	if _, err := tracker.Apply(&house{}, config(t, "apiVersion: example.com/v2\nkind: House"), "m", false); !errors.As(err, &bad) {
		t.Errorf("of another version: %v", err)
	}
	if _, err := tracker.Apply(&house{}, config(t, "apiVersion: example.com/v1\nkind: House\nmetadata: {managedFields: []}"), "m", false); !errors.As(err, &bad) {
		t.Errorf("with managed fields: %v", err)
	}
	broken := &house{}
	broken.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
	if _, err := tracker.Apply(broken, config(t, "apiVersion: example.com/v1\nkind: House"), "m", false); err == nil || errors.As(err, &bad) {
		t.Errorf("live object with bad managed fields: %v", err)
	}
}

// One schema learns of all kinds at once.
func TestConcurrentUse(t *testing.T) {
	var s managedfields.Schema
	gvk := corev1.SchemeGroupVersion.WithKind("Pod")
	tracker := managedfields.New(&s, managedfields.Kind{Versions: []managedfields.Version{{
		GroupVersionKind: gvk, New: func() managedfields.Object { return &corev1.Pod{} },
	}}}, managedfields.Endpoint{Version: gvk.GroupVersion()})
	live := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	live.UID = "u"
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			obj := live.DeepCopy()
			if i%2 == 0 {
				obj.UID = ""
				tracker.Update(&corev1.Pod{}, obj, "m")
			} else if _, err := tracker.Apply(live, config(t, "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: d}]}"), "m", false); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
}
