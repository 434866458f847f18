package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/internal/jsonpatch"
)

// Mutating is the plugin MutatingAdmissionWebhook. Make one with NewMutating.
type Mutating struct {
	dispatcher
	hooks *hooks[*registrationv1.MutatingWebhookConfiguration]
}

var _ admission.Reinvoker = (*Mutating)(nil)

// NewMutating returns the plugin.
func NewMutating(configurations Configurations[*registrationv1.MutatingWebhookConfiguration], namespaces Namespaces, caller Caller, o Options) *Mutating {
	return &Mutating{
		dispatcher: newDispatcher(namespaces, caller, o),
		hooks:      newHooks(configurations, o, hooksOfMutating),
	}
}

// Name implements admission.Plugin.
func (*Mutating) Name() string { return MutatingName }

// Handles implements admission.Plugin.
func (*Mutating) Handles(admission.Operation) bool { return true }

// Admit implements admission.Mutator. It asks each webhook once, and replaces r.Object if one has changed it.
func (p *Mutating) Admit(ctx context.Context, r *admission.Request) error {
	return p.round(ctx, r, &rounds{})
}

// AdmitFirst implements admission.Reinvoker.
func (p *Mutating) AdmitFirst(ctx context.Context, r *admission.Request) (admission.Reinvocation, error) {
	s := &rounds{}
	err := p.round(ctx, r, s)
	return admission.Reinvocation{Needed: s.changed, Again: func(ctx context.Context, r *admission.Request) error {
		s.again(r.Object)
		return p.round(ctx, r, s)
	}}, err
}

// rounds is what the second round over a request has to know of the first.
type rounds struct {
	number  int
	changed bool            // a webhook has changed the object
	ready   map[string]bool // webhooks that were called and may have to be again
	due     map[string]bool // webhooks that have to be called again
	left    runtime.Object  // the object after the first round, if there are any such webhooks
}

// again begins the second round. If others have changed the object since the first, all webhooks have to be called
// again that may.
func (s *rounds) again(obj runtime.Object) {
	s.number = 1
	if !equality.Semantic.DeepEqual(s.left, obj) {
		s.require()
	}
}

// require has all webhooks called again that were called so far and may be.
func (s *rounds) require() {
	if s.due == nil {
		s.due = map[string]bool{}
	}
	for id := range s.ready {
		s.due[id] = true
	}
}

// called records that a webhook was called, and whether it has changed the object.
func (s *rounds) called(h *hook, changed bool) {
	if changed {
		s.changed = true
		s.require()
	}
	if h.reinvocable {
		if s.ready == nil {
			s.ready = map[string]bool{}
		}
		s.ready[h.id] = true
	}
}

// round calls the webhooks that a request concerns; in the second round, only those that have to be called again.
func (p *Mutating) round(ctx context.Context, r *admission.Request, s *rounds) error {
	if exempt(r) {
		return nil
	}
	for i, h := range p.hooks.list() {
		if err := p.turn(ctx, r, s, i, h); err != nil {
			return err
		}
	}
	if len(s.ready) > 0 && r.Object != nil {
		s.left = r.Object.DeepCopyObject()
	}
	return nil
}

// turn is a webhook's turn in a round.
func (p *Mutating) turn(ctx context.Context, r *admission.Request, s *rounds, index int, h *hook) error {
	version, ok, err := p.selects(ctx, h, r)
	if !ok {
		return err
	}
	v, err := newReview(r, version)
	if err != nil {
		return admission.Internal(err)
	}
	if ok, err = p.passes(ctx, h, r, v); !ok {
		return err
	}
	if s.number > 0 && !s.due[h.id] {
		return nil
	}
	place := fmt.Sprintf("round_%d_index_%d", s.number, index)
	changed, err := p.ask(ctx, r, h, v, place)
	p.annotate(ctx, "mutation.webhook.admission.k8s.io/"+place, false, mutation{h.configuration, h.Name, changed})
	s.called(h, changed)
	if err == nil {
		return nil
	}
	ignored, err := p.outcome(h, err)
	if ignored {
		p.options.Annotate(ctx, failedOpen("mutation", s.number, index, h.Name))
	}
	if err == nil && ctx.Err() != nil {
		return errTimeout()
	}
	return err
}

// ask calls a webhook and applies its patch.
func (p *Mutating) ask(ctx context.Context, r *admission.Request, h *hook, v *review, place string) (changed bool, err error) {
	response, err := p.call(ctx, h, v, true)
	p.report(ctx, h, response)
	if err != nil || len(response.Patch) == 0 {
		return false, err
	}
	patch, err := jsonpatch.Decode(response.Patch)
	if err != nil {
		return false, &CallError{Webhook: h.Name, Reason: fmt.Errorf("received undecodable patch in webhook response: %w", err)}
	}
	switch {
	case len(patch) == 0:
		return false, nil
	case r.Object == nil:
		return false, admission.Internal(fmt.Errorf("admission webhook %q attempted to modify the object, which is not supported for this operation", h.Name))
	case *response.PatchType != admissionv1.PatchTypeJSONPatch:
		return false, &CallError{Webhook: h.Name, Reason: fmt.Errorf("unsupported patch type %q", *response.PatchType)}
	}
	obj, err := patched(ctx, v, patch)
	if err != nil {
		return false, admission.Internal(err)
	}
	p.annotate(ctx, "patch.webhook.admission.k8s.io/"+place, true, patching{h.configuration, h.Name, patch, string(*response.PatchType)})
	changed = !equality.Semantic.DeepEqual(v.request.Object.Object, obj)
	if v.version.ToStored != nil {
		if obj, err = v.version.ToStored(obj); err != nil {
			return false, admission.Internal(err)
		}
	}
	r.Object = obj
	p.options.Default(r.Kind, obj)
	return changed, nil
}

// patched returns the object of a review with a patch applied, in the review's version.
func patched(ctx context.Context, v *review, patch jsonpatch.Patch) (runtime.Object, error) {
	raw, err := v.raw()
	if err != nil {
		return nil, err
	}
	body, err := patch.Apply(ctx, raw.object)
	if err != nil {
		return nil, err
	}
	was := v.request.Object.Object
	obj, ok := reflect.New(reflect.TypeOf(was).Elem()).Interface().(runtime.Object)
	if !ok {
		return nil, fmt.Errorf("%T is not an object", was)
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, obj); err != nil {
		return nil, err
	}
	if is := obj.GetObjectKind().GroupVersionKind(); is != v.version.Kind {
		return nil, fmt.Errorf("the patch turns %v into %v", v.version.Kind, is)
	}
	if was.GetObjectKind().GroupVersionKind().Empty() {
		if u, ok := obj.(runtime.Unstructured); ok {
			delete(u.UnstructuredContent(), "apiVersion")
			delete(u.UnstructuredContent(), "kind")
		} else {
			obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		}
	}
	return obj, nil
}

// mutation and patching are the values of annotations.
type (
	mutation struct {
		Configuration string `json:"configuration"`
		Webhook       string `json:"webhook"`
		Mutated       bool   `json:"mutated"`
	}
	patching struct {
		Configuration string          `json:"configuration"`
		Webhook       string          `json:"webhook"`
		Patch         jsonpatch.Patch `json:"patch,omitempty"`
		PatchType     string          `json:"patchType,omitempty"`
	}
)

func (p *Mutating) annotate(ctx context.Context, key string, content bool, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		p.options.Logger.Error("an audit annotation cannot be encoded", "key", key, "error", err)
		return
	}
	p.options.Annotate(ctx, Annotation{Key: key, Value: string(text), Content: content})
}
