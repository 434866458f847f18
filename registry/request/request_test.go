package request_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"fmt"

	"github.com/keelson-dev/keelson/authz/selector"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/request"
)

// refused fails the test unless err is nil where message is "", and else what a client is told with that code.
func refused(t *testing.T, name string, err error, code int32, message string) {
	t.Helper()
	if message == "" {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return
	}
	s, ok := err.(apierrors.APIStatus)
	if !ok || s.Status().Code != code || s.Status().Message != message {
		t.Errorf("%s:\n got %#v\nwant %d %s", name, err, code, message)
	}
}

func TestInNamespace(t *testing.T) {
	for name, c := range map[string]struct{ own, of, want, refused string }{
		"none":     {"", "a", "a", ""},
		"the same": {"a", "a", "a", ""},
		"any":      {"a", "", "", ""},
		"other": {
			"b", "a", "b",
			"the namespace of the provided object does not match the namespace sent on the request",
		},
	} {
		obj := &metav1.ObjectMeta{Namespace: c.own}
		refused(t, name, request.InNamespace(obj, c.of), 400, c.refused)
		if obj.Namespace != c.want {
			t.Errorf("%s: it is in %q", name, obj.Namespace)
		}
	}
}

func TestAt(t *testing.T) {
	for name, c := range map[string]struct {
		obj     metav1.ObjectMeta
		refused string
	}{
		"there":           {metav1.ObjectMeta{Namespace: "ns", Name: "web"}, ""},
		"in no namespace": {metav1.ObjectMeta{Name: "web"}, ""},
		"without a name":  {metav1.ObjectMeta{Namespace: "ns"}, "the name of the object (web based on URL) was undeterminable: name must be provided"},
		"another name":    {metav1.ObjectMeta{Namespace: "ns", Name: "api"}, "the name of the object (api) does not match the name on the URL (web)"},
		"elsewhere":       {metav1.ObjectMeta{Namespace: "b", Name: "web"}, "the namespace of the object (b) does not match the namespace on the request (ns)"},
	} {
		refused(t, name, request.At(&c.obj, "ns", "web"), 400, c.refused)
	}
	refused(t, "of the cluster", request.At(&metav1.ObjectMeta{Namespace: "b", Name: "web"}, "", "web"), 400, "")
}

func TestWipe(t *testing.T) {
	now := metav1.NewTime(time.Unix(1e9, 0))
	grace := int64(3)
	obj := metav1.ObjectMeta{
		Name: "web", CreationTimestamp: now, DeletionTimestamp: &now, DeletionGracePeriodSeconds: &grace, UID: "u", ResourceVersion: "7",
	}
	obj.SetSelfLink("/")
	request.Wipe(&obj)
	if want := (metav1.ObjectMeta{Name: "web", ResourceVersion: "7"}); !reflect.DeepEqual(obj, want) {
		t.Errorf("%+v", obj)
	}
}

func TestOptions(t *testing.T) {
	refused(t, "valid", request.Options("PatchOptions", nil), 0, "")
	err := request.Options("PatchOptions", field.ErrorList{field.Forbidden(field.NewPath("force"), "may not be specified")})
	refused(t, "not valid", err, 422, `PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified`)
}

func TestScale(t *testing.T) {
	for replicas, message := range map[int32]string{
		0: "", 7: "",
		-1: `Scale.autoscaling "web" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0`,
	} {
		refused(t, "replicas", request.Scale(registry.Scale[registry.Object]{}, &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}, "web"), 422, message)
	}
	to := registry.Scale[registry.Object]{Set: func(obj registry.Object, n int32) { obj.(*appsv1.Deployment).Spec.Replicas = &n }}
	for name, c := range map[string]struct{ uid, want types.UID }{"its UID": {"u", "u"}, "any": {"", "old"}} {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{UID: "old", ResourceVersion: "1"}}
		request.SetScale(to, d, &autoscalingv1.Scale{
			ObjectMeta: metav1.ObjectMeta{ResourceVersion: "2", UID: c.uid}, Spec: autoscalingv1.ScaleSpec{Replicas: 5},
		})
		if d.UID != c.want || d.ResourceVersion != "2" || *d.Spec.Replicas != 5 {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// TestReadScale: an object without a scale to read is an error of the server.
func TestReadScale(t *testing.T) {
	of := registry.Scale[registry.Object]{
		Spec:   func(registry.Object) int32 { return 3 },
		Status: func(registry.Object) (int32, string) { return 2, "a=b" },
	}
	for _, readable := range []func(registry.Object) error{nil, func(registry.Object) error { return nil }} {
		of.Readable = readable
		if s, err := request.ReadScale(of, configMap()); err != nil || s.Spec.Replicas != 3 || s.Status.Replicas != 2 || s.Status.Selector != "a=b" {
			t.Errorf("%+v, %v", s, err)
		}
	}
	of.Readable = func(registry.Object) error { return errors.New("no number") }
	_, err := request.ReadScale(of, configMap())
	refused(t, "no number", err, 500, "Internal error occurred: no number")
}

func TestTypeOf(t *testing.T) {
	want := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	for document, c := range map[string]struct {
		got     schema.GroupVersionKind
		refused string
	}{
		`{}`:                    {want, ""},
		`{"kind":"ReplicaSet"}`: {want.GroupVersion().WithKind("ReplicaSet"), ""},
		`{"apiVersion":"v1"}`:   {schema.GroupVersionKind{Version: "v1", Kind: "Deployment"}, ""},
		`{"apiVersion":"apps/v1beta1","kind":"D"}`: {schema.GroupVersionKind{Group: "apps", Version: "v1beta1", Kind: "D"}, ""},
		`{"apiVersion":"batch/"}`:                  {schema.GroupVersionKind{Group: "batch", Kind: "Deployment"}, ""},
		`{"apiVersion":"a/b/c"}`:                   {schema.GroupVersionKind{}, "unexpected GroupVersion string: a/b/c"},
		`[]`: {schema.GroupVersionKind{}, "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type " +
			"struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }"},
	} {
		got, err := request.TypeOf([]byte(document), want)
		if c.refused != "" {
			if err == nil || err.Error() != c.refused {
				t.Errorf("%s: %v", document, err)
			}
			continue
		}
		if err != nil || *got != c.got {
			t.Errorf("%s: %v, %v", document, got, err)
		}
	}
}

// pods and configMaps are resources as far as a selection asks.
func pods() *registry.Resource {
	return &registry.Resource{Kind: registry.Kind{
		Namespaced: true, New: func() registry.Object { return &corev1.Pod{} },
		Fields: func(registry.Object) fields.Set { return fields.Set{"spec.nodeName": ""} },
	}}
}

func configMaps() *registry.Resource {
	return &registry.Resource{Kind: registry.Kind{Namespaced: true}}
}

func nodes() *registry.Resource { return &registry.Resource{} }

func TestSelection(t *testing.T) {
	via := func() *registry.Resource {
		res := pods()
		res.FieldLabel = func(label string) (string, bool) { return "spec.nodeName", label == "spec.host" }
		return res
	}
	long := strings.Repeat("a,", selector.MaxTerms) + "a"
	tooLong := fmt.Sprintf("selector is too long: it has %d terms, at most %d are allowed", selector.MaxTerms+1, selector.MaxTerms)
	for name, c := range map[string]struct {
		res            *registry.Resource
		o              metav1.ListOptions
		labels, fields string
		code           int32
		refused        string
	}{
		"all":             {pods(), metav1.ListOptions{}, "", "", 0, ""},
		"labels":          {pods(), metav1.ListOptions{LabelSelector: "a=b,c"}, "a=b,c", "", 0, ""},
		"a name":          {pods(), metav1.ListOptions{FieldSelector: "metadata.name=web"}, "", "metadata.name=web", 0, ""},
		"a namespace":     {pods(), metav1.ListOptions{FieldSelector: "metadata.namespace!=a"}, "", "metadata.namespace!=a", 0, ""},
		"a field":         {pods(), metav1.ListOptions{FieldSelector: "spec.nodeName=n"}, "", "spec.nodeName=n", 0, ""},
		"of a version":    {via(), metav1.ListOptions{FieldSelector: "spec.host=n"}, "", "spec.nodeName=n", 0, ""},
		"name, version":   {via(), metav1.ListOptions{FieldSelector: "metadata.name=n"}, "", "metadata.name=n", 0, ""},
		"same labels":     {pods(), metav1.ListOptions{FieldSelector: "spec.nodeName=n"}, "", "spec.nodeName=n", 0, ""},
		"not of it":       {via(), metav1.ListOptions{FieldSelector: "spec.nodeName=n"}, "", "", 400, "field label not supported: spec.nodeName"},
		"no such field":   {pods(), metav1.ListOptions{FieldSelector: "spec.x=n"}, "", "", 400, "field label not supported: spec.x"},
		"no fields":       {configMaps(), metav1.ListOptions{FieldSelector: "x=n"}, "", "", 400, `"x" is not a known field selector: only "metadata.name", "metadata.namespace"`},
		"of the cluster":  {nodes(), metav1.ListOptions{FieldSelector: "metadata.namespace=n"}, "", "", 400, `"metadata.namespace" is not a known field selector: only "metadata.name", "metadata.namespace"`},
		"bad labels":      {pods(), metav1.ListOptions{LabelSelector: "a=b=c"}, "", "", 400, `found '=', expected: ',' or 'end of string'`},
		"bad fields":      {pods(), metav1.ListOptions{FieldSelector: "a"}, "", "", 400, `invalid selector: 'a'; can't understand 'a'`},
		"bad options":     {pods(), metav1.ListOptions{ResourceVersionMatch: "Exact"}, "", "", 422, `ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided`},
		"long labels":     {pods(), metav1.ListOptions{LabelSelector: long}, "", "", 400, "labelSelector: " + tooLong},
		"long fields":     {pods(), metav1.ListOptions{FieldSelector: long}, "", "", 400, "fieldSelector: " + tooLong},
		"initial events":  {pods(), metav1.ListOptions{Watch: true, SendInitialEvents: new(bool), ResourceVersionMatch: "NotOlderThan", AllowWatchBookmarks: true}, "", "", 0, ""},
		"not of a list":   {pods(), metav1.ListOptions{SendInitialEvents: new(bool)}, "", "", 422, `ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list`},
		"token and state": {pods(), metav1.ListOptions{Continue: "x", ResourceVersion: "5", ResourceVersionMatch: "Exact", Limit: 1}, "", "", 422, `ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided`},
	} {
		got, err := request.Selection(c.res, "ns", c.o)
		refused(t, name, err, c.code, c.refused)
		if err != nil {
			continue
		}
		if got.Namespace != "ns" || got.Labels.String() != c.labels || got.Fields.String() != c.fields {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestForms(t *testing.T) {
	plain := []types.PatchType{types.JSONPatchType, types.MergePatchType}
	for name, c := range map[string]struct {
		new  func() registry.Object
		want []types.PatchType
	}{
		"of the API":    {func() registry.Object { return &corev1.Pod{} }, append(plain, types.StrategicMergePatchType)},
		"of a user":     {func() registry.Object { return &custom{} }, plain},
		"that is asked": {nil, plain},
	} {
		if got := request.Forms(&registry.Kind{New: c.new}); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// custom is a user's kind, without protobuf.
type custom struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Size              int `json:"size"`
}

func (c *custom) DeepCopyObject() runtime.Object { return c }

func TestWithoutOwners(t *testing.T) {
	owned := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "web", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}, Labels: map[string]string{"a": "b"},
	}}
	got := request.WithoutOwners(owned)
	if got == registry.Object(owned) || len(got.GetManagedFields()) != 0 || len(owned.ManagedFields) != 1 {
		t.Errorf("%+v of %+v", got, owned)
	}
	got.GetLabels()["a"] = "c"
	if got.GetName() != "web" || owned.Labels["a"] != "c" {
		t.Error("it shares nothing else")
	}
	// The content of this one would be shared, and lose its owners.
	user := &unstructured.Unstructured{}
	user.SetManagedFields(owned.ManagedFields)
	if request.WithoutOwners(user) != registry.Object(user) || len(user.GetManagedFields()) != 1 {
		t.Errorf("%+v", user)
	}
	// Nor can one be copied that is no pointer.
	type byValue struct{ *corev1.Pod }
	if v := (byValue{owned}); request.WithoutOwners(v) != registry.Object(v) || len(owned.ManagedFields) != 1 {
		t.Errorf("%+v", v)
	}
	if bare := (&corev1.Pod{}); request.WithoutOwners(bare) != registry.Object(bare) {
		t.Error("an object without owners was copied")
	}
}
