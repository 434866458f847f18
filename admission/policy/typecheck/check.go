package typecheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/apiserver/pkg/cel/openapi"
)

// maxKinds is how many kinds the expressions of a policy are checked against.
const maxKinds = 10

// Served is a kind in one of the versions in which it is served.
type Served struct {
	Kind             schema.GroupVersionKind
	Plural, Singular string // the names of its resource
}

// Options are the options of a Checker. The zero value is valid.
type Options struct {
	// Logger logs the kinds whose schemas cannot be read; nil discards.
	Logger *slog.Logger
}

// Checker checks the types of policies. Make one with NewChecker; it is safe for concurrent use if its functions are.
type Checker struct {
	kinds    func() []Served
	document Document
	log      *slog.Logger
}

// NewChecker returns a Checker. kinds returns the kinds that are served at the time.
func NewChecker(kinds func() []Served, d Document, o Options) *Checker {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Checker{kinds: kinds, document: d, log: o.Logger}
}

// Check returns what is wrong with the validations of a policy and their message expressions in view of the kinds that the
// policy matches; nil if nothing is. Kinds without a schema, and rules with wildcards, are not checked. It fails only if the
// context ends. The policy is not changed.
func (c *Checker) Check(ctx context.Context, p *admissionv1.ValidatingAdmissionPolicy) ([]admissionv1.ExpressionWarning, error) {
	against, err := c.against(ctx, p)
	if err != nil {
		return nil, err
	}
	var warnings []admissionv1.ExpressionWarning
	check := func(text string, path *field.Path) {
		var found []string
		for _, a := range against {
			if said := a.check(text); said != "" {
				found = append(found, fmt.Sprintf("%v: %s\n", a.kind, said))
			}
		}
		if len(found) > 0 {
			warnings = append(warnings, admissionv1.ExpressionWarning{FieldRef: path.String(), Warning: strings.Join(found, "\n")})
		}
	}
	for i, v := range p.Spec.Validations {
		path := field.NewPath("spec", "validations").Index(i)
		check(v.Expression, path.Child("expression"))
		if v.MessageExpression != "" {
			check(v.MessageExpression, path.Child("messageExpression"))
		}
	}
	return warnings, ctx.Err()
}

// against returns the kinds that the policy matches and that have a schema, with the policy's variables.
func (c *Checker) against(ctx context.Context, p *admissionv1.ValidatingAdmissionPolicy) ([]*against, error) {
	var params *apiservercel.DeclType
	kind := paramKind(p)
	if !kind.Empty() {
		params = c.declared(ctx, kind, "params")
	}
	var out []*against
	for _, gvk := range matched(p, c.kinds()) {
		object := c.declared(ctx, gvk, "object")
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if object == nil {
			continue
		}
		a, err := newAgainst(gvk, object, params, !kind.Empty())
		if err != nil {
			c.log.Warn("no types for the expressions of a policy", "policy", p.Name, "kind", gvk, "error", err)
			continue
		}
		a.declare(p.Spec.Variables)
		out = append(out, a)
	}
	return out, nil
}

// declared returns the type of a kind; nil if it has no schema. Its name differs from that of others with another suffix.
func (c *Checker) declared(ctx context.Context, kind schema.GroupVersionKind, suffix string) *apiservercel.DeclType {
	s, err := c.document.schema(ctx, kind)
	if err != nil {
		if !errors.Is(err, ErrNoSchema) && ctx.Err() == nil {
			c.log.Warn("no schema for the expressions of policies", "kind", kind, "error", err)
		}
		return nil
	}
	t := common.SchemaDeclType(&openapi.Schema{Schema: s}, true)
	if t == nil {
		return nil
	}
	return t.MaybeAssignTypeName(kind.Kind + "_" + suffix)
}

func paramKind(p *admissionv1.ValidatingAdmissionPolicy) schema.GroupVersionKind {
	if p.Spec.ParamKind == nil {
		return schema.GroupVersionKind{}
	}
	gv, err := schema.ParseGroupVersion(p.Spec.ParamKind.APIVersion)
	if err != nil {
		return schema.GroupVersionKind{}
	}
	return gv.WithKind(p.Spec.ParamKind.Kind)
}

// matched returns the kinds that the rules of a policy name, sorted.
func matched(p *admissionv1.ValidatingAdmissionPolicy, all []Served) []schema.GroupVersionKind {
	found := map[schema.GroupVersionKind]bool{}
	if p.Spec.MatchConstraints != nil {
		for _, rule := range p.Spec.MatchConstraints.ResourceRules {
			if full := named(&rule.Rule, all, found); full {
				break
			}
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b schema.GroupVersionKind) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Version, b.Version), strings.Compare(a.Kind, b.Kind))
	})
}

// named adds the kinds that a rule names, and reports whether there are enough. A rule with a wildcard for groups or versions
// names none; wildcard resources and subresources are skipped.
func named(rule *admissionv1.Rule, all []Served, found map[schema.GroupVersionKind]bool) bool {
	wild := func(s string) bool { return strings.Contains(s, "*") }
	if slices.ContainsFunc(rule.APIGroups, wild) || slices.ContainsFunc(rule.APIVersions, wild) {
		return false
	}
	n := 0
	for _, group := range sorted(rule.APIGroups) {
		for _, version := range sorted(rule.APIVersions) {
			for _, resource := range sorted(rule.Resources) {
				if strings.ContainsAny(resource, "*/") {
					continue
				}
				for _, s := range all {
					// As in upstream's mapping, the core group stands for any.
					if group != "" && s.Kind.Group != group || s.Kind.Version != version || s.Plural != resource && s.Singular != resource {
						continue
					}
					found[s.Kind] = true
					if n++; n == maxKinds {
						return true
					}
				}
			}
		}
	}
	return false
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

// against compiles expressions about objects of one kind.
type against struct {
	kind     schema.GroupVersionKind
	declared plugincel.OptionalVariableDeclarations
	compiler *plugincel.CompositedCompiler
}

func newAgainst(kind schema.GroupVersionKind, object, params *apiservercel.DeclType, parameterized bool) (*against, error) {
	namespace, request := plugincel.BuildNamespaceType(), plugincel.BuildRequestType()
	types := []*apiservercel.DeclType{namespace, request, object}
	variables := []cel.EnvOption{
		cel.Variable(plugincel.NamespaceVarName, namespace.CelType()), cel.Variable(plugincel.RequestVarName, request.CelType()),
		cel.Variable(plugincel.ObjectVarName, object.CelType()), cel.Variable(plugincel.OldObjectVarName, object.CelType()),
		cel.Variable(plugincel.AuthorizerVarName, library.AuthorizerType),
	}
	switch {
	case params != nil:
		types = append(types, params)
		variables = append(variables, cel.Variable(plugincel.ParamsVarName, params.CelType()))
	case parameterized:
		variables = append(variables, cel.Variable(plugincel.ParamsVarName, cel.DynType))
	}
	env, err := base().Extend(environment.VersionedOptions{IntroducedVersion: version.MajorMinor(1, 0), EnvOptions: variables, DeclTypes: types})
	if err != nil {
		return nil, err
	}
	compiler, err := plugincel.NewCompositedCompilerForTypeChecking(env)
	if err != nil {
		return nil, err
	}
	compiler.Compiler = lax{compiler}
	return &against{
		kind: kind, declared: plugincel.OptionalVariableDeclarations{HasParams: parameterized, HasAuthorizer: true}, compiler: compiler,
	}, nil
}

// declare gives the policy's variables their types. What is wrong with one shows where it is used.
func (a *against) declare(variables []admissionv1.Variable) {
	for _, v := range variables {
		a.compiler.CompileAndStoreVariable(&accessor{text: v.Expression, name: v.Name}, a.declared, environment.StoredExpressions)
	}
}

// check returns what is wrong with an expression.
func (a *against) check(text string) string {
	err := a.compiler.CompileCELExpression(&accessor{text: text}, a.declared, environment.StoredExpressions).Error
	switch {
	case err == nil:
		return ""
	case err.Type == apiservercel.ErrorTypeInternal:
		return "type checking error: " + err.Detail
	}
	return err.Detail
}

// lax compiles expressions of any type, and makes no program of them.
type lax struct{ of *plugincel.CompositedCompiler }

// CompileCELExpression implements plugincel.Compiler.
func (l lax) CompileCELExpression(e plugincel.ExpressionAccessor, _ plugincel.OptionalVariableDeclarations, mode environment.Type) plugincel.CompilationResult {
	fail := func(kind apiservercel.ErrorType, detail string) plugincel.CompilationResult {
		return plugincel.CompilationResult{Error: &apiservercel.Error{Type: kind, Detail: detail}, ExpressionAccessor: e}
	}
	env, err := l.of.Env(mode)
	if err != nil {
		return fail(apiservercel.ErrorTypeInternal, fmt.Sprintf("fail to build env: %v", err))
	}
	ast, issues := env.Compile(e.GetExpression())
	if issues != nil {
		return fail(apiservercel.ErrorTypeInvalid, issues.String())
	}
	return plugincel.CompilationResult{OutputType: ast.OutputType()}
}
