package admissionregistration_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/admissionregistration"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

// TestAccess: nobody names parameters that they may not read.
func TestAccess(t *testing.T) {
	var asked []admissionregistration.Read
	var allowed bool
	var failure error
	kindOf := map[string]*admissionv1.ParamKind{
		"p": {APIVersion: "v1", Kind: "ConfigMap"}, "strange": {APIVersion: "example.com/v1", Kind: "Nothing"}, "bad": {APIVersion: "a/b/c", Kind: "K"}, "none": nil,
	}
	kinds := admissionregistration.PolicyKinds(admissionregistration.PolicyOptions{Access: &admissionregistration.Access{
		Allowed: func(_ context.Context, r admissionregistration.Read) (string, bool, error) {
			asked = append(asked, r)
			return "alice", allowed, failure
		},
		Resource: func(kind schema.GroupVersionKind) (schema.GroupVersionResource, error) {
			if kind.Kind != "ConfigMap" {
				return schema.GroupVersionResource{}, errors.New("unknown")
			}
			return kind.GroupVersion().WithResource("configmaps"), nil
		},
		ParamKind: func(_ context.Context, _ schema.GroupResource, name string) (*admissionv1.ParamKind, error) {
			kind, ok := kindOf[name]
			if !ok {
				return nil, errors.New("no such policy")
			}
			return kind, nil
		},
	}})
	kind := func(name string) *policy {
		p := validatingPolicy()
		p.Spec.ParamKind = kindOf[name]
		return p
	}
	bound := func(name string) *binding {
		b := validatingBinding()
		b.Spec.PolicyName = name
		return b
	}
	selecting := bound("p")
	selecting.Spec.ParamRef.Name = ""
	free := bound("p")
	free.Spec.ParamRef = nil
	mutatingKind := mutatingOne()
	mutatingKind.Spec.ParamKind = kindOf["p"]
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	everything := schema.GroupVersionResource{Group: "*", Version: "*", Resource: "*"}
	read := func(verb string, r schema.GroupVersionResource, namespace, name string) []admissionregistration.Read {
		return []admissionregistration.Read{{Verb: verb, Resource: r, Namespace: namespace, Name: name}}
	}
	const (
		mustGet = `spec.paramKind: Forbidden: user alice must have "get" permission on all objects of the referenced paramKind (kind=`
		unable  = ` to determine minimum required permissions and user alice does not have "get" permission for all groups, versions and resources`
	)
	for name, tt := range map[string]struct {
		plural   string
		obj, old registry.Object
		asked    []admissionregistration.Read
		refused  string
	}{
		"no kind":            {"validatingadmissionpolicies", kind("none"), nil, nil, ""},
		"a kind":             {"validatingadmissionpolicies", kind("p"), nil, read("get", configMaps, "*", "*"), mustGet + "ConfigMap, apiVersion=v1)"},
		"of a mutation":      {"mutatingadmissionpolicies", mutatingKind, nil, read("get", configMaps, "*", "*"), mustGet + "ConfigMap, apiVersion=v1)"},
		"another kind":       {"validatingadmissionpolicies", kind("p"), kind("strange"), read("get", configMaps, "*", "*"), mustGet + "ConfigMap, apiVersion=v1)"},
		"the same kind":      {"validatingadmissionpolicies", kind("p"), kind("p"), nil, ""},
		"an unknown kind":    {"validatingadmissionpolicies", kind("strange"), nil, read("get", schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "*"}, "*", "*"), mustGet + "Nothing, apiVersion=example.com/v1)"},
		"no params":          {"validatingadmissionpolicybindings", free, nil, nil, ""},
		"params":             {"validatingadmissionpolicybindings", bound("p"), bound("p"), read("get", configMaps, "", "x"), `spec.paramRef: Forbidden: user alice does not have "get" permission on the object referenced by paramRef`},
		"a selector":         {"validatingadmissionpolicybindings", selecting, nil, read("list", configMaps, "", ""), `spec.paramRef: Forbidden: user alice does not have "list" permission on the object referenced by paramRef`},
		"mutation's params":  {"mutatingadmissionpolicybindings", mutatingBindingOne(), nil, read("get", configMaps, "", "x"), `spec.paramRef: Forbidden: user get does not have "alice" permission on the object referenced by paramRef`},
		"no policy":          {"validatingadmissionpolicybindings", bound("gone"), nil, read("get", everything, "", "x"), "spec.paramRef: Forbidden: unable to get policy gone" + unable},
		"policy without":     {"validatingadmissionpolicybindings", bound("none"), nil, read("get", everything, "", "x"), `spec.paramRef: Forbidden: user alice does not have "get" permission on the object referenced by paramRef`},
		"policy's bad kind":  {"validatingadmissionpolicybindings", bound("bad"), nil, read("get", everything, "", "x"), "spec.paramRef: Forbidden: unable to parse paramKind &{a/b/c K}" + unable},
		"policy's lost kind": {"validatingadmissionpolicybindings", bound("strange"), nil, read("get", schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "*"}, "", "x"), "spec.paramRef: Forbidden: unable to resolve paramKind &{example.com/v1 Nothing}" + unable},
	} {
		t.Run(name, func(t *testing.T) {
			guard := registrytest.Find(t, kinds, tt.plural).Rules.Guard
			asked, allowed, failure = nil, false, nil
			err := guard(t.Context(), tt.obj, tt.old)
			got := ""
			if e, ok := errors.AsType[*registry.Error](err); ok && errors.Is(err, registry.ErrInvalid) && e.Resource.Resource == tt.plural {
				got = e.Fields.ToAggregate().Error()
			}
			if !slices.Equal(asked, tt.asked) || got != tt.refused || (err != nil) != (tt.refused != "") {
				t.Errorf("asked %+v, %v", asked, err)
			}
			if allowed = true; guard(t.Context(), tt.obj, tt.old) != nil {
				t.Error("refused though it is allowed")
			}
			if failure = errors.New("broken"); (guard(t.Context(), tt.obj, tt.old) != nil) != (tt.asked != nil) {
				t.Error("a failure to authorize is ignored")
			}
		})
	}
}

// TestPolicyWarnings: a reserved name, which an older server may have accepted, is warned of.
func TestPolicyWarnings(t *testing.T) {
	p := validatingPolicy()
	p.Name = "p.static.k8s.io"
	var got []string
	ctx := registry.WithWarnings(t.Context(), func(text string) { got = append(got, text) })
	if err := findPolicy(t, "validatingadmissionpolicies").Rules.Guard(ctx, p, p); err != nil || len(got) != 1 ||
		got[0] != `metadata.name: names ending with ".static.k8s.io" are reserved for static manifest-based configurations and cannot be managed via the API` {
		t.Errorf("%v, warned %q", err, got)
	}
}
