package rbac

import (
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
)

const (
	byUser        = "authz/rbac.user"
	byGroup       = "authz/rbac.group"
	accountPrefix = "system:serviceaccount:"
)

// identified returns the index values of a binding: its users or its groups. A service account is indexed as a user, so
// that a decision need not parse user names. namespace is that of the binding.
func identified(wanted identity, subjects []rbacv1.Subject, namespace string) []string {
	var names []string
	for _, s := range subjects {
		if kind, name := identify(s, namespace); kind == wanted {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// identity is what a subject names.
type identity byte

const (
	nobody identity = iota
	aUser
	aGroup
)

// identify returns the user or group of a subject. namespace is that of the binding, the default for service accounts.
func identify(s rbacv1.Subject, namespace string) (identity, string) {
	switch s.Kind {
	case rbacv1.UserKind:
		return aUser, s.Name
	case rbacv1.GroupKind:
		return aGroup, s.Name
	case rbacv1.ServiceAccountKind:
		if s.Namespace != "" {
			namespace = s.Namespace
		}
		if namespace == "" {
			return nobody, ""
		}
		return aUser, accountPrefix + namespace + ":" + s.Name
	default:
		return nobody, ""
	}
}

// binding is a RoleBinding or a ClusterRoleBinding, whose namespace is empty.
type binding struct {
	namespace, name string
	ref             *rbacv1.RoleRef
	subjects        []rbacv1.Subject
}

// clusterBinding and localBinding are the bindings as the reasons of decisions.
type (
	clusterBinding rbacv1.ClusterRoleBinding
	localBinding   rbacv1.RoleBinding
)

func (b *clusterBinding) view() binding {
	return binding{name: b.Name, ref: &b.RoleRef, subjects: b.Subjects}
}

func (b *localBinding) view() binding {
	return binding{b.Namespace, b.Name, &b.RoleRef, b.Subjects}
}

// Reason implements authz.Reasoner.
func (b *clusterBinding) Reason(a authz.Attributes) string { return allowedBy(b.view(), a.User) }

// Reason implements authz.Reasoner.
func (b *localBinding) Reason(a authz.Attributes) string { return allowedBy(b.view(), a.User) }

func allowedBy(b binding, user *authn.Identity) string {
	return "RBAC: allowed by " + b.describe(user)
}

// applying yields the bindings that apply to a user: the cluster's in the order of their names, then the namespace's, for
// which it looks only then.
type applying struct {
	in        *Sources
	user      *authn.Identity
	namespace string // empty when there is nothing more to look for
	cluster   lists[*rbacv1.ClusterRoleBinding]
	local     lists[*rbacv1.RoleBinding]
}

func (z *Authorizer) applying(user *authn.Identity, namespace string) applying {
	a := applying{in: &z.in, user: user, namespace: namespace}
	a.cluster.find(z.in.ClusterRoleBindings, user, "")
	return a
}

// next returns the next binding, and its object as the reason of a decision.
func (a *applying) next() (binding, authz.Reasoner, bool) {
	if b := (*clusterBinding)(a.cluster.next()); b != nil {
		return b.view(), b, true
	}
	if a.namespace != "" {
		a.local.find(a.in.RoleBindings, a.user, a.namespace)
		a.namespace = ""
	}
	if b := (*localBinding)(a.local.next()); b != nil {
		return b.view(), b, true
	}
	return binding{}, nil, false
}

type named interface {
	comparable
	GetName() string
}

// lists are the objects indexed under a user and its groups, each list in the order of names.
type lists[T named] struct {
	few  [8][]T // so that users of few groups need no allocation
	many [][]T  // those for which few has no room
	n    int
}

func (l *lists[T]) find(in Indexed[T], user *authn.Identity, namespace string) {
	l.add(in.ByIndexIn(byUser, user.Name, namespace))
	for _, group := range user.Groups {
		l.add(in.ByIndexIn(byGroup, group, namespace))
	}
}

func (l *lists[T]) add(list []T) {
	if len(list) == 0 {
		return
	}
	if l.n >= len(l.few) {
		l.many = append(l.many, nil)
	}
	l.n++
	*l.at(l.n - 1) = list
}

func (l *lists[T]) at(i int) *[]T {
	if i < len(l.few) {
		return &l.few[i]
	}
	return &l.many[i-len(l.few)]
}

// next removes the object of the lowest name from all lists that have it, and returns it, or the zero T if all are empty.
func (l *lists[T]) next() (first T) {
	var none T
	for i := range l.n {
		if list := *l.at(i); len(list) > 0 && (first == none || list[0].GetName() < first.GetName()) {
			first = list[0]
		}
	}
	for i := range l.n {
		if list := l.at(i); len(*list) > 0 && (*list)[0].GetName() == first.GetName() {
			*list = (*list)[1:]
		}
	}
	return first
}

// subject returns the first subject that matches user. There is one: the binding may have been replaced since it was
// found, but objects are immutable.
func (b binding) subject(user *authn.Identity) rbacv1.Subject {
	for _, s := range b.subjects {
		switch kind, name := identify(s, b.namespace); {
		case kind == aUser && name == user.Name, kind == aGroup && slices.Contains(user.Groups, name):
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
