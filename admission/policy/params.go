package policy

import (
	"context"
	"errors"
	"fmt"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	errParamNamespace = errors.New("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
	errParamScope     = errors.New("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
	errParamRefTwice  = errors.New("paramRef.name and paramRef.selector are mutually exclusive")
	errParamRef       = errors.New("one of name or selector must be provided")
	errNoParams       = errors.New("no params found for policy binding with `Deny` parameterNotFoundAction")
)

// paramsOf returns the objects of the kind that a policy names as that of its parameters; nil if it names none.
func (c *call) paramsOf(p *policySpec) (Params, error) {
	if p.paramKind == nil {
		return nil, nil //nolint:nilnil // it has no parameters
	}
	if known := c.params[p.kind]; known != nil {
		return known, nil
	}
	params, ok := c.plugin.options.Params(p.kind)
	if !ok {
		return nil, fmt.Errorf("failed to find resource referenced by paramKind: '%v'", p.kind)
	}
	if c.params == nil {
		c.params = make(map[schema.GroupVersionKind]Params, 1)
	}
	c.params[p.kind] = params
	return params, nil
}

// collect returns the objects with each of which a policy is to be evaluated for a binding; a single nil if it has none.
// They name their type, but not those with a Go type in mutating policies: so it is upstream.
func (c *call) collect(ctx context.Context, from Params, p *policySpec, ref *registrationv1.ParamRef) ([]runtime.Object, error) {
	if from == nil || ref == nil {
		return []runtime.Object{nil}, nil
	}
	namespace := ""
	switch {
	case !from.Namespaced() && ref.Namespace != "":
		return nil, errParamScope
	case from.Namespaced():
		if namespace = ref.Namespace; namespace == "" {
			namespace = c.request.Namespace
		}
		if namespace == "" {
			return nil, errParamNamespace
		}
	}
	found, err := find(ctx, from, namespace, ref)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 && ref.ParameterNotFoundAction != nil && *ref.ParameterNotFoundAction == registrationv1.DenyAction {
		return nil, errNoParams
	}
	all := make([]runtime.Object, len(found))
	for i, obj := range found {
		_, untyped := obj.(runtime.Unstructured)
		if all[i] = obj; untyped || p.typedParams {
			all[i] = named(obj, p.kind)
		}
	}
	return all, nil
}

// find returns the objects in a namespace that a reference names or selects.
func find(ctx context.Context, from Params, namespace string, ref *registrationv1.ParamRef) ([]runtime.Object, error) {
	switch {
	case ref.Name != "" && ref.Selector != nil:
		return nil, errParamRefTwice
	case ref.Name != "":
		obj, err := from.Get(ctx, namespace, ref.Name)
		if obj == nil || err != nil {
			return nil, err
		}
		return []runtime.Object{obj}, nil
	case ref.Selector != nil:
		selector, err := metav1.LabelSelectorAsSelector(ref.Selector)
		if err != nil {
			return nil, err
		}
		return from.List(ctx, namespace, selector)
	}
	return nil, errParamRef
}
