package rbac

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/keelson-dev/keelson/authz"
)

// query is a request in the form used to match rules.
type query struct {
	verb, group, name, path string
	resource                string // with the subresource: "pods/log"
	anySubresource          string // "*/log", or empty
	isResource              bool
}

func newQuery(a authz.Attributes) query {
	q := query{verb: a.Verb, group: a.Group, name: a.Name, path: a.Path, resource: a.Resource, isResource: a.ResourceRequest}
	if a.Subresource != "" {
		q.resource += "/" + a.Subresource
		q.anySubresource = "*/" + a.Subresource
	}
	return q
}

// compiled indexes the rules of one role by resource. The rules themselves are the role's: shared and immutable.
type compiled struct {
	of         any // the role object
	rules      []rbacv1.PolicyRule
	byResource map[string][]int
	paths      []int
}

// match returns the index of the first rule that allows q.
func (c *compiled) match(q *query) (int, bool) {
	best := -1
	try := func(candidates []int) {
		for _, i := range candidates {
			if best >= 0 && i >= best {
				return
			}
			if allows(&c.rules[i], q) {
				best = i
				return
			}
		}
	}
	if !q.isResource {
		try(c.paths)
		return best, best >= 0
	}
	try(c.byResource[q.resource])
	try(c.byResource[rbacv1.ResourceAll])
	if q.anySubresource != "" {
		try(c.byResource[q.anySubresource])
	}
	return best, best >= 0
}

// allows matches a rule that lists the resource of q, or any rule if q has no resource.
func allows(r *rbacv1.PolicyRule, q *query) bool {
	if !hasOrAll(r.Verbs, q.verb) {
		return false
	}
	if !q.isResource {
		return slices.ContainsFunc(r.NonResourceURLs, func(pattern string) bool { return matchesPath(pattern, q.path) })
	}
	return hasOrAll(r.APIGroups, q.group) && (len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, q.name))
}

// hasOrAll reports whether list has value or a star.
func hasOrAll(list []string, value string) bool {
	return slices.Contains(list, "*") || slices.Contains(list, value)
}

// matchesPath reports whether pattern, which may end in stars, matches path.
func matchesPath(pattern, path string) bool {
	return pattern == path || strings.HasSuffix(pattern, "*") && strings.HasPrefix(path, strings.TrimRight(pattern, "*"))
}

type roleKey struct{ namespace, name string }

// compiler caches compiled roles as long as the role object stays the same.
type compiler struct {
	roles sync.Map // roleKey → *compiled
	count atomic.Int64
}

// maxCompiled bounds the cache, which may hold deleted roles. After it is reached the cache starts over; compiling a
// role takes microseconds.
const maxCompiled = 10_000

func (m *compiler) compile(key roleKey, of any, rules []rbacv1.PolicyRule) *compiled {
	if have, ok := m.roles.Load(key); ok && have.(*compiled).of == of {
		return have.(*compiled)
	}
	c := &compiled{of: of, rules: rules, byResource: map[string][]int{}}
	for i := range rules {
		for _, resource := range rules[i].Resources {
			c.byResource[resource] = append(c.byResource[resource], i)
		}
		if len(rules[i].NonResourceURLs) > 0 {
			c.paths = append(c.paths, i)
		}
	}
	if _, replaced := m.roles.Swap(key, c); !replaced && m.count.Add(1) > maxCompiled {
		m.roles.Clear()
		m.count.Store(0)
	}
	return c
}
