package rbac

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
)

// Explanation is a decision with everything that was considered.
type Explanation struct {
	Decision authz.Decision
	// Considered are the bindings that apply to the user, in order of evaluation: the first one with a Rule decides.
	Considered []Considered
}

// Considered is a binding that applies to the user of a request.
type Considered struct {
	// Namespace is empty for a ClusterRoleBinding.
	Namespace string
	Name      string
	Role      rbacv1.RoleRef
	// Subject is the subject of the binding that matches the user.
	Subject rbacv1.Subject
	// Rule is the role's first rule that allows the request, or nil. It is shared: read only.
	Rule *rbacv1.PolicyRule
	// Err is set when the role does not exist.
	Err error
}

// Explain decides as Authorize does and explains the decision. Without a user it fails with authz.ErrNoUser.
func (z *Authorizer) Explain(ctx context.Context, a authz.Attributes) (Explanation, error) {
	decision, err := z.Authorize(ctx, a)
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{Decision: decision}
	q := newQuery(a)
	bindings := z.applying(a.User, a.Namespace)
	for b, _, ok := bindings.next(); ok; b, _, ok = bindings.next() {
		c := Considered{Namespace: b.namespace, Name: b.name, Role: *b.ref, Subject: b.subject(a.User)}
		role, err := z.resolve(b.ref, b.namespace)
		if err != nil {
			c.Err = err
		} else if i, ok := role.match(&q); ok {
			c.Rule = &role.list[i]
		}
		e.Considered = append(e.Considered, c)
	}
	return e, nil
}

// String prints the explanation, a line for the verdict and one for each binding.
func (e Explanation) String() string {
	var s strings.Builder
	if e.Decision.Verdict == authz.Allow {
		s.WriteString("allowed")
	} else {
		s.WriteString("not allowed")
	}
	if len(e.Considered) == 0 {
		s.WriteString(": no binding applies to the user")
	}
	for _, c := range e.Considered {
		b := binding{namespace: c.Namespace, name: c.Name}
		fmt.Fprintf(&s, "\n  %s of %s %q by %s %q: ", b, c.Role.Kind, c.Role.Name, c.Subject.Kind, c.Subject.Name)
		switch {
		case c.Err != nil:
			s.WriteString(c.Err.Error())
		case c.Rule != nil:
			s.WriteString("allows by " + describe(*c.Rule))
		default:
			s.WriteString("no rule allows it")
		}
	}
	return s.String()
}

// WhoCan returns the subjects that may do what a describes, ignoring its User: first system:masters, which may do
// everything, then those of cluster role bindings and of the namespace's role bindings, each once. Service accounts
// always have their namespace. The error says which roles do not exist; the subjects returned with it are valid.
func (z *Authorizer) WhoCan(_ context.Context, a authz.Attributes) ([]rbacv1.Subject, error) {
	var (
		q        = newQuery(a)
		missing  []error
		subjects = []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: authn.GroupMasters}}
	)
	for _, b := range z.allBindings(a.Namespace) {
		role, err := z.resolve(b.ref, b.namespace)
		if err != nil {
			missing = append(missing, err)
			continue
		}
		if _, ok := role.match(&q); !ok {
			continue
		}
		for _, s := range b.subjects {
			if s.Kind == rbacv1.ServiceAccountKind && s.Namespace == "" {
				s.Namespace = b.namespace
			}
			if !slices.Contains(subjects, s) {
				subjects = append(subjects, s)
			}
		}
	}
	return subjects, aggregate(missing)
}

func (z *Authorizer) allBindings(namespace string) []binding {
	var all []binding
	for _, b := range z.in.ClusterRoleBindings.List("") {
		all = append(all, (*clusterBinding)(b).view())
	}
	if namespace != "" {
		for _, b := range z.in.RoleBindings.List(namespace) {
			all = append(all, (*localBinding)(b).view())
		}
	}
	return all
}
