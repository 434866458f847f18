package typecheck_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission/policy/typecheck"
	"github.com/keelson-dev/keelson/apiserver/openapi"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/apps"
	"github.com/keelson-dev/keelson/registry/core"
)

// served are the kinds of the tests, and a custom one.
func served() []registry.Kind {
	widgets := apps.Kinds()[0]
	widgets.Names = registry.Names{Kind: "Widget", Plural: "widgets", Singular: "widget"}
	widgets.GroupVersion, widgets.Sub = schema.GroupVersion{Group: "example.com", Version: "v1"}, registry.Subresources[registry.Object]{}
	widgets.Schema = func() map[string]any {
		integer := map[string]any{"type": "integer"}
		return map[string]any{"type": "object", "properties": map[string]any{"size": integer, "spec": map[string]any{"type": "object", "properties": map[string]any{"limit": integer}}}}
	}
	return append(append(apps.Kinds(), core.Kinds(core.Options{})...), widgets)
}

func names() []typecheck.Served {
	var out []typecheck.Served
	for _, k := range served() {
		if k.Answer == nil {
			out = append(out, typecheck.Served{Kind: k.GroupVersion.WithKind(k.Names.Kind), Plural: k.Plural, Singular: k.Singular})
		}
	}
	return out
}

// document reads what a server serves.
func document() typecheck.Document {
	docs := openapi.New(served(), openapi.Options{})
	return func(_ context.Context, of schema.GroupVersion) ([]byte, error) {
		data, ok, err := docs.JSON(of)
		if err == nil && !ok {
			err = fmt.Errorf("%s: %w", of, typecheck.ErrNoSchema)
		}
		return data, err
	}
}

func rule(group, version string, resources ...string) admissionv1.NamedRuleWithOperations {
	return admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
		Rule: admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: resources},
	}}
}

func about(rules []admissionv1.NamedRuleWithOperations, expressions ...string) *admissionv1.ValidatingAdmissionPolicy {
	p := &admissionv1.ValidatingAdmissionPolicy{}
	p.Spec.MatchConstraints = &admissionv1.MatchResources{ResourceRules: rules}
	for _, e := range expressions {
		p.Spec.Validations = append(p.Spec.Validations, admissionv1.Validation{Expression: e})
	}
	return p
}

// at returns where a policy's warnings are, and for which kinds.
func at(warnings []admissionv1.ExpressionWarning) []string {
	var out []string
	for _, w := range warnings {
		for part := range strings.SplitSeq(w.Warning, "\n\n") {
			kind, said, _ := strings.Cut(part, ": ")
			line, _, _ := strings.Cut(said, "\n")
			out = append(out, w.FieldRef+" "+kind+" "+line)
		}
	}
	return out
}

func TestCheck(t *testing.T) {
	c := typecheck.NewChecker(names, document(), typecheck.Options{})
	deployments := []admissionv1.NamedRuleWithOperations{rule("apps", "v1", "deployments")}
	with := func(p *admissionv1.ValidatingAdmissionPolicy, change func(s *admissionv1.ValidatingAdmissionPolicySpec)) *admissionv1.ValidatingAdmissionPolicy {
		change(&p.Spec)
		return p
	}
	for name, tt := range map[string]struct {
		policy *admissionv1.ValidatingAdmissionPolicy
		want   []string
	}{
		"right":       {about(deployments, "object.spec.replicas > 1 && oldObject.spec.template.spec.containers.all(c, c.image != '')"), nil},
		"other types": {about(deployments, "true", "object.spec.replicas > '1'"), []string{"spec.validations[1].expression apps/v1, Kind=Deployment ERROR: <input>:1:22: found no matching overload for '_>_' applied to '(int, string)'"}},
		"no field":    {about(deployments, "object.spec.replicsa > 1"), []string{"spec.validations[0].expression apps/v1, Kind=Deployment ERROR: <input>:1:12: undefined field 'replicsa'"}},
		"not a bool":  {about(deployments, "object.spec.replicas"), nil},
		"request":     {about(deployments, "request.nothing == namespaceObject.metadata.name"), []string{"spec.validations[0].expression apps/v1, Kind=Deployment ERROR: <input>:1:8: undefined field 'nothing'"}},
		"any":         {about([]admissionv1.NamedRuleWithOperations{rule("*", "v1", "deployments"), rule("apps", "*", "deployments"), rule("apps", "v1", "*", "deployments/scale")}, "object.x"), nil},
		"any, and one": {about([]admissionv1.NamedRuleWithOperations{rule("*", "v1", "deployments"), deployments[0]}, "object.spec.replicsa > 1"), []string{
			"spec.validations[0].expression apps/v1, Kind=Deployment ERROR: <input>:1:12: undefined field 'replicsa'"}},
		"another version": {about([]admissionv1.NamedRuleWithOperations{rule("apps", "v2", "deployments"), rule("core", "v1", "pods")}, "object.x"), nil},
		"not served":      {about([]admissionv1.NamedRuleWithOperations{rule("nothing.io", "v1", "deployments")}, "object.x"), nil},
		"no constraints":  {&admissionv1.ValidatingAdmissionPolicy{}, nil},
		"several kinds": {about([]admissionv1.NamedRuleWithOperations{rule("apps", "v1", "replicasets", "deployments"), rule("", "v1", "pods")}, "object.spec.replicas > 1", "object.spec.strategy.type == ''"), []string{
			"spec.validations[0].expression /v1, Kind=Pod ERROR: <input>:1:12: undefined field 'replicas'",
			"spec.validations[1].expression /v1, Kind=Pod ERROR: <input>:1:12: undefined field 'strategy'",
			"spec.validations[1].expression apps/v1, Kind=ReplicaSet ERROR: <input>:1:12: undefined field 'strategy'"}},
		"a custom kind": {about([]admissionv1.NamedRuleWithOperations{rule("example.com", "v1", "widgets")}, "object.size > 1", "object.size == 'a'"), []string{
			"spec.validations[1].expression example.com/v1, Kind=Widget ERROR: <input>:1:13: found no matching overload for '_==_' applied to '(int, string)'"}},
		"the core group is any": {about([]admissionv1.NamedRuleWithOperations{rule("", "v1", "widgets")}, "object.x"), []string{
			"spec.validations[0].expression example.com/v1, Kind=Widget ERROR: <input>:1:7: undefined field 'x'"}},
		"messages": {with(about(deployments, "true"), func(s *admissionv1.ValidatingAdmissionPolicySpec) { s.Validations[0].MessageExpression = "object.x" }), []string{
			"spec.validations[0].messageExpression apps/v1, Kind=Deployment ERROR: <input>:1:7: undefined field 'x'"}},
		"variables": {with(about(deployments, "variables.n == 'a'", "variables.bad == 1", "variables.m"), func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			s.Variables = []admissionv1.Variable{{Name: "n", Expression: "object.spec.replicas"}, {Name: "bad", Expression: "object.x"}}
		}), []string{
			"spec.validations[0].expression apps/v1, Kind=Deployment ERROR: <input>:1:13: found no matching overload for '_==_' applied to '(int, string)'",
			"spec.validations[2].expression apps/v1, Kind=Deployment ERROR: <input>:1:10: undefined field 'm'"}},
		"params": {with(about(deployments, "params.spec.limit == 'a'"), func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			s.ParamKind = &admissionv1.ParamKind{APIVersion: "example.com/v1", Kind: "Widget"}
		}), []string{"spec.validations[0].expression apps/v1, Kind=Deployment ERROR: <input>:1:19: found no matching overload for '_==_' applied to '(int, string)'"}},
		"params of the same kind": {with(about(deployments, "params == object"), func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			s.ParamKind = &admissionv1.ParamKind{APIVersion: "apps/v1", Kind: "Deployment"}
		}), []string{"spec.validations[0].expression apps/v1, Kind=Deployment ERROR: <input>:1:8: found no matching overload for '_==_' applied to '(Deployment_params, Deployment_object)'"}},
		"unknown params": {with(about(deployments, "params.x == 'a'"), func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			s.ParamKind = &admissionv1.ParamKind{APIVersion: "example.com/v1", Kind: "Nothing"}
		}), nil},
		"no params": {about(deployments, "params.x"), []string{"spec.validations[0].expression apps/v1, Kind=Deployment ERROR: <input>:1:1: undeclared reference to 'params' (in container '')"}},
	} {
		t.Run(name, func(t *testing.T) {
			was := tt.policy.DeepCopy()
			got, err := c.Check(t.Context(), tt.policy)
			if err != nil || !slices.Equal(at(got), tt.want) {
				t.Errorf("%v\n\t%s", err, strings.Join(at(got), "\n\t"))
			}
			if !reflect.DeepEqual(tt.policy, was) {
				t.Error("the policy was changed")
			}
		})
	}
}

// TestMostKinds: no more than ten kinds are checked.
func TestMostKinds(t *testing.T) {
	p := about([]admissionv1.NamedRuleWithOperations{rule("", "v1", "pods", "services", "nodes", "secrets", "configmaps", "endpoints", "events", "namespaces",
		"podtemplates", "serviceaccounts", "resourcequotas"), rule("apps", "v1", "deployments")}, "object.nothing")
	got, err := typecheck.NewChecker(names, document(), typecheck.Options{}).Check(t.Context(), p)
	if err != nil || len(at(got)) != 10 {
		t.Errorf("%v, %d: %q", err, len(at(got)), at(got))
	}
}

// TestBrokenDocuments: kinds whose schema cannot be read are not checked.
func TestBrokenDocuments(t *testing.T) {
	p := about([]admissionv1.NamedRuleWithOperations{rule("apps", "v1", "deployments")}, "object.nothing")
	for _, text := range []string{"", "{", `{"components":{"schemas":{"a":{"x-kubernetes-group-version-kind":[{"group":"apps","version":"v1","kind":"Deployment"}],"properties":{"a":{"$ref":"#/components/schemas/b"}}}}}}`} {
		c := typecheck.NewChecker(names, func(context.Context, schema.GroupVersion) ([]byte, error) { return []byte(text), nil }, typecheck.Options{})
		if got, err := c.Check(t.Context(), p); got != nil || err != nil {
			t.Errorf("%s: %v %v", text, got, err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	c := typecheck.NewChecker(names, func(ctx context.Context, _ schema.GroupVersion) ([]byte, error) { return nil, ctx.Err() }, typecheck.Options{})
	if _, err := c.Check(ctx, p); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}
