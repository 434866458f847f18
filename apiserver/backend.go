package apiserver

import (
	"context"
	"log/slog"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/registry"
)

// backend is what the operations of all endpoints work with.
type backend struct {
	registry   *registry.Registry
	catalog    catalog
	authorizer authz.Authorizer
	admission  admission.Chain
	connector  Connector
	decoder    decoder
	trackers   trackers
	log        *slog.Logger
}

func newBackend(r *registry.Registry, o Options) *backend {
	b := &backend{
		registry: r, catalog: catalog{registry: r}, authorizer: o.Authorizer, admission: o.Admission, connector: o.Connector,
		log: o.Logger,
	}
	b.decoder = decoder{maxBody: o.MaxBody, scheme: func() *runtime.Scheme { return b.catalog.served().scheme() }}
	return b
}

// authorize asks the authorizer about something other than what the chain asked.
func (b *backend) authorize(ctx context.Context, a authz.Attributes) error {
	decision, err := b.authorizer.Authorize(ctx, a)
	if decision.Verdict == authz.Allow {
		return nil
	}
	if err != nil {
		b.log.Info("authorization failed", "user", a.User.Name, "error", err)
		return apierrors.NewInternalError(err)
	}
	return forbidden(a, decision.Why(a))
}

// admit runs the whole admission chain over a request whose object is not the stored one.
func (b *backend) admit(ctx context.Context, q *admission.Request) error {
	if err := b.admission.Admit(ctx, q); err != nil {
		return err
	}
	return b.admission.Validate(ctx, q)
}
