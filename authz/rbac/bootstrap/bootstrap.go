package bootstrap

import (
	"cmp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/authz/rbac"
)

// Verbs as upstream groups them.
const (
	read      = "get list watch"
	write     = "create delete deletecollection patch update"
	readWrite = "create delete deletecollection get list patch update watch"
)

const controllerPrefix = "system:controller:"

// Policy returns the default policy, sorted by name. The caller owns it.
func Policy() rbac.Policy {
	controllers := slices.Concat(workloadControllers(), jobControllers(), clusterControllers(), networkControllers(),
		identityControllers(), storageControllers(), protectionControllers(), deviceControllers())
	roles := slices.Concat(general(), aggregated(), nodes(), controlPlane(), scheduling(), certificates(), controllers, people())
	for _, role := range roles {
		if role.AggregationRule != nil {
			// The tables are our own, so their selectors parse.
			role.Rules, _ = rbac.Aggregate(role, roles)
		}
	}
	policy := rbac.Policy{
		ClusterRoles:        roles,
		ClusterRoleBindings: slices.Concat(bindings(), controllerBindings(controllers)),
		Roles:               namespaceRoles(),
		RoleBindings:        namespaceBindings(),
	}
	slices.SortFunc(policy.ClusterRoles, byName)
	slices.SortFunc(policy.ClusterRoleBindings, byName)
	slices.SortFunc(policy.Roles, byName)
	slices.SortFunc(policy.RoleBindings, byName)
	return policy
}

// NodeRules returns the rules of the role system:node, which upstream's Node authorizer grants to every node for what
// does not depend on the node. The caller owns them.
func NodeRules() []rbacv1.PolicyRule {
	return nodes()[0].Rules
}

// people are the roles for human users, in the order of inclusion: each is complete before the next one aggregates it.
func people() []*rbacv1.ClusterRole {
	return []*rbacv1.ClusterRole{
		gathering("view", "edit"),
		gathering("edit", "admin"),
		gathering("admin", ""),
	}
}

// gathering returns a role that aggregates the roles labelled for it; the role named into, if any, aggregates it in
// turn.
func gathering(name, into string) *rbacv1.ClusterRole {
	r := role(name)
	r.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{
		MatchLabels: map[string]string{aggregateTo(name): "true"},
	}}}
	if into != "" {
		r.Labels[aggregateTo(into)] = "true"
	}
	return r
}

func aggregateTo(name string) string { return "rbac.authorization.k8s.io/aggregate-to-" + name }

func role(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	r := &rbacv1.ClusterRole{ObjectMeta: meta("", name), Rules: rules}
	if target, ok := strings.CutPrefix(name, "system:aggregate-to-"); ok {
		r.Labels[aggregateTo(target)] = "true"
	}
	return r
}

func controller(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return role(controllerPrefix+name, rules...)
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name,
		Labels:      map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"},
		Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"},
	}
}

// on returns the rule that allows verbs on resources of groups. Each is a list separated by blanks; the core group is
// written "core".
func on(verbs, groups, resources string) rbacv1.PolicyRule {
	rule := rbacv1.PolicyRule{
		Verbs:     strings.Fields(verbs),
		APIGroups: strings.Fields(groups),
		Resources: strings.Fields(resources),
	}
	for i, group := range rule.APIGroups {
		if group == "core" {
			rule.APIGroups[i] = ""
		}
	}
	return rule
}

// named is on, limited to resources with these names.
func named(verbs, groups, resources, names string) rbacv1.PolicyRule {
	rule := on(verbs, groups, resources)
	rule.ResourceNames = strings.Fields(names)
	return rule
}

// paths returns the rule that allows verbs on URL paths.
func paths(verbs, urls string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), NonResourceURLs: strings.Fields(urls)}
}

// recordEvents is part of nearly every component's role.
func recordEvents() rbacv1.PolicyRule {
	return on("create patch update", "core events.k8s.io", "events")
}

func byName[T metav1.Object](a, b T) int {
	return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
}
