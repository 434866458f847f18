package request_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/registry/request"
)

const (
	jsonPatch = types.JSONPatchType
	merge     = types.MergePatchType
	strategic = types.StrategicMergePatchType
	ignore    = metav1.FieldValidationIgnore
	warn      = metav1.FieldValidationWarn
	strict    = metav1.FieldValidationStrict
	// unprocessable is all that a client is told, as upstream's are, of a patch that does not fit the object.
	unprocessable = "the server rejected our request due to an error in our request"
)

func configMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Data: map[string]string{"a": "1", "b": "2"}}
}

// TestApply holds what a patch makes of an object, what it is told to pass over, and upstream's words for what it
// cannot do.
func TestApply(t *testing.T) {
	for name, c := range map[string]struct {
		form       types.PatchType
		patch      string
		validation string
		data       string // of the object, as key=value
		told       string
		code       int32
		refused    string
	}{
		"JSON patch":                  {jsonPatch, `[{"op":"replace","path":"/data/a","value":"3"}]`, "", "a=3 b=2", "", 0, ""},
		"JSON patch, more":            {jsonPatch, `[{"op":"remove","path":"/data/a","why":1}]`, warn, "b=2", `json patch unknown field "[0].why"`, 0, ""},
		"JSON patch, more, ignored":   {jsonPatch, `[{"op":"remove","path":"/data/a","why":1}]`, ignore, "b=2", "", 0, ""},
		"JSON patch, unknown":         {jsonPatch, `[{"op":"add","path":"/x","value":"3"}]`, "", "a=1 b=2", `unknown field "x"`, 0, ""},
		"JSON patch, unknown, strict": {jsonPatch, `[{"op":"add","path":"/x","value":3}]`, strict, "", "", 422, ` "" is invalid: patch: Invalid value: "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"1\",\"b\":\"2\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"m\"},\"x\":3}": strict decoding error: unknown field "x"`},
		"JSON patch, no list":         {jsonPatch, `{}`, "", "", "", 400, "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"},
		"JSON patch, no list, lax":    {jsonPatch, `{}`, ignore, "", "", 400, "json: cannot unmarshal object into Go value of type jsonpatch.Patch"},
		"JSON patch, no such":         {jsonPatch, `[{"op":"remove","path":"/data/z"}]`, "", "", "", 422, unprocessable},
		"JSON patch, long":            {jsonPatch, "[" + strings.TrimSuffix(strings.Repeat(`{"op":"test","path":"/kind","value":"ConfigMap"},`, 10001), ",") + "]", ignore, "", "", 413, "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"},
		"JSON patch, not too long":    {jsonPatch, "[" + strings.TrimSuffix(strings.Repeat(`{"op":"test","path":"/kind","value":"ConfigMap"},`, 10000), ",") + "]", ignore, "a=1 b=2", "", 0, ""},
		"JSON patch, no text":         {jsonPatch, `[{"op":"add","path":"/data/a","value":3}]`, "", "", "", 422, ` "" is invalid: patch: Invalid value: "{\"apiVersion\":\"v1\",\"data\":{\"a\":3,\"b\":\"2\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"m\"}}": json: cannot unmarshal number into Go struct field ConfigMap.data of type string`},
		"JSON patch, other kind":      {jsonPatch, `[{"op":"replace","path":"/kind","value":"Pod"}]`, "", "", "", 422, ` "" is invalid: patch: Invalid value: "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"1\",\"b\":\"2\"},\"kind\":\"Pod\",\"metadata\":{\"name\":\"m\"}}": /v1, Kind=Pod is no /v1, Kind=ConfigMap`},
		"JSON patch, bad version":     {jsonPatch, `[{"op":"replace","path":"/apiVersion","value":"a/b/c"}]`, "", "", "", 422, ` "" is invalid: patch: Invalid value: "{\"apiVersion\":\"a/b/c\",\"data\":{\"a\":\"1\",\"b\":\"2\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"m\"}}": unexpected GroupVersion string: a/b/c`},
		"merge":                       {merge, `{"data":{"a":"3","b":null}}`, "", "a=3", "", 0, ""},
		"merge, strict":               {merge, `{"data":{"a":"3"}}`, strict, "a=3 b=2", "", 0, ""},
		"strategic, of no kind":       {strategic, `{"kind":{"a":"b"}}`, "", "", "", 422, ` "" is invalid: patch: Invalid value: "map[kind:map[a:b]]": unrecognized type: string`},
		"merge, twice":                {merge, `{"data":{"a":"2","a":"3"}}`, warn, "a=3 b=2", `duplicate field "data.a"`, 0, ""},
		"merge, twice, ignored":       {merge, `{"data":{"a":"2","a":"3"}}`, ignore, "a=3 b=2", "", 0, ""},
		"merge, unknown twice":        {merge, `{"x":1,"x":2}`, "", "a=1 b=2", `duplicate field "x"; unknown field "x"`, 0, ""},
		"merge, unknown, strict":      {merge, `{"data":null,"x":1}`, strict, "", "", 422, ` "" is invalid: patch: Invalid value: "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"m\"},\"x\":1}": strict decoding error: unknown field "x"`},
		"merge, no JSON":              {merge, `{`, "", "", "", 400, "error decoding patch: unexpected end of JSON input"},
		"merge, no JSON, lax":         {merge, `{`, ignore, "", "", 400, "Invalid JSON Patch"},
		"strategic":                   {strategic, `{"data":{"a":"3"}}`, "", "a=3 b=2", "", 0, ""},
		"strategic, typed":            {strategic, `{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"3"}}`, strict, "a=3 b=2", "", 0, ""},
		"strategic, replaced":         {strategic, `{"data":{"$patch":"replace","c":"4"}}`, "", "c=4", "", 0, ""},
		"strategic, unknown":          {strategic, `{"x":1}`, "", "a=1 b=2", `unknown field "x"`, 0, ""},
		"strategic, ignored":          {strategic, `{"x":1,"x":1}`, ignore, "a=1 b=2", "", 0, ""},
		"strategic, twice":            {strategic, `{"x":1,"x":1}`, "", "a=1 b=2", `duplicate field "x"; unknown field "x"`, 0, ""},
		"strategic, strict":           {strategic, `{"x":1}`, strict, "", "", 422, ` "" is invalid: patch: Invalid value: "map[x:1]": strict decoding error: unknown field "x"`},
		"strategic, no JSON":          {strategic, `{`, "", "", "", 400, "unexpected end of JSON input"},
		"strategic, no text":          {strategic, `{"data":{"a":3}}`, "", "", "", 422, ` "" is invalid: patch: Invalid value: "map[data:map[a:3]]": cannot convert int64 to string`},
		"strategic, odd":              {strategic, `{"data":{"$patch":"twist"}}`, "", "", "", 500, ""},
		"apply":                       {types.ApplyYAMLPatchType, `{}`, ignore, "", "", 415, "415: Unsupported Media Type"},
	} {
		current, into := configMap(), &corev1.ConfigMap{}
		p := request.Patch{Type: c.form, Data: []byte(c.patch), Validation: c.validation}
		unknown, err := p.Apply(t.Context(), current, corev1.SchemeGroupVersion.WithKind("ConfigMap"), into)
		if c.code == 500 {
			if s := apierrors.APIStatus(nil); err == nil || errors.As(err, &s) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		refused(t, name, err, c.code, c.refused)
		told := make([]string, 0, len(unknown))
		for _, u := range unknown {
			told = append(told, u.Error())
		}
		if got := strings.Join(told, "; "); got != c.told {
			t.Errorf("%s: it tells %s", name, got)
		}
		if !maps.Equal(current.Data, configMap().Data) {
			t.Errorf("%s: the current object was changed", name)
		}
		var data []string
		for _, k := range slices.Sorted(maps.Keys(into.Data)) {
			data = append(data, k+"="+into.Data[k])
		}
		if err == nil && (strings.Join(data, " ") != c.data || into.Name != "m" || into.Kind != "") {
			t.Errorf("%s: %+v", name, into)
		}
	}
}

// TestStrategicErrors: what is wrong with a patch is the client's, and in which way.
func TestStrategicErrors(t *testing.T) {
	const sent = `{"spec":{"$setElementOrder/containers":`
	for patch, code := range map[string]int32{
		`{"spec":{"containers":[{"image":"x"}]}}`: 500, // without its merge key
		sent + `"a"}}`: 500,
		sent + `[{"name":"y"}],"containers":[{"name":"x"}]}}`: 500,
		`{"spec":{"containers":[[]]}}`:                        500,
		`{"spec":{"containers":{"name":"x"}}}`:                422,
		`{"spec":{"$retainKeys":"a"}}`:                        400,
		`{"spec":{"$retainKeys":["a"],"b":1}}`:                400,
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{"x"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
		p := request.Patch{Type: strategic, Data: []byte(patch)}
		_, err := p.Apply(t.Context(), pod, corev1.SchemeGroupVersion.WithKind("Pod"), &corev1.Pod{})
		got := int32(500)
		if s := apierrors.APIStatus(nil); errors.As(err, &s) {
			got = s.Status().Code
		}
		if err == nil || got != code {
			t.Errorf("%s: %d, %v", patch, got, err)
		}
	}
}

// TestListsOfLists: a patch that makes a list of lists does not fit.
func TestListsOfLists(t *testing.T) {
	patch := []byte(`{"metadata":{"$deleteFromPrimitiveList/finalizers":[["a"]],"finalizers":[["a"]]}}`)
	_, err := request.PatchDocument(t.Context(), []byte(`{"metadata":{"finalizers":[]}}`), strategic, patch, &corev1.Pod{})
	refused(t, "lists", err, 422, unprocessable)
}

// TestMoved: a patch that moves members of long lists again and again is refused.
func TestMoved(t *testing.T) {
	long := `{"data":[` + strings.Repeat("0,", 40000) + `0]}`
	patch := `[` + strings.Repeat(`{"op":"add","path":"/data/0","value":0},`, 9999) + `{"op":"test","path":"","value":0}]`
	_, err := request.PatchDocument(t.Context(), []byte(long), jsonPatch, []byte(patch), nil)
	if !apierrors.IsRequestEntityTooLargeError(err) || !strings.Contains(err.Error(), "the patch moves more than") {
		t.Errorf("%.200v", err)
	}
}

// narrow is a decoder that has little room.
type narrow struct{ room, decoded error }

func (n narrow) Room([]byte, runtime.Object) error { return n.room }

func (n narrow) Decode([]byte, runtime.Object, schema.GroupVersionKind) ([]error, error) {
	return []error{errors.New("odd")}, n.decoded
}

// TestDecoder: the decoder judges what a patch makes, and its refusal of what is too large is the answer.
func TestDecoder(t *testing.T) {
	large := apierrors.NewRequestEntityTooLargeError("too large")
	apply := func(form types.PatchType, d request.Decoder) ([]error, error) {
		p := request.Patch{Type: form, Data: []byte(`{}`), Decoder: d}
		return p.Apply(t.Context(), configMap(), corev1.SchemeGroupVersion.WithKind("ConfigMap"), &corev1.ConfigMap{})
	}
	if _, err := apply(merge, narrow{decoded: large}); !errors.Is(err, large) {
		t.Errorf("merge: %v", err)
	}
	if _, err := apply(strategic, narrow{room: large}); !errors.Is(err, large) {
		t.Errorf("strategic: %v", err)
	}
	if told, err := apply(merge, narrow{}); err != nil || fmt.Sprint(told) != "[odd]" {
		t.Errorf("told: %v, %v", told, err)
	}
	_, err := apply(merge, narrow{decoded: errors.New("no map")})
	refused(t, "not decoded", err, 422, ` "" is invalid: patch: Invalid value: "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"1\",\"b\":\"2\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"m\"}}": no map`)
}

// TestCopies: copies of a JSON patch are bounded.
func TestCopies(t *testing.T) {
	var b strings.Builder
	b.WriteString(`[{"op":"add","path":"/data/c","value":"` + strings.Repeat("x", 1<<20) + `"}`)
	for i := range 4 {
		fmt.Fprintf(&b, `,{"op":"copy","from":"/data/c","path":"/data/c%d"}`, i)
	}
	b.WriteString("]")
	p := request.Patch{Type: jsonPatch, Data: []byte(b.String()), Validation: ignore}
	_, err := p.Apply(context.Background(), configMap(), corev1.SchemeGroupVersion.WithKind("ConfigMap"), &corev1.ConfigMap{})
	refused(t, "copies", err, 422, unprocessable)
}

// TestUnencodable: an object that has no JSON is not patched.
func TestUnencodable(t *testing.T) {
	p := request.Patch{Type: merge, Data: []byte(`{}`)}
	if _, err := p.Apply(t.Context(), &endless{Next: make(chan int)}, schema.GroupVersionKind{Version: "v1", Kind: "E"}, &endless{}); err == nil {
		t.Error("patched")
	}
	p.Type = strategic
	if _, err := p.Apply(t.Context(), &endless{Next: make(chan int)}, schema.GroupVersionKind{Version: "v1", Kind: "E"}, &endless{}); err == nil {
		t.Error("patched")
	}
}

type endless struct {
	metav1.TypeMeta `json:",inline"`
	Next            chan int `json:"next"`
}

func (e *endless) DeepCopyObject() runtime.Object { return e }
