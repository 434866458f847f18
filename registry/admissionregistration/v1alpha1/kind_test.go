package v1alpha1_test

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry/admissionregistration/v1alpha1"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

func configuration(rules ...v1alpha1.Rule) *v1alpha1.InitializerConfiguration {
	return &v1alpha1.InitializerConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "c"}, Initializers: []v1alpha1.Initializer{{Name: "a.example.com", Rules: rules}},
	}
}

func rule(groups, versions, resources string) v1alpha1.Rule {
	return v1alpha1.Rule{APIGroups: []string{groups}, APIVersions: []string{versions}, Resources: []string{resources}}
}

func TestKind(t *testing.T) { registrytest.Kinds(t, v1alpha1.Kinds()) }

func TestValidation(t *testing.T) {
	validate := v1alpha1.Kinds()[0].Rules.Validate
	for what, test := range map[string]struct {
		of   *v1alpha1.InitializerConfiguration
		want []string
	}{
		"pods":       {of: configuration(rule("", "v1", "pods"))},
		"everything": {of: configuration(rule("*", "*", "*"))},
		"no rules":   {of: configuration()},
		"nothing":    {of: &v1alpha1.InitializerConfiguration{}},
		"names": {of: &v1alpha1.InitializerConfiguration{Initializers: []v1alpha1.Initializer{{}, {Name: "a.b"}, {Name: "A.b.c"}}}, want: []string{
			`initializers[0].name: Required value`,
			`initializers[1].name: Invalid value: "a.b": should be a domain with at least three segments separated by dots`,
			`initializers[2].name: Invalid value: "A.b.c": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
		}},
		"an empty rule": {of: configuration(v1alpha1.Rule{}), want: []string{
			`initializers[0].rules[0].apiGroups: Required value`, `initializers[0].rules[0].apiVersions: Required value`, `initializers[0].rules[0].resources: Required value`,
		}},
		"empty names": {of: configuration(rule("", "", "")), want: []string{
			`initializers[0].rules[0].apiVersions[0]: Required value`, `initializers[0].rules[0].resources[0]: Required value`,
		}},
		"everything and more": {of: configuration(v1alpha1.Rule{APIGroups: []string{"*", "a"}, APIVersions: []string{"v1", "*"}, Resources: []string{"a", "*"}}), want: []string{
			`initializers[0].rules[0].apiGroups: Invalid value: ["*","a"]: if '*' is present, must not specify other API groups`,
			`initializers[0].rules[0].apiVersions: Invalid value: ["v1","*"]: if '*' is present, must not specify other API versions`,
			`initializers[0].rules[0].resources: Invalid value: ["a","*"]: if '*' is present, must not specify other resources`,
		}},
		"subresources": {of: configuration(rule("", "v1", "pods/log")), want: []string{
			`initializers[0].rules[0].resources[0]: Invalid value: "pods/log": must not specify subresources`,
		}},
	} {
		var got []string
		for _, err := range validate(test.of) {
			got = append(got, err.Error())
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q", what, got)
		}
	}
}

func TestInitializers(t *testing.T) {
	all := []*v1alpha1.InitializerConfiguration{
		{Initializers: []v1alpha1.Initializer{
			{Name: "everything", Rules: []v1alpha1.Rule{rule("*", "*", "*")}},
			{Name: "pods", Rules: []v1alpha1.Rule{rule("", "v1", "pods"), rule("", "v1", "podtemplates")}},
			{Name: "nothing"},
		}},
		{Initializers: []v1alpha1.Initializer{
			{Name: "core", Rules: []v1alpha1.Rule{rule("", "*", "*")}},
			{Name: "new jobs", Rules: []v1alpha1.Rule{rule("batch", "v2", "jobs")}},
		}},
	}
	jobs := schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	for of, want := range map[string]string{
		fmt.Sprint(v1alpha1.Initializers(all, schema.GroupVersionResource{Version: "v1", Resource: "pods"})):                       "[everything pods core]",
		fmt.Sprint(v1alpha1.Initializers(all, jobs)):                                                                               "[everything]",
		fmt.Sprint(v1alpha1.Initializers(all, jobs, schema.GroupVersionResource{Group: "batch", Version: "v2", Resource: "jobs"})): "[everything new jobs]",
	} {
		if of != want {
			t.Errorf("%s, want %s", of, want)
		}
	}
}

func TestCopies(t *testing.T) {
	list := &v1alpha1.InitializerConfigurationList{Items: []v1alpha1.InitializerConfiguration{*configuration(rule("a", "b", "c"))}}
	other := list.DeepCopyObject().(*v1alpha1.InitializerConfigurationList)
	r := &other.Items[0].Initializers[0].Rules[0]
	r.APIGroups[0], r.APIVersions[0], r.Resources[0] = "x", "y", "z"
	other.Items[0].Initializers[0].Name = "other"
	if got := list.Items[0].Initializers[0]; got.Name != "a.example.com" || fmt.Sprint(got.Rules) != "[{[a] [b] [c]}]" {
		t.Errorf("the copy is shared: %v", got)
	}
	kind := v1alpha1.Kinds()[0]
	old := configuration(rule("", "v1", "pods"))
	old.Generation = 3
	for _, obj := range []*v1alpha1.InitializerConfiguration{configuration(rule("", "v1", "pods")), configuration()} {
		obj.Generation = old.Generation
		kind.Rules.PrepareUpdate(t.Context(), obj, old)
		if want := old.Generation + int64(1-len(obj.Initializers[0].Rules)); obj.Generation != want {
			t.Errorf("generation %d, want %d", obj.Generation, want)
		}
	}
}
