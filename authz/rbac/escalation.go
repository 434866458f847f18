package rbac

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
)

var (
	// ErrNoUser: the context carries no user; see authn.NewContext.
	ErrNoUser = errors.New("no user on context")
	// ErrAggregation: only a user with all permissions may write an aggregated role.
	ErrAggregation = errors.New("must have cluster-admin privileges to use the aggregationRule")
)

// EscalationError refuses a write that would grant permissions that the writer does not have.
type EscalationError struct {
	// User is the writer.
	User *authn.Identity
	// Missing are the rules that the writer does not hold.
	Missing []rbacv1.PolicyRule
	// Unresolved says which of the writer's own roles do not exist; usually nil.
	Unresolved error
}

// Error implements error in upstream's words.
func (e *EscalationError) Error() string {
	lines := make([]string, 0, len(e.Missing))
	for _, rule := range e.Missing {
		lines = append(lines, describe(rule))
	}
	slices.Sort(lines)
	message := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s",
		e.User.Name, e.User.Groups, strings.Join(slices.Compact(lines), "\n"))
	if e.Unresolved != nil {
		message += fmt.Sprintf("; resolution errors: %v", []error{e.Unresolved})
	}
	return message
}

// Escalation checks writes of roles and bindings: users may only grant permissions that they have. The writer is the
// user in the context (authn.NewContext). Members of system:masters may write anything.
type Escalation struct {
	rules *Authorizer
	chain authz.Authorizer
}

// NewEscalation returns an Escalation that reads the writer's permissions from rules, and asks chain, the server's
// authorizer, for the verbs "escalate" and "bind".
func NewEscalation(rules *Authorizer, chain authz.Authorizer) *Escalation {
	return &Escalation{rules: rules, chain: chain}
}

// CheckRole checks the write of a Role or, without a namespace, of a ClusterRole. name is empty in a create; aggregates
// says that the role has, or had, an aggregation rule. It returns nil if the writer holds every one of rules, or has
// the verb escalate on the role. Otherwise it fails with an *EscalationError, ErrAggregation or ErrNoUser.
func (e *Escalation) CheckRole(ctx context.Context, namespace, name string, rules []rbacv1.PolicyRule, aggregates bool) error {
	resource := "clusterroles"
	if namespace != "" {
		resource = "roles"
	}
	user := authn.FromContext(ctx)
	if e.free(user) || e.allows(ctx, user, authz.Attributes{Verb: "escalate", Resource: resource, Namespace: namespace, Name: name}) {
		return nil
	}
	if err := e.holds(user, namespace, rules); err != nil {
		return err
	}
	if aggregates && e.holds(user, namespace, fullAuthority()) != nil {
		return ErrAggregation
	}
	return nil
}

// CheckBinding returns nil if the writer holds every rule of the role that ref names, or has the verb bind on it.
// namespace is that of the binding, or empty. Otherwise it fails with an *EscalationError, with a *NotFoundError if
// there is no such role, or with ErrNoUser.
func (e *Escalation) CheckBinding(ctx context.Context, namespace string, ref rbacv1.RoleRef) error {
	user := authn.FromContext(ctx)
	resource := map[string]string{"Role": "roles", "ClusterRole": "clusterroles"}[ref.Kind]
	if e.free(user) || resource != "" && e.allows(ctx, user, authz.Attributes{Verb: "bind", Resource: resource, Namespace: namespace, Name: ref.Name}) {
		return nil
	}
	rules, err := e.rules.RoleRules(ref, namespace)
	if err != nil {
		return err
	}
	return e.holds(user, namespace, rules)
}

func (e *Escalation) free(user *authn.Identity) bool {
	return user != nil && slices.Contains(user.Groups, authn.GroupMasters)
}

// allows asks for a verb on a role. An evaluation error does not allow it.
func (e *Escalation) allows(ctx context.Context, user *authn.Identity, a authz.Attributes) bool {
	if user == nil {
		return false
	}
	a.User, a.Group, a.Version, a.ResourceRequest = user, rbacv1.GroupName, "*", true
	decision, _ := e.chain.Authorize(ctx, a)
	return decision.Verdict == authz.Allow
}

func (e *Escalation) holds(user *authn.Identity, namespace string, wanted []rbacv1.PolicyRule) error {
	if user == nil {
		return ErrNoUser
	}
	held, err := e.rules.PolicyRules(user, namespace)
	missing := Uncovered(held, wanted)
	if len(missing) == 0 {
		return nil
	}
	return &EscalationError{User: user, Missing: compact(missing), Unresolved: err}
}

func fullAuthority() []rbacv1.PolicyRule {
	all := []string{"*"}
	return []rbacv1.PolicyRule{{Verbs: all, APIGroups: all, Resources: all}, {Verbs: all, NonResourceURLs: all}}
}
