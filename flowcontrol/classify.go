package flowcontrol

import (
	"cmp"
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
)

const (
	exempt   = flowcontrolv1.PriorityLevelConfigurationNameExempt
	catchAll = flowcontrolv1.PriorityLevelConfigurationNameCatchAll
)

// Config is a set of schemas with their levels. Make one with NewConfig.
type Config struct {
	rules  []rule // in the order of their precedence
	levels []*flowcontrolv1.PriorityLevelConfiguration
}

type rule struct {
	schema *flowcontrolv1.FlowSchema
	level  *flowcontrolv1.PriorityLevelConfiguration
}

// NewConfig returns what follows from these objects, which must not be changed afterwards. Levels whose specs contradict
// themselves are left out, as are schemas whose level is not there. The mandatory objects, named exempt and catch-all,
// are added if they are missing: as the first and the last schema, and as levels to which no other schema leads.
func NewConfig(schemas []*flowcontrolv1.FlowSchema, levels []*flowcontrolv1.PriorityLevelConfiguration) *Config {
	c := &Config{}
	byName := map[string]*flowcontrolv1.PriorityLevelConfiguration{}
	add := func(levels []*flowcontrolv1.PriorityLevelConfiguration) {
		for _, l := range levels {
			if byName[l.Name] == nil && consistent(l) {
				byName[l.Name] = l
				c.levels = append(c.levels, l)
			}
		}
	}
	add(levels)
	known := map[string]bool{}
	for _, s := range schemas {
		if l := byName[s.Spec.PriorityLevelConfiguration.Name]; l != nil && !known[s.Name] {
			known[s.Name] = true
			c.rules = append(c.rules, rule{s, l})
		}
	}
	slices.SortStableFunc(c.rules, func(a, b rule) int {
		return cmp.Or(cmp.Compare(a.schema.Spec.MatchingPrecedence, b.schema.Spec.MatchingPrecedence), strings.Compare(a.schema.Name, b.schema.Name))
	})
	mandatory, _ := DefaultLevels()
	add(mandatory)
	required, _ := DefaultSchemas()
	for _, s := range required {
		switch r := (rule{s, byName[s.Spec.PriorityLevelConfiguration.Name]}); {
		case known[s.Name]:
		case s.Name == exempt:
			c.rules = slices.Insert(c.rules, 0, r)
		default:
			c.rules = append(c.rules, r)
		}
	}
	return c
}

// consistent reports whether the parts of a level's spec fit each other. The API's validation sees to that.
func consistent(l *flowcontrolv1.PriorityLevelConfiguration) bool {
	if isExempt := l.Spec.Type == flowcontrolv1.PriorityLevelEnablementExempt; isExempt != (l.Name == exempt) || isExempt != (l.Spec.Exempt != nil) {
		return false
	}
	if (l.Spec.Type == flowcontrolv1.PriorityLevelEnablementLimited) != (l.Spec.Limited != nil) {
		return false
	}
	if l.Spec.Limited == nil {
		return l.Spec.Exempt != nil
	}
	response := l.Spec.Limited.LimitResponse
	q := response.Queuing
	return (response.Type == flowcontrolv1.LimitResponseTypeQueue) == (q != nil) && (q == nil || q.Queues >= 1 && q.HandSize >= 1 && q.HandSize <= q.Queues)
}

// Levels are all levels, with the mandatory ones.
func (c *Config) Levels() []*flowcontrolv1.PriorityLevelConfiguration { return c.levels }

// Classify returns what a request belongs to. The attributes need a user. A request that no schema matches belongs to
// catch-all.
func (c *Config) Classify(a authz.Attributes) Class {
	last := rule{}
	for _, r := range c.rules {
		if Matches(r.schema, a) {
			return Class{r.schema, r.level, flow(r, a)}
		}
		if r.schema.Name == catchAll {
			last = r
		}
	}
	return Class{last.schema, last.level, flow(last, a)}
}

// flow is what tells the flows of a schema apart.
func flow(r rule, a authz.Attributes) string {
	switch method := r.schema.Spec.DistinguisherMethod; {
	case method == nil || r.level.Spec.Exempt != nil:
		return ""
	case method.Type == flowcontrolv1.FlowDistinguisherMethodByNamespaceType:
		return a.Namespace
	}
	return a.User.Name
}

// Matches reports whether a schema is about a request, whose attributes need a user.
func Matches(s *flowcontrolv1.FlowSchema, a authz.Attributes) bool {
	for i := range s.Spec.Rules {
		r := &s.Spec.Rules[i]
		if about(r.Subjects, a.User) && (a.ResourceRequest && onResource(r.ResourceRules, a) || !a.ResourceRequest && onPath(r.NonResourceRules, a)) {
			return true
		}
	}
	return false
}

func about(subjects []flowcontrolv1.Subject, user *authn.Identity) bool {
	for i := range subjects {
		s := &subjects[i]
		switch {
		case s.Kind == flowcontrolv1.SubjectKindUser && s.User != nil:
			if s.User.Name == flowcontrolv1.NameAll || s.User.Name == user.Name {
				return true
			}
		case s.Kind == flowcontrolv1.SubjectKindGroup && s.Group != nil:
			if s.Group.Name == flowcontrolv1.NameAll || slices.Contains(user.Groups, s.Group.Name) {
				return true
			}
		case s.Kind == flowcontrolv1.SubjectKindServiceAccount && s.ServiceAccount != nil:
			if isAccount(user.Name, s.ServiceAccount) {
				return true
			}
		}
	}
	return false
}

// isAccount reports whether a user is the service account, or one of the namespace if the account's name is "*".
func isAccount(user string, account *flowcontrolv1.ServiceAccountSubject) bool {
	rest, ok := strings.CutPrefix(user, "system:serviceaccount:")
	if !ok {
		return false
	}
	name, ok := strings.CutPrefix(rest, account.Namespace)
	if !ok {
		return false
	}
	name, ok = strings.CutPrefix(name, ":")
	return ok && (account.Name == flowcontrolv1.NameAll || name == account.Name)
}

func onResource(rules []flowcontrolv1.ResourcePolicyRule, a authz.Attributes) bool {
	resource := a.Resource
	for i := range rules {
		r := &rules[i]
		switch {
		case !in(r.Verbs, a.Verb) || !in(r.APIGroups, a.Group) || !inResources(r.Resources, resource, a.Subresource):
		case a.Namespace == "" && r.ClusterScope, a.Namespace != "" && in(r.Namespaces, a.Namespace):
			return true
		}
	}
	return false
}

func onPath(rules []flowcontrolv1.NonResourcePolicyRule, a authz.Attributes) bool {
	for i := range rules {
		if in(rules[i].Verbs, a.Verb) && slices.ContainsFunc(rules[i].NonResourceURLs, func(url string) bool { return covers(url, a.Path) }) {
			return true
		}
	}
	return false
}

// covers reports whether a path is the URL, or below it: with or without a star at its end.
func covers(url, path string) bool {
	if url == flowcontrolv1.NonResourceAll || url == path {
		return true
	}
	prefix := strings.TrimSuffix(strings.TrimSuffix(url, "*"), "/")
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && strings.HasPrefix(rest, "/")
}

// in reports whether a list has the value. "*" has all if it is the only element.
func in(list []string, value string) bool {
	return len(list) == 1 && list[0] == flowcontrolv1.VerbAll || slices.Contains(list, value)
}

// inResources is in for a resource with its subresource.
func inResources(list []string, resource, subresource string) bool {
	if subresource == "" {
		return in(list, resource)
	}
	if len(list) == 1 && list[0] == flowcontrolv1.ResourceAll {
		return true
	}
	return slices.ContainsFunc(list, func(s string) bool {
		rest, ok := strings.CutPrefix(s, resource)
		return ok && len(rest) == len(subresource)+1 && rest[0] == '/' && rest[1:] == subresource
	})
}
