package customresources

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/controllers/customresourcedefinition"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/custom"
	"github.com/keelson-dev/keelson/registry/custom/review"
)

// server serves definitions in a registry.
type server struct {
	registry *registry.Registry
	kinds    *cluster.Kinds
	webhooks review.Caller // nil if there is none

	mu sync.Mutex
	// served are the installed kinds. A registry's other kinds are built-in ones.
	served map[schema.GroupResource]*served
}

// served is an installed kind, with what it was made of.
type served struct {
	uid     types.UID
	spec    *apiextensionsv1.CustomResourceDefinitionSpec
	names   apiextensionsv1.CustomResourceDefinitionNames
	creates *gate
}

var _ customresourcedefinition.Server = (*server)(nil)

func newServer(r *registry.Registry, k *cluster.Kinds, webhooks review.Caller) *server {
	return &server{registry: r, kinds: k, webhooks: webhooks, served: map[schema.GroupResource]*served{}}
}

// Serve implements customresourcedefinition.Server.
func (s *server) Serve(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) error {
	gr := schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural}
	s.mu.Lock()
	have := s.served[gr]
	s.mu.Unlock()
	if _, taken := s.registry.Resource(gr); taken && have == nil {
		return fmt.Errorf("%s: %w", gr, customresourcedefinition.ErrBuiltIn)
	}
	if have != nil && have.uid == crd.UID && equality.Semantic.DeepEqual(have.spec, &crd.Spec) && equality.Semantic.DeepEqual(have.names, crd.Status.AcceptedNames) {
		return have.admit(ctx, crd)
	}
	kind, err := s.kind(crd)
	if err != nil {
		if have != nil {
			// What was served no longer is what is defined.
			err = errors.Join(err, s.Withdraw(ctx, gr))
		}
		return err
	}
	now := &served{uid: crd.UID, spec: &crd.Spec, names: crd.Status.AcceptedNames, creates: &gate{}}
	if have != nil && have.uid == crd.UID {
		now.creates = have.creates // what its former state lets through is still on its way
	}
	guardCreates(&kind, now.creates)
	s.mu.Lock()
	s.served[gr] = now
	s.mu.Unlock()
	if err := s.kinds.Install(ctx, kind); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.served, gr)
		if _, installed := s.registry.Resource(gr); installed {
			s.served[gr] = &served{uid: crd.UID, creates: now.creates} // of whatever state
		}
		return err
	}
	return now.admit(ctx, crd)
}

// admit refuses creates if the definition is being deleted. It then returns once those that were let through are done, so that
// whoever deletes the objects finds them all.
func (s *served) admit(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) error {
	if crd.DeletionTimestamp == nil {
		return nil
	}
	return s.creates.shut(ctx)
}

// kind returns the kind of a definition.
func (s *server) kind(crd *apiextensionsv1.CustomResourceDefinition) (registry.Kind, error) {
	kind, err := s.kindOf(crd)
	if err != nil && crd.DeletionTimestamp != nil {
		return s.kindOf(plain(crd))
	}
	return kind, err
}

func (s *server) kindOf(crd *apiextensionsv1.CustomResourceDefinition) (registry.Kind, error) {
	var o custom.Options
	if c := crd.Spec.Conversion; c != nil && c.Strategy == apiextensionsv1.WebhookConverter && len(crd.Spec.Versions) > 1 {
		if s.webhooks == nil {
			return registry.Kind{}, unservable(custom.ErrNoConverter)
		}
		o.Converter = review.New(c.Webhook, s.webhooks, review.Options{})
	}
	resource, err := custom.New(crd, o)
	if err != nil {
		return registry.Kind{}, unservable(err)
	}
	return resource.Kind(), nil
}

// unservable is the error for a definition that cannot be served, for the given reason.
func unservable(err error) error {
	return &refusal{err}
}

// refusal is a reason for which a definition cannot be served.
type refusal struct{ cause error }

// Error implements error.
func (r *refusal) Error() string { return r.cause.Error() }

// Unwrap returns what it is and the cause.
func (r *refusal) Unwrap() []error { return []error{customresourcedefinition.ErrUnservable, r.cause} }

// plain returns a definition of the same objects that leaves out what may be unservable, so that the objects of a deleted
// definition can be deleted.
func plain(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	crd = crd.DeepCopy()
	anything := true
	crd.Spec.Conversion = nil
	crd.Status.AcceptedNames.ListKind = crd.Status.AcceptedNames.Kind + "List"
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		v.Served = v.Served || v.Storage
		v.Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
			Type: "object", XPreserveUnknownFields: &anything,
		}}
		v.Subresources, v.AdditionalPrinterColumns, v.SelectableFields = nil, nil, nil
	}
	return crd
}

// guardCreates makes a kind refuse to create objects once the gate is shut, and tell clients so.
func guardCreates(kind *registry.Kind, g *gate) {
	gr := kind.GroupResource()
	reserve := func(_ context.Context, r registry.Reservation[registry.Object]) (registry.Settle, error) {
		if r.Old != nil {
			return nil, nil
		}
		if !g.enter() {
			return nil, apierrors.NewForbidden(gr, r.Object.GetName(), errors.New("create not allowed while custom resource definition is terminating"))
		}
		return func(context.Context, registry.Outcome) { g.leave() }, nil
	}
	all := []*registry.Rules[registry.Object]{&kind.Rules}
	for i := range kind.Also {
		all = append(all, kind.Also[i].Rules)
	}
	for _, rules := range all {
		rules.Reserve, rules.Deletion.Ending = reserve, g.isShut
	}
}

// Withdraw implements customresourcedefinition.Server.
func (s *server) Withdraw(ctx context.Context, gr schema.GroupResource) error {
	s.mu.Lock()
	have := s.served[gr]
	s.mu.Unlock()
	if have == nil {
		return nil
	}
	if err := s.kinds.Remove(ctx, gr); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.served, gr)
	return nil
}
