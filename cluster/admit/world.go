package admit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/policy/cel"
	"github.com/keelson-dev/keelson/admission/webhook/inprocess"
	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/customresources"
	"github.com/keelson-dev/keelson/cluster/internal/served"
	"github.com/keelson-dev/keelson/cluster/policies"
	"github.com/keelson-dev/keelson/cluster/webhooks"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/resource/selectors"
	"github.com/keelson-dev/keelson/storage/memory"
)

// Errors of this package; test for them with errors.Is.
var (
	// ErrState means that an object of the state cannot be used.
	ErrState = errors.New("unusable state")
	// ErrRequest means that a request cannot be made: it has no object, or of a kind that is not served.
	ErrRequest = errors.New("unusable request")
)

// Options configures a World. The zero value has the default plugins.
type Options struct {
	// Admission are the plugins; nil is cluster.DefaultAdmission. Those of policies and webhooks are added in any case.
	Admission []cluster.AdmissionStage
	// Disable names plugins to leave out.
	Disable []string
	// Handlers finds webhooks in this process, also those that convert custom resources; others are called over the network.
	// inprocess.Services makes one.
	Handlers inprocess.Handlers
	// Kinds are served in addition to the built-in ones.
	Kinds []registry.Kind
	// Authorize asks by the roles and bindings in the state whether users may make their requests.
	Authorize bool
	Logger    *slog.Logger
}

// World is a cluster to ask what would become of requests. It is safe for concurrent use.
type World struct {
	cluster   *cluster.Cluster
	records   *memory.Store // what the cluster stores
	kinds     served.Kinds
	authorize bool
	annotated *sink
	requests  atomic.Uint64
	types     sync.Map // of *registry.Resource: reflect.Type
}

// Start makes a world with the given state and runs it in the background until Close, or until ctx ends. Objects in the state are
// stored as they are, with their status, and pass no plugins; they are typed, or *unstructured.Unstructured as Decode returns
// them. Unknown fields, and objects that their kind's rules refuse, are errors.
func Start(ctx context.Context, state []runtime.Object, o Options) (*World, error) {
	w := &World{authorize: o.Authorize, annotated: &sink{}, records: memory.New(memory.Options{})}
	c, err := cluster.Start(ctx, w.options(o))
	if err != nil {
		return nil, errors.Join(err, w.records.Close())
	}
	w.cluster, w.kinds = c, served.Kinds{Registry: c.Registry()}
	if err := w.load(ctx, state); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// Close ends the world and waits for it.
func (w *World) Close() error { return errors.Join(w.cluster.Close(), w.records.Close()) }

// options returns the options of a cluster that runs nothing but its API server.
func (w *World) options(o Options) cluster.Options {
	p := policies.New(policies.Options{Spent: w.spent})
	h := webhooks.New(webhooks.Options{Handlers: o.Handlers})
	plugins := o.Admission
	if plugins == nil {
		plugins = cluster.DefaultAdmission()
	}
	plugins = cluster.WithStages(plugins, slices.Concat(p.Admission(), h.Admission())...)
	out := cluster.Options{
		Store: w.records, Components: []cluster.Component{}, Disable: o.Disable, Kinds: slices.Concat(p.Kinds(), h.Kinds(), o.Kinds),
		Extensions:  []cluster.Extension{customresources.Extension(customresources.Options{Webhooks: customresources.Network(o.Handlers)})},
		Authorizers: cluster.DefaultAuthorizers(), Seed: new(uint64(0)), Logger: o.Logger,
		Server: cluster.Server{Telemetry: cluster.Telemetry{Audit: audit.New(annotations(), w.annotated, audit.Options{})}, Seats: -1, Selectors: selectors.Compile},
	}
	if !o.Authorize {
		out.Authorizers = slices.Insert(out.Authorizers, 0, leave())
	}
	for _, s := range plugins {
		out.Admission = append(out.Admission, observe(s))
	}
	// Somebody must see requests if all plugins are left out.
	out.Admission = append(out.Admission, observe(cluster.Plugins(admission.ValidatorFunc("admit", nil))[0]))
	return out
}

// spent notes what expressions cost.
func (*World) spent(ctx context.Context, c cel.Cost) {
	if r := recorded(ctx); r != nil {
		r.costs = append(r.costs, c)
	}
}

func stateError(obj runtime.Object, cause error) error {
	return fmt.Errorf("%w: %s: %w", ErrState, described(obj), cause)
}

// Plugins returns stages of the default plugins and of others, which run after upstream's.
func Plugins(others ...admission.Plugin) []cluster.AdmissionStage {
	return cluster.WithStages(cluster.DefaultAdmission(), cluster.Plugins(others...)...)
}
