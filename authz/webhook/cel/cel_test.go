package cel_test

import (
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/authz/webhook/cel"
)

func TestConditions(t *testing.T) {
	pods := &authorizationv1.SubjectAccessReviewSpec{
		User: "ann", UID: "u", Groups: []string{"g"}, Extra: map[string]authorizationv1.ExtraValue{"example.com/x": {"y"}},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: "ns", Verb: "list", Resource: "pods",
			LabelSelector: &authorizationv1.LabelSelectorAttributes{Requirements: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "In", Values: []string{"web"}}}},
			FieldSelector: &authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{{Key: "spec.nodeName", Operator: "In", Values: []string{"n"}}}},
		},
	}
	path := &authorizationv1.SubjectAccessReviewSpec{User: "ann", NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/x", Verb: "get"}}
	for _, tt := range []struct {
		spec        *authorizationv1.SubjectAccessReviewSpec
		expressions []string
		want        bool
		fails       string
	}{
		{pods, []string{`request.user == "ann"`, `request.uid == "u"`, `"g" in request.groups`, `request.extra["example.com/x"] == ["y"]`}, true, ""},
		{pods, []string{`has(request.resourceAttributes)`, `request.resourceAttributes.namespace == "kube-system"`}, false, ""},
		{pods, []string{`request.resourceAttributes.labelSelector.requirements[0].values == ["web"]`}, true, ""},
		{pods, []string{`request.resourceAttributes.labelSelector.requirements[0].values == ["web"]`, `true`}, true, ""},
		{pods, []string{`true`, `request.resourceAttributes.fieldSelector.requirements[0].values == ["n"]`}, true, ""},
		{pods, []string{`request.resourceAttributes.fieldSelector.requirements[0].key == "spec.nodeName"`, `true`}, true, ""},
		{path, []string{`has(request.resourceAttributes)`}, false, ""},
		{path, []string{`request.nonResourceAttributes.path == "/x"`}, true, ""},
		{path, []string{`request.resourceAttributes.verb == "get"`}, false, "expression 'request.resourceAttributes.verb == \"get\"' resulted in error: no such key: resourceAttributes"},
		{path, []string{`request.resourceAttributes.verb == "get"`, `false`}, false, ""}, // one that does not hold decides
	} {
		match, err := cel.New().Compile(tt.expressions)
		if err != nil {
			t.Errorf("%v: %v", tt.expressions, err)
			continue
		}
		got, err := match(t.Context(), tt.spec)
		if got != tt.want || (err != nil) != (tt.fails != "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
			t.Errorf("%v: %v, %v", tt.expressions, got, err)
		}
	}
	if match, err := cel.New().Compile(nil); match != nil || err != nil {
		t.Errorf("without conditions: %v", err)
	}
}

func TestWrong(t *testing.T) {
	c := cel.New()
	for text, want := range map[string]string{
		"request.":        "compilation failed: ERROR: <input>:1:9: Syntax error",
		"request.user":    "must evaluate to bool but got string",
		"request.name==1": "undefined field 'name'",
	} {
		if err := c.Check(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
		if _, err := c.Compile([]string{"true", text}); err == nil {
			t.Errorf("%s compiles", text)
		}
	}
}

func ExampleCompiler_Check() {
	fmt.Println(cel.New().Check(`request.user.startsWith("system:")`))
	// Output: <nil>
}
