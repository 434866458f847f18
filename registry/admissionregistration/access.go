package admissionregistration

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
)

// Read is a request for the parameters of policies.
type Read struct {
	Verb            string                      // get or list
	Resource        schema.GroupVersionResource // parts that are not known are "*"
	Namespace, Name string                      // "*" is any; an empty namespace is all
}

// Access is what the kinds of policies ask about those who write them: as upstream, a server lets nobody name parameters that
// they may not read themselves. All functions are required.
type Access struct {
	// Allowed reports whether the user of the request in ctx may read, and how errors show the user. It allows everything to
	// those who may escalate their rights, such as system:masters.
	Allowed func(ctx context.Context, r Read) (user string, allowed bool, err error)
	// Resource returns the resource of a kind.
	Resource func(kind schema.GroupVersionKind) (schema.GroupVersionResource, error)
	// ParamKind returns the kind of the parameters of a policy, of the resource that is given; nil if it has none.
	ParamKind func(ctx context.Context, policies schema.GroupResource, name string) (*admissionv1.ParamKind, error)
}

// readable fills in the resource of a kind of parameters as far as it is known.
func (a *Access) readable(kind *admissionv1.ParamKind, r *Read) (parsing, resolving error) {
	gv, err := schema.ParseGroupVersion(kind.APIVersion)
	if err != nil {
		return err, nil
	}
	r.Resource.Group, r.Resource.Version = gv.Group, gv.Version
	resource, err := a.Resource(gv.WithKind(kind.Kind))
	if err == nil {
		r.Resource.Resource = resource.Resource
	}
	return nil, err
}

func anyResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "*", Version: "*", Resource: "*"}
}

// guardKind refuses a policy for a kind of parameters that the user may not read. was is the policy's former kind; nil if none.
func (a *Access) guardKind(ctx context.Context, kind, was *admissionv1.ParamKind) *field.Error {
	if a == nil || kind == nil || was != nil && *was == *kind {
		return nil
	}
	r := Read{Verb: "get", Resource: anyResource(), Namespace: "*", Name: "*"}
	_, _ = a.readable(kind, &r) // what is not known is asked for as a whole
	path := field.NewPath("spec", "paramKind")
	switch user, allowed, err := a.Allowed(ctx, r); {
	case err != nil:
		return field.Forbidden(path, err.Error())
	case !allowed:
		return field.Forbidden(path, fmt.Sprintf(`user %s must have "get" permission on all objects of the referenced paramKind (kind=%s, apiVersion=%s)`,
			user, kind.Kind, kind.APIVersion))
	}
	return nil
}

// guardRef refuses a binding to parameters that the user may not read. Unlike kinds, upstream asks for them at every write.
func (a *Access) guardRef(ctx context.Context, policies schema.GroupResource, policy string, ref *admissionv1.ParamRef) *field.Error {
	if a == nil || ref == nil {
		return nil
	}
	r := Read{Verb: "get", Resource: anyResource(), Namespace: ref.Namespace, Name: ref.Name}
	if ref.Name == "" {
		r.Verb = "list"
	}
	kind, missing := a.ParamKind(ctx, policies, policy)
	var parsing, resolving error
	if missing == nil && kind != nil {
		parsing, resolving = a.readable(kind, &r)
	}
	path := field.NewPath("spec", "paramRef")
	mutating := policies.Resource == "mutatingadmissionpolicies"
	user, allowed, err := a.Allowed(ctx, r)
	unable := func(what string) *field.Error {
		return field.Forbidden(path, fmt.Sprintf(`unable to %s to determine minimum required permissions and user %s does not have "%s" permission for all groups, versions and resources`,
			what, user, r.Verb))
	}
	switch {
	case err != nil && mutating:
		return field.Forbidden(path, err.Error())
	case err != nil:
		return field.Forbidden(path, "failed to authorize request: "+err.Error())
	case allowed:
		return nil
	case missing != nil:
		return unable("get policy " + policy)
	case parsing != nil:
		return unable(fmt.Sprintf("parse paramKind &{%s %s}", kind.APIVersion, kind.Kind))
	case resolving != nil:
		return unable(fmt.Sprintf("resolve paramKind &{%s %s}", kind.APIVersion, kind.Kind))
	}
	who, verb := user, r.Verb
	if mutating {
		who, verb = verb, who // upstream mixes them up
	}
	return field.Forbidden(path, fmt.Sprintf(`user %s does not have "%s" permission on the object referenced by paramRef`, who, verb))
}

// guarded returns a guard that refuses what refused says, and warns of reserved names. A guard runs once the object is known to be
// valid, which is when upstream asks and warns. old is the zero T in a create.
func guarded[T registry.Object](kind, plural string, refused func(ctx context.Context, obj, old T) *field.Error) func(ctx context.Context, obj, old T) error {
	return func(ctx context.Context, obj, old T) error {
		if err := refused(ctx, obj, old); err != nil {
			return &registry.Error{
				Err: registry.ErrInvalid, Resource: admissionv1.Resource(plural), Kind: kind, Name: obj.GetName(), Fields: field.ErrorList{err},
			}
		}
		if reserved, is := staticName(obj.GetName()); is {
			registry.Warn(ctx, "metadata.name: "+reserved)
		}
		return nil
	}
}
