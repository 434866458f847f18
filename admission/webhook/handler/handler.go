package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/api/admission/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/status"
	"github.com/keelson-dev/keelson/admission/webhook"
	"github.com/keelson-dev/keelson/authn"
)

// DefaultMaxReview is the default of Options.MaxReview in bytes: a review has two objects, of 3 MiB at most each.
const DefaultMaxReview = 8 << 20

// Options are the options of a Handler. The zero value is valid.
type Options struct {
	// Scheme has the kinds that the plugin gets as Go values; nil has none.
	Scheme *runtime.Scheme
	// MaxReview is the maximum size of a review in bytes; 0 means DefaultMaxReview.
	MaxReview int64
}

// Handler is a webhook. It is safe for concurrent use. Make one with Mutating or Validating.
type Handler struct {
	plugin  admission.Plugin
	run     func(context.Context, *admission.Request) error
	mutates bool
	options Options
}

var (
	_ http.Handler     = (*Handler)(nil)
	_ webhook.Reviewer = (*Handler)(nil)
)

// Validating returns a webhook that validates what plugin validates.
func Validating(plugin admission.Validator, o Options) *Handler {
	return &Handler{plugin, plugin.Validate, false, o.withDefaults()}
}

// Mutating returns a webhook that changes what plugin changes.
func Mutating(plugin admission.Mutator, o Options) *Handler {
	return &Handler{plugin, plugin.Admit, true, o.withDefaults()}
}

func (o Options) withDefaults() Options {
	if o.Scheme == nil {
		o.Scheme = runtime.NewScheme()
	}
	if o.MaxReview == 0 {
		o.MaxReview = DefaultMaxReview
	}
	return o
}

// Review implements webhook.Reviewer. A request that the plugin cannot be given is refused with status 400.
func (h *Handler) Review(ctx context.Context, in *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	out := &admissionv1.AdmissionResponse{UID: in.UID, Allowed: true}
	if !h.plugin.Handles(admission.Operation(in.Operation)) {
		return out
	}
	r, err := h.request(in)
	if err == nil && h.mutates {
		out.Patch, err = h.mutate(ctx, r)
	} else if err == nil {
		err = h.run(ctx, r)
	}
	if err != nil {
		out.Allowed, out.Result = false, refusal(err)
	}
	if out.Patch != nil {
		out.PatchType = new(admissionv1.PatchTypeJSONPatch)
	}
	return out
}

// mutate lets the plugin change a copy of the object. It returns the changes as a JSON patch, or nil if there are none.
func (h *Handler) mutate(ctx context.Context, r *admission.Request) ([]byte, error) {
	if r.Object == nil {
		return nil, h.run(ctx, r)
	}
	before, err := json.Marshal(r.Object)
	if err != nil {
		return nil, admission.Internal(err)
	}
	r.Object = r.Object.DeepCopyObject()
	if err := h.run(ctx, r); err != nil {
		return nil, err
	}
	after, err := json.Marshal(r.Object)
	if err != nil {
		return nil, admission.Internal(err)
	}
	if bytes.Equal(before, after) {
		return nil, nil
	}
	patch, err := jsonpatch.CreatePatch(before, after)
	if err != nil {
		return nil, admission.Internal(err)
	}
	if len(patch) == 0 {
		return nil, nil
	}
	return json.Marshal(patch)
}

// request is a review's request as a plugin sees it.
func (h *Handler) request(in *admissionv1.AdmissionRequest) (*admission.Request, error) {
	r := &admission.Request{
		Operation: admission.Operation(in.Operation), Subresource: in.SubResource, Namespace: in.Namespace, Name: in.Name,
		Kind: schema.GroupVersionKind(in.Kind), Resource: schema.GroupVersionResource(in.Resource),
		DryRun: in.DryRun != nil && *in.DryRun,
		User:   &authn.Identity{Name: in.UserInfo.Username, UID: in.UserInfo.UID, Groups: in.UserInfo.Groups, Extra: map[string][]string{}},
	}
	for key, values := range in.UserInfo.Extra {
		r.User.Extra[key] = values
	}
	if asked := in.RequestResource; asked != nil && *asked != in.Resource && in.RequestKind != nil {
		r.RequestedKind, r.RequestedResource = schema.GroupVersionKind(*in.RequestKind), schema.GroupVersionResource(*asked)
	}
	var err error
	if r.Object, err = h.object("object", r.Kind, in.Object); err != nil {
		return nil, err
	}
	if r.OldObject, err = h.object("oldObject", r.Kind, in.OldObject); err != nil {
		return nil, err
	}
	r.Options, err = options(in.Options)
	return r, err
}

// ServeHTTP answers an AdmissionReview. It answers 400, with a reason, to anything else.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.options.MaxReview))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		http.Error(w, fmt.Sprintf("the review is larger than %d bytes", tooLarge.Limit), http.StatusRequestEntityTooLarge)
		return
	}
	var review admissionv1.AdmissionReview
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(body, &review)
	}
	if err == nil {
		err = known(&review)
	}
	if err != nil {
		http.Error(w, "the body is not an AdmissionReview: "+err.Error(), http.StatusBadRequest)
		return
	}
	answer, err := json.Marshal(&admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: h.Review(r.Context(), review.Request)})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // a caller that has gone needs no answer
}

// known checks that a review is one of a version known here. v1beta1 has the same fields.
func known(review *admissionv1.AdmissionReview) error {
	switch is := review.GroupVersionKind(); {
	case is != admissionv1.SchemeGroupVersion.WithKind("AdmissionReview") && is != v1beta1.SchemeGroupVersion.WithKind("AdmissionReview"):
		return fmt.Errorf("its type is %v", is)
	case review.Request == nil:
		return errors.New("it has no request")
	}
	return nil
}

// refusal is what clients see of a plugin's refusal.
func refusal(err error) *metav1.Status {
	if s := status.Of(err); s != nil {
		return s
	}
	return &metav1.Status{Status: metav1.StatusFailure, Message: err.Error(), Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden}
}
