package cel_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/admission/webhook/cel"
	"github.com/keelson-dev/keelson/authz"
)

func conditions(expressions ...string) []registrationv1.MatchCondition {
	out := make([]registrationv1.MatchCondition, len(expressions))
	for i, e := range expressions {
		out[i] = registrationv1.MatchCondition{Name: fmt.Sprint("c", i), Expression: e}
	}
	return out
}

func review() *admissionv1.AdmissionRequest {
	return &admissionv1.AdmissionRequest{
		Operation: admissionv1.Update, Name: "a", Namespace: "ns", SubResource: "status",
		Kind: metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		UserInfo:  authenticationv1.UserInfo{Username: "alice", Groups: []string{"g"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}},
		Object:    runtime.RawExtension{Object: &corev1.ConfigMap{Data: map[string]string{"a": "new"}}},
		OldObject: runtime.RawExtension{Object: &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"a": "old"}}}},
		Options:   runtime.RawExtension{Object: &metav1.UpdateOptions{FieldManager: "m"}},
		DryRun:    new(true),
	}
}

// All conditions must be true; one that is false decides, whatever fails before or after it.
func TestCompile(t *testing.T) {
	c := cel.New(cel.Options{})
	for name, tt := range map[string]struct {
		expressions []string
		want        bool
		failed      string
	}{
		"none":             {want: true},
		"true":             {[]string{"object.data.a == 'new' && oldObject.data.a == 'old'", "oldObject.kind == 'ConfigMap' && object.apiVersion == 'v1'"}, true, ""},
		"false":            {[]string{"true", "object.data.a == 'old'"}, false, ""},
		"false and fails":  {[]string{"object.none", "false", "object.none"}, false, ""},
		"fails":            {[]string{"true", "object.none == 1"}, false, "no such key: none"},
		"does not compile": {[]string{"1 +"}, false, "compilation"},
		"request": {[]string{
			"request.userInfo.username == 'alice' && request.userInfo.extra['k'] == ['v'] && request.dryRun && request.subResource == 'status' && request.options.fieldManager == 'm'",
		}, true, ""},
		"too expensive": {[]string{"[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, a+b+c+d+e+f > 0))))))"}, false, "cost"},
	} {
		t.Run(name, func(t *testing.T) {
			r := review()
			got, err := c.Compile(conditions(tt.expressions...))(t.Context(), r)
			if got != tt.want || (err == nil) != (tt.failed == "") || err != nil && !strings.Contains(err.Error(), tt.failed) {
				t.Errorf("%t, %v", got, err)
			}
			if u := r.OldObject.Object.(*unstructured.Unstructured); len(u.Object) != 1 || r.Object.Object.(*corev1.ConfigMap).Kind != "" {
				t.Errorf("the request was changed to %v", u.Object)
			}
		})
	}
}

// The variable authorizer asks with the user's name, groups and extra attributes, or as a service account.
func TestAuthorizer(t *testing.T) {
	var asked []authz.Attributes
	var failure error
	verdict := authz.Allow
	c := cel.New(cel.Options{Authorizer: authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, error) {
		asked = append(asked, a)
		return authz.Decision{Verdict: verdict, Reason: "because"}, failure
	})})
	evaluate := func(expression string) bool {
		t.Helper()
		ok, err := c.Compile(conditions(expression))(t.Context(), review())
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if !evaluate("authorizer.group('apps').resource('deployments').subresource('scale').namespace('n').name('d').fieldSelector('a=b,c!=d').labelSelector('e in (f),g').check('list').allowed()") {
		t.Error("not allowed")
	}
	a := asked[0]
	if a.User.Name != "alice" || a.User.Groups[0] != "g" || a.User.Extra["k"][0] != "v" || a.Group != "apps" || a.Resource != "deployments" || a.Subresource != "scale" ||
		a.Namespace != "n" || a.Name != "d" || a.Verb != "list" || !a.ResourceRequest || len(a.FieldSelector) != 2 || a.FieldSelector[1].Operator != "!=" || len(a.LabelSelector) != 2 || a.LabelSelector[0].Operator != "in" {
		t.Errorf("asked %+v for %+v", a, a.User)
	}
	if !evaluate("authorizer.requestResource.check('delete').reason() == 'because'") {
		t.Error("no reason")
	}
	if a := asked[1]; a.Resource != "configmaps" || a.Namespace != "ns" || a.Name != "a" || a.Subresource != "status" || a.Verb != "delete" {
		t.Errorf("asked %+v", a)
	}
	evaluate("authorizer.serviceAccount('n', 's').path('/healthz').check('get').allowed()")
	if a := asked[2]; a.User.Name != "system:serviceaccount:n:s" || a.Path != "/healthz" || a.ResourceRequest {
		t.Errorf("asked %+v for %+v", a, a.User)
	}
	for _, verdict = range []authz.Verdict{authz.Deny, authz.NoOpinion} {
		if evaluate("authorizer.path('/').check('get').allowed()") {
			t.Errorf("verdict %d allows", verdict)
		}
	}
	failure = errors.New("down")
	for _, verdict = range []authz.Verdict{authz.Allow, authz.Deny, authz.NoOpinion} {
		if !evaluate("authorizer.path('/').check('get').errored() && authorizer.path('/').check('get').error() == 'down'") {
			t.Errorf("verdict %d hides the error", verdict)
		}
	}
}

func TestCheck(t *testing.T) {
	c := cel.New(cel.Options{})
	for expression, want := range map[string]string{
		"object.metadata.name == 'a' && authorizer.requestResource.check('get').allowed()": "",
		"'a'":        "must evaluate to bool",
		"object.a +": "compilation failed: ERROR: <input>:1:11: Syntax error",
		"params.a":   "undeclared reference to 'params'",
		"nothing":    "undeclared reference to 'nothing'",
	} {
		for _, stored := range []bool{false, true} {
			err := c.Check(expression, stored)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", expression, err)
			}
		}
	}
}

// What the library has learned with this version is for expressions that are stored, which a newer server may have let in.
func TestCheckStored(t *testing.T) {
	const expression = "[1].includes(1)"
	c := cel.New(cel.Options{})
	if err := c.Check(expression, false); err == nil || !strings.Contains(err.Error(), "undeclared reference to 'includes'") {
		t.Errorf("new: %v", err)
	}
	if err := c.Check(expression, true); err != nil {
		t.Errorf("stored: %v", err)
	}
	if ok, err := c.Compile(conditions(expression))(t.Context(), review()); !ok || err != nil {
		t.Errorf("evaluated: %t, %v", ok, err)
	}
}

func BenchmarkConditions(b *testing.B) {
	evaluate := cel.New(cel.Options{}).Compile(conditions("object.data.a == 'new'", "request.userInfo.username.startsWith('a')", "!has(object.metadata.labels) || !('x' in object.metadata.labels)"))
	r := review()
	b.ReportAllocs()
	for b.Loop() {
		if ok, err := evaluate(b.Context(), r); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

// What is not in a request is null, and an object that cannot be decoded is an error, as are names that nobody can ask for.
func TestRequests(t *testing.T) {
	c := cel.New(cel.Options{})
	for name, tt := range map[string]struct {
		change     func(*admissionv1.AdmissionRequest)
		expression string
		failed     string
	}{
		"no object":          {func(r *admissionv1.AdmissionRequest) { r.Object.Object = nil }, "object == null && oldObject.data.a == 'old'", ""},
		"no old object":      {func(r *admissionv1.AdmissionRequest) { r.OldObject.Object = nil }, "oldObject == null && object.data.a == 'new'", ""},
		"no dry run":         {func(r *admissionv1.AdmissionRequest) { r.DryRun = nil }, "!has(request.dryRun)", ""},
		"not a dry run":      {func(r *admissionv1.AdmissionRequest) { r.DryRun = new(false) }, "!request.dryRun", ""},
		"broken":             {func(r *admissionv1.AdmissionRequest) { r.Object.Object = &broken{} }, "true", "unrecognized type"},
		"broken before":      {func(r *admissionv1.AdmissionRequest) { r.OldObject.Object = &broken{} }, "true", "unrecognized type"},
		"an ambiguous check": {func(*admissionv1.AdmissionRequest) {}, "authorizer.path('').check('get').allowed()", "path must not be empty"},
	} {
		t.Run(name, func(t *testing.T) {
			r := review()
			tt.change(r)
			ok, err := c.Compile(conditions(tt.expression))(t.Context(), r)
			if ok != (tt.failed == "") || (err == nil) != (tt.failed == "") || err != nil && !strings.Contains(err.Error(), tt.failed) {
				t.Errorf("%t, %v", ok, err)
			}
		})
	}
}

// broken cannot be turned into JSON.
type broken struct {
	corev1.ConfigMap
	Channel chan int `json:"channel"`
}
