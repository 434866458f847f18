package audit

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/json"

	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/internal/boundedyaml"
)

// ErrPolicy says that a policy is invalid.
var ErrPolicy = errors.New("invalid audit policy")

// Policy decides what is recorded of which request. It is immutable.
type Policy struct{ policy auditv1.Policy }

// Rule is what a policy says about one request.
type Rule struct {
	// Level is how much of the request is recorded.
	Level auditv1.Level
	// OmitStages are the stages without events.
	OmitStages []auditv1.Stage
	// OmitManagedFields leaves metadata.managedFields out of recorded objects.
	OmitManagedFields bool
}

// ParsePolicy reads a policy in YAML or JSON. Unlike upstream, which ignores them, it refuses unknown fields: a misspelt rule
// would record too little. Errors wrap ErrPolicy and name the field.
func ParsePolicy(data []byte) (*Policy, error) {
	var p auditv1.Policy
	document, err := boundedyaml.ToJSONStrict(data, boundedyaml.Limit)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPolicy, err)
	}
	strict, err := json.UnmarshalStrict(document, &p)
	if err = errors.Join(append(strict, err)...); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPolicy, err)
	}
	if gv := auditv1.SchemeGroupVersion.String(); p.APIVersion != gv || p.Kind != "Policy" {
		return nil, fmt.Errorf("%w: apiVersion %q, kind %q: want apiVersion %q, kind \"Policy\"", ErrPolicy, p.APIVersion, p.Kind, gv)
	}
	return NewPolicy(p)
}

// NewPolicy checks a policy. Errors wrap ErrPolicy and name the field.
func NewPolicy(p auditv1.Policy) (*Policy, error) {
	if len(p.Rules) == 0 {
		return nil, fmt.Errorf("%w: rules: there are none, so nothing would be recorded; to record all metadata write \"rules: [{level: Metadata}]\"", ErrPolicy)
	}
	if err := validate(&p).ToAggregate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPolicy, err)
	}
	p = *p.DeepCopy()
	for i := range p.Rules {
		for _, stage := range p.OmitStages {
			if !slices.Contains(p.Rules[i].OmitStages, stage) {
				p.Rules[i].OmitStages = append(p.Rules[i].OmitStages, stage)
			}
		}
	}
	return &Policy{p}, nil
}

// Everything is the policy that records all requests at one level.
func Everything(level auditv1.Level) *Policy {
	return &Policy{auditv1.Policy{Rules: []auditv1.PolicyRule{{Level: level}}}}
}

// Rule returns the first rule that matches the request, or one that records nothing.
func (p *Policy) Rule(a *authz.Attributes) Rule {
	for i := range p.policy.Rules {
		r := &p.policy.Rules[i]
		if !matches(r, a) {
			continue
		}
		omit := p.policy.OmitManagedFields
		if r.OmitManagedFields != nil {
			omit = *r.OmitManagedFields
		}
		return Rule{Level: r.Level, OmitStages: r.OmitStages, OmitManagedFields: omit}
	}
	return Rule{Level: auditv1.LevelNone, OmitStages: p.policy.OmitStages, OmitManagedFields: p.policy.OmitManagedFields}
}

func matches(r *auditv1.PolicyRule, a *authz.Attributes) bool {
	if len(r.Users) > 0 && (a.User == nil || !slices.Contains(r.Users, a.User.Name)) {
		return false
	}
	if len(r.UserGroups) > 0 && (a.User == nil || !slices.ContainsFunc(a.User.Groups, func(group string) bool {
		return slices.Contains(r.UserGroups, group)
	})) {
		return false
	}
	if len(r.Verbs) > 0 && !slices.Contains(r.Verbs, a.Verb) {
		return false
	}
	switch {
	case len(r.Namespaces) > 0 || len(r.Resources) > 0:
		return matchesResource(r, a)
	case len(r.NonResourceURLs) > 0:
		return !a.ResourceRequest && slices.ContainsFunc(r.NonResourceURLs, func(spec string) bool { return matchesPath(spec, a.Path) })
	}
	return true
}

func matchesPath(spec, path string) bool {
	return spec == "*" || spec == path || strings.HasSuffix(spec, "*") && strings.HasPrefix(path, strings.TrimRight(spec, "*"))
}

func matchesResource(r *auditv1.PolicyRule, a *authz.Attributes) bool {
	// What has no namespace is in the empty one.
	if !a.ResourceRequest || len(r.Namespaces) > 0 && !slices.Contains(r.Namespaces, a.Namespace) {
		return false
	}
	return len(r.Resources) == 0 || slices.ContainsFunc(r.Resources, func(g auditv1.GroupResources) bool {
		switch {
		case g.Group != a.Group && g.Group != "*":
			return false
		case len(g.Resources) == 0:
			return true
		case len(g.ResourceNames) > 0 && !slices.Contains(g.ResourceNames, a.Name):
			return false
		}
		return slices.ContainsFunc(g.Resources, func(spec string) bool { return matchesName(spec, a) })
	})
}

// matchesName compares with "pods", "pods/log", "*", "*/scale" and "pods/*".
func matchesName(spec string, a *authz.Attributes) bool {
	resource, sub, divided := strings.Cut(spec, "/")
	switch {
	case spec == "*":
		return true
	case !divided:
		return resource == a.Resource && a.Subresource == ""
	case resource == "*":
		return a.Subresource != "" && sub == a.Subresource
	case sub == "*":
		return resource == a.Resource
	}
	return resource == a.Resource && sub == a.Subresource && sub != ""
}

func validate(p *auditv1.Policy) field.ErrorList {
	errs := validateStages(p.OmitStages, field.NewPath("omitStages"))
	for i := range p.Rules {
		errs = append(errs, validateRule(&p.Rules[i], field.NewPath("rules").Index(i))...)
	}
	return errs
}

func validateRule(r *auditv1.PolicyRule, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	levels := []auditv1.Level{auditv1.LevelNone, auditv1.LevelMetadata, auditv1.LevelRequest, auditv1.LevelRequestResponse}
	switch {
	case r.Level == "":
		errs = append(errs, field.Required(at.Child("level"), "None, Metadata, Request or RequestResponse"))
	case !slices.Contains(levels, r.Level):
		errs = append(errs, field.NotSupported(at.Child("level"), r.Level, levels))
	}
	for i, url := range r.NonResourceURLs {
		at := at.Child("nonResourceURLs").Index(i)
		if url != "*" && !strings.HasPrefix(url, "/") {
			errs = append(errs, field.Invalid(at, url, "non-resource URL rules must begin with a '/' character"))
		}
		if url != "" && strings.Contains(url[:len(url)-1], "*") {
			errs = append(errs, field.Invalid(at, url, "non-resource URL wildcards '*' must be the final character of the rule"))
		}
	}
	for i, g := range r.Resources {
		at := at.Child("resources").Index(i)
		if g.Group != "" && g.Group != "*" {
			for _, problem := range apivalidation.NameIsDNSSubdomain(g.Group, false) {
				errs = append(errs, field.Invalid(at.Child("group"), g.Group, problem))
			}
		}
		if len(g.ResourceNames) > 0 && len(g.Resources) == 0 {
			errs = append(errs, field.Invalid(at.Child("resourceNames"), g.ResourceNames, "using resourceNames requires at least one resource"))
		}
	}
	errs = append(errs, validateStages(r.OmitStages, at.Child("omitStages"))...)
	if len(r.NonResourceURLs) > 0 && (len(r.Resources) > 0 || len(r.Namespaces) > 0) {
		errs = append(errs, field.Invalid(at.Child("nonResourceURLs"), r.NonResourceURLs, "rules cannot apply to both regular resources and non-resource URLs"))
	}
	return errs
}

func validateStages(stages []auditv1.Stage, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	known := []auditv1.Stage{auditv1.StageRequestReceived, auditv1.StageResponseStarted, auditv1.StageResponseComplete, auditv1.StagePanic}
	for i, stage := range stages {
		if !slices.Contains(known, stage) {
			errs = append(errs, field.NotSupported(at.Index(i), stage, known))
		}
	}
	return errs
}
