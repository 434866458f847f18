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
)

// applied is the state that the patch, an applied configuration, makes of the current one.
func (p *patch) applied(_ context.Context, current registry.Object) (registry.Object, error) {
	merged, err := p.merge(p.tracker(), p.live(current))
	if err != nil {
		return nil, err
	}
	obj := merged.(registry.Object)
	if uid := obj.GetUID(); current == nil && uid != "" {
		key := registry.ObjectKey{Resource: p.GroupResource(), Name: p.q.Name}
		return nil, registry.Errorf(registry.ErrConflict, key, "uid mismatch: the provided object specified uid %s, and no existing object was found", uid)
	}
	return obj, p.belongs(obj)
}

// appliedScale is applied for a Scale.
func (p *patch) appliedScale(_ context.Context, live *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
	merged, err := p.merge(p.server.owners.scale(), live)
	if err != nil {
		return nil, err
	}
	scale := merged.(*autoscalingv1.Scale)
	return scale, p.belongs(scale)
}

// belongs checks that an object is the one in the URL.
func (p *patch) belongs(obj metav1.Object) error {
	if err := sameNamespace(obj, p.namespace()); err != nil {
		return err
	}
	return checkName(obj, p.q.Name, p.namespace())
}

// merge applies the configuration to live.
func (p *patch) merge(t *managedfields.Tracker, live managedfields.Object) (managedfields.Object, error) {
	if err := p.server.room(p.data, p.new()); err != nil {
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
	if p.lenient {
		return obj, nil
	}
	// Unknown fields have failed the apply; duplicate ones could only be seen in the text.
	if p.duplicates != nil {
		err := fmt.Errorf("error converting YAML to JSON: %w", p.duplicates)
		if p.strict {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("error strict decoding patch: %v", err))
		}
		p.warnStrict([]error{err})
	}
	return obj, nil
}
