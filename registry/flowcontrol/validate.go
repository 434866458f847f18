package flowcontrol

import (
	"fmt"
	"math"
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/api/flowcontrol/v1beta3"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	apf "github.com/keelson-dev/keelson/flowcontrol"
	"github.com/keelson-dev/keelson/podspec"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

const (
	maxPrecedence = flowcontrolv1.FlowSchemaMaxMatchingPrecedence
	maxQueues     = 10_000_000
	maxHashBits   = 60 // of what chooses the queues of a flow
)

func validateSchema(s flowSchema) field.ErrorList {
	p := field.NewPath("spec")
	errs := validateSchemaSpec(s.Name, &s.Spec, p)
	mandatory, _ := apf.DefaultSchemas()
	for _, m := range mandatory {
		if m.Name == s.Name && !equality.Semantic.DeepEqual(m.Spec, s.Spec) {
			errs = append(errs, field.Invalid(p, podspec.Shown(s.Spec), fmt.Sprintf("spec of '%s' must equal the fixed value", s.Name)))
		}
	}
	return append(errs, validateSchemaStatus(&s.Status)...)
}

func validateSchemaSpec(name string, s *flowcontrolv1.FlowSchemaSpec, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	n, precedence := s.MatchingPrecedence, p.Child("matchingPrecedence")
	if n <= 0 {
		errs = append(errs, field.Invalid(precedence, n, "must be a positive value"))
	}
	if n > maxPrecedence {
		errs = append(errs, field.Invalid(precedence, n, fmt.Sprintf("must not be greater than %d", maxPrecedence)))
	}
	if n == 1 && name != flowcontrolv1.FlowSchemaNameExempt {
		errs = append(errs, field.Invalid(precedence, n, "only the schema named 'exempt' may have matchingPrecedence 1"))
	}
	if m := s.DistinguisherMethod; m != nil {
		methods := []string{string(flowcontrolv1.FlowDistinguisherMethodByNamespaceType), string(flowcontrolv1.FlowDistinguisherMethodByUserType)}
		if !slices.Contains(methods, string(m.Type)) {
			errs = append(errs, field.NotSupported(p.Child("distinguisherMethod", "type"), podspec.Shown(m), methods))
		}
	}
	level := p.Child("priorityLevelConfiguration", "name")
	if s.PriorityLevelConfiguration.Name == "" {
		errs = append(errs, field.Required(level, "must reference a priority level"))
	} else {
		errs = append(errs, check.DNSSubdomain(level, s.PriorityLevelConfiguration.Name)...)
	}
	for i := range s.Rules {
		errs = append(errs, validateRules(&s.Rules[i], p.Child("rules").Index(i))...)
	}
	return errs
}

func validateRules(r *flowcontrolv1.PolicyRulesWithSubjects, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(r.Subjects) == 0 {
		errs = append(errs, field.Required(p.Child("subjects"), "subjects must contain at least one value"))
	}
	for i := range r.Subjects {
		errs = append(errs, validateSubject(&r.Subjects[i], p.Child("subjects").Index(i))...)
	}
	if len(r.ResourceRules) == 0 && len(r.NonResourceRules) == 0 {
		errs = append(errs, field.Required(p, "at least one of resourceRules and nonResourceRules has to be non-empty"))
	}
	for i := range r.ResourceRules {
		errs = append(errs, validateResources(&r.ResourceRules[i], p.Child("resourceRules").Index(i))...)
	}
	for i := range r.NonResourceRules {
		errs = append(errs, validateURLs(&r.NonResourceRules[i], p.Child("nonResourceRules").Index(i))...)
	}
	return errs
}

func validateSubject(s *flowcontrolv1.Subject, p *field.Path) field.ErrorList {
	account, user, group := p.Child("serviceAccount"), p.Child("user"), p.Child("group")
	var errs field.ErrorList
	required := func(set bool, name string, at *field.Path) bool {
		if !set {
			errs = append(errs, field.Required(at, fmt.Sprintf("%s is required when subject kind is '%s'", name, s.Kind)))
		}
		return set
	}
	switch s.Kind {
	case flowcontrolv1.SubjectKindServiceAccount:
		if required(s.ServiceAccount != nil, "serviceAccount", account) {
			errs = append(errs, validateAccount(s.ServiceAccount, account)...)
		}
	case flowcontrolv1.SubjectKindUser:
		if required(s.User != nil, "user", user) && s.User.Name == "" {
			errs = append(errs, field.Required(user.Child("name"), ""))
		}
	case flowcontrolv1.SubjectKindGroup:
		if required(s.Group != nil, "group", group) && s.Group.Name == "" {
			errs = append(errs, field.Required(group.Child("name"), ""))
		}
	default:
		return field.ErrorList{field.NotSupported(p.Child("kind"), s.Kind, []flowcontrolv1.SubjectKind{
			flowcontrolv1.SubjectKindGroup, flowcontrolv1.SubjectKindServiceAccount, flowcontrolv1.SubjectKindUser,
		})}
	}
	for _, other := range []struct {
		set  bool
		kind flowcontrolv1.SubjectKind
		name string
	}{
		{s.ServiceAccount != nil, flowcontrolv1.SubjectKindServiceAccount, "serviceAccount"},
		{s.User != nil, flowcontrolv1.SubjectKindUser, "user"}, {s.Group != nil, flowcontrolv1.SubjectKindGroup, "group"},
	} {
		if other.set && other.kind != s.Kind {
			errs = append(errs, field.Forbidden(p.Child(other.name), fmt.Sprintf("%s is forbidden when subject kind is not '%s'", other.name, other.kind)))
		}
	}
	return errs
}

func validateAccount(s *flowcontrolv1.ServiceAccountSubject, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch s.Name {
	case "":
		errs = append(errs, field.Required(p.Child("name"), ""))
	case flowcontrolv1.NameAll:
	default:
		errs = append(errs, check.Messages(p.Child("name"), s.Name, apivalidation.ValidateServiceAccountName(s.Name, false))...)
	}
	if s.Namespace == "" {
		return append(errs, field.Required(p.Child("namespace"), "must specify namespace for service account"))
	}
	return append(errs, check.Messages(p.Child("namespace"), s.Namespace, apivalidation.ValidateNamespaceName(s.Namespace, false))...)
}

func verbs() []string {
	return []string{"create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"}
}

func validateVerbs(list []string, p *field.Path) field.ErrorList {
	switch {
	case len(list) == 0:
		return field.ErrorList{field.Required(p, "verbs must contain at least one value")}
	case slices.Contains(list, "*"):
		return alone(list, "verbs", p)
	}
	for _, verb := range list {
		if !slices.Contains(verbs(), verb) {
			return field.ErrorList{field.NotSupported[string](p, list, verbs())}
		}
	}
	return nil
}

// alone requires that * is the only value of a list that has it.
func alone(list []string, what string, p *field.Path) field.ErrorList {
	if len(list) > 1 && slices.Contains(list, "*") {
		return field.ErrorList{field.Invalid(p, list, "if '*' is present, must not specify other "+what)}
	}
	return nil
}

func validateURLs(r *flowcontrolv1.NonResourcePolicyRule, p *field.Path) field.ErrorList {
	errs := validateVerbs(r.Verbs, p.Child("verbs"))
	urls := p.Child("nonResourceURLs")
	switch {
	case len(r.NonResourceURLs) == 0:
		return append(errs, field.Required(urls, "nonResourceURLs must contain at least one value"))
	case slices.Contains(r.NonResourceURLs, "*"):
		return append(errs, alone(r.NonResourceURLs, "non-resource URLs", urls)...)
	}
	for i, url := range r.NonResourceURLs {
		if reason := badURL(url); reason != "" {
			errs = append(errs, field.Invalid(urls.Index(i), url, reason))
		}
	}
	return errs
}

// badURL returns what is wrong with a path, or nothing.
func badURL(path string) string {
	n := strings.Count(path, "*")
	switch {
	case path == "":
		return "must not be empty"
	case !strings.HasPrefix(path, "/"):
		return "must start with slash"
	case strings.Contains(path, " "):
		return "must not contain white-space"
	case strings.Contains(path, "//"):
		return "must not contain double slash"
	case n > 1 || n == 1 && !strings.HasSuffix(path, "/*"):
		return "wildcard can only do suffix matching"
	}
	return ""
}

func validateResources(r *flowcontrolv1.ResourcePolicyRule, p *field.Path) field.ErrorList {
	errs := validateVerbs(r.Verbs, p.Child("verbs"))
	if len(r.APIGroups) == 0 {
		errs = append(errs, field.Required(p.Child("apiGroups"), "resource rules must supply at least one api group"))
	}
	errs = append(errs, alone(r.APIGroups, "api groups", p.Child("apiGroups"))...)
	if len(r.Resources) == 0 {
		errs = append(errs, field.Required(p.Child("resources"), "resource rules must supply at least one resource"))
	}
	errs = append(errs, alone(r.Resources, "resources", p.Child("resources"))...)
	namespaces := p.Child("namespaces")
	switch {
	case len(r.Namespaces) == 0 && !r.ClusterScope:
		return append(errs, field.Required(namespaces, "resource rules that are not cluster scoped must supply at least one namespace"))
	case slices.Contains(r.Namespaces, "*"):
		return append(errs, alone(r.Namespaces, "namespaces", namespaces)...)
	}
	for i, name := range r.Namespaces {
		for _, message := range apivalidation.ValidateNamespaceName(name, false) {
			errs = append(errs, field.Invalid(namespaces.Index(i), name, "each member of this list must be '*' or a DNS-1123 label; "+message))
		}
	}
	return errs
}

func validateSchemaStatus(s *flowcontrolv1.FlowSchemaStatus) field.ErrorList {
	return validateConditions(s.Conditions, func(c flowcontrolv1.FlowSchemaCondition) flowcontrolv1.FlowSchemaConditionType { return c.Type })
}

func validateLevelStatus(s *flowcontrolv1.PriorityLevelConfigurationStatus) field.ErrorList {
	return validateConditions(s.Conditions, func(c flowcontrolv1.PriorityLevelConfigurationCondition) flowcontrolv1.PriorityLevelConfigurationConditionType {
		return c.Type
	})
}

func validateConditions[C any, T ~string](list []C, kind func(C) T) field.ErrorList {
	var errs field.ErrorList
	seen := map[T]bool{}
	for i := range list {
		at, t := field.NewPath("status", "conditions").Index(i).Child("type"), kind(list[i])
		if seen[t] {
			errs = append(errs, field.Duplicate(at, t))
		}
		seen[t] = true
		if t == "" {
			errs = append(errs, field.Required(at, ""))
		}
	}
	return errs
}

// validateLevel validates a level; old is nil in a create.
func validateLevel(l, old priorityLevel) field.ErrorList {
	p := field.NewPath("spec")
	var errs field.ErrorList
	if _, ok := l.Annotations[v1beta3.PriorityLevelPreserveZeroConcurrencySharesKey]; ok {
		errs = append(errs, field.Forbidden(field.NewPath("metadata", "annotations"),
			fmt.Sprintf("annotation '%s' is forbidden", v1beta3.PriorityLevelPreserveZeroConcurrencySharesKey)))
	}
	errs = append(errs, validateLevelSpec(l.Name, &l.Spec, p)...)
	errs = append(errs, validateFixed(l, p)...)
	errs = append(errs, validateLevelStatus(&l.Status)...)
	var before *flowcontrolv1.PriorityLevelConfigurationSpec
	if old != nil {
		before = &old.Spec
	}
	return check.Declared(errs, declared(&l.Spec, before, p))
}

func validateFixed(l priorityLevel, p *field.Path) field.ErrorList {
	mandatory, _ := apf.DefaultLevels()
	at := slices.IndexFunc(mandatory, func(m priorityLevel) bool { return m.Name == l.Name })
	if at < 0 {
		return nil
	}
	want, detail := mandatory[at].Spec, fmt.Sprintf("spec of '%s' must equal the fixed value", l.Name)
	if l.Name == exempt {
		want.Exempt, detail = l.Spec.Exempt, fmt.Sprintf("spec of '%s' except the 'spec.exempt' field must equal the fixed value", l.Name)
	}
	if equality.Semantic.DeepEqual(want, l.Spec) {
		return nil
	}
	return field.ErrorList{field.Invalid(p, podspec.Shown(l.Spec), detail)}
}

func validateLevelSpec(name string, s *flowcontrolv1.PriorityLevelConfigurationSpec, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	if (name == exempt) != (s.Type == flowcontrolv1.PriorityLevelEnablementExempt) {
		errs = append(errs, field.Invalid(p.Child("type"), s.Type, "must be 'Exempt' if and only if `name` is 'exempt'"))
	}
	limited, free := p.Child("limited"), p.Child("exempt")
	switch s.Type {
	case flowcontrolv1.PriorityLevelEnablementExempt:
		if s.Limited != nil {
			errs = append(errs, field.Forbidden(limited, "must be nil if the type is not Limited").MarkCoveredByDeclarative())
		}
		if s.Exempt != nil {
			errs = append(errs, validateShares(s.Exempt.NominalConcurrencyShares, s.Exempt.LendablePercent, nil, free)...)
		}
	case flowcontrolv1.PriorityLevelEnablementLimited:
		if s.Exempt != nil {
			errs = append(errs, field.Forbidden(free, "must be nil if the type is Limited").MarkCoveredByDeclarative())
		}
		if s.Limited == nil {
			return append(errs, field.Required(limited, "must not be empty when type is Limited").MarkCoveredByDeclarative())
		}
		response := validateResponse(&s.Limited.LimitResponse, limited.Child("limitResponse"))
		errs = append(errs, validateShares(s.Limited.NominalConcurrencyShares, s.Limited.LendablePercent, response, limited)...)
		if n := s.Limited.BorrowingLimitPercent; n != nil && *n < 0 {
			errs = append(errs, field.Invalid(limited.Child("borrowingLimitPercent"), *n, "if specified, must be a non-negative integer"))
		}
	case "":
		errs = append(errs, field.Required(p.Child("type"), "").MarkCoveredByDeclarative())
	default:
		errs = append(errs, field.NotSupported(p.Child("type"), s.Type, []flowcontrolv1.PriorityLevelEnablement{
			flowcontrolv1.PriorityLevelEnablementExempt, flowcontrolv1.PriorityLevelEnablementLimited,
		}))
	}
	return errs
}

// validateShares validates what a level has and lends; the errors of its response are told in between.
func validateShares(shares, lendable *int32, response field.ErrorList, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	if shares != nil && *shares < 0 {
		errs = append(errs, field.Invalid(p.Child("nominalConcurrencyShares"), *shares, "must be a non-negative integer"))
	}
	errs = append(errs, response...)
	if lendable != nil && (*lendable < 0 || *lendable > 100) {
		errs = append(errs, field.Invalid(p.Child("lendablePercent"), *lendable, "must be between 0 and 100, inclusive"))
	}
	return errs
}

func validateResponse(r *flowcontrolv1.LimitResponse, p *field.Path) field.ErrorList {
	queuing := p.Child("queuing")
	switch r.Type {
	case flowcontrolv1.LimitResponseTypeReject:
		if r.Queuing != nil {
			return field.ErrorList{field.Forbidden(queuing, "must be nil if limited.limitResponse.type is not Limited").MarkCoveredByDeclarative()}
		}
	case flowcontrolv1.LimitResponseTypeQueue:
		if r.Queuing == nil {
			return field.ErrorList{field.Required(queuing, "must not be empty if limited.limitResponse.type is Limited").MarkCoveredByDeclarative()}
		}
		return validateQueues(r.Queuing, queuing)
	case "":
		return field.ErrorList{field.Required(p.Child("type"), "").MarkCoveredByDeclarative()}
	default:
		return field.ErrorList{field.NotSupported(p.Child("type"), r.Type, []flowcontrolv1.LimitResponseType{
			flowcontrolv1.LimitResponseTypeQueue, flowcontrolv1.LimitResponseTypeReject,
		})}
	}
	return nil
}

func validateQueues(q *flowcontrolv1.QueuingConfiguration, p *field.Path) field.ErrorList {
	const positive = "must be positive"
	var errs field.ErrorList
	if q.QueueLengthLimit <= 0 {
		errs = append(errs, field.Invalid(p.Child("queueLengthLimit"), q.QueueLengthLimit, positive))
	}
	switch {
	case q.Queues <= 0:
		errs = append(errs, field.Invalid(p.Child("queues"), q.Queues, positive))
	case q.Queues > maxQueues:
		errs = append(errs, field.Invalid(p.Child("queues"), q.Queues, fmt.Sprintf("must not be greater than %d", maxQueues)))
	}
	hand := p.Child("handSize")
	switch bits := math.Ceil(math.Log2(float64(q.Queues)) * float64(q.HandSize)); {
	case q.HandSize <= 0:
		errs = append(errs, field.Invalid(hand, q.HandSize, positive))
	case q.HandSize > q.Queues:
		errs = append(errs, field.Invalid(hand, q.HandSize, fmt.Sprintf("should not be greater than queues (%d)", q.Queues)))
	case bits > maxHashBits:
		errs = append(errs, field.Invalid(hand, q.HandSize, fmt.Sprintf(
			"required entropy bits of deckSize %d and handSize %d should not be greater than %d", q.Queues, q.HandSize, maxHashBits)))
	}
	return errs
}

// declared are the rules that upstream declares on the types: they are about what has changed.
func declared(s, old *flowcontrolv1.PriorityLevelConfigurationSpec, p *field.Path) field.ErrorList {
	known := old != nil
	if !known {
		old = &flowcontrolv1.PriorityLevelConfigurationSpec{}
	} else if equality.Semantic.DeepEqual(s, old) {
		return nil
	}
	var errs field.ErrorList
	changed := !known || s.Type != old.Type
	if s.Exempt != nil && s.Type != flowcontrolv1.PriorityLevelEnablementExempt && (changed || !equality.Semantic.DeepEqual(s.Exempt, old.Exempt)) {
		errs = append(errs, field.Forbidden(p.Child("exempt"), ""))
	}
	if changed || !equality.Semantic.DeepEqual(s.Limited, old.Limited) {
		errs = append(errs, discriminated(s.Limited != nil, s.Type == flowcontrolv1.PriorityLevelEnablementLimited, p.Child("limited"))...)
	}
	if s.Type == "" && changed {
		errs = append(errs, field.Required(p.Child("type"), ""))
	}
	if s.Limited == nil || known && equality.Semantic.DeepEqual(s.Limited, old.Limited) {
		return errs
	}
	r, before, p := &s.Limited.LimitResponse, &flowcontrolv1.LimitResponse{}, p.Child("limited", "limitResponse")
	known = known && old.Limited != nil
	if known {
		before = &old.Limited.LimitResponse
	}
	changed = !known || r.Type != before.Type
	if changed || (r.Queuing == nil) != (before.Queuing == nil) || r.Queuing != nil && *r.Queuing != *before.Queuing {
		errs = append(errs, discriminated(r.Queuing != nil, r.Type == flowcontrolv1.LimitResponseTypeQueue, p.Child("queuing"))...)
	}
	if r.Type == "" && changed {
		errs = append(errs, field.Required(p.Child("type"), ""))
	}
	return errs
}

// discriminated requires a part of the object if its type is the one for that part, and forbids it otherwise.
func discriminated(set, wanted bool, p *field.Path) field.ErrorList {
	switch {
	case set && !wanted:
		return field.ErrorList{field.Forbidden(p, "")}
	case wanted && !set:
		return field.ErrorList{field.Required(p, "")}
	}
	return nil
}
