package apiextensions

import (
	"math"
	"slices"
	"strconv"
	"strings"

	upstream "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// Bounds for the work on a definition whose rules are too expensive.
const (
	maxWork       = 100_000 // in schemas that are visited to estimate costs anew, in the order of some microseconds each
	compiling     = 500     // the work of compiling an expression, in the same unit
	maxCandidates = 30      // for a bound, of one expression
)

// explainBudget adds to errors about rules that may cost too much which places have no bound, though they add to the cost:
// upstream only says what bounds there are.
func explainBudget(crd *upstream.CustomResourceDefinition, errs field.ErrorList) {
	var x *budget
	for _, e := range errs {
		if e.Type != field.ErrorTypeForbidden || !tooExpensive(e.Detail) {
			continue
		}
		if x == nil {
			x = &budget{left: maxWork, environment: environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())}
			x.findAll(crd)
		}
		if r := x.rules[e.Field]; r != nil {
			if missing := x.missing(r); len(missing) > 0 {
				e.Detail += "; these have no bound: " + strings.Join(missing, ", ")
			}
		}
	}
}

// tooExpensive tells upstream's errors about single expressions.
func tooExpensive(detail string) bool {
	return strings.HasPrefix(detail, "estimated rule cost exceeds budget") || strings.HasPrefix(detail, "estimated messageExpression cost exceeds budget") ||
		strings.HasPrefix(detail, "contributed to estimated rule cost total")
}

// budget explains errors about one definition.
type budget struct {
	left        int // work that may be done
	environment *environment.EnvSet
	rules       map[string]*expression // by the field of an error
}

// expression is a rule, or its messageExpression, with the schemas from the root to the one that has it.
type expression struct {
	schemas []*upstream.JSONSchemaProps
	names   []string // of the values that the schemas are about
	index   int
	message bool
}

func (x *budget) findAll(crd *upstream.CustomResourceDefinition) {
	x.rules = map[string]*expression{}
	find := func(v *upstream.CustomResourceValidation, at *field.Path) {
		if v != nil {
			x.find(nil, nil, v.OpenAPIV3Schema, "", at.Child("openAPIV3Schema"))
		}
	}
	spec := field.NewPath("spec")
	find(crd.Spec.Validation, spec.Child("validation"))
	for i, v := range crd.Spec.Versions {
		find(v.Schema, spec.Child("versions").Index(i).Child("schema"))
	}
}

// find finds the expressions in a schema and below it.
func (x *budget) find(above []*upstream.JSONSchemaProps, names []string, s *upstream.JSONSchemaProps, name string, at *field.Path) {
	if s == nil {
		return
	}
	above, names = append(slices.Clip(above), s), append(slices.Clip(names), name)
	for i := range s.XValidations {
		rule := at.Child("x-kubernetes-validations").Index(i)
		x.rules[rule.Child("rule").String()] = &expression{schemas: above, names: names, index: i}
		x.rules[rule.Child("messageExpression").String()] = &expression{schemas: above, names: names, index: i, message: true}
	}
	for property, p := range s.Properties {
		x.find(above, names, &p, below(name, property), at.Child("properties").Key(property))
	}
	if s.Items != nil {
		x.find(above, names, s.Items.Schema, name+"[*]", at.Child("items"))
	}
	if s.AdditionalProperties != nil {
		x.find(above, names, s.AdditionalProperties.Schema, name+"[*]", at.Child("additionalProperties"))
	}
}

func below(name, property string) string {
	if strings.ContainsAny(property, ".[]' ,") {
		return name + "[" + strconv.Quote(property) + "]"
	}
	if name == "" {
		return property
	}
	return name + "." + property
}

// missing returns the places without a bound that add to the cost of an expression: those whose bounds, if all others had one,
// would make it cheaper.
func (x *budget) missing(e *expression) []string {
	if x.left < compiling {
		return nil
	}
	last := len(e.schemas) - 1
	var all, others []string // an expression names what it looks at, unless it looks at everything
	for i, s := range e.schemas[:last] {
		if bound, missing := boundOf(s); missing {
			all = append(all, e.names[i]+" ("+bound+")")
		}
	}
	text, each := e.text(), compiling
	within(e.schemas[last].DeepCopy(), e.names[last], func(name string, s *upstream.JSONSchemaProps) {
		each++
		bound, missing := boundOf(s)
		switch place := name + " (" + bound + ")"; {
		case !missing:
		case strings.Contains(text, lastOf(name)):
			all = append(all, place)
		default:
			others = append(others, place)
		}
	})
	all = append(all, others...)
	all = all[:max(0, min(len(all), maxCandidates, x.left/each-1))]
	if len(all) == 0 {
		return nil
	}
	x.left -= each * (len(all) + 1)
	least := x.estimate(e, "")
	return slices.DeleteFunc(all, func(place string) bool { return x.estimate(e, place) <= least })
}

func (e *expression) text() string {
	rule := e.schemas[len(e.schemas)-1].XValidations[e.index]
	if e.message {
		return rule.MessageExpression
	}
	return rule.Rule
}

// lastOf returns the last name in the name of a value.
func lastOf(name string) string {
	name = strings.TrimRight(strings.ReplaceAll(name, "[*]", ""), `"]`)
	return name[strings.LastIndexAny(name, `."`)+1:]
}

// estimate returns the cost of an expression if all places but one have a bound.
func (x *budget) estimate(e *expression, but string) uint64 {
	bound := func(name string, s *upstream.JSONSchemaProps) {
		if kind, missing := boundOf(s); missing && name+" ("+kind+")" != but {
			setBound(s)
		}
	}
	last := len(e.schemas) - 1
	s := e.schemas[last].DeepCopy()
	s.XValidations = s.XValidations[e.index : e.index+1]
	within(s, e.names[last], bound)
	parsed, err := structural.NewStructural(s)
	if err != nil {
		return 0
	}
	declared := model.SchemaDeclType(parsed, last == 0 || s.XEmbeddedResource)
	if declared == nil {
		return 0
	}
	results, err := cel.Compile(parsed, declared, celconfig.PerCallLimit, x.environment, cel.NewExpressionsEnvLoader())
	if err != nil || len(results) != 1 {
		return 0
	}
	if e.message {
		return results[0].MessageExpressionMaxCost
	}
	times := uint64(1)
	for i, s := range e.schemas[:last] {
		s := *s // whose bound alone is set
		bound(e.names[i], &s)
		n, ok := elements(&s)
		if !ok {
			return product(results[0].MaxCost, results[0].MaxCardinality)
		}
		times = product(times, n)
	}
	return product(results[0].MaxCost, times)
}

// elements returns how many values there are below one value of a schema; false if that is not bounded.
func elements(s *upstream.JSONSchemaProps) (uint64, bool) {
	if _, missing := boundOf(s); missing && s.Type != "string" {
		return 0, false
	}
	switch {
	case s.Type == "array" && s.MaxItems != nil:
		return uint64(max(0, *s.MaxItems)), true
	case s.Type == "object" && s.AdditionalProperties != nil && s.MaxProperties != nil:
		return uint64(max(0, *s.MaxProperties)), true
	}
	return 1, true
}

func product(a, b uint64) uint64 {
	if a != 0 && math.MaxUint64/a < b {
		return math.MaxUint64
	}
	return a * b
}

// boundOf returns the field that bounds the size of values, and whether a schema lacks it.
func boundOf(s *upstream.JSONSchemaProps) (name string, missing bool) {
	switch {
	case s.Type == "array":
		return "maxItems", s.MaxItems == nil
	case s.Type == "object" && s.AdditionalProperties != nil:
		return "maxProperties", s.MaxProperties == nil
	case s.Type == "string" || s.XIntOrString:
		return "maxLength", s.MaxLength == nil
	}
	return "", false
}

func setBound(s *upstream.JSONSchemaProps) {
	few := int64(10)
	switch name, _ := boundOf(s); name {
	case "maxItems":
		s.MaxItems = &few
	case "maxProperties":
		s.MaxProperties = &few
	default:
		s.MaxLength = &few
	}
}

// within visits a schema, which visit may change, and all below it, in the order of names.
func within(s *upstream.JSONSchemaProps, name string, visit func(name string, s *upstream.JSONSchemaProps)) {
	if s == nil {
		return
	}
	visit(name, s)
	properties := make([]string, 0, len(s.Properties))
	for property := range s.Properties {
		properties = append(properties, property)
	}
	slices.Sort(properties)
	for _, property := range properties {
		p := s.Properties[property]
		within(&p, below(name, property), visit)
		s.Properties[property] = p
	}
	if s.Items != nil {
		within(s.Items.Schema, name+"[*]", visit)
	}
	if s.AdditionalProperties != nil {
		within(s.AdditionalProperties.Schema, name+"[*]", visit)
	}
}
