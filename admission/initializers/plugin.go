package initializers

import (
	"context"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/authz"
)

// Name is the plugin's name.
const Name = "Initializers"

// Configured returns the names of the initializers of new objects of a resource, in their order. The resource is given in the
// version of the request and in the one that is stored, if that is another. It is safe for concurrent use.
type Configured func(versions ...schema.GroupVersionResource) []string

// Plugin is the admission plugin. Make one with New.
type Plugin struct {
	configured Configured
	authorizer authz.Authorizer
}

var _ admission.Mutator = (*Plugin)(nil)

// New returns the plugin.
func New(configured Configured, authorizer authz.Authorizer) *Plugin {
	return &Plugin{configured: configured, authorizer: authorizer}
}

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Admit implements admission.Mutator.
func (p *Plugin) Admit(ctx context.Context, r *admission.Request) error {
	obj, ok := r.Object.(metav1.Object)
	switch {
	case !ok:
		return nil
	case r.Operation == admission.Create && r.Subresource != "":
		strip(obj) // what is posted to an object, such as a Binding, may pass on its annotations
		return nil
	case r.Operation == admission.Create:
		return p.create(ctx, r, obj)
	}
	old, ok := r.OldObject.(metav1.Object)
	switch {
	case !ok:
		return nil
	case r.Subresource != "":
		return subresource(r, obj, old)
	}
	return p.update(ctx, r, obj, old)
}

// strip removes the annotation.
func strip(obj metav1.Object) {
	if _, ok := obj.GetAnnotations()[Annotation]; ok {
		set(obj, "", false)
	}
}

func path() *field.Path { return field.NewPath("metadata", "annotations").Key(Annotation) }

// create names the initializers of a new object.
func (p *Plugin) create(ctx context.Context, r *admission.Request, obj metav1.Object) error {
	given, err := Of(obj)
	if err != nil {
		return malformed(r, obj)
	}
	var names []string
	if !isMirror(obj) {
		versions := []schema.GroupVersionResource{r.Resource}
		if !r.RequestedResource.Empty() {
			versions = append(versions, r.RequestedResource)
		}
		names = p.configured(versions...)
	}
	if given == nil || given.Result == nil && slices.Equal(given.names(), names) { // as a webhook's second pass finds it
		state := &State{}
		for _, name := range names {
			state.Pending = append(state.Pending, Pending{name})
		}
		if given != nil || len(names) > 0 {
			state.set(obj)
		}
		return nil
	}
	if err := p.authorize(ctx, r, "create with initializers denied"); err != nil {
		return err
	}
	errs := validate(given)
	if given.Result != nil {
		errs = append(errs, field.Forbidden(path().Child("result"), "may not be set on new objects"))
	}
	if len(errs) > 0 {
		return admission.Invalid(r, errs)
	}
	return nil // what is complete must be found as such in a second pass: see Settle
}

// Settle removes the state of a new object that is to have no initializers; the server calls it after admission.
func Settle(obj metav1.Object) {
	if s, err := Of(obj); err == nil && s != nil && s.complete() {
		strip(obj)
	}
}

// isMirror reports whether an object is the mirror of a static pod, which runs already.
func isMirror(obj metav1.Object) bool {
	_, isPod := obj.(*corev1.Pod)
	_, annotated := obj.GetAnnotations()[corev1.MirrorPodAnnotationKey]
	return isPod && annotated
}

// update lets initializers change objects that are not initialized.
func (p *Plugin) update(ctx context.Context, r *admission.Request, obj, old metav1.Object) error {
	if v := obj.GetResourceVersion(); v != "" && v != old.GetResourceVersion() {
		return nil // it conflicts, whatever it says
	}
	was, err := Of(old)
	if err != nil {
		was = nil // and so it is for the server
	}
	is, err := Of(obj)
	switch {
	case err != nil && was == nil && obj.GetAnnotations()[Annotation] == old.GetAnnotations()[Annotation]:
		return nil
	case err != nil:
		return malformed(r, obj)
	}
	if is.complete() {
		strip(obj)
		is = nil
	}
	if was == nil && is == nil {
		return nil
	}
	if errs := validateUpdate(is, was); len(errs) > 0 {
		return admission.Invalid(r, errs)
	}
	return p.authorize(ctx, r, "update to uninitialized resource denied")
}

// subresource keeps the state in updates of parts of the object.
func subresource(r *admission.Request, obj, old metav1.Object) error {
	if reflect.TypeOf(obj) != reflect.TypeOf(old) {
		return nil
	}
	was, there := old.GetAnnotations()[Annotation]
	if is, has := obj.GetAnnotations()[Annotation]; has != there || is != was {
		set(obj, was, there)
	}
	_, isPod := obj.(*corev1.Pod)
	if state, err := Of(old); err == nil && state != nil && isPod && r.Subresource == "status" {
		return admission.Invalid(r, field.ErrorList{field.Forbidden(field.NewPath("status"), metavalidation.UninitializedStatusUpdateErrorMsg)})
	}
	return nil
}

// authorize asks whether the user may initialize the object.
func (p *Plugin) authorize(ctx context.Context, r *admission.Request, message string) error {
	a := authz.Attributes{
		User: r.User, Verb: "initialize", Group: r.Resource.Group, Version: r.Resource.Version, Resource: r.Resource.Resource,
		Namespace: r.Namespace, Name: r.Name, ResourceRequest: true,
	}
	decision, err := p.authorizer.Authorize(ctx, a)
	switch {
	case decision.Verdict == authz.Allow:
		return nil
	case err != nil:
		return admission.Internal(err)
	}
	return admission.Forbidden(r, "%s: %s", message, decision.Why(a))
}

func malformed(r *admission.Request, obj metav1.Object) error {
	return admission.Invalid(r, field.ErrorList{field.Invalid(path(), obj.GetAnnotations()[Annotation], "must be the state of an initialization in JSON")})
}

// validate validates a state, in upstream's words.
func validate(s *State) field.ErrorList {
	var errs field.ErrorList
	for i, pending := range s.Pending {
		errs = append(errs, validation.IsFullyQualifiedName(path().Child("pending").Index(i).Child("name"), pending.Name)...)
	}
	return append(errs, validateResult(s.Result)...)
}

func validateResult(result *metav1.Status) field.ErrorList {
	if result == nil || result.Status == metav1.StatusFailure {
		return nil
	}
	return field.ErrorList{field.Invalid(path().Child("result", "status"), result.Status, "must be 'Failure'")}
}

// validateUpdate validates a change of the state, of which at most one is nil.
func validateUpdate(is, was *State) field.ErrorList {
	switch {
	case was == nil:
		return field.ErrorList{field.Invalid(path(), nil, "field is immutable once initialization has completed")}
	case is == nil:
		is = &State{}
	}
	var errs field.ErrorList
	if was.Result != nil && !equality.Semantic.DeepEqual(is.Result, was.Result) {
		errs = append(errs, field.Invalid(path().Child("result"), is.Result, "field is immutable"))
	}
	now, before := is.names(), was.names()
	if !slices.Equal(now, before) && (was.Result != nil || len(before) == 0 || !slices.Equal(now, before[1:])) {
		errs = append(errs, field.Invalid(path().Child("pending"), now, "only the first initializer may be removed"))
	}
	return append(errs, validateResult(is.Result)...)
}
