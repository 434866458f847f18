package expressions

import (
	"context"

	"k8s.io/apiserver/pkg/authentication/user"
	upstream "k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/selector"
)

// NewAuthorizer returns an authorizer of this module as the library takes it; nil has no opinion on anything.
func NewAuthorizer(z authz.Authorizer) upstream.UnconditionalAuthorizer {
	if z == nil {
		z = authz.Func(func(context.Context, authz.Attributes) (authz.Decision, error) { return authz.Decision{}, nil })
	}
	return authorizer{z}
}

// User returns a user as the library takes it.
func User(who *authn.Identity) *user.DefaultInfo {
	return &user.DefaultInfo{Name: who.Name, UID: who.UID, Groups: who.Groups, Extra: who.Extra}
}

type authorizer struct{ authz.Authorizer }

var _ upstream.UnconditionalAuthorizer = authorizer{}

// Authorize implements upstream.UnconditionalAuthorizer.
func (z authorizer) Authorize(ctx context.Context, a upstream.Attributes) (upstream.Decision, string, error) {
	about := attributesOf(a)
	decision, err := z.Authorizer.Authorize(ctx, about)
	why := decision.Why(about)
	switch decision.Verdict {
	case authz.Allow:
		return upstream.DecisionAllow, why, err
	case authz.Deny:
		return upstream.DecisionDeny, why, err
	case authz.NoOpinion:
	}
	return upstream.DecisionNoOpinion, why, err
}

func attributesOf(a upstream.Attributes) authz.Attributes {
	out := authz.Attributes{
		Verb: a.GetVerb(), Group: a.GetAPIGroup(), Version: a.GetAPIVersion(), Resource: a.GetResource(), Subresource: a.GetSubresource(),
		Namespace: a.GetNamespace(), Name: a.GetName(), Path: a.GetPath(), ResourceRequest: a.IsResourceRequest(),
	}
	if who := a.GetUser(); who != nil {
		out.User = &authn.Identity{Name: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups(), Extra: who.GetExtra()}
	}
	// What could not be parsed is left out, as the attributes of a request leave it out.
	byField, _ := a.GetFieldSelector()
	byLabel, _ := a.GetLabelSelector()
	out.FieldSelector, out.LabelSelector = selector.Fields(byField), selector.Labels(byLabel)
	return out
}
