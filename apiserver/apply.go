package apiserver

import (
	"context"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-dev/keelson/apiserver/managedfields"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/request"
)

// applyToObject returns what the patch, an applied configuration, makes of the current object.
func (p *patch) applyToObject(_ context.Context, current registry.Object) (registry.Object, error) {
	merged, err := p.merge(p.call.tracker(), p.call.currentOrEmpty(current))
	if err != nil {
		return nil, err
	}
	obj := merged.(registry.Object)
	if uid := obj.GetUID(); current == nil && uid != "" {
		key := registry.ObjectKey{Resource: p.call.resource.GroupResource(), Name: p.call.request.Name}
		return nil, registry.Errorf(registry.ErrConflict, key, "uid mismatch: the provided object specified uid %s, and no existing object was found", uid)
	}
	return obj, p.checkIdentity(obj)
}

// applyToScale is applyToObject for a Scale.
func (p *patch) applyToScale(_ context.Context, live *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
	merged, err := p.merge(p.call.backend.trackers.scale(), live)
	if err != nil {
		return nil, err
	}
	scale := merged.(*autoscalingv1.Scale)
	return scale, p.checkIdentity(scale)
}

// checkIdentity checks that an object is the one that the URL names.
func (p *patch) checkIdentity(obj metav1.Object) error {
	if err := request.InNamespace(obj, p.call.namespace()); err != nil {
		return err
	}
	return request.At(obj, p.call.namespace(), p.call.request.Name)
}

// merge applies the configuration to live.
func (p *patch) merge(t *managedfields.Tracker, live managedfields.Object) (managedfields.Object, error) {
	if err := p.call.backend.decoder.checkMemory(p.data, p.call.resource.New()); err != nil {
		return nil, err
	}
	config := &unstructured.Unstructured{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(p.data, &config.Object); err != nil {
		return nil, apierrors.NewBadRequest("error decoding patch: error unmarshaling JSON: while decoding JSON: " + err.Error())
	}
	obj, err := t.Apply(live, config, p.manager, p.force)
	if err != nil {
		return nil, applyError(err)
	}
	if p.validation == metav1.FieldValidationIgnore {
		return obj, nil
	}
	// Unknown fields have failed the apply. Duplicate ones show in the text alone.
	if p.duplicates != nil {
		err := fmt.Errorf("error converting YAML to JSON: %w", p.duplicates)
		if p.validation == metav1.FieldValidationStrict {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("error strict decoding patch: %v", err))
		}
		p.call.warnStrict([]error{err})
	}
	return obj, nil
}
