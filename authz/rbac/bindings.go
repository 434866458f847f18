package rbac

import (
	"fmt"
	"iter"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/keelson-dev/keelson/authn"
)

const (
	bySubject     = "authz/rbac.subject"
	accountPrefix = "system:serviceaccount:"
)

// binding is a RoleBinding or a ClusterRoleBinding, whose namespace is empty.
type binding struct {
	namespace, name string
	ref             rbacv1.RoleRef
	subjects        []rbacv1.Subject
}

// subjectKeys are the index keys of a binding. A service account is indexed as a user, so that a decision need not
// parse user names.
func subjectKeys(subjects []rbacv1.Subject, namespace, prefix string) []string {
	keys := make([]string, 0, len(subjects))
	for _, s := range subjects {
		if kind, name := identify(s, namespace); kind != 0 {
			keys = append(keys, prefix+string(kind)+name)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// identify returns the user or group of a subject: kind 'u' for a user, 'g' for a group, 0 for neither. namespace is
// that of the binding, the default for service accounts.
func identify(s rbacv1.Subject, namespace string) (kind byte, name string) {
	switch s.Kind {
	case rbacv1.UserKind:
		return 'u', s.Name
	case rbacv1.GroupKind:
		return 'g', s.Name
	case rbacv1.ServiceAccountKind:
		if s.Namespace != "" {
			namespace = s.Namespace
		}
		if namespace == "" {
			return 0, ""
		}
		return 'u', accountPrefix + namespace + ":" + s.Name
	default:
		return 0, ""
	}
}

// bindingsOf yields the bindings that apply to user: the cluster's in the order of their names,
// then the namespace's.
func (z *Authorizer) bindingsOf(user *authn.Identity, namespace string) iter.Seq[binding] {
	return func(yield func(binding) bool) {
		keys := make([]string, 0, 1+len(user.Groups))
		keys = append(keys, "u"+user.Name)
		for _, group := range user.Groups {
			keys = append(keys, "g"+group)
		}
		for b := range merged(z.in.ClusterRoleBindings, keys, "", (*rbacv1.ClusterRoleBinding).GetName) {
			if !yield(binding{name: b.Name, ref: b.RoleRef, subjects: b.Subjects}) {
				return
			}
		}
		if namespace == "" {
			return
		}
		for b := range merged(z.in.RoleBindings, keys, namespace+"/", (*rbacv1.RoleBinding).GetName) {
			if !yield(binding{b.Namespace, b.Name, b.RoleRef, b.Subjects}) {
				return
			}
		}
	}
}

// merged yields the objects indexed under any of keys, once each, in the order of their names.
func merged[T any](in Indexed[T], keys []string, prefix string, name func(T) string) iter.Seq[T] {
	return func(yield func(T) bool) {
		lists := make([][]T, 0, len(keys))
		for _, key := range keys {
			if list := in.ByIndex(bySubject, prefix+key); len(list) > 0 {
				lists = append(lists, list)
			}
		}
		for len(lists) > 0 {
			first := 0
			for i := 1; i < len(lists); i++ {
				if name(lists[i][0]) < name(lists[first][0]) {
					first = i
				}
			}
			next := lists[first][0]
			for i := range lists {
				if name(lists[i][0]) == name(next) {
					lists[i] = lists[i][1:]
				}
			}
			lists = slices.DeleteFunc(lists, func(list []T) bool { return len(list) == 0 })
			if !yield(next) {
				return
			}
		}
	}
}

// subject returns the first subject that matches user. There is one: the binding may have been replaced since it was
// found, but objects are immutable.
func (b binding) subject(user *authn.Identity) rbacv1.Subject {
	for _, s := range b.subjects {
		switch kind, name := identify(s, b.namespace); {
		case kind == 'u' && name == user.Name, kind == 'g' && slices.Contains(user.Groups, name):
			return s
		}
	}
	return rbacv1.Subject{}
}

// describe names the binding, its role and the subject by which it applies to user.
func (b binding) describe(user *authn.Identity) string {
	s := b.subject(user)
	whom := s.Name
	if s.Kind == rbacv1.ServiceAccountKind {
		namespace := s.Namespace
		if namespace == "" {
			namespace = b.namespace
		}
		whom += "/" + namespace
	}
	return fmt.Sprintf("%s of %s %q to %s %q", b, b.ref.Kind, b.ref.Name, s.Kind, whom)
}

// String names the binding.
func (b binding) String() string {
	if b.namespace == "" {
		return fmt.Sprintf("ClusterRoleBinding %q", b.name)
	}
	return fmt.Sprintf("RoleBinding %q", b.name+"/"+b.namespace)
}
