package authorization

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/selector"
)

// request is the subject of a review. Selectors that could not be parsed, wholly or in part, are omitted and
// reported.
type request struct {
	attributes           authz.Attributes
	fieldsErr, labelsErr error
}

func requestOf(spec authorizationv1.SubjectAccessReviewSpec) request {
	user := &authn.Identity{Name: spec.User, UID: spec.UID, Groups: spec.Groups}
	if spec.Extra != nil {
		user.Extra = make(map[string][]string, len(spec.Extra))
	}
	for key, values := range spec.Extra {
		user.Extra[key] = values
	}
	return newRequest(user, spec.ResourceAttributes, spec.NonResourceAttributes)
}

// newRequest takes resource or path; validation ensures that exactly one is set.
func newRequest(user *authn.Identity, resource *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes) request {
	if resource == nil {
		return request{attributes: authz.Attributes{User: user, Verb: path.Verb, Path: path.Path}}
	}
	r := request{attributes: authz.Attributes{
		User: user, Verb: resource.Verb, Namespace: resource.Namespace,
		Group: resource.Group, Version: cmp.Or(resource.Version, "*"), Resource: resource.Resource,
		Subresource: resource.Subresource, Name: resource.Name, ResourceRequest: true,
	}}
	if s := resource.FieldSelector; s != nil {
		if s.RawSelector != "" {
			r.attributes.FieldSelector, r.fieldsErr = selector.ParseFields(s.RawSelector)
		}
		if len(s.Requirements) > 0 {
			r.attributes.FieldSelector, r.fieldsErr = fieldTerms(s.Requirements)
		}
	}
	if s := resource.LabelSelector; s != nil {
		if s.RawSelector != "" {
			r.attributes.LabelSelector, r.labelsErr = selector.ParseLabels(s.RawSelector)
		}
		if len(s.Requirements) > 0 {
			r.attributes.LabelSelector, r.labelsErr = labelTerms(s.Requirements)
		}
	}
	return r
}

// fieldTerms returns the requirements that the API's field selectors can express.
func fieldTerms(requirements []metav1.FieldSelectorRequirement) ([]authz.Requirement, error) {
	var (
		terms []authz.Requirement
		errs  []error
	)
	for _, r := range requirements {
		var operator string
		switch r.Operator {
		case metav1.FieldSelectorOpIn:
			operator = string(selection.Equals)
		case metav1.FieldSelectorOpNotIn:
			operator = string(selection.NotEquals)
		}
		if operator == "" || len(r.Values) != 1 {
			errs = append(errs, fmt.Errorf("%s %s %q is not a field selector", r.Key, r.Operator, r.Values))
			continue
		}
		terms = append(terms, authz.Requirement{Key: r.Key, Operator: operator, Values: r.Values})
	}
	return terms, errors.Join(errs...)
}

func labelTerms(requirements []metav1.LabelSelectorRequirement) ([]authz.Requirement, error) {
	var (
		terms labels.Requirements
		errs  []error
	)
	for _, r := range requirements {
		var operator selection.Operator
		switch r.Operator {
		case metav1.LabelSelectorOpIn:
			operator = selection.In
		case metav1.LabelSelectorOpNotIn:
			operator = selection.NotIn
		case metav1.LabelSelectorOpExists:
			operator = selection.Exists
		case metav1.LabelSelectorOpDoesNotExist:
			operator = selection.DoesNotExist
		}
		term, err := labels.NewRequirement(r.Key, operator, r.Values)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		terms = append(terms, *term)
	}
	return selector.Labels(terms), errors.Join(errs...)
}

func decide(ctx context.Context, z authz.Authorizer, r request) authorizationv1.SubjectAccessReviewStatus {
	decision, err := z.Authorize(ctx, r.attributes)
	var problems []string
	if err != nil {
		problems = append(problems, err.Error())
	}
	ignored := func(name string, taken int, err error) {
		if err == nil {
			return
		}
		how := "ignored"
		if taken > 0 {
			how = "partially ignored"
		}
		problems = append(problems, fmt.Sprintf("spec.resourceAttributes.%s %s due to parse error", name, how))
	}
	ignored("fieldSelector", len(r.attributes.FieldSelector), r.fieldsErr)
	ignored("labelSelector", len(r.attributes.LabelSelector), r.labelsErr)
	return authorizationv1.SubjectAccessReviewStatus{
		Allowed: decision.Verdict == authz.Allow, Denied: decision.Verdict == authz.Deny,
		Reason: decision.Why(r.attributes), EvaluationError: strings.Join(problems, "; "),
	}
}
