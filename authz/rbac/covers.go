package rbac

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Uncovered returns the part of wanted that held does not allow: rules of one verb on one resource, with at most one
// name, or on one path.
func Uncovered(held, wanted []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var uncovered []rbacv1.PolicyRule
	for _, rule := range wanted {
		for _, atom := range atoms(rule) {
			if !slices.ContainsFunc(held, func(have rbacv1.PolicyRule) bool { return covers(&have, &atom) }) {
				uncovered = append(uncovered, atom)
			}
		}
	}
	return uncovered
}

// atoms splits a rule into its smallest parts.
func atoms(r rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var all []rbacv1.PolicyRule
	for _, group := range r.APIGroups {
		for _, resource := range r.Resources {
			for _, verb := range r.Verbs {
				atom := rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{verb}}
				if len(r.ResourceNames) == 0 {
					all = append(all, atom)
				}
				for _, name := range r.ResourceNames {
					atom.ResourceNames = []string{name}
					all = append(all, atom)
				}
			}
		}
	}
	for _, url := range r.NonResourceURLs {
		for _, verb := range r.Verbs {
			all = append(all, rbacv1.PolicyRule{NonResourceURLs: []string{url}, Verbs: []string{verb}})
		}
	}
	return all
}

// covers reports whether one rule allows everything in an atom. A pattern in the atom is covered only by the same
// pattern or a wider one.
func covers(have, atom *rbacv1.PolicyRule) bool {
	if !hasOrAll(have.Verbs, atom.Verbs[0]) {
		return false
	}
	if len(have.ResourceNames) > 0 && (len(atom.ResourceNames) == 0 || !slices.Contains(have.ResourceNames, atom.ResourceNames[0])) {
		return false
	}
	if len(atom.NonResourceURLs) > 0 {
		return slices.ContainsFunc(have.NonResourceURLs, func(pattern string) bool { return matchesPath(pattern, atom.NonResourceURLs[0]) })
	}
	return hasOrAll(have.APIGroups, atom.APIGroups[0]) && coversResource(have.Resources, atom.Resources[0])
}

func coversResource(have []string, resource string) bool {
	if hasOrAll(have, resource) {
		return true
	}
	_, sub, ok := strings.Cut(resource, "/")
	return ok && slices.Contains(have, "*/"+sub)
}

// compact joins atoms that differ only in their verb.
func compact(atoms []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	type subject struct {
		group, resource, name string
		named                 bool
	}
	var (
		all []rbacv1.PolicyRule
		at  = map[subject]int{}
	)
	for _, atom := range atoms {
		if len(atom.NonResourceURLs) > 0 {
			all = append(all, atom)
			continue
		}
		s := subject{group: atom.APIGroups[0], resource: atom.Resources[0], named: len(atom.ResourceNames) > 0}
		if s.named {
			s.name = atom.ResourceNames[0]
		}
		if i, ok := at[s]; ok {
			all[i].Verbs = append(all[i].Verbs, atom.Verbs...)
			continue
		}
		at[s] = len(all)
		all = append(all, *atom.DeepCopy())
	}
	return all
}

// describe prints a rule as escalation errors do.
func describe(r rbacv1.PolicyRule) string {
	var parts []string
	for _, part := range []struct {
		name   string
		values []string
	}{
		{"APIGroups", r.APIGroups}, {"Resources", r.Resources}, {"NonResourceURLs", r.NonResourceURLs},
		{"ResourceNames", r.ResourceNames}, {"Verbs", r.Verbs},
	} {
		if len(part.values) > 0 {
			parts = append(parts, fmt.Sprintf("%s:%q", part.name, part.values))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
