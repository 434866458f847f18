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

// rules are the rules of a role, which are shared and immutable, and of a role of many an index.
type rules struct {
	list  []rbacv1.PolicyRule
	index *ruleIndex
}

// ruleIndex finds the rules about a resource, or about paths, by their places in the role.
type ruleIndex struct {
	byResource map[string][]int
	paths      []int
}

// match returns the place of the first rule that allows q.
func (r rules) match(q *query) (int, bool) {
	if r.index == nil {
		for i := range r.list {
			if (!q.isResource || listsResource(&r.list[i], q)) && allows(&r.list[i], q) {
				return i, true
			}
		}
		return -1, false
	}
	best := -1
	try := func(candidates []int) {
		for _, i := range candidates {
			if best >= 0 && i >= best {
				return
			}
			if allows(&r.list[i], q) {
				best = i
				return
			}
		}
	}
	if !q.isResource {
		try(r.index.paths)
		return best, best >= 0
	}
	try(r.index.byResource[q.resource])
	try(r.index.byResource[rbacv1.ResourceAll])
	if q.anySubresource != "" {
		try(r.index.byResource[q.anySubresource])
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

const (
	// manyRules is from how many rules on an index is worth its memory. Most roles have one to five.
	manyRules = 8
	// maxIndexes bounds the indexes kept, which may be of roles that are gone. After it is reached they are built anew, each
	// in microseconds.
	maxIndexes = 1000
)

// compiler keeps the indexes of roles of many rules. Objects are immutable, so a role that changed is another object.
type compiler struct {
	indexes sync.Map // *rbacv1.Role or *rbacv1.ClusterRole → *ruleIndex
	count   atomic.Int64
}

func (c *compiler) of(role any, list []rbacv1.PolicyRule) rules {
	if len(list) < manyRules {
		return rules{list: list}
	}
	if have, ok := c.indexes.Load(role); ok {
		return rules{list, have.(*ruleIndex)}
	}
	index := &ruleIndex{byResource: map[string][]int{}}
	for i := range list {
		for _, resource := range list[i].Resources {
			index.byResource[resource] = append(index.byResource[resource], i)
		}
		if len(list[i].NonResourceURLs) > 0 {
			index.paths = append(index.paths, i)
		}
	}
	if _, loaded := c.indexes.LoadOrStore(role, index); !loaded && c.count.Add(1) > maxIndexes {
		c.indexes.Clear()
		c.count.Store(0)
	}
	return rules{list, index}
}
