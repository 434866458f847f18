package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/serviceaccount"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/rbac"
	"github.com/keelson-dev/keelson/registry"
)

// Stage is one link of a chain of the API server, and how it is made once there is a server. It is a value and may be
// copied.
type Stage[T any] struct {
	// Name tells the stages of a chain apart: upstream's, such as "node" or "PodSecurity".
	Name string
	// New makes it. It starts nothing.
	New func(p ServerParts) (T, error)
}

// AuthenticatorStage is one of those that tell who makes a request.
type AuthenticatorStage = Stage[authn.Authenticator]

// AuthorizerStage is one of those that tell whether it may.
type AuthorizerStage = Stage[authz.Authorizer]

// AdmissionStage is one of those that change and judge what is written.
type AdmissionStage = Stage[admission.Plugin]

// Ready is a stage of something that needs nothing of the server.
func Ready[T any](name string, part T) Stage[T] {
	return Stage[T]{name, func(ServerParts) (T, error) { return part, nil }}
}

// Plugins are stages of admission plugins that need nothing of the server.
func Plugins(plugins ...admission.Plugin) []AdmissionStage {
	stages := make([]AdmissionStage, len(plugins))
	for i, p := range plugins {
		stages[i] = Ready(p.Name(), p)
	}
	return stages
}

// WithStages returns the stages with others behind them. One takes the place of that of its name.
func WithStages[T any](all []Stage[T], others ...Stage[T]) []Stage[T] {
	out := slices.Clone(all)
	for _, s := range others {
		if i := slices.IndexFunc(out, func(o Stage[T]) bool { return o.Name == s.Name }); i >= 0 {
			out[i] = s
		} else {
			out = append(out, s)
		}
	}
	return out
}

// StageNames are those of the stages, in their order.
func StageNames[T any](all []Stage[T]) []string {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.Name
	}
	return names
}

// ServerParts are what stages are made of.
type ServerParts struct {
	// Registry is where the objects are. registry.NewLive reads them without lag.
	Registry *registry.Registry
	// Authorizer is the whole chain of authorizers. It answers once the server is made.
	Authorizer authz.Authorizer
	// RBAC judges by the roles and bindings in the registry; it stands in the chain as the stage "rbac".
	RBAC *rbac.Authorizer
	// Tokens verifies tokens of service accounts.
	Tokens *serviceaccount.Verifier
	// Suffix is registry.Identifiers.Suffix of the cluster.
	Suffix func(resource, namespace, base string) string
	Logger *slog.Logger
}

// serverParts are those of this cluster.
func (c *Cluster) serverParts() ServerParts {
	return ServerParts{
		Registry: c.registry, RBAC: c.access.rbac, Tokens: c.tokens.verifier, Suffix: c.ids.Suffix, Logger: c.log,
		Authorizer: authz.Func(func(ctx context.Context, a authz.Attributes) (authz.Decision, error) {
			return c.access.Authorize(ctx, a)
		}),
	}
}

// made makes the stages of a chain, in their order.
func made[T any](stages []Stage[T], p ServerParts) ([]T, error) {
	all := make([]T, len(stages))
	for i, s := range stages {
		var err error
		if all[i], err = s.New(p); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return all, nil
}
