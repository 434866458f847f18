package cel

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	caching "k8s.io/apiserver/pkg/admission/plugin/authorizer"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/keelson-dev/keelson/admission/internal/expressions"
	"github.com/keelson-dev/keelson/admission/policy"
)

// input is what the library evaluates expressions on. It is the Memo of a policy.Input.
type input struct {
	attributes *admission.VersionedAttributes
	// request names the version that the policy has selected; asked, for match conditions, that of the client.
	request, asked *admissionv1.AdmissionRequest
	authorizer     authorizer.UnconditionalAuthorizer
}

// input returns the request as the library takes it.
func (c *Compiler) input(in *policy.Input) *input {
	if made, ok := in.Memo.(*input); ok {
		if made.attributes.VersionedObject.Object() != in.Object {
			made.attributes.UpdateObject(in.Object)
		}
		return made
	}
	r, requested := in.Request, in.Request.Requested()
	var who user.Info
	request := &admissionv1.AdmissionRequest{
		Kind: metav1.GroupVersionKind(in.Version.Kind), Resource: metav1.GroupVersionResource(in.Version.Resource), SubResource: r.Subresource,
		RequestKind: new(metav1.GroupVersionKind(requested.Kind)), RequestResource: new(metav1.GroupVersionResource(requested.Resource)),
		RequestSubResource: r.Subresource,
		Name:               r.Name, Namespace: r.Namespace, Operation: admissionv1.Operation(r.Operation), DryRun: new(r.DryRun),
		Options: runtime.RawExtension{Object: in.Options},
	}
	if u := r.User; u != nil {
		who = expressions.User(u)
		request.UserInfo = authenticationv1.UserInfo{Username: u.Name, UID: u.UID, Groups: u.Groups, Extra: map[string]authenticationv1.ExtraValue{}}
		for key, values := range u.Extra {
			request.UserInfo.Extra[key] = values
		}
	}
	asked := *request
	asked.Resource = *request.RequestResource
	made := &input{
		attributes: &admission.VersionedAttributes{
			Attributes: admission.NewAttributesRecord(in.Object, in.OldObject, requested.Kind, r.Namespace, r.Name, requested.Resource, r.Subresource,
				admission.Operation(r.Operation), in.Options, r.DryRun, who),
			VersionedKind: in.Version.Kind, VersionedObject: admission.NewLazyObject(in.Object), VersionedOldObject: admission.NewLazyObject(in.OldObject),
		},
		request: request, asked: &asked, authorizer: caching.NewCachingAuthorizer(c.authorizer),
	}
	in.Memo = made
	return made
}

// bindings are the variables that are not of the request. Those of messages do not have the authorizer.
func (i *input) bindings(param runtime.Object, authorizer bool) plugincel.OptionalVariableBindings {
	b := plugincel.OptionalVariableBindings{VersionedParams: param}
	if authorizer {
		b.Authorizer = i.authorizer
	}
	return b
}

// matches evaluates match conditions, which do not see the namespace.
func (i *input) matches(ctx context.Context, conditions plugincel.ConditionEvaluator, param runtime.Object, charge func(part string, limit, left int64)) (bool, error) {
	if conditions == nil {
		return true, nil
	}
	results, left, err := conditions.ForInput(ctx, i.attributes, i.asked, i.bindings(param, true), nil, celconfig.RuntimeCELCostBudgetMatchConditions)
	if err != nil {
		return false, err
	}
	charge("matchConditions", celconfig.RuntimeCELCostBudgetMatchConditions, left)
	return expressions.Met(results)
}
