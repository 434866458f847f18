package imagepolicywebhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/api/imagepolicy/v1alpha1"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/keelson-dev/keelson/admission"
)

// Name is the plugin's name.
const Name = "ImagePolicyWebhook"

// annotationPrefix begins the keys of audit annotations.
const annotationPrefix = "imagepolicywebhook.image-policy.k8s.io/"

// entries bounds the answers that are kept.
const entries = 1024

// Defaults of Options.
const (
	DefaultKeepAllowed = 5 * time.Minute
	DefaultKeepDenied  = 30 * time.Second
)

// Reviewer is the backend that decides about images.
type Reviewer interface {
	// Review returns the backend's answer about a review, which it does not change. An error means that there is none.
	Review(ctx context.Context, review *v1alpha1.ImageReview) (v1alpha1.ImageReviewStatus, error)
}

// ReviewerFunc adapts a function to Reviewer.
type ReviewerFunc func(ctx context.Context, review *v1alpha1.ImageReview) (v1alpha1.ImageReviewStatus, error)

// Review calls f.
func (f ReviewerFunc) Review(ctx context.Context, review *v1alpha1.ImageReview) (v1alpha1.ImageReviewStatus, error) {
	return f(ctx, review)
}

// Options are the options of the plugin. The zero value is upstream's default.
type Options struct {
	// KeepAllowed and KeepDenied are how long answers are kept; 0 means the default, less means not at all.
	KeepAllowed, KeepDenied time.Duration
	// FailOpen admits pods about which the backend cannot be asked.
	FailOpen bool
	// Annotate adds to the audit log, such as audit.Annotate; nil adds nothing.
	Annotate func(ctx context.Context, key, value string)
}

// Plugin is the admission plugin. Make one with New.
type Plugin struct {
	reviewer Reviewer
	options  Options
	known    *cache.LRUExpireCache // v1alpha1.ImageReviewStatus by the JSON of its spec
}

var _ admission.Validator = (*Plugin)(nil)

// New returns the plugin.
func New(reviewer Reviewer, o Options) *Plugin {
	if o.KeepAllowed == 0 {
		o.KeepAllowed = DefaultKeepAllowed
	}
	if o.KeepDenied == 0 {
		o.KeepDenied = DefaultKeepDenied
	}
	if o.Annotate == nil {
		o.Annotate = func(context.Context, string, string) {}
	}
	return &Plugin{reviewer, o, cache.NewLRUExpireCache(entries)}
}

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Validate implements admission.Validator.
func (p *Plugin) Validate(ctx context.Context, r *admission.Request) error {
	if r.Resource.GroupResource() != corev1.Resource("pods") || r.Subresource != "" && r.Subresource != "ephemeralcontainers" {
		return nil
	}
	pod, ok := r.Object.(*corev1.Pod)
	if !ok {
		return admission.BadRequest("Resource was marked with kind Pod but was unable to be converted")
	}
	status, err := p.ask(ctx, reviewOf(r, pod))
	switch {
	case err != nil && p.options.FailOpen:
		p.options.Annotate(ctx, annotationPrefix+"failed-open", "true")
		return nil
	case err != nil:
		return admission.Forbidden(r, "%w", err)
	}
	for key, value := range status.AuditAnnotations {
		p.options.Annotate(ctx, annotationPrefix+key, value)
	}
	switch {
	case status.Allowed:
		return nil
	case status.Reason != "":
		return admission.Forbidden(r, "image policy webhook backend denied one or more images: %s", status.Reason)
	}
	return admission.Forbidden(r, "%w", errRejected)
}

var errRejected = errors.New("one or more images rejected by webhook backend")

// reviewOf is what the backend gets to know about a pod.
func reviewOf(r *admission.Request, pod *corev1.Pod) *v1alpha1.ImageReview {
	out := &v1alpha1.ImageReview{Spec: v1alpha1.ImageReviewSpec{Namespace: r.Namespace, Annotations: map[string]string{}}}
	add := func(image string) {
		out.Spec.Containers = append(out.Spec.Containers, v1alpha1.ImageReviewContainerSpec{Image: image})
	}
	if r.Subresource == "" {
		for i := range pod.Spec.Containers {
			add(pod.Spec.Containers[i].Image)
		}
		for i := range pod.Spec.InitContainers {
			add(pod.Spec.InitContainers[i].Image)
		}
	} else {
		for i := range pod.Spec.EphemeralContainers {
			add(pod.Spec.EphemeralContainers[i].Image)
		}
	}
	for key, value := range pod.Annotations {
		if strings.Contains(key, ".image-policy.k8s.io/") {
			out.Spec.Annotations[key] = value
		}
	}
	return out
}

// ask returns the backend's answer, which may be a kept one.
func (p *Plugin) ask(ctx context.Context, review *v1alpha1.ImageReview) (status v1alpha1.ImageReviewStatus, err error) {
	key, err := json.Marshal(review.Spec)
	if err != nil {
		return status, fmt.Errorf("the review cannot be written: %w", err)
	}
	if kept, ok := p.known.Get(string(key)); ok {
		return kept.(v1alpha1.ImageReviewStatus), nil
	}
	if status, err = p.reviewer.Review(ctx, review); err != nil {
		return status, err
	}
	keep := p.options.KeepDenied
	if status.Allowed {
		keep = p.options.KeepAllowed
	}
	if keep > 0 {
		p.known.Add(string(key), status, keep)
	}
	return status, nil
}
