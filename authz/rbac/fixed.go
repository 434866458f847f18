package rbac

import (
	"context"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/keelson-dev/keelson/authz"
)

// Rules is an Authorizer that allows every user what the rules say, without bindings.
type Rules []rbacv1.PolicyRule

// Authorize implements authz.Authorizer. It gives no reasons and never fails.
func (r Rules) Authorize(_ context.Context, a authz.Attributes) (authz.Decision, error) {
	q := newQuery(a)
	for i := range r {
		if allows(&r[i], &q) && (!q.isResource || listsResource(&r[i], &q)) {
			return authz.Decision{Verdict: authz.Allow}, nil
		}
	}
	return authz.Decision{}, nil
}

func listsResource(r *rbacv1.PolicyRule, q *query) bool {
	return hasOrAll(r.Resources, q.resource) || q.anySubresource != "" && slices.Contains(r.Resources, q.anySubresource)
}
