package handler_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/webhook/handler"
	"github.com/keelson-dev/keelson/authn"
)

// plugin is a mutator and a validator that does what a function says, for all operations but CONNECT.
type plugin func(r *admission.Request) error

func (plugin) Name() string                                             { return "Trial" }
func (plugin) Handles(o admission.Operation) bool                       { return o != admission.Connect }
func (p plugin) Admit(_ context.Context, r *admission.Request) error    { return p(r) }
func (p plugin) Validate(_ context.Context, r *admission.Request) error { return p(r) }

func podScheme(t testing.TB) *runtime.Scheme {
	s := runtime.NewScheme()
	if err := corev1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	return s
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
}

func request(change func(*admissionv1.AdmissionRequest)) *admissionv1.AdmissionRequest {
	r := &admissionv1.AdmissionRequest{
		UID: "u1", Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		Name: "a", Namespace: "default", Operation: admissionv1.Update, DryRun: new(true), SubResource: "status",
		UserInfo: authenticationv1.UserInfo{Username: "jane", UID: "7", Groups: []string{"g"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}},
		Object:   runtime.RawExtension{Object: pod("a")}, OldObject: runtime.RawExtension{Object: pod("b")},
		Options: runtime.RawExtension{Object: &metav1.UpdateOptions{FieldManager: "m"}},
	}
	if change != nil {
		change(r)
	}
	return r
}

// wire is a request as it is sent: everything in JSON that names its type.
func wire(t *testing.T, in *admissionv1.AdmissionRequest) *admissionv1.AdmissionRequest {
	t.Helper()
	out := in.DeepCopy()
	kind := schema.GroupVersionKind(in.Kind)
	for ext, is := range map[*runtime.RawExtension]schema.GroupVersionKind{
		&out.Object: kind, &out.OldObject: kind, &out.Options: metav1.SchemeGroupVersion.WithKind("").GroupVersion().WithKind(optionsKind(in.Options.Object)),
	} {
		if ext.Object == nil {
			continue
		}
		ext.Object.GetObjectKind().SetGroupVersionKind(is)
		raw, err := json.Marshal(ext.Object)
		if err != nil {
			t.Fatal(err)
		}
		*ext = runtime.RawExtension{Raw: raw}
	}
	return out
}

func optionsKind(o runtime.Object) string {
	if o == nil {
		return ""
	}
	return reflect.TypeOf(o).Elem().Name()
}

// post sends a review over the network and returns the response.
func post(t *testing.T, h http.Handler, version string, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	t.Helper()
	body, err := json.Marshal(&admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{Kind: "AdmissionReview", APIVersion: "admission.k8s.io/" + version}, Request: r})
	if err != nil {
		t.Fatal(err)
	}
	code, answer := send(t, h, body)
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(answer, &review); err != nil || code != http.StatusOK {
		t.Fatalf("%d %s: %v", code, answer, err)
	}
	if review.APIVersion != "admission.k8s.io/"+version || review.Kind != "AdmissionReview" || review.Request != nil {
		t.Errorf("the answer is %s", answer)
	}
	return review.Response
}

func send(t *testing.T, h http.Handler, body []byte) (int, []byte) {
	t.Helper()
	s := httptest.NewServer(h)
	defer s.Close()
	r, err := http.Post(s.URL, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	answer, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, answer
}

// both answers a request in process and over the network; the two must be equal.
func both(t *testing.T, h *handler.Handler, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	t.Helper()
	direct := h.Review(t.Context(), r)
	for _, version := range []string{"v1", "v1beta1"} {
		if remote := post(t, h, version, wire(t, r)); !reflect.DeepEqual(remote, direct) {
			t.Errorf("over the network %+v, in process %+v", remote, direct)
		}
	}
	return direct
}

// TestRequest: a plugin gets what an API server's own plugins get.
func TestRequest(t *testing.T) {
	for name, c := range map[string]struct {
		scheme bool
		change func(*admissionv1.AdmissionRequest)
		want   func(*admission.Request)
	}{
		"typed":        {scheme: true},
		"unstructured": {want: func(r *admission.Request) { r.Object, r.OldObject = plain("a"), plain("b") }},
		"unstructured in the server, too": {
			change: func(r *admissionv1.AdmissionRequest) { r.Object.Object, r.OldObject.Object = plain("a"), plain("b") },
			want:   func(r *admission.Request) { r.Object, r.OldObject = plain("a"), plain("b") },
		},
		"unstructured in the server only": {
			scheme: true,
			change: func(r *admissionv1.AdmissionRequest) { r.Object.Object, r.OldObject.Object = plain("a"), plain("b") },
		},
		"another version": {
			scheme: true,
			change: func(r *admissionv1.AdmissionRequest) {
				r.RequestKind, r.RequestResource = &metav1.GroupVersionKind{Version: "v2", Kind: "Pod"}, &metav1.GroupVersionResource{Version: "v2", Resource: "pods"}
			},
			want: func(r *admission.Request) {
				r.RequestedKind, r.RequestedResource = schema.GroupVersionKind{Version: "v2", Kind: "Pod"}, schema.GroupVersionResource{Version: "v2", Resource: "pods"}
			},
		},
		"another resource of no kind": {
			scheme: true,
			change: func(r *admissionv1.AdmissionRequest) {
				r.RequestResource = &metav1.GroupVersionResource{Version: "v2", Resource: "pods"}
			},
		},
		"no dry run": {
			scheme: true,
			change: func(r *admissionv1.AdmissionRequest) { r.DryRun = new(false) },
			want:   func(r *admission.Request) { r.DryRun = false },
		},
		"the same version": {
			scheme: true,
			change: func(r *admissionv1.AdmissionRequest) { r.RequestKind, r.RequestResource = &r.Kind, &r.Resource },
		},
		"create": {
			scheme: true,
			change: func(r *admissionv1.AdmissionRequest) {
				r.Operation, r.OldObject, r.DryRun, r.Options = admissionv1.Create, runtime.RawExtension{}, nil, runtime.RawExtension{Object: &metav1.CreateOptions{FieldManager: "m"}}
			},
			want: func(r *admission.Request) {
				r.Operation, r.OldObject, r.DryRun, r.Options = admission.Create, nil, false, &metav1.CreateOptions{FieldManager: "m"}
			},
		},
		"delete": {
			scheme: true,
			change: func(r *admissionv1.AdmissionRequest) {
				r.Operation, r.Object, r.Options = admissionv1.Delete, runtime.RawExtension{}, runtime.RawExtension{Object: &metav1.DeleteOptions{}}
			},
			want: func(r *admission.Request) {
				r.Operation, r.Object, r.Options = admission.Delete, nil, &metav1.DeleteOptions{}
			},
		},
		"patch": {
			scheme: true,
			change: func(r *admissionv1.AdmissionRequest) {
				r.Options = runtime.RawExtension{Object: &metav1.PatchOptions{Force: new(true)}}
			},
			want: func(r *admission.Request) { r.Options = &metav1.PatchOptions{Force: new(true)} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := &admission.Request{
				Operation: admission.Update, Kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"},
				Subresource: "status", Namespace: "default", Name: "a", Object: pod("a"), OldObject: pod("b"), Options: &metav1.UpdateOptions{FieldManager: "m"}, DryRun: true,
				User: &authn.Identity{Name: "jane", UID: "7", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}},
			}
			if c.want != nil {
				c.want(want)
			}
			var o handler.Options
			if c.scheme {
				o.Scheme = podScheme(t)
			}
			seen := 0
			h := handler.Validating(plugin(func(r *admission.Request) error {
				seen++
				if !reflect.DeepEqual(r, want) {
					t.Errorf("got %+v\nwant %+v", r, want)
				}
				return nil
			}), o)
			if r := both(t, h, request(c.change)); !r.Allowed || r.UID != "u1" || r.Patch != nil || r.PatchType != nil || r.Result != nil || seen != 3 {
				t.Errorf("%+v after %d calls", r, seen)
			}
		})
	}
}

func plain(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name, "namespace": "default"}, "spec": map[string]any{"containers": nil}, "status": map[string]any{},
	}}
}

// TestMutate: changes become a patch, and never reach the request's own object.
func TestMutate(t *testing.T) {
	label := func(r *admission.Request) error {
		if r.Object != nil {
			r.Object.(metav1.Object).SetLabels(map[string]string{"app": "web"})
		}
		return nil
	}
	for name, c := range map[string]struct {
		do     plugin
		change func(*admissionv1.AdmissionRequest)
		want   string
	}{
		"a change": {do: label, want: `[{"op":"add","path":"/metadata/labels","value":{"app":"web"}}]`},
		"none":     {do: func(*admission.Request) error { return nil }},
		"no object": {do: label, change: func(r *admissionv1.AdmissionRequest) {
			r.Operation, r.Object = admissionv1.Delete, runtime.RawExtension{}
		}},
		"of no kind": {do: label, change: func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Connect }},
	} {
		for scheme, o := range map[string]handler.Options{"typed": {Scheme: podScheme(t)}, "unstructured": {}} {
			t.Run(name+", "+scheme, func(t *testing.T) {
				r := request(c.change)
				out := both(t, handler.Mutating(c.do, o), r)
				if string(out.Patch) != c.want || (out.PatchType != nil) != (c.want != "") || !out.Allowed {
					t.Errorf("%s %+v", out.Patch, out)
				}
				if out.PatchType != nil && *out.PatchType != admissionv1.PatchTypeJSONPatch {
					t.Error(*out.PatchType)
				}
				if r.Object.Object != nil && len(r.Object.Object.(*corev1.Pod).Labels) > 0 {
					t.Error("the object of the request has changed")
				}
			})
		}
	}
}

// TestNoPatch: a validator changes nothing, and what is only written differently is no change.
func TestNoPatch(t *testing.T) {
	s := podScheme(t)
	if err := appsv1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	label := plugin(func(r *admission.Request) error {
		r.Object.(metav1.Object).SetLabels(map[string]string{"app": "web"})
		return nil
	})
	if out := post(t, handler.Validating(label, handler.Options{Scheme: s}), "v1", wire(t, request(nil))); !out.Allowed || out.Patch != nil {
		t.Errorf("a validator: %+v", out)
	}
	rewrite := plugin(func(r *admission.Request) error {
		r.Object.(*appsv1.ControllerRevision).Data.Raw = []byte(`{"b":2,"a":1}`)
		return nil
	})
	r := request(func(r *admissionv1.AdmissionRequest) {
		r.Kind, r.OldObject = metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ControllerRevision"}, runtime.RawExtension{}
		r.Object.Object = &appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: []byte(`{"a":1,"b":2}`)}}
	})
	if out := both(t, handler.Mutating(rewrite, handler.Options{Scheme: s}), r); !out.Allowed || out.Patch != nil || out.PatchType != nil {
		t.Errorf("another order: %+v", out)
	}
	r = request(nil)
	same := false
	handler.Validating(plugin(func(got *admission.Request) error {
		same = got.Object == r.Object.Object
		return nil
	}), handler.Options{Scheme: s}).Review(t.Context(), r)
	if !same {
		t.Error("a validator of the same process gets a copy")
	}
}

// TestRefusals: a refusal is the Status that an API server answers for it.
func TestRefusals(t *testing.T) {
	r := &admission.Request{Resource: schema.GroupVersionResource{Resource: "pods"}, Kind: schema.GroupVersionKind{Kind: "Pod"}, Name: "a"}
	coded := admission.Forbidden(r, "slow down")
	coded.Code = http.StatusTooManyRequests
	caused := admission.Forbidden(r, "no")
	caused.Causes = []metav1.StatusCause{{Type: "x", Message: "y"}}
	for _, c := range []struct {
		err  error
		want metav1.Status
	}{
		{errors.New("no"), metav1.Status{Code: 403, Reason: "Forbidden", Message: "no"}},
		{admission.Forbidden(r, "no"), metav1.Status{Code: 403, Reason: "Forbidden", Message: `pods "a" is forbidden: no`, Details: &metav1.StatusDetails{Name: "a", Kind: "pods"}}},
		{coded, metav1.Status{Code: 429, Reason: "Forbidden", Message: `pods "a" is forbidden: slow down`, Details: &metav1.StatusDetails{Name: "a", Kind: "pods"}}},
		{caused, metav1.Status{Code: 403, Reason: "Forbidden", Message: `pods "a" is forbidden: no`, Details: &metav1.StatusDetails{Name: "a", Kind: "pods", Causes: caused.Causes}}},
		{
			admission.NotFound(schema.GroupResource{Resource: "things"}, "x"),
			metav1.Status{Code: 404, Reason: "NotFound", Message: `things "x" not found`, Details: &metav1.StatusDetails{Name: "x", Kind: "things"}},
		},
		{admission.BadRequest("why"), metav1.Status{Code: 400, Reason: "BadRequest", Message: "why"}},
		{admission.Internal(errors.New("broken")), metav1.Status{Code: 500, Reason: "InternalError", Message: "Internal error occurred: broken", Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: "broken"}}}}},
		{
			admission.Invalid(r, field.ErrorList{field.Required(field.NewPath("spec"), "")}),
			metav1.Status{
				Code: 422, Reason: "Invalid", Message: `Pod "a" is invalid: spec: Required value`,
				Details: &metav1.StatusDetails{Name: "a", Kind: "Pod", Causes: []metav1.StatusCause{{Type: "FieldValueRequired", Message: "Required value", Field: "spec"}}},
			},
		},
	} {
		c.want.Status = metav1.StatusFailure
		do := plugin(func(*admission.Request) error { return c.err })
		for _, h := range []*handler.Handler{handler.Validating(do, handler.Options{}), handler.Mutating(do, handler.Options{})} {
			if out := both(t, h, request(nil)); out.Allowed || out.UID != "u1" || !reflect.DeepEqual(*out.Result, c.want) {
				t.Errorf("%v: %+v, %+v", c.err, out, out.Result)
			}
		}
		deleted := request(func(r *admissionv1.AdmissionRequest) {
			r.Operation, r.Object = admissionv1.Delete, runtime.RawExtension{}
		})
		if out := both(t, handler.Mutating(do, handler.Options{}), deleted); out.Allowed || !reflect.DeepEqual(*out.Result, c.want) {
			t.Errorf("%v, without an object: %+v", c.err, out)
		}
	}
}

// TestBadReviews: what is not a review is told so; what is one, with objects that are none, is refused.
func TestBadReviews(t *testing.T) {
	h := handler.Validating(plugin(func(*admission.Request) error { return nil }), handler.Options{MaxReview: 1000, Scheme: podScheme(t)})
	const review = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"`
	for body, want := range map[string]string{
		"":           "400 the body is not an AdmissionReview: unexpected end of JSON input",
		"{}":         "400 the body is not an AdmissionReview: its type is /, Kind=",
		review + "}": "400 the body is not an AdmissionReview: it has no request",
		`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v2","request":{}}`: "400 the body is not an AdmissionReview: its type is admission.k8s.io/v2, Kind=AdmissionReview",
		strings.Repeat(" ", 1001): "413 the review is larger than 1000 bytes",
	} {
		code, answer := send(t, h, []byte(body))
		if got := strings.TrimSpace(strings.Join([]string{http.StatusText(code), string(answer)}, " ")); got != http.StatusText(atoi(want[:3]))+want[3:] {
			t.Errorf("%q: %d %s", body, code, answer)
		}
	}
	for _, c := range []struct{ kind, field, value, want string }{
		{"Pod", "object", "[]", "request.object cannot be decoded"},
		{"Pod", "oldObject", "[]", "request.oldObject cannot be decoded"},
		{"Thing", "object", "[]", "request.object cannot be decoded"},
		{"Pod", "options", "[]", "request.options cannot be decoded"},
		{"Pod", "options", `{"kind":"CreateOptions","dryRun":7}`, "request.options cannot be decoded"},
	} {
		body := review + `,"request":{"uid":"u1","operation":"CREATE","kind":{"version":"v1","kind":"` + c.kind + `"},"` + c.field + `":` + c.value + "}}"
		var answer admissionv1.AdmissionReview
		code, text := send(t, h, []byte(body))
		if err := json.Unmarshal(text, &answer); err != nil || code != 200 || answer.Response.Allowed || answer.Response.Result.Code != 400 ||
			!strings.Contains(answer.Response.Result.Message, c.want) {
			t.Errorf("%s: %d %s", body, code, text)
		}
	}
	// Options of a connection are those of its kind; the plugin does without.
	body := review + `,"request":{"uid":"u1","operation":"CREATE","options":{"kind":"PodExecOptions"}}}`
	if code, text := send(t, h, []byte(body)); code != 200 || !strings.Contains(string(text), `"allowed":true`) {
		t.Errorf("%d %s", code, text)
	}
}

func atoi(s string) int { return int(s[0]-'0')*100 + int(s[1]-'0')*10 + int(s[2]-'0') }
