package authorization

import (
	"context"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/registry"
)

// Kinds returns the kinds of the group in discovery order. z answers access reviews, rules answers rules
// reviews; if rules is nil, these are empty and marked as incomplete.
func Kinds(z authz.Authorizer, rules authz.RuleResolver) []registry.Kind {
	return []registry.Kind{localSubjectAccessReviews(z), selfSubjectAccessReviews(z), selfSubjectRulesReviews(rules), subjectAccessReviews(z)}
}

func subjectAccessReviews(z authz.Authorizer) registry.Kind {
	return registry.Review[*authorizationv1.SubjectAccessReview]{
		Names:        registry.Names{Kind: "SubjectAccessReview", Plural: "subjectaccessreviews", Singular: "subjectaccessreview"},
		GroupVersion: authorizationv1.SchemeGroupVersion,
		New:          func() *authorizationv1.SubjectAccessReview { return &authorizationv1.SubjectAccessReview{} },
		Answer: func(ctx context.Context, _ registry.Access, _ string, review *authorizationv1.SubjectAccessReview) (runtime.Object, error) {
			if errs := validateSubjectAccessReview(review); len(errs) > 0 {
				return nil, invalid(errs)
			}
			review.Status = decide(ctx, z, requestOf(review.Spec))
			return review, nil
		},
	}.Kind()
}

func localSubjectAccessReviews(z authz.Authorizer) registry.Kind {
	return registry.Review[*authorizationv1.LocalSubjectAccessReview]{
		Names:        registry.Names{Kind: "LocalSubjectAccessReview", Plural: "localsubjectaccessreviews", Singular: "localsubjectaccessreview"},
		GroupVersion: authorizationv1.SchemeGroupVersion,
		Namespaced:   true,
		New:          func() *authorizationv1.LocalSubjectAccessReview { return &authorizationv1.LocalSubjectAccessReview{} },
		Answer: func(ctx context.Context, _ registry.Access, namespace string, review *authorizationv1.LocalSubjectAccessReview) (runtime.Object, error) {
			if review.Namespace == "" {
				review.Namespace = namespace
			}
			if errs := validateLocalSubjectAccessReview(review); len(errs) > 0 {
				return nil, invalid(errs)
			}
			if namespace == "" {
				return nil, badRequest("localsubjectaccessreviews", "namespace is required on this type: ")
			}
			if namespace != review.Namespace {
				return nil, badRequest("localsubjectaccessreviews", "spec.resourceAttributes.namespace must match namespace: "+namespace)
			}
			review.Status = decide(ctx, z, requestOf(review.Spec))
			return review, nil
		},
	}.Kind()
}

func selfSubjectAccessReviews(z authz.Authorizer) registry.Kind {
	return registry.Review[*authorizationv1.SelfSubjectAccessReview]{
		Names:        registry.Names{Kind: "SelfSubjectAccessReview", Plural: "selfsubjectaccessreviews", Singular: "selfsubjectaccessreview"},
		GroupVersion: authorizationv1.SchemeGroupVersion,
		New:          func() *authorizationv1.SelfSubjectAccessReview { return &authorizationv1.SelfSubjectAccessReview{} },
		Answer: func(ctx context.Context, _ registry.Access, _ string, review *authorizationv1.SelfSubjectAccessReview) (runtime.Object, error) {
			if errs := validateSelfSubjectAccessReview(review); len(errs) > 0 {
				return nil, invalid(errs)
			}
			user := authn.FromContext(ctx)
			if user == nil {
				return nil, badRequest("selfsubjectaccessreviews", "no user present on request")
			}
			review.Status = decide(ctx, z, newRequest(user, review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes))
			return review, nil
		},
	}.Kind()
}

func selfSubjectRulesReviews(rules authz.RuleResolver) registry.Kind {
	return registry.Review[*authorizationv1.SelfSubjectRulesReview]{
		Names:        registry.Names{Kind: "SelfSubjectRulesReview", Plural: "selfsubjectrulesreviews", Singular: "selfsubjectrulesreview"},
		GroupVersion: authorizationv1.SchemeGroupVersion,
		New:          func() *authorizationv1.SelfSubjectRulesReview { return &authorizationv1.SelfSubjectRulesReview{} },
		Answer: func(ctx context.Context, _ registry.Access, _ string, review *authorizationv1.SelfSubjectRulesReview) (runtime.Object, error) {
			user := authn.FromContext(ctx)
			if user == nil {
				return nil, badRequest("selfsubjectrulesreviews", "no user present on request")
			}
			if review.Spec.Namespace == "" {
				return nil, badRequest("selfsubjectrulesreviews", "no namespace on request")
			}
			return &authorizationv1.SelfSubjectRulesReview{
				TypeMeta: review.TypeMeta,
				Status:   listRules(ctx, rules, user, review.Spec.Namespace),
			}, nil
		},
	}.Kind()
}

func listRules(ctx context.Context, resolver authz.RuleResolver, user *authn.Identity, namespace string) authorizationv1.SubjectRulesReviewStatus {
	// Both lists are required fields: empty, not absent.
	status := authorizationv1.SubjectRulesReviewStatus{
		ResourceRules:    []authorizationv1.ResourceRule{},
		NonResourceRules: []authorizationv1.NonResourceRule{},
		Incomplete:       true,
	}
	if resolver == nil {
		return status
	}
	rules, err := resolver.RulesFor(ctx, user, namespace)
	status.Incomplete = rules.Incomplete
	if err != nil {
		status.EvaluationError = err.Error()
	}
	for _, r := range rules.Resources {
		status.ResourceRules = append(status.ResourceRules, authorizationv1.ResourceRule{
			Verbs: r.Verbs, APIGroups: r.Groups, Resources: r.Resources, ResourceNames: r.ResourceNames,
		})
	}
	for _, r := range rules.Paths {
		status.NonResourceRules = append(status.NonResourceRules, authorizationv1.NonResourceRule{Verbs: r.Verbs, NonResourceURLs: r.Paths})
	}
	return status
}

func badRequest(resource, message string) error {
	return &registry.Error{Err: registry.ErrBadRequest, Resource: groupResource(resource), Message: message}
}

// invalid names no kind; nor does upstream.
func invalid(errs field.ErrorList) error {
	return &registry.Error{Err: registry.ErrInvalid, Resource: groupResource(""), Fields: errs}
}

func groupResource(resource string) schema.GroupResource {
	return schema.GroupResource{Group: authorizationv1.GroupName, Resource: resource}
}
