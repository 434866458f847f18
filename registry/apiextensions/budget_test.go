package apiextensions_test

import (
	"fmt"
	"maps"
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
	many := ""
	for i := range 40 {
		many += fmt.Sprintf("a%02d: {type: array, items: {type: integer}}, ", i)
	}
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
		"a map of lists": {
			`{type: object, properties: {m: {type: object, additionalProperties: {type: array, items: {type: integer}}, x-kubernetes-validations: [{rule: "self.all(k, self[k].all(a, self[k].all(b, a == b)))"}]}}}`,
			[]string{"spec.m (maxProperties), spec.m[*] (maxItems)"},
		},
		"numbers or texts": {
			`{type: object, properties: {list: {type: array, maxItems: 100, items: {x-kubernetes-int-or-string: true}, x-kubernetes-validations: [{rule: "self.all(a, self.all(b, type(a) == string && type(b) == string && a.contains(b)))"}]}}}`,
			[]string{"spec.list[*] (maxLength)"},
		},
		"several, in the order of names": {
			`{type: object, x-kubernetes-validations: [{rule: "self.d.all(w, self.c.all(x, self.b.all(y, self.a.all(z, w + x == y + z))))"}],
			  properties: {a: {type: array, items: {type: integer}}, b: {type: array, items: {type: integer}}, c: {type: array, items: {type: integer}}, d: {type: array, items: {type: integer}}}}`,
			[]string{"spec.a (maxItems), spec.b (maxItems), spec.c (maxItems), spec.d (maxItems)"},
		},
		"an embedded resource": {
			`{type: object, properties: {o: {type: object, x-kubernetes-embedded-resource: true, properties: {list: {type: array, items: {type: integer}}},
			  x-kubernetes-validations: [{rule: "self.metadata.name != '' && self.list.all(a, self.list.all(b, a == b))"}]}}}`,
			[]string{"spec.o.list (maxItems)"},
		},
		"one of many": {
			`{type: object, x-kubernetes-validations: [{rule: "self.z.all(x, self.z.exists_one(y, x == y))"}], properties: {` + many + `z: {type: array, items: {type: string}}}}`,
			[]string{"spec.z (maxItems), spec.z[*] (maxLength)"},
		},
		"one of many, in a message": {
			`{type: object, x-kubernetes-validations: [{rule: "true", messageExpression: "string(self.z.all(x, self.z.all(y, x == y)))"}], properties: {` + many + `z: {type: array, items: {type: integer}}}}`,
			[]string{"spec.z (maxItems)"},
		},
		"a bound of something else": {
			`{type: object, maxItems: 0, properties: {list: {type: array, maxProperties: 0, items: {type: integer}, x-kubernetes-validations: [{rule: "self.all(a, self.all(b, a == b))"}]}}}`,
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
					if added != "; these have no bound: " {
						added = strings.TrimPrefix(added, "; these have no bound: ")
					}
					got = append(got, added)
				}
				if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", tt.want) {
					t.Errorf("%s: %q, want %q", of, got, tt.want)
				}
			}
		})
	}
}

// TestBudgetOfAll: rules of the whole object and of several versions are explained, and those that only cost too much together.
func TestBudgetOfAll(t *testing.T) {
	const (
		rule  = `{rule: "self.metadata.name != '' && self.list.all(a, self.list.all(b, a == b))"}`
		at    = "spec.validation.openAPIV3Schema."
		cheap = `{rule: "self.list.all(a, a != 1)"},`
	)
	schema := func(rules, more string) string {
		return `schema: {openAPIV3Schema: {type: object, properties: {list: {type: array, items: {type: integer}}` + more + `}, x-kubernetes-validations: [` + rules + `]}}`
	}
	for name, tt := range map[string]struct {
		versions string
		want     map[string]int // how often the errors at a field name the list
	}{
		"the whole object": {`{name: v1, served: true, storage: true, ` + schema(rule, "") + `}`, map[string]int{
			at + "x-kubernetes-validations[0].rule": 2, // alone, and of the total
		}},
		"two versions": {`{name: v1, served: true, storage: true, ` + schema(rule, "") + `}, {name: v2, served: true, storage: false, ` + schema(rule, ", b: {type: string}") + `}`, map[string]int{
			"spec.versions[0].schema.openAPIV3Schema.x-kubernetes-validations[0].rule": 2,
			"spec.versions[1].schema.openAPIV3Schema.x-kubernetes-validations[0].rule": 2,
		}},
		"together": {`{name: v1, served: true, storage: true, ` + schema(strings.Repeat(cheap, 60), "") + `}`, map[string]int{ // the first four are named
			at + "x-kubernetes-validations[0].rule": 1, at + "x-kubernetes-validations[1].rule": 1, at + "x-kubernetes-validations[2].rule": 1, at + "x-kubernetes-validations[3].rule": 1,
		}},
	} {
		rules := apiextensions.Kinds()[0].Rules
		crd := &apiextensionsv1.CustomResourceDefinition{}
		text := `{metadata: {name: widgets.example.com}, spec: {group: example.com, scope: Cluster, names: {plural: widgets, kind: Widget}, versions: [` + tt.versions + `]}}`
		if err := yaml.UnmarshalStrict([]byte(text), crd); err != nil {
			t.Fatal(err)
		}
		rules.Default(crd)
		rules.PrepareCreate(t.Context(), crd)
		got := map[string]int{}
		for _, e := range rules.Validate(crd) {
			if strings.HasSuffix(e.Detail, "; these have no bound: list (maxItems)") {
				got[e.Field]++
			}
		}
		if !maps.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
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

// TestBudgetOfNames: how many places are named is bounded, the more so in a large schema.
func TestBudgetOfNames(t *testing.T) {
	for name, tt := range map[string]struct {
		lists, others int
		want          int
	}{"many": {35, 0, 30}, "few in a large schema": {20, 6000, 14}} {
		t.Run(name, func(t *testing.T) {
			var properties, rule strings.Builder
			for i := range tt.lists {
				fmt.Fprintf(&properties, "l%02d: {type: array, items: {type: integer}}, ", i)
				if i > 0 {
					rule.WriteString(" && ")
				}
				fmt.Fprintf(&rule, "self.l%02d.all(x, self.l%02d.all(y, x == y))", i, i)
			}
			for i := range tt.others {
				fmt.Fprintf(&properties, "o%04d: {type: integer}, ", i)
			}
			rules := apiextensions.Kinds()[0].Rules
			crd := &apiextensionsv1.CustomResourceDefinition{}
			text := `{metadata: {name: widgets.example.com}, spec: {group: example.com, scope: Cluster, names: {plural: widgets, kind: Widget}, versions: [{name: v1, served: true, storage: true,
				schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {` + properties.String() + `}, x-kubernetes-validations: [{rule: "` + rule.String() + `"}]}}}}}]}}`
			if err := yaml.UnmarshalStrict([]byte(text), crd); err != nil {
				t.Fatal(err)
			}
			rules.Default(crd)
			rules.PrepareCreate(t.Context(), crd)
			got := -1
			for _, e := range texts(rules.Validate(crd).ToAggregate().Errors()) {
				if _, places, ok := strings.Cut(e, "; these have no bound: "); ok && !strings.Contains(e, "contributed to") {
					got = strings.Count(places, ",") + 1
				}
			}
			if got != tt.want {
				t.Errorf("%d are named, want %d", got, tt.want)
			}
		})
	}
}

func texts(errs []error) []string {
	var all []string
	for _, err := range errs {
		all = append(all, err.Error())
	}
	return all
}
