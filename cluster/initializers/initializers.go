// Package initializers gives a cluster initializers, which Kubernetes had from 1.7 to 1.13: the kind InitializerConfiguration,
// the admission plugin Initializers, and the hiding of objects that are not initialized. A cluster that does not import this
// package links and does nothing of it.
//
// While a configuration names initializers for a resource, each new object of it carries their names in an annotation
// (initializers.Annotation in package admission/initializers), and nobody sees it who does not ask for it by the parameter
// includeUninitialized=true: not by get, list and watch, and not the controllers, schedulers and kubelets either. Updates and
// deletes reach it. Its creator waits. The initializers act one after the other; when the last is done, the object appears, and
// when one rejects it, it is deleted and the creator is told why. A pod shows PodInitializing meanwhile.
//
// An object that has not been seen is deleted at once, without grace and whatever its finalizers. Mirrors of static pods,
// configurations of admission and what is not stored, such as reviews, are never initialized. What the server itself makes at
// its start is not either.
package initializers

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/initializers"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/admissionregistration/v1alpha1"
)

// Name is that of the extension.
const Name = "initializers"

// PodInitializing is what a pod shows as the reason of its status until it is initialized.
const PodInitializing = "PodInitializing"

// sweepInterval is how often rejected objects are looked for whose deletion was interrupted.
const sweepInterval = time.Minute

// Extension returns the extension, for cluster.Options.Extensions.
func Extension() cluster.Extension {
	return cluster.Extension{
		Name: Name, Kinds: v1alpha1.Kinds(),
		Admission:      []cluster.AdmissionStage{{Name: initializers.Name, New: newPlugin}},
		Initialization: &registry.Initialization{Store: store, Pending: pending, Failed: failed, Show: show, Fresh: fresh},
		New: func(p *cluster.ExtensionParts) (cluster.Extended, error) {
			return &sweeper{registry: p.Registry, log: p.Logger}, nil
		},
	}
}

func newPlugin(p cluster.ServerParts) (admission.Plugin, error) {
	all, err := registry.NewLive[*v1alpha1.InitializerConfiguration](p.Registry, v1alpha1.Resource().GroupResource())
	if err != nil {
		return nil, err
	}
	return initializers.New(func(versions ...schema.GroupVersionResource) []string {
		gr := versions[0].GroupResource()
		if gr.Group == v1alpha1.GroupVersion().Group {
			return nil // who would be able to remove a configuration that goes wrong?
		}
		configurations := all.List("")
		if len(configurations) == 0 {
			return nil
		}
		if res, ok := p.Registry.Resource(gr); !ok || !res.Stored() {
			return nil
		}
		return v1alpha1.Initializers(configurations, versions...)
	}, p.Authorizer), nil
}

// stateOf returns the state of an object that is not initialized, or nil. What is no state hides nothing.
func stateOf(obj registry.Object) *initializers.State {
	s, err := initializers.Of(obj)
	if err != nil || s == nil || len(s.Pending) == 0 && s.Result == nil {
		return nil
	}
	return s
}

func store(obj registry.Object) { initializers.Settle(obj) }

func pending(obj registry.Object) bool { return stateOf(obj) != nil }

// failed returns the status with which an initializer has rejected an object.
func failed(obj registry.Object) error {
	s := stateOf(obj)
	if s == nil || s.Result == nil {
		return nil
	}
	status := *s.Result
	status.TypeMeta = metav1.TypeMeta{}
	status.Code = cmp.Or(status.Code, http.StatusInternalServerError) // as upstream
	return &apierrors.StatusError{ErrStatus: status}
}

func show(obj registry.Object) {
	if pod, ok := obj.(*corev1.Pod); ok && pod.Status.Reason == "" {
		pod.Status.Reason = PodInitializing
	}
}

// fresh lets initializers change pods as a whole, as upstream did: to add containers, say.
func fresh(resource schema.GroupResource) bool {
	return resource == schema.GroupResource{Resource: "pods"}
}

// sweeper deletes rejected objects that are left: the server ended between the rejection and the deletion, say.
type sweeper struct {
	registry *registry.Registry
	log      *slog.Logger
}

// Prepare implements cluster.Extended.
func (s *sweeper) Prepare(ctx context.Context) error {
	s.sweep(ctx)
	return nil
}

// Run implements lifecycle.Runnable.
func (s *sweeper) Run(ctx context.Context) error {
	every := time.NewTicker(sweepInterval)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
			s.sweep(ctx)
		}
	}
}

func (s *sweeper) sweep(ctx context.Context) {
	for _, res := range s.registry.Resources() {
		items, err := res.Pending(ctx)
		for _, item := range items {
			if err == nil {
				err = res.DropFailed(ctx, item)
			}
		}
		if err != nil && ctx.Err() == nil {
			s.log.Warn("cannot delete rejected objects", "resource", res.GroupResource().String(), "error", err)
		}
	}
}
