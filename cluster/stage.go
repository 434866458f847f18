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

// Stage is one link of a chain in the API server, with a constructor that is called once there is a server. It is a
// value and may be copied.
type Stage[T any] struct {
	// Name identifies the stage in its chain: upstream's name, such as "node" or "PodSecurity".
	Name string
	// New makes the stage. It starts nothing.
	New func(p ServerParts) (T, error)
}

// AuthenticatorStage is a stage of the authenticators, which identify who makes a request.
type AuthenticatorStage = Stage[authn.Authenticator]

// AuthorizerStage is a stage of the authorizers, which decide whether a request is allowed.
type AuthorizerStage = Stage[authz.Authorizer]

// AdmissionStage is a stage of the admission plugins, which mutate and validate what is written.
type AdmissionStage = Stage[admission.Plugin]

// Ready returns a stage made of a part that needs nothing from the server.
func Ready[T any](name string, part T) Stage[T] {
	return Stage[T]{name, func(ServerParts) (T, error) { return part, nil }}
}

// Plugins returns stages of admission plugins that need nothing from the server.
func Plugins(plugins ...admission.Plugin) []AdmissionStage {
	stages := make([]AdmissionStage, len(plugins))
	for i, p := range plugins {
		stages[i] = Ready(p.Name(), p)
	}
	return stages
}

// WithStages returns the stages followed by others. Each of the others replaces a stage of the same name, if there is
// one.
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

// StageNames returns the names of the stages, in their order.
func StageNames[T any](all []Stage[T]) []string {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.Name
	}
	return names
}

// ServerParts are the parts of the server that stages are made from.
type ServerParts struct {
	// Registry holds the objects. registry.NewLive reads them without lag.
	Registry *registry.Registry
	// Authorizer is the whole chain of authorizers. It can be used once the server is made.
	Authorizer authz.Authorizer
	// RBAC authorizes by the roles and bindings in the registry; it is the stage "rbac" of the chain.
	RBAC *rbac.Authorizer
	// Tokens verifies service account tokens.
	Tokens *serviceaccount.Verifier
	// Suffix is registry.Identifiers.Suffix of the cluster.
	Suffix func(resource, namespace, base string) string
	Logger *slog.Logger
}

// serverParts returns the parts of this cluster.
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
