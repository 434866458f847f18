package apiextensions_test

import (
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/registry/apiextensions"
)

// TestBudget: an error about a rule that may cost too much begins with upstream's words, and names the places without a bound that
// make it expensive, and no others.
func TestBudget(t *testing.T) {
	const upstream = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
	for name, tt := range map[string]struct {
		spec string   // the schema of spec
		want []string // of each error, what has no bound
	}{
		"the list itself": {
			`{type: object, properties: {list: {type: array, items: {type: string, maxLength: 9}, x-kubernetes-validations: [{rule: "self.all(a, self.all(b, a == b))"}]}}}`,
			[]string{"spec.list (maxItems)"},
		},
		"a list and its texts": {
			`{type: object, properties: {list: {type: array, items: {type: string}, x-kubernetes-validations: [{rule: "self.all(a, self.exists_one(b, a == b))"}]}}}`,
			[]string{"spec.list (maxItems), spec.list[*] (maxLength)"},
		},
		"what the rule does not look at": {
			`{type: object, x-kubernetes-validations: [{rule: "self.a.all(x, self.a.all(y, x == y))"}], properties: {a: {type: array, items: {type: integer}}, b: {type: array, items: {type: string}}, c: {type: string}}}`,
			[]string{"spec.a (maxItems)"},
		},
		"what is above": {
			`{type: object, properties: {m: {type: object, additionalProperties: {type: array, items: {type: object, properties: {s: {type: string, maxLength: 100000, x-kubernetes-validations: [{rule: "self.contains('x')"}]}, other: {type: string}}}}}}}`,
			[]string{"spec.m (maxProperties), spec.m[*] (maxItems)"},
		},
		"above, bounded in part": {
			`{type: object, properties: {m: {type: object, maxProperties: 1000, additionalProperties: {type: array, items: {type: string, x-kubernetes-validations: [{rule: "self.matches('x')"}]}}}}}`,
			[]string{"spec.m[*] (maxItems), spec.m[*][*] (maxLength)"},
		},
		"a map": {
			`{type: object, properties: {m: {type: object, additionalProperties: {type: integer}, x-kubernetes-validations: [{rule: "self.all(k, self.all(l, self[k] == self[l]))"}]}}}`,
			[]string{"spec.m (maxProperties)"},
		},
		"two rules": {
			`{type: object, x-kubernetes-validations: [{rule: "self.a.all(x, self.a.all(y, x == y))"}, {rule: "self.b.all(x, self.b.all(y, x == y))"}, {rule: "self.c == 1"}],
			  properties: {a: {type: array, items: {type: integer}}, b: {type: array, items: {type: integer}}, c: {type: integer}}}`,
			[]string{"spec.a (maxItems)", "spec.b (maxItems)"},
		},
		"a name with a dot": {
			`{type: object, properties: {a.b: {type: array, items: {type: integer}, x-kubernetes-validations: [{rule: "self.all(a, self.all(b, a == b))"}]}}}`,
			[]string{`spec["a.b"] (maxItems)`},
		},
		"a message": {
			`{type: object, properties: {list: {type: array, items: {type: integer}, x-kubernetes-validations: [{rule: "true", messageExpression: "string(self.all(a, self.all(b, self.all(c, a == b))))"}]}}}`,
			[]string{"spec.list (maxItems)"},
		},
		"bounds that are too large": {
			`{type: object, properties: {list: {type: array, maxItems: 100000, items: {type: integer}, x-kubernetes-validations: [{rule: "self.all(a, self.all(b, a == b))"}]}}}`,
			[]string{""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rules := apiextensions.Kinds()[0].Rules
			crd := &apiextensionsv1.CustomResourceDefinition{}
			text := `{metadata: {name: widgets.example.com}, spec: {group: example.com, scope: Cluster, names: {plural: widgets, kind: Widget},
				versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: ` + tt.spec + `}}}}]}}`
			if err := yaml.UnmarshalStrict([]byte(text), crd); err != nil {
				t.Fatal(err)
			}
			rules.Default(crd)
			rules.PrepareCreate(t.Context(), crd)
			old := crd.DeepCopy()
			old.ResourceVersion = "1"
			for i := range old.Spec.Versions {
				p := old.Spec.Versions[i].Schema.OpenAPIV3Schema.Properties["spec"]
				p.XValidations, p.Properties = nil, nil
				old.Spec.Versions[i].Schema.OpenAPIV3Schema.Properties["spec"] = p
			}
			updated := crd.DeepCopy()
			updated.ResourceVersion = "1"
			for of, errs := range map[string][]string{"create": texts(rules.Validate(crd).ToAggregate().Errors()), "update": texts(rules.ValidateUpdate(updated, old).ToAggregate().Errors())} {
				var got []string
				for _, e := range errs {
					if strings.Contains(e, "total for entire") || strings.Contains(e, "contributed to") {
						continue
					}
					_, added, ok := strings.Cut(e, upstream)
					if !ok {
						t.Errorf("%s: %s", of, e)
					}
					got = append(got, strings.TrimPrefix(added, "; these have no bound: "))
				}
				if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", tt.want) {
					t.Errorf("%s: %q, want %q", of, got, tt.want)
				}
			}
		})
	}
}

// TestBudgetOfMany: the work of explaining is bounded.
func TestBudgetOfMany(t *testing.T) {
	rules := apiextensions.Kinds()[0].Rules
	crd := &apiextensionsv1.CustomResourceDefinition{}
	text := `{metadata: {name: widgets.example.com}, spec: {group: example.com, scope: Cluster, names: {plural: widgets, kind: Widget}, versions: [{name: v1, served: true, storage: true,
		schema: {openAPIV3Schema: {type: object, properties: {list: {type: array, items: {type: integer}, x-kubernetes-validations: [` +
		strings.Repeat(`{rule: "self.all(a, self.all(b, a == b))"},`, 150) + `]}}}}}]}}`
	if err := yaml.UnmarshalStrict([]byte(text), crd); err != nil {
		t.Fatal(err)
	}
	rules.Default(crd)
	rules.PrepareCreate(t.Context(), crd)
	refused, explained := 0, 0
	for _, e := range texts(rules.Validate(crd).ToAggregate().Errors()) {
		if strings.Contains(e, "try simplifying the rule") && !strings.Contains(e, "total for entire") {
			refused++
		}
		if strings.HasSuffix(e, "; these have no bound: list (maxItems)") {
			explained++
		}
	}
	if refused != 150 || explained == 0 || explained > 110 {
		t.Errorf("%d refused, %d explained", refused, explained)
	}
}

func texts(errs []error) []string {
	var all []string
	for _, err := range errs {
		all = append(all, err.Error())
	}
	return all
}
