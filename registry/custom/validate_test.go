package custom_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const unchecked = "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"

func TestValidate(t *testing.T) {
	for name, tt := range map[string]struct {
		spec, in string
		want     []string
	}{
		"valid": {`{type: object, required: [a], properties: {a: {type: integer, minimum: 1}}}`, `{a: 1}`, nil},
		"types and bounds": {`{type: object, required: [r], properties: {a: {type: integer, minimum: 1}, b: {type: string, maxLength: 2, pattern: '^x'}, c: {type: string, enum: [p, q]}, l: {type: array, maxItems: 1, items: {type: string}}}}`,
			`{a: 0, b: yyy, c: z, l: [1, two]}`, []string{`spec.a: Invalid value: 0: spec.a in body should be greater than or equal to 1`, `spec.b: Too long: may not be more than 2 bytes`, `spec.c: Unsupported value: "z": supported values: "p", "q"`, `spec.l: Too many: 2: must have at most 1 item`, `spec.l[0]: Invalid value: "integer": spec.l[0] in body must be of type string: "integer"`, `spec.r: Required value`}},
		"formats": {`{type: object, properties: {t: {type: string, format: date-time}, i: {type: string, format: ipv4}, u: {type: string, format: nonsense}}}`,
			`{t: yesterday, i: '1.2.3', u: x}`, []string{`spec.i: Invalid value: "1.2.3": spec.i in body must be of type ipv4: "1.2.3"`, `spec.t: Invalid value: "yesterday": spec.t in body must be of type date-time: "yesterday"`}},
		"one of":           {`{type: object, properties: {a: {type: integer}, b: {type: integer}}, oneOf: [{required: [a]}, {required: [b]}]}`, `{a: 1, b: 1}`, []string{`<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found 2 valid alternatives`}},
		"number or string": {`{type: object, properties: {p: {x-kubernetes-int-or-string: true}}}`, `{p: 1.5}`, []string{`spec.p: Invalid value: "number": spec.p in body must be of type integer,string: "number"`}},
		"set":              {`{type: object, properties: {l: {type: array, x-kubernetes-list-type: set, items: {type: string}}}}`, `{l: [a, b, a]}`, []string{`spec.l[2]: Duplicate value: "a"`}},
		"map":              {`{type: object, properties: {l: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, required: [k], properties: {k: {type: string}}}}}}`, `{l: [{k: a}, {k: a}]}`, []string{`spec.l[1]: Duplicate value: {"k":"a"}`}},
		"embedded resource": {`{type: object, properties: {o: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}}`,
			`{o: {apiVersion: a/b/c, metadata: {name: A_}}}`, []string{`spec.o.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c`, `spec.o.kind: Required value`}},
		"rules": {`{type: object, properties: {a: {type: integer}, b: {type: integer}}, x-kubernetes-validations: [{rule: self.a < self.b}, {rule: self.a > 0, message: too little}, {rule: self.b > 5, messageExpression: '"not " + (self.b == 0 ? "0" : "more")', reason: FieldValueForbidden, fieldPath: .b}, {rule: self.a > 7, reason: FieldValueRequired}, {rule: self.a > 8, reason: FieldValueDuplicate, messageExpression: '""'}]}`,
			`{a: 0, b: 0}`, []string{`spec.b: Forbidden: not 0`, `spec: Duplicate value`, `spec: Invalid value: failed rule: self.a < self.b`, `spec: Invalid value: too little`, `spec: Required value: failed rule: self.a > 7`}},
		"transition rules do not apply":    {`{type: object, properties: {a: {type: integer, x-kubernetes-validations: [{rule: self == oldSelf}]}}}`, `{a: 1}`, nil},
		"optional old values":              {`{type: object, properties: {a: {type: integer, x-kubernetes-validations: [{rule: 'oldSelf.hasValue()', optionalOldSelf: true}]}}}`, `{a: 1}`, []string{`spec.a: Invalid value: 1: failed rule: oldSelf.hasValue()`}},
		"rules are not evaluated":          {`{type: object, properties: {a: {type: integer}}, x-kubernetes-validations: [{rule: self.a > 0}]}`, `{a: x}`, []string{`spec.a: Invalid value: "string": spec.a in body must be of type integer: "string"`, unchecked}},
		"rules fail":                       {`{type: object, properties: {a: {type: integer}}, x-kubernetes-validations: [{rule: 1 / self.a > 0}]}`, `{a: 0}`, []string{`spec: Invalid value: "object": division by zero evaluating rule: 1 / self.a > 0`}},
		"rules in lists":                   {`{type: object, properties: {l: {type: array, maxItems: 3, items: {type: integer, x-kubernetes-validations: [{rule: self > 0}]}}}}`, `{l: [1, 0, -1]}`, []string{`spec.l[1]: Invalid value: 0: failed rule: self > 0`, `spec.l[2]: Invalid value: -1: failed rule: self > 0`}},
		"rules of the cost that they have": {`{type: object, properties: {l: {type: array, maxItems: 1000, items: {type: string, maxLength: 1}}}, x-kubernetes-validations: [{rule: 'self.l.all(a, self.l.exists(b, a == b))'}]}`, `{l: [` + strings.Repeat("a,", 999) + `b]}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			v := define(t, tt.spec, anything)
			u := widget(t, "spec: "+tt.in)
			before := jsonOf(t, u)
			equal(t, v.Validate(context.Background(), u), tt.want)
			if after := jsonOf(t, u); after != before {
				t.Errorf("validation changed the object to %s", after)
			}
		})
	}
}

func TestValidateTypeAndMeta(t *testing.T) {
	v := define(t, `{type: object, required: [a]}`, anything)
	u := widget(t, `spec: {}`)
	u.SetKind("Gadget")
	u.SetAPIVersion("example.com/v2")
	equal(t, v.Validate(context.Background(), u), []string{`apiVersion: Invalid value: "example.com/v2": must be example.com/v1`, `kind: Invalid value: "Gadget": must be Widget`})
	equal(t, v.ValidateUpdate(context.Background(), u, u), []string{`apiVersion: Invalid value: "example.com/v2": must be example.com/v1`, `kind: Invalid value: "Gadget": must be Widget`})
	equal(t, v.ValidateStatusUpdate(context.Background(), u, u), []string{`apiVersion: Invalid value: "example.com/v2": must be example.com/v1`, `kind: Invalid value: "Gadget": must be Widget`})

	u = widget(t, `spec: {a: 1}`)
	u.SetName("A")
	u.SetNamespace("")
	u.SetLabels(map[string]string{"a b": ""})
	equal(t, v.Validate(context.Background(), u), []string{`metadata.labels: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`, `metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`, `metadata.namespace: Required value`})
	old := widget(t, `spec: {a: 1}`)
	equal(t, v.ValidateUpdate(context.Background(), u, old), []string{`metadata.labels: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`, `metadata.name: Invalid value: "A": field is immutable`, `metadata.namespace: Invalid value: "": field is immutable`})
	equal(t, v.ValidateStatusUpdate(context.Background(), u, old), []string{`metadata.labels: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`, `metadata.name: Invalid value: "A": field is immutable`, `metadata.namespace: Invalid value: "": field is immutable`})

	u = widget(t, `spec: {a: 1}`)
	u.Object["metadata"] = "x"
	equal(t, v.Validate(context.Background(), u), []string{`metadata: Invalid value: "x": expected map[string]interface{}, got string`})
	equal(t, v.ValidateUpdate(context.Background(), old, u), []string{`metadata: Invalid value: "x": expected map[string]interface{}, got string`})
	u.Object["metadata"] = map[string]any{"labels": int64(1)}
	equal(t, v.Validate(context.Background(), u), []string{`metadata: Invalid value: {"labels":1}: cannot restore map from int64`})
	delete(u.Object, "metadata")
	equal(t, v.Validate(context.Background(), u), []string{`metadata.name: Required value: name or generateName is required`, `metadata.namespace: Required value`})
}

func TestValidateUpdate(t *testing.T) {
	const (
		rules    = `{type: object, properties: {a: {type: integer, x-kubernetes-validations: [{rule: self > 0}]}, b: {type: integer, x-kubernetes-validations: [{rule: self == oldSelf, message: stays}, {rule: '!oldSelf.hasValue() || oldSelf.value() < 9', optionalOldSelf: true}]}}}`
		bounds   = `{type: object, properties: {a: {type: integer, minimum: 1}, b: {type: integer}}}`
		sets     = `{type: object, properties: {l: {type: array, x-kubernetes-list-type: set, items: {type: string}}, b: {type: integer}}}`
		embedded = `{type: object, properties: {o: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}, b: {type: integer}}}`
	)
	for name, tt := range map[string]struct {
		spec, old, in string
		want          []string
	}{
		"rules of unchanged values":        {rules, `{a: 0, b: 1}`, `{a: 0}`, nil},
		"rules of changed values":          {rules, `{a: 0, b: 9}`, `{a: -1, b: 10}`, []string{`spec.a: Invalid value: -1: failed rule: self > 0`, `spec.b: Invalid value: 10: failed rule: !oldSelf.hasValue() || oldSelf.value() < 9`, `spec.b: Invalid value: 10: stays`}},
		"rules of new values":              {rules, `{}`, `{a: 0, b: 1}`, []string{`spec.a: Invalid value: 0: failed rule: self > 0`}},
		"bounds of unchanged values":       {bounds, `{a: 0}`, `{a: 0, b: 1}`, nil},
		"bounds of changed values":         {bounds, `{a: 0}`, `{a: -1}`, []string{`spec.a: Invalid value: -1: spec.a in body should be greater than or equal to 1`}},
		"sets that were invalid":           {sets, `{l: [a, a]}`, `{l: [b, b]}`, nil},
		"sets that were valid":             {sets, `{l: [a]}`, `{l: [b, b]}`, []string{`spec.l[1]: Duplicate value: "b"`}},
		"embedded resources, though equal": {embedded, `{o: {apiVersion: v1, kind: ''}}`, `{o: {apiVersion: v1, kind: ''}}`, []string{`spec.o.kind: Invalid value: "": must not be empty`}},
	} {
		t.Run(name, func(t *testing.T) {
			v := define(t, tt.spec, tt.spec)
			equal(t, v.ValidateUpdate(context.Background(), widget(t, "spec: "+tt.in), widget(t, "spec: "+tt.old)), tt.want)
			var want []string
			for _, text := range tt.want {
				want = append(want, strings.ReplaceAll(strings.ReplaceAll(text, "spec.a in", "a in"), "spec", "status"))
			}
			if strings.HasPrefix(name, "embedded") {
				want = nil // only the schema of the status applies
			}
			equal(t, v.ValidateStatusUpdate(context.Background(), widget(t, "status: "+tt.in), widget(t, "status: "+tt.old)), want)
		})
	}
}

// TestStatusAlone: an update of the status validates the status, and the CEL rules of the whole object.
func TestStatusAlone(t *testing.T) {
	v := define(t, `{type: object, required: [a]}`, `{type: object, properties: {b: {type: string}}}`)
	old := widget(t, `spec: {}`)
	equal(t, v.ValidateStatusUpdate(context.Background(), widget(t, "spec: {}\nstatus: {b: x}"), old), nil)
	equal(t, v.ValidateStatusUpdate(context.Background(), widget(t, "spec: {}\nstatus: {b: 1}"), old), []string{`status.b: Invalid value: "integer": b in body must be of type string: "integer"`})
	equal(t, v.ValidateStatusUpdate(context.Background(), widget(t, `spec: {}`), old), nil)
	equal(t, v.ValidateStatusUpdate(context.Background(), widget(t, `spec: {}`), widget(t, "spec: {}\nstatus: {b: x}")), nil) // it goes
	v = storage(t, parse(t, `- {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {status: {type: object}}}}}`))
	equal(t, v.ValidateStatusUpdate(context.Background(), widget(t, "status: 1"), old), nil) // there is no such subresource
}

// TestBudget: rules that take too long are stopped.
func TestBudget(t *testing.T) {
	if testing.Short() {
		t.Skip("evaluates a million steps")
	}
	// The estimates of a definition's costs keep such rules out; older servers had none.
	crd := parse(t, `- {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {l: {type: array, items: {type: string}}}}}}`)
	root := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	root.XValidations = append(root.XValidations, rule(`self.l.all(a, self.l.all(b, self.l.all(c, a == b || b != c)))`))
	v := storage(t, crd)
	equal(t, v.Validate(context.Background(), widget(t, `l: [`+strings.Repeat("a,", 1000)+`b]`)), []string{`<nil>: Invalid value: "object": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: self.l.all(a, self.l.all(b, self.l.all(c, a == b || b != c)))`})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if errs := v.Validate(ctx, widget(t, `l: [`+strings.Repeat("a,", 100)+`b]`)); len(errs) == 0 {
		t.Error("rules were evaluated though nobody waits")
	}
}

// TestRootRules: rules of the whole object see its name.
func TestRootRules(t *testing.T) {
	v := storage(t, parse(t, `- {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-validations: [{rule: self.metadata.name.size() > 1 && self.kind == "Widget"}]}}}`))
	equal(t, v.Validate(context.Background(), widget(t, "")), []string{`<nil>: Invalid value: failed rule: self.metadata.name.size() > 1 && self.kind == "Widget"`})
}

// TestUncompilable: a rule that does not compile refuses every object.
func TestUncompilable(t *testing.T) {
	crd := parse(t, `- {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {a: {type: string}}}}}`)
	root := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	root.XValidations = append(root.XValidations, rule(`self.a > 0`))
	equal(t, storage(t, crd).Validate(context.Background(), widget(t, `a: x`)), []string{"<nil>: Invalid value: \"object\": rule compile error: compilation failed: ERROR: <input>:1:8: found no matching overload for '_>_' applied to '(string, int)'\n | self.a > 0\n | .......^"})
}

// TestConcurrent: a version serves many goroutines, also the first time.
func TestConcurrent(t *testing.T) {
	v := define(t, `{type: object, properties: {a: {type: integer, minimum: 1, default: 2, x-kubernetes-validations: [{rule: self > 1}]}}}`, anything)
	obj, old := widget(t, `spec: {a: 1}`), widget(t, `spec: {a: 2}`)
	results := make([]field.ErrorList, 8)
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() {
			if i%2 == 0 {
				results[i] = v.Validate(context.Background(), obj)
			} else {
				results[i] = v.ValidateUpdate(context.Background(), obj, old)
			}
			mine := obj.DeepCopy()
			v.Default(mine)
			_, _ = v.Prune(mine)
			v.Columns().Cells(obj, now)
			v.Fields(obj)
		})
	}
	wg.Wait()
	for _, errs := range results {
		equal(t, errs, []string{`spec.a: Invalid value: 1: failed rule: self > 1`})
	}
}
