package apiextensions_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/apiextensions"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

type definition = apiextensionsv1.CustomResourceDefinition

func kind(t *testing.T) registry.Kind {
	t.Helper()
	return registrytest.Find(t, apiextensions.Kinds(), "customresourcedefinitions")
}

// parse parses an OpenAPI schema.
func parse(text string) *apiextensionsv1.CustomResourceValidation {
	props := &apiextensionsv1.JSONSchemaProps{}
	if err := json.Unmarshal([]byte(text), props); err != nil {
		panic(err)
	}
	return &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: props}
}

// widgets returns a definition with one version, which is stored.
func widgets() *definition {
	return &definition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com", Generation: 3, ResourceVersion: "1"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "Widget", Plural: "widgets"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: parse(`{"type":"object","properties":{"spec":{"type":"object","properties":{
					"size":{"type":"integer","minimum":1,"default":1},
					"list":{"type":"array","items":{"type":"string"}}}}}}`),
			}},
		},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{StoredVersions: []string{"v1"}},
	}
}

// established returns a definition whose names have been accepted.
func established() *definition {
	crd := widgets()
	crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	crd.Status.AcceptedNames = crd.Spec.Names
	return crd
}

// inSpec changes the schema of the first version's spec.
func inSpec(crd *definition, change func(spec *apiextensionsv1.JSONSchemaProps)) {
	root := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	props := root.Properties["spec"]
	change(&props)
	root.Properties["spec"] = props
}

func set(field, text string) func(*definition) {
	return func(crd *definition) {
		inSpec(crd, func(s *apiextensionsv1.JSONSchemaProps) { s.Properties[field] = *parse(text).OpenAPIV3Schema })
	}
}

func TestKinds(t *testing.T) { registrytest.Kinds(t, apiextensions.Kinds()) }

func TestDefinition(t *testing.T) {
	k := kind(t)
	if k.Namespaced || k.Rules.CreateOnUpdate || !k.Rules.ConditionalUpdate || !k.Rules.AnyFinalizer || k.Rules.ValidateName != nil ||
		k.Prefix != "apiextensions.k8s.io/customresourcedefinitions" || !slices.Equal(k.Short, []string{"crd", "crds"}) ||
		!slices.Equal(k.Categories, []string{"api-extensions"}) {
		t.Errorf("the kind is %+v", k)
	}
	changes := []registrytest.Change[*definition]{
		{Name: "no schema", To: func(crd *definition) { crd.Spec.Versions[0].Schema = nil }, Refused: []string{
			"spec.versions[0].schema.openAPIV3Schema: Required value"}},
		{Name: "not structural", To: set("size", `{"default":1}`), Refused: []string{
			"spec.validation.openAPIV3Schema.properties[spec].properties[size].type: Required value: must not be empty for specified object fields"}},
		{Name: "invalid default", To: set("size", `{"type":"integer","minimum":1,"default":0}`), Refused: []string{
			`spec.validation.openAPIV3Schema.properties[spec].properties[size].default: Invalid value: 0:  in body should be greater than or equal to 1`}},
		{Name: "uncompilable rule", To: set("size", `{"type":"integer","x-kubernetes-validations":[{"rule":"self.x"}]}`), Refused: []string{
			"spec.validation.openAPIV3Schema.properties[spec].properties[size].x-kubernetes-validations[0].rule: Invalid value: {\"Rule\":\"self.x\",\"Message\":\"\",\"MessageExpression\":\"\",\"Reason\":null,\"FieldPath\":\"\",\"OptionalOldSelf\":null}: compilation failed: ERROR: <input>:1:5: type 'int' does not support field selection\n | self.x\n | ....^"}},
		{Name: "rule of too great a cost", To: set("list", `{"type":"array","items":{"type":"string"},"x-kubernetes-validations":[{"rule":"self.all(a, self.all(b, a == b))"}]}`), Refused: []string{
			"spec.validation.openAPIV3Schema.properties[spec].properties[list].x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared); these have no bound: spec.list (maxItems), spec.list[*] (maxLength)",
			"spec.validation.openAPIV3Schema.properties[spec].properties[list].x-kubernetes-validations[0].rule: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema; these have no bound: spec.list (maxItems), spec.list[*] (maxLength)",
			"spec.validation.openAPIV3Schema: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of more than 100x (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"}},
		{Name: "two storage versions", To: func(crd *definition) {
			crd.Spec.Versions = append(crd.Spec.Versions, *crd.Spec.Versions[0].DeepCopy())
			crd.Spec.Versions[1].Name = "v2"
		}, Refused: []string{
			"spec.versions: Invalid value: [{\"Name\":\"v1\",\"Served\":true,\"Storage\":true,\"Deprecated\":false,\"DeprecationWarning\":null,\"Schema\":null,\"Subresources\":null,\"AdditionalPrinterColumns\":null,\"SelectableFields\":null},{\"Name\":\"v2\",\"Served\":true,\"Storage\":true,\"Deprecated\":false,\"DeprecationWarning\":null,\"Schema\":null,\"Subresources\":null,\"AdditionalPrinterColumns\":null,\"SelectableFields\":null}]: must have exactly one version marked as storage version",
			`status.storedVersions: Invalid value: ["v1"]: must have the storage version v2`}},
		{Name: "unknown conversion", To: func(crd *definition) {
			crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: "Magic"}
		}, Refused: []string{
			`spec.conversion.strategy: Unsupported value: "Magic": supported values: "None", "Webhook"`}},
		{Name: "preserving unknown fields", To: func(crd *definition) { crd.Spec.PreserveUnknownFields = true }, Refused: []string{
			"spec.preserveUnknownFields: Invalid value: true: must be false in order to use defaults in the schema",
			"spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"}},
		{Name: "selectable fields", To: func(crd *definition) {
			crd.Spec.Versions[0].SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec.size"}, {JSONPath: ".spec.size"}, {JSONPath: ".spec.list"}}
		}, Refused: []string{
			`spec.selectableFields[1].jsonPath: Duplicate value: ".spec.size"`,
			`spec.selectableFields[2].jsonPath: Invalid value: ".spec.list": must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.`}},
	}
	registrytest.Create(t, k, widgets(), append(changes, []registrytest.Change[*definition]{
		{Name: "another name", To: func(crd *definition) { crd.Name = "gadgets.example.com" }, Refused: []string{
			`metadata.name: Invalid value: "gadgets.example.com": must be spec.names.plural+"."+spec.group`}},
		{Name: "a group of Kubernetes", To: func(crd *definition) { crd.Name, crd.Spec.Group = "widgets.x.k8s.io", "x.k8s.io" }, Refused: []string{
			"metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111"}},
		// These are the registry's to report.
		{Name: "invalid metadata", To: func(crd *definition) { crd.Labels = map[string]string{"a b": "c"} }},
		{Name: "a namespace", To: func(crd *definition) { crd.Namespace = "ns" }},
	}...))
	registrytest.Update(t, k, "", established(), append(changes, []registrytest.Change[*definition]{
		{Name: "another plural", To: func(crd *definition) { crd.Spec.Names.Plural = "gadgets" }, Refused: []string{
			`spec.names.plural: Invalid value: "gadgets": field is immutable`}},
		{Name: "another name", To: func(crd *definition) { crd.Name = "gadgets.example.com" }},
		{Name: "stored version removed", To: func(crd *definition) { crd.Spec.Versions[0].Name = "v2" }, Refused: []string{
			`status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v1 and removes v1 from status.storedVersions`}},
	}...))
	registrytest.Update(t, k, "status", established(), []registrytest.Change[*definition]{
		{Name: "the spec stays", To: func(crd *definition) { crd.Spec.Versions = nil }},
		{Name: "bad names", To: func(crd *definition) { crd.Status.AcceptedNames.Plural = "A" }, Refused: []string{
			`status.acceptedNames.plural: Invalid value: "A": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')`}},
	})
}

// TestRatchet: what older rules accepted may stay.
func TestRatchet(t *testing.T) {
	k := kind(t)
	old := widgets()
	old.Spec.PreserveUnknownFields = true
	old.Spec.Versions[0].Schema = nil
	k.Rules.Default(old)
	if errs := k.Rules.Validate(old); len(errs) != 2 {
		t.Errorf("created: %v", errs)
	}
	next := old.DeepCopy()
	next.Labels = map[string]string{"a": "b"}
	if errs := registrytest.Replace(k, "", next, old); len(errs) != 0 {
		t.Errorf("updated: %v", errs)
	}
}

// TestMetadataOfUpdates: what is wrong with metadata is the registry's to say.
func TestMetadataOfUpdates(t *testing.T) {
	k := kind(t)
	for name, change := range map[string]func(*definition){
		"name":               func(crd *definition) { crd.Name = "others.example.com" },
		"UID":                func(crd *definition) { crd.UID = "x" },
		"labels":             func(crd *definition) { crd.Labels = map[string]string{"a b": "c d"} },
		"annotations":        func(crd *definition) { crd.Annotations = map[string]string{"a b": ""} },
		"generation":         func(crd *definition) { crd.Generation = -1 },
		"no version":         func(crd *definition) { crd.ResourceVersion = "" },
		"finalizers":         func(crd *definition) { crd.Finalizers = []string{"a b"} },
		"owners":             func(crd *definition) { crd.OwnerReferences = make([]metav1.OwnerReference, 1) },
		"time of creation":   func(crd *definition) { crd.CreationTimestamp = metav1.Unix(1, 0) },
		"managed fields":     func(crd *definition) { crd.ManagedFields = []metav1.ManagedFieldsEntry{{Operation: "x"}} },
		"time of deletion":   func(crd *definition) { crd.DeletionTimestamp = new(metav1.Unix(1, 0)) },
		"period of grace":    func(crd *definition) { crd.DeletionGracePeriodSeconds = new(int64(1)) },
		"a namespace":        func(crd *definition) { crd.Namespace = "ns" },
		"a name to generate": func(crd *definition) { crd.GenerateName = "A_" },
	} {
		old := widgets()
		k.Rules.Default(old)
		next := old.DeepCopy()
		change(next)
		for _, e := range k.Rules.ValidateUpdate(next, old) {
			if strings.HasPrefix(e.Field, "metadata") {
				t.Errorf("%s: %v", name, e)
			}
		}
	}
}

func TestDefaults(t *testing.T) {
	k := kind(t)
	crd := widgets()
	crd.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
	crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Kind: "Widget", Plural: "widgets"}
	set("map", `{"type":"object","default":{"b": 1.0, "a":"<"}}`)(crd)
	set("none", `{"type":"object","default":null}`)(crd)
	k.Rules.Default(crd)
	names := apiextensionsv1.CustomResourceDefinitionNames{Kind: "Widget", ListKind: "WidgetList", Plural: "widgets", Singular: "widget"}
	if !reflect.DeepEqual(crd.Spec.Names, names) || crd.Spec.Conversion.Strategy != apiextensionsv1.NoneConverter || !slices.Equal(crd.Status.StoredVersions, []string{"v1"}) {
		t.Errorf("defaults: %+v %+v %+v", crd.Spec.Names, crd.Spec.Conversion, crd.Status)
	}
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	if got, want := string(spec.Properties["map"].Default.Raw), `{"a":"\u003c","b":1}`; got != want {
		t.Errorf("a default is returned as %s, want %s", got, want)
	}
	if d := spec.Properties["none"].Default; d != nil {
		t.Errorf("a default of null is returned as %s", d.Raw)
	}

	hook := widgets()
	hook.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
		ClientConfig:             &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{Namespace: "ns", Name: "x"}},
		ConversionReviewVersions: []string{"v1"},
	}}
	k.Rules.Default(hook)
	if port := hook.Spec.Conversion.Webhook.ClientConfig.Service.Port; port == nil || *port != 443 {
		t.Errorf("port %v", port)
	}

	for name, tt := range map[string]struct {
		webhook *apiextensionsv1.WebhookConversion
		stays   bool
	}{
		"none": {}, "empty": {webhook: &apiextensionsv1.WebhookConversion{}},
		"versions":    {&apiextensionsv1.WebhookConversion{ConversionReviewVersions: []string{"v1"}}, true},
		"no versions": {&apiextensionsv1.WebhookConversion{ConversionReviewVersions: []string{}}, true},
		"client":      {&apiextensionsv1.WebhookConversion{ClientConfig: &apiextensionsv1.WebhookClientConfig{}}, true},
	} {
		crd := widgets()
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter, Webhook: tt.webhook}
		if k.Rules.Default(crd); (crd.Spec.Conversion.Webhook != nil) != tt.stays {
			t.Errorf("%s: %+v", name, crd.Spec.Conversion.Webhook)
		}
	}

	malformed := widgets()
	inSpec(malformed, func(s *apiextensionsv1.JSONSchemaProps) { s.Default = &apiextensionsv1.JSON{Raw: []byte("{")} })
	k.Rules.Default(malformed)
	if errs := k.Rules.Validate(malformed); len(errs) != 1 || errs[0].Error() != "spec: Invalid value: unexpected end of JSON input" {
		t.Errorf("malformed JSON: %v", errs)
	}
	for _, errs := range []field.ErrorList{k.Rules.ValidateUpdate(widgets(), malformed), k.Rules.ValidateUpdate(malformed, widgets())} {
		if len(errs) != 1 || errs[0].Error() != "spec: Invalid value: unexpected end of JSON input" {
			t.Errorf("malformed JSON in an update: %v", errs)
		}
	}
}

// TestMalformedV1beta1: of what cannot be read, the name remains.
func TestMalformedV1beta1(t *testing.T) {
	older := kind(t).Older[0]
	old := older.New().(*apiextensionsv1beta1.CustomResourceDefinition)
	old.Name, old.Spec.Group = "x", "example.com"
	old.Spec.Validation = &apiextensionsv1beta1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1beta1.JSONSchemaProps{Default: &apiextensionsv1beta1.JSON{Raw: []byte("{")}}}
	if got := older.ToStored(old).(*definition); got.Name != "x" || !reflect.DeepEqual(got.Spec, apiextensionsv1.CustomResourceDefinitionSpec{}) {
		t.Errorf("read as %+v", got)
	}
}

func TestStatusAndGeneration(t *testing.T) {
	k := kind(t)
	created := established()
	created.Spec.Versions = append(created.Spec.Versions, *created.Spec.Versions[0].DeepCopy())
	created.Spec.Versions[0].Storage, created.Spec.Versions[1].Name = false, "v2"
	registrytest.Prepare(k, created)
	if created.Generation != 1 || len(created.Status.Conditions) != 0 || !slices.Equal(created.Status.StoredVersions, []string{"v2"}) {
		t.Errorf("created as %d %+v", created.Generation, created.Status)
	}

	old := established()
	k.Rules.Default(old)
	next := old.DeepCopy()
	next.Status.Conditions, next.Status.StoredVersions = nil, nil
	registrytest.Replace(k, "", next, old)
	if next.Generation != 3 || !reflect.DeepEqual(next.Status, old.Status) {
		t.Errorf("updated to %d %+v", next.Generation, next.Status)
	}
	next.Spec.Versions[0].Storage = false
	next.Spec.Versions = append(next.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: "v2", Storage: true, Schema: parse(`{"type":"object"}`)})
	registrytest.Replace(k, "", next, old)
	if next.Generation != 4 || !slices.Equal(next.Status.StoredVersions, []string{"v1", "v2"}) || !slices.Equal(old.Status.StoredVersions, []string{"v1"}) {
		t.Errorf("updated to %d %+v", next.Generation, next.Status)
	}

	next = old.DeepCopy()
	next.Status.StoredVersions, next.Spec.Scope = []string{"v0"}, "Cluster"
	next.Labels, next.Generation = map[string]string{"a": "b"}, 9
	registrytest.Replace(k, "status", next, old)
	if next.Generation != 3 || next.Spec.Scope != old.Spec.Scope || next.Labels["a"] != "b" || !slices.Equal(next.Status.StoredVersions, []string{"v0"}) {
		t.Errorf("the view of the status wrote %+v", next)
	}
	next.Generation = 9
	k.Sub.Views["status"].PrepareUpdate(t.Context(), next, old)
	if next.Generation != 3 {
		t.Errorf("the view of the status wrote generation %d", next.Generation)
	}
	next.Generation = 9
	k.Rules.PrepareUpdate(t.Context(), next, old)
	if next.Generation != 3 {
		t.Errorf("updated to generation %d", next.Generation)
	}
	next.Spec.Versions[0].Name = "changed"
	if old.Spec.Versions[0].Name != "v1" {
		t.Error("the view of the status shares the old spec")
	}
}

func TestWarnings(t *testing.T) {
	k := kind(t)
	odd := func(crd *definition) *definition {
		set("a", `{"type":"string","format":"nonsense"}`)(crd)
		set("b", `{"type":"string","format":"another"}`)(crd)
		set("c", `{"type":"string","format":"date-time"}`)(crd)
		set("d", `{"type":"array","x-kubernetes-list-type":"set","items":{"type":"object","x-kubernetes-map-type":"atomic"}}`)(crd)
		set("e", `{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}}`)(crd)
		return crd
	}
	two := odd(widgets())
	two.Spec.Versions = append(two.Spec.Versions, *widgets().Spec.Versions[0].DeepCopy())
	two.Spec.Versions[1].Name = "v2"
	other := widgets()
	set("a", `{"type":"array","x-kubernetes-list-type":"atomic","items":{"type":"object"}}`)(other)
	set("b", `{"type":"array","items":{"type":"object"}}`)(other)
	several := widgets()
	set("a", `{"type":"array","x-kubernetes-list-type":"set","items":{"type":"object","properties":{"x":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"array","items":{"type":"string"}}}}}}`)(several)
	set("b", `{"type":"array","x-kubernetes-list-type":"atomic","items":{"type":"object"}}`)(several)
	set("c", `{"type":"array","x-kubernetes-list-type":"set"}`)(several)
	set("d", `{"type":"array","x-kubernetes-list-type":"set","items":[{"type":"object"}]}`)(several)
	all := []string{`unrecognized format "another"`, `unrecognized format "nonsense"`,
		`x-kubernetes-list-type: set for items of type "object" is not supported by server-side apply or CEL validation rules`}
	for name, tt := range map[string]struct {
		crd, old *definition
		want     []string
	}{
		"nothing":      {widgets(), nil, nil},
		"other lists":  {other, nil, nil},
		"created":      {odd(widgets()), nil, all},
		"two versions": {two, nil, all},
		"sets of several types": {several, nil, []string{
			`x-kubernetes-list-type: set for items of type "array" is not supported by server-side apply or CEL validation rules`,
			`x-kubernetes-list-type: set for items of type "object" is not supported by server-side apply or CEL validation rules`,
		}},
		"updated":   {odd(widgets()), widgets(), all},
		"as before": {odd(widgets()), odd(widgets()), nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			ctx := registry.WithWarnings(context.Background(), func(text string) { got = append(got, text) })
			var old registry.Object
			if tt.old != nil {
				old = tt.old
			}
			if err := k.Rules.Guard(ctx, tt.crd, old); err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("%q %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestCells(t *testing.T) {
	k := kind(t)
	crd := established()
	crd.CreationTimestamp = metav1.Unix(0, 0)
	crd.Spec.Names.ShortNames = []string{"w", "wi"}
	crd.Spec.Versions = append(crd.Spec.Versions,
		apiextensionsv1.CustomResourceDefinitionVersion{Name: "v0", Served: true}, apiextensionsv1.CustomResourceDefinitionVersion{Name: "v2", Storage: true})
	want := []any{"widgets.example.com", "Namespaced", "v0,v1(storage)", "1970-01-01T00:00:00Z", "example.com", "Widget", "w,wi", true}
	if got := k.Columns.Cells(crd, time.Now()); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	var shown []string
	for _, c := range k.Columns.Definitions {
		shown = append(shown, fmt.Sprintf("%s/%s/%d", c.Name, c.Type, c.Priority))
	}
	if want := []string{"Name/string/0", "Scope/string/0", "Versions/string/0", "Created At/date/0", "Group/string/1", "Kind/string/1", "ShortNames/string/1", "Established/boolean/1"}; !slices.Equal(shown, want) {
		t.Errorf("columns %q", shown)
	}
}

func ExampleKinds() {
	for _, k := range apiextensions.Kinds() {
		fmt.Println(k.GroupVersion, k.Plural, k.Short)
	}
	// Output: apiextensions.k8s.io/v1 customresourcedefinitions [crd crds]
}
