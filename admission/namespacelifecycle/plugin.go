package namespacelifecycle

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
)

// Name is the plugin's name.
const Name = "NamespaceLifecycle"

// Namespaces is the cache that the plugin reads; an informer of namespaces is one.
type Namespaces interface {
	// Get returns the namespace of that name; the first argument is empty.
	Get(namespace, name string) (*corev1.Namespace, bool)
}

// Options are the options of the plugin. The zero value is valid.
type Options struct {
	// Live reads a namespace directly from the server, and returns false if it does not exist. Without Live,
	// the cache is authoritative.
	Live func(ctx context.Context, name string) (*corev1.Namespace, bool, error)
}

// How long a deletion makes a cached namespace suspect, and the maximum number of suspects.
const (
	suspectFor  = 30 * time.Second
	maxSuspects = 100
)

// Plugin is the admission plugin. Make one with New.
type Plugin struct {
	namespaces Namespaces
	options    Options

	mu sync.Mutex
	// suspects are the namespaces whose deletion was requested, and until when the cache may be out of date
	// about them.
	suspects map[string]time.Time
}

var _ admission.Mutator = (*Plugin)(nil)

// New returns the plugin.
func New(namespaces Namespaces, options Options) *Plugin {
	return &Plugin{namespaces: namespaces, options: options, suspects: map[string]time.Time{}}
}

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Delete
}

// Admit implements admission.Mutator. It changes nothing; it is a Mutator so that it refuses before other
// plugins work on the object.
func (p *Plugin) Admit(ctx context.Context, r *admission.Request) error {
	if r.Kind.GroupKind() == (schema.GroupKind{Kind: "Namespace"}) {
		if r.Operation != admission.Delete {
			return nil
		}
		switch r.Name {
		case metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic:
			return admission.Forbidden(r, "this namespace may not be deleted")
		}
		p.suspect(r.Name, time.Now())
		return nil
	}
	if r.Namespace == "" || r.Operation != admission.Create || tellsNothing(r) {
		return nil
	}
	return p.create(ctx, r)
}

// tellsNothing exempts access reviews in a namespace, which must not reveal whether it exists.
func tellsNothing(r *admission.Request) bool {
	return r.Resource.GroupResource() == schema.GroupResource{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"}
}

// create checks the creation of an object in a namespace.
func (p *Plugin) create(ctx context.Context, r *admission.Request) error {
	ns, exists := p.namespaces.Get("", r.Namespace)
	stale := !exists || ns.Status.Phase == corev1.NamespaceActive && p.suspected(r.Namespace, time.Now())
	if stale && p.options.Live != nil {
		var err error
		if ns, exists, err = p.options.Live(ctx, r.Namespace); err != nil {
			return admission.Internal(err)
		}
	}
	if !exists {
		return admission.NotFound(schema.GroupResource{Resource: "namespaces"}, r.Namespace)
	}
	if ns.Status.Phase != corev1.NamespaceTerminating {
		return nil
	}
	refusal := admission.Forbidden(r, "unable to create new content in namespace %s because it is being terminated", r.Namespace)
	refusal.Causes = []metav1.StatusCause{{
		Type:    corev1.NamespaceTerminatingCause,
		Message: fmt.Sprintf("namespace %s is being terminated", r.Namespace),
		Field:   "metadata.namespace",
	}}
	return refusal
}

// suspect records that the namespace is probably being deleted.
func (p *Plugin) suspect(name string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, again := p.suspects[name]; !again && len(p.suspects) >= maxSuspects {
		p.forget(now)
	}
	p.suspects[name] = now.Add(suspectFor)
}

// forget drops the expired suspects, or otherwise the one with the least time left.
func (p *Plugin) forget(now time.Time) {
	var first string
	for name, until := range p.suspects {
		if !now.Before(until) {
			delete(p.suspects, name)
			continue
		}
		if u, ok := p.suspects[first]; !ok || until.Before(u) || until.Equal(u) && name < first {
			first = name
		}
	}
	if len(p.suspects) >= maxSuspects {
		delete(p.suspects, first)
	}
}

func (p *Plugin) suspected(name string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	until, ok := p.suspects[name]
	return ok && now.Before(until)
}
