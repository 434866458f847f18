package alwayspullimages

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/internal/pods"
)

// Name is the plugin's name.
const Name = "AlwaysPullImages"

// Plugin is the admission plugin. Make one with New.
type Plugin struct{}

var (
	_ admission.Mutator   = (*Plugin)(nil)
	_ admission.Validator = (*Plugin)(nil)
)

// New returns the plugin.
func New() *Plugin { return &Plugin{} }

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Admit implements admission.Mutator.
func (*Plugin) Admit(_ context.Context, r *admission.Request) error {
	pod, err := pods.In(r)
	if pod == nil || !newImages(pod, r) {
		return err
	}
	for _, p := range policies(pod) {
		*p.policy = corev1.PullAlways
	}
	return nil
}

// Validate implements admission.Validator.
func (*Plugin) Validate(_ context.Context, r *admission.Request) error {
	pod, err := pods.In(r)
	if pod == nil || !newImages(pod, r) {
		return err
	}
	var refusals []error
	for _, p := range policies(pod) {
		if *p.policy != corev1.PullAlways {
			refusals = append(refusals, admission.Forbidden(r, "%w", field.NotSupported(p.path, *p.policy, []corev1.PullPolicy{corev1.PullAlways})))
		}
	}
	// As upstream's, the answer is a list, even of one: it has no status code of its own.
	return utilerrors.NewAggregate(refusals)
}

type policy struct {
	path   *field.Path
	policy *corev1.PullPolicy
}

// policies returns the pull policies of a pod: those of containers and those of volumes that are images (KEP-4639).
func policies(pod *corev1.Pod) []policy {
	var all []policy
	for path, c := range pods.Containers(&pod.Spec) {
		all = append(all, policy{path.Child("imagePullPolicy"), &c.ImagePullPolicy})
	}
	volumes := field.NewPath("spec", "volumes")
	for i, v := range pod.Spec.Volumes {
		if v.Image != nil {
			all = append(all, policy{volumes.Index(i).Child("image", "pullPolicy"), &v.Image.PullPolicy})
		}
	}
	return all
}

// newImages reports whether a pod is new, or runs an image in a container that it did not run before.
func newImages(pod *corev1.Pod, r *admission.Request) bool {
	old, ok := r.OldObject.(*corev1.Pod)
	if !ok { // new pods have no old state
		return true
	}
	had := sets.New[string]()
	for _, c := range pods.Containers(&old.Spec) {
		had.Insert(c.Image)
	}
	for _, c := range pods.Containers(&pod.Spec) {
		if !had.Has(c.Image) {
			return true
		}
	}
	return false
}
