package request

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	ivalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keelson-dev/keelson/authz/selector"
	"github.com/keelson-dev/keelson/registry"
)

// Selection returns what the options of a list, a watch or a deletion of a collection select in a namespace, or
// in all with "".
func Selection(res *registry.Resource, namespace string, o metav1.ListOptions) (registry.Selection, error) {
	selection := registry.Selection{Namespace: namespace}
	for _, s := range []struct{ name, raw string }{{"labelSelector", o.LabelSelector}, {"fieldSelector", o.FieldSelector}} {
		if err := selector.Check(s.raw); err != nil {
			return selection, apierrors.NewBadRequest(s.name + ": " + err.Error())
		}
	}
	var err error
	if selection.Labels, err = labels.Parse(o.LabelSelector); err != nil {
		return selection, apierrors.NewBadRequest(err.Error())
	}
	if selection.Fields, err = fields.ParseAndTransformSelector(o.FieldSelector, func(label, value string) (string, string, error) {
		label, err := fieldLabel(res, label)
		return label, value, err
	}); err != nil {
		return selection, apierrors.NewBadRequest(err.Error())
	}
	internal := internalversion.ListOptions{
		LabelSelector: selection.Labels, FieldSelector: selection.Fields, Watch: o.Watch,
		AllowWatchBookmarks: o.AllowWatchBookmarks, ResourceVersion: o.ResourceVersion,
		ResourceVersionMatch: o.ResourceVersionMatch, TimeoutSeconds: o.TimeoutSeconds,
		Limit: o.Limit, Continue: o.Continue, SendInitialEvents: o.SendInitialEvents,
	}
	return selection, Options("ListOptions", ivalidation.ValidateListOptions(&internal, true))
}

// fieldLabel checks the label of a field selector and translates it to the kind's.
func fieldLabel(res *registry.Resource, label string) (string, error) {
	if label == "metadata.name" || label == "metadata.namespace" && res.Namespaced {
		return label, nil
	}
	if res.FieldLabel != nil {
		if known, ok := res.FieldLabel(label); ok {
			return known, nil
		}
		return "", fmt.Errorf("field label not supported: %s", label)
	}
	if res.Fields == nil {
		return "", fmt.Errorf("%q is not a known field selector: only %q, %q", label, "metadata.name", "metadata.namespace")
	}
	if _, ok := res.Fields(res.New())[label]; ok {
		return label, nil
	}
	return "", fmt.Errorf("field label not supported: %s", label)
}
