package resourcequota

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/internal/quota"
)

// Name is the plugin's name.
const Name = "ResourceQuota"

// ErrGone means that the quota no longer exists.
var ErrGone = errors.New("resource quota no longer exists")

// errTimeout is upstream's error for usage that could not be written in time.
var errTimeout = errors.New("resource quota evaluation timed out")

// Quotas is the cache that the plugin reads.
type Quotas interface {
	// List returns the quotas of a namespace, sorted by name. They are shared and must not be changed.
	List(namespace string) []*corev1.ResourceQuota
}

// Charger changes the status of quotas.
type Charger interface {
	// Modify applies change to a private copy of the newest quota and stores the result if no other write
	// intervened; otherwise it starts again, so change may be called several times. An error of change ends it
	// and is returned. A missing quota is ErrGone. With any other error the outcome is unknown.
	Modify(ctx context.Context, namespace, name string, change func(*corev1.ResourceQuota) error) error
}

// ChargerFunc is a Charger made of a function.
type ChargerFunc func(ctx context.Context, namespace, name string, change func(*corev1.ResourceQuota) error) error

// Modify implements Charger.
func (f ChargerFunc) Modify(ctx context.Context, namespace, name string, change func(*corev1.ResourceQuota) error) error {
	return f(ctx, namespace, name, change)
}

// Options are the options of a Plugin. The zero value is upstream's behaviour.
type Options struct {
	// Ignored reports resources that are not counted, in addition to events: those that are not stored.
	Ignored func(schema.GroupResource) bool
	// Timeout is how long usage may take to be written; 0 is 10 s.
	Timeout time.Duration
}

// Plugin is the admission plugin. Make one with New.
type Plugin struct {
	quotas  Quotas
	charger Charger
	options Options

	mu     sync.Mutex
	queues map[string]queue // by namespace; exists while a request serves it
}

var _ admission.Validator = (*Plugin)(nil)

// New returns the plugin.
func New(quotas Quotas, charger Charger, o Options) *Plugin {
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	return &Plugin{quotas: quotas, charger: charger, options: o, queues: map[string]queue{}}
}

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Validate implements admission.Validator. It charges the quotas for the request, unless that is a dry run.
func (p *Plugin) Validate(ctx context.Context, r *admission.Request) error {
	gr := r.Resource.GroupResource()
	if r.Namespace == "" || gr == (schema.GroupResource{Resource: "namespaces"}) ||
		quota.Ignored(gr) || p.options.Ignored != nil && p.options.Ignored(gr) {
		return nil
	}
	quotas := p.quotas.List(r.Namespace)
	if len(quotas) == 0 {
		return nil
	}
	old := r.OldObject
	if r.Operation == admission.Create {
		old = nil
	}
	evaluator := quota.For(gr)
	if !evaluator.Handles(r.Subresource, r.Object, old) {
		return nil
	}
	claim, err := quota.NewClaim(evaluator, r.Object, old, time.Now())
	if err != nil {
		return admission.Forbidden(r, "%w", err)
	}
	if !slices.ContainsFunc(quotas, claim.Matches) {
		return nil
	}
	w := newWaiter(r, claim)
	if r.DryRun {
		_, err := w.fit(quotas)
		return err
	}
	return p.wait(ctx, r.Namespace, w)
}
