package managedfields

import (
	_ "embed" // the markers
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/json"
)

// Lists and structs merge by markers that stand only in the comments of the API's Go types
// (https://kubernetes.io/docs/reference/using-api/server-side-apply/#merge-strategy). This table
// has those that change anything: an unmarked list moves as a whole, an unmarked map or struct
// field by field.
//
//go:generate go test -run TestMarkers -update .
//go:embed markers.txt
var markersText string

// definitionMarkers are those of CustomResourceDefinitions, of which client-go has no merge schema.
const definitionMarkers = `
k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.CustomResourceDefinitionCondition
type default ""

k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.CustomResourceDefinitionStatus
conditions map type

k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaProps
x-kubernetes-validations map rule

k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.ValidationRule
rule default ""
`

// markers are the marks of the fields of one Go type, by JSON name.
type markers map[string]marks

// marks of a field; or, under the name "*", of the type itself.
type marks struct {
	atomic      bool
	granular    bool // although its type is atomic
	associative bool
	keys        []string // none: a set
	standard    any      // the field's default, for fields that are keys
}

// typeKey is the name of a type in the table.
func typeKey(t reflect.Type) string { return t.PkgPath() + "." + t.Name() }

// readMarkers splits the table into blocks by type; a block is read when its type is met.
func readMarkers(text string) map[string]string {
	table := make(map[string]string, 300)
	_, text, _ = strings.Cut(text, "\n\n") // what it is
	for text != "" {
		var block string
		block, text, _ = strings.Cut(text, "\n\n")
		head, rest, _ := strings.Cut(block, "\n")
		table[head] = rest
	}
	return table
}

func parseMarkers(block string) markers {
	if block == "" {
		return nil
	}
	m := markers{}
	for line := range strings.Lines(block) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		mark := m[words[0]]
		switch words[1] {
		case "atomic":
			mark.atomic = true
		case "granular":
			mark.granular = true
		case "set":
			mark.associative = true
		case "map":
			mark.associative, mark.keys = true, slices.Sorted(slices.Values(words[2:]))
		case "default":
			_, text, _ := strings.Cut(line, " default ")
			_ = json.UnmarshalCaseSensitivePreserveInts([]byte(text), &mark.standard) // the generator wrote it
		}
		m[words[0]] = mark
	}
	return m
}
