//go:build generated

// Command definitions writes the archive; it is compiled with the generated code beside it.
package main

import (
	"archive/zip"
	"bytes"
	"cmp"
	"compress/flate"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/builder"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// elsewhere are group-versions that upstream's API server knows from other modules. Their kinds
// are defined there; what every group-version has is listed with them here.
func elsewhere() []schema.GroupVersion {
	return []schema.GroupVersion{
		{Group: "apiextensions.k8s.io", Version: "v1"}, {Group: "apiextensions.k8s.io", Version: "v1beta1"},
		{Group: "apiregistration.k8s.io", Version: "v1"}, {Group: "apiregistration.k8s.io", Version: "v1beta1"},
	}
}

func main() {
	log.SetFlags(0)
	if err := write(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func write(file string) error {
	kinds, err := kindsByName()
	if err != nil {
		return err
	}
	named := func(name string) (string, spec.Extensions) {
		if list := kinds[name]; len(list) > 0 {
			return name, spec.Extensions{"x-kubernetes-group-version-kind": list}
		}
		return name, nil
	}
	names := slices.Sorted(maps.Keys(GetOpenAPIDefinitions(func(string) spec.Ref { return spec.Ref{} })))
	v3, err := builder3.BuildOpenAPIDefinitionsForResources(&common.OpenAPIV3Config{
		Info: &spec.Info{}, GetDefinitions: GetOpenAPIDefinitions, GetDefinitionName: named,
	}, names...)
	if err != nil {
		return err
	}
	v2, err := builder.BuildOpenAPIDefinitionsForResources(&common.Config{
		Info: &spec.Info{}, GetDefinitions: GetOpenAPIDefinitions, GetDefinitionName: named,
	}, names...)
	if err != nil {
		return err
	}
	archive := map[string]map[string]json.RawMessage{}
	if err := add(archive, "v3", v3); err != nil {
		return err
	}
	if err := add(archive, "v2", handler.PruneDefaults(v2.Definitions)); err != nil {
		return err
	}
	if err := addIndex(archive); err != nil {
		return err
	}
	return pack(file, archive)
}

// kindsByName are the kinds of each definition, in upstream's order.
func kindsByName() (map[string][]any, error) {
	s := runtime.NewScheme()
	if err := addToScheme(s); err != nil {
		return nil, err
	}
	for _, gv := range elsewhere() {
		metav1.AddToGroupVersion(s, gv)
	}
	byName := map[string][]schema.GroupVersionKind{}
	for gvk := range s.AllKnownTypes() {
		name, err := s.ToOpenAPIDefinitionName(gvk)
		if err != nil {
			return nil, err
		}
		byName[name] = append(byName[name], gvk)
	}
	kinds := map[string][]any{}
	for name, list := range byName {
		slices.SortFunc(list, func(a, b schema.GroupVersionKind) int {
			return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Kind, b.Kind))
		})
		for _, k := range slices.Compact(list) {
			kinds[name] = append(kinds[name], map[string]any{"group": k.Group, "version": k.Version, "kind": k.Kind})
		}
	}
	return kinds, nil
}

// add puts definitions into the archive, an entry for each package.
func add[S any](archive map[string]map[string]json.RawMessage, version string, definitions map[string]S) error {
	for name, definition := range definitions {
		data, err := json.Marshal(definition)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		entry := version + "/" + name[:strings.LastIndex(name, ".")] + ".json"
		if archive[entry] == nil {
			archive[entry] = map[string]json.RawMessage{}
		}
		archive[entry][name] = data
	}
	return nil
}

// addIndex says of each definition which others it needs.
func addIndex(archive map[string]map[string]json.RawMessage) error {
	ref := regexp.MustCompile(`"\$ref":"#/components/schemas/([^"]+)"`)
	index := map[string]json.RawMessage{}
	for entry, definitions := range archive {
		if !strings.HasPrefix(entry, "v3/") {
			continue
		}
		for name, definition := range definitions {
			needs := []string{}
			for _, m := range ref.FindAllSubmatch(definition, -1) {
				needs = append(needs, string(m[1]))
			}
			slices.Sort(needs)
			data, err := json.Marshal(slices.Compact(needs))
			if err != nil {
				return err
			}
			index[name] = data
		}
	}
	archive["index.json"] = index
	return nil
}

// pack writes the entries; the same definitions make the same bytes.
func pack(file string, archive map[string]map[string]json.RawMessage) error {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	for _, name := range slices.Sorted(maps.Keys(archive)) {
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate})
		if err != nil {
			return err
		}
		if _, err := io.WriteString(w, lines(archive[name])); err != nil {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(file, out.Bytes(), 0o600)
}

// lines writes an object with a line for each member, which reads fast.
func lines(object map[string]json.RawMessage) string {
	var out strings.Builder
	names := slices.Sorted(maps.Keys(object))
	for i, name := range names {
		comma := ","
		if i == len(names)-1 {
			comma = ""
		}
		fmt.Fprintf(&out, "%q:%s%s\n", name, object[name], comma)
	}
	return "{\n" + out.String() + "}\n"
}
