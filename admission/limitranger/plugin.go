package limitranger

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/keelson-dev/keelson/admission"
)

// Name is the plugin's name.
const Name = "LimitRanger"

// Ranges is the cache that the plugin reads.
type Ranges interface {
	// List returns the limit ranges of a namespace, sorted by name. They are shared and must not be changed.
	List(namespace string) []*corev1.LimitRange
}

// Plugin is the admission plugin. Make one with New.
type Plugin struct{ ranges Ranges }

var (
	_ admission.Mutator   = (*Plugin)(nil)
	_ admission.Validator = (*Plugin)(nil)
)

// New returns the plugin.
func New(ranges Ranges) *Plugin { return &Plugin{ranges} }

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Admit implements admission.Mutator: it sets the defaults of pods.
func (p *Plugin) Admit(_ context.Context, r *admission.Request) error {
	if !limited(r) || r.Kind.Kind != kindPod {
		return nil
	}
	pod, ok := r.Object.(*corev1.Pod)
	if !ok {
		return errType(r)
	}
	for _, limits := range p.ranges.List(r.Namespace) {
		setDefaults(pod, limits)
	}
	return nil
}

// Validate implements admission.Validator.
func (p *Plugin) Validate(_ context.Context, r *admission.Request) error {
	if !limited(r) {
		return nil
	}
	for _, limits := range p.ranges.List(r.Namespace) {
		var errs []error
		switch obj := r.Object.(type) {
		case *corev1.Pod:
			errs = checkPod(obj, limits)
		case *corev1.PersistentVolumeClaim:
			errs = checkClaim(obj, limits)
		default:
			return errType(r)
		}
		if err := utilerrors.NewAggregate(errs); err != nil {
			return admission.Forbidden(r, "%w", err)
		}
	}
	return nil
}

const kindPod, kindClaim = "Pod", "PersistentVolumeClaim"

// limited reports whether limits apply to a request: the resources of a pod change only in a resize, and what is being
// deleted may have any.
func limited(r *admission.Request) bool {
	of := r.Kind.GroupKind()
	isPod, isClaim := of == schema.GroupKind{Kind: kindPod}, of == schema.GroupKind{Kind: kindClaim}
	switch {
	case r.Subresource != "":
		if r.Subresource != "resize" || !isPod || r.Operation != admission.Update {
			return false
		}
	case isPod && r.Operation == admission.Update, !isPod && !isClaim:
		return false
	}
	old, ok := r.OldObject.(metav1.Object)
	return !ok || old.GetDeletionTimestamp() == nil
}

func errType(r *admission.Request) error {
	return admission.BadRequest("Resource was marked with kind %s but was unable to be converted", r.Kind.Kind)
}
