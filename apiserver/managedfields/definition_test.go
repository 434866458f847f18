package managedfields

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// TestDefinitionMarkers holds the markers of CustomResourceDefinitions to the schema that upstream's server publishes.
func TestDefinitionMarkers(t *testing.T) {
	const pkg, published = "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.", "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
	byName := map[string]spec.Schema{}
	for name, d := range openapi.GetOpenAPIDefinitions(func(path string) spec.Ref { return spec.MustCreateRef("#/" + path) }) {
		name = strings.ReplaceAll(name, published, pkg)
		if strings.HasPrefix(name, pkg) {
			byName[strings.TrimPrefix(name, pkg)] = d.Schema
		}
	}
	if len(byName) == 0 {
		t.Fatal("no schema")
	}
	lines := map[string][]string{}
	for name, s := range byName {
		for field, property := range s.Properties {
			if property.Extensions["x-kubernetes-list-type"] != "map" {
				if kind := property.Extensions["x-kubernetes-list-type"]; kind != nil && kind != "atomic" {
					t.Errorf("%s of %s is a %v", field, name, kind)
				}
				continue
			}
			keys := property.Extensions["x-kubernetes-list-map-keys"].([]any)
			lines[name] = append(lines[name], fmt.Sprintf("%s map %v", field, keys[0]))
			ref := property.Items.Schema.Ref.String()
			element := ref[strings.LastIndex(ref, ".")+1:]
			if key := byName[element].Properties[keys[0].(string)]; key.Default != nil {
				lines[element] = append(lines[element], fmt.Sprintf("%v default %q", keys[0], key.Default))
			}
		}
	}
	var want strings.Builder
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		fmt.Fprintf(&want, "\n%s%s\n%s\n", pkg, name, strings.Join(lines[name], "\n"))
	}
	if want.String() != definitionMarkers {
		t.Errorf("the markers are %s, want %s", definitionMarkers, want.String())
	}
}
