package typecheck_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/admission/policy/typecheck"
	"github.com/keelson-dev/keelson/registry/admissionregistration"
)

// In a cluster, the kinds of policies ask the compiler.
func ExampleCompiler() {
	c := typecheck.NewCompiler()
	_ = admissionregistration.PolicyKinds(admissionregistration.PolicyOptions{Compiler: func(composed bool) admissionregistration.Compiler {
		compile := c.Policy(composed)
		return func(e admissionregistration.Expression) error { return compile(typecheck.Expression(e)) }
	}})
	compile := c.Policy(false)
	fmt.Println(compile(typecheck.Expression{Text: "object.spec.replicas < 5", Use: typecheck.Validation}))
	fmt.Println(compile(typecheck.Expression{Text: "'many'", Use: typecheck.Validation}))
	// Output:
	// <nil>
	// must evaluate to bool but got string
}

func TestUses(t *testing.T) {
	for use, same := range map[string]string{
		typecheck.Condition: admissionregistration.Condition, typecheck.Variable: admissionregistration.Variable,
		typecheck.Validation: admissionregistration.Validation, typecheck.Message: admissionregistration.Message,
		typecheck.AuditAnnotation: admissionregistration.AuditAnnotation, typecheck.ApplyConfiguration: admissionregistration.ApplyConfiguration,
		typecheck.JSONPatch: admissionregistration.JSONPatch,
	} {
		if use != same {
			t.Errorf("%q is %q in the registry", use, same)
		}
	}
	err := typecheck.NewCompiler().Policy(true)(typecheck.Expression{Text: "true", Use: "x"})
	if e, ok := errors.AsType[*field.Error](err); !ok || e.Type != field.ErrorTypeInternal {
		t.Errorf("an unknown use: %v", err)
	}
}

func TestCompile(t *testing.T) {
	c := typecheck.NewCompiler()
	for _, tt := range []struct {
		use, text        string
		params, composed bool
		want             string
	}{
		{use: typecheck.Validation, text: "object.a == oldObject.a && request.name == namespaceObject.metadata.name && authorizer.path('/').check('get').allowed()"},
		{use: typecheck.Validation, text: "1", want: "must evaluate to bool but got int"},
		{use: typecheck.Validation, text: "object.a +", want: "compilation failed: ERROR: <input>:1:11: Syntax error"},
		{use: typecheck.Validation, text: "params.a", want: "undeclared reference to 'params'"},
		{use: typecheck.Validation, text: "params.a == 1", params: true},
		{use: typecheck.Validation, text: "variables.n == 1", want: "undeclared reference to 'variables'"},
		{use: typecheck.Validation, text: "variables.n == 1", composed: true},
		{use: typecheck.Validation, text: "variables.n == 'a'", composed: true, want: "found no matching overload for '_==_'"},
		{use: typecheck.Validation, text: "variables.m == 1", composed: true, want: "undefined field 'm'"},
		{use: typecheck.Validation, text: "[JSONPatch{}] == []", want: "undeclared reference to 'JSONPatch'"},
		{use: typecheck.Condition, text: "variables.n == 1", composed: true, want: "undeclared reference to 'variables'"},
		{use: typecheck.Condition, text: "params.a == 1", params: true, composed: true},
		{use: typecheck.Variable, text: "null", composed: true},
		{use: typecheck.Message, text: "'n is ' + string(object.n)"},
		{use: typecheck.Message, text: "true", want: "must evaluate to string but got bool"},
		{use: typecheck.Message, text: "string(authorizer.path('/').check('get').allowed())", want: "undeclared reference to 'authorizer'"},
		{use: typecheck.AuditAnnotation, text: "null"},
		{use: typecheck.AuditAnnotation, text: "'a'"},
		{use: typecheck.AuditAnnotation, text: "1", want: "must evaluate to one of [string null_type] but got int"},
		{use: typecheck.ApplyConfiguration, text: "Object{spec: Object.spec{replicas: variables.n}}", composed: true},
		{use: typecheck.ApplyConfiguration, text: "{}", composed: true, want: "must evaluate to Object but got map(dyn, dyn)"},
		{use: typecheck.JSONPatch, text: "[JSONPatch{op: 'add', path: '/' + jsonpatch.escapeKey('a/b'), value: variables.n}]", composed: true},
		{use: typecheck.JSONPatch, text: "'a'", composed: true, want: "must evaluate to list(JSONPatch) but got string"},
	} {
		compile := c.Policy(tt.composed)
		if tt.composed {
			if err := compile(typecheck.Expression{Text: "1", Use: typecheck.Variable, Name: "n"}); err != nil {
				t.Fatal(err)
			}
		}
		for _, stored := range []bool{false, true} {
			err := compile(typecheck.Expression{Text: tt.text, Use: tt.use, Params: tt.params, Stored: stored})
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s %s: %v", tt.use, tt.text, err)
			}
		}
	}
}

// TestStored: what the library has learned with this version is for expressions that are stored.
func TestStored(t *testing.T) {
	c := typecheck.NewCompiler()
	for _, composed := range []bool{false, true} {
		for stored, want := range map[bool]string{false: "undeclared reference to 'includes'", true: ""} {
			err := c.Policy(composed)(typecheck.Expression{Text: "[1].includes(1)", Use: typecheck.Validation, Stored: stored})
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("composed %t, stored %t: %v", composed, stored, err)
			}
		}
	}
}
