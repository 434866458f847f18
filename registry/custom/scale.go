package custom

import (
	"errors"
	"fmt"
	"math"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	// ErrNoScale means that a version has no scale subresource.
	ErrNoScale = errors.New("there is no scale subresource")
	// ErrNoReplicas means that an object does not say how many replicas it wants.
	ErrNoReplicas = errors.New("does not exist")
)

// scale is where an object has its numbers of replicas.
type scale struct {
	spec, status path
	selector     *path // nil if there is none
}

// path is a simple JSON path, such as ".spec.replicas".
type path string

func newScale(s *apiextensionsv1.CustomResourceSubresourceScale) *scale {
	return &scale{spec: path(s.SpecReplicasPath), status: path(s.StatusReplicasPath), selector: (*path)(s.LabelSelectorPath)}
}

func (p path) fields() []string { return strings.Split(strings.TrimPrefix(string(p), "."), ".") }

func (p path) number(obj object) (n int64, found bool, err error) {
	return unstructured.NestedInt64(obj.Object, p.fields()...)
}

// validateReplicas requires the number at a path, if any, to be one that a Scale can express.
func (p path) validateReplicas(obj object) field.ErrorList {
	at := field.NewPath(string(p))
	switch n, _, err := p.number(obj); {
	case err != nil:
		return field.ErrorList{field.Invalid(at, n, err.Error())}
	case n < 0:
		return field.ErrorList{field.Invalid(at, n, "should be a non-negative integer")}
	case n > math.MaxInt32:
		return field.ErrorList{field.Invalid(at, n, fmt.Sprintf("should be less than or equal to %d", math.MaxInt32))}
	}
	return nil
}

func (s *scale) validateSpec(obj object) field.ErrorList {
	if s == nil {
		return nil
	}
	return s.spec.validateReplicas(obj)
}

func (s *scale) validateStatus(obj object) field.ErrorList {
	if s == nil {
		return nil
	}
	errs := s.status.validateReplicas(obj)
	if s.selector != nil {
		if text, _, err := unstructured.NestedString(obj.Object, s.selector.fields()...); err != nil {
			errs = append(errs, field.Invalid(field.NewPath(string(*s.selector)), text, err.Error()))
		}
	}
	return errs
}

// HasScale reports whether the version has the scale subresource.
func (v *Version) HasScale() bool { return v.scale != nil }

// Scale returns the scale subresource of an object, or ErrNoScale. Its error wraps ErrNoReplicas if the object does
// not say how many replicas it wants; the returned Scale then says 0.
func (v *Version) Scale(obj *unstructured.Unstructured) (*autoscalingv1.Scale, error) {
	if v.scale == nil {
		return nil, ErrNoScale
	}
	want, found, err := v.scale.spec.number(obj)
	if err != nil {
		return nil, err
	}
	have, _, err := v.scale.status.number(obj)
	if err != nil {
		return nil, err
	}
	selector := ""
	if v.scale.selector != nil {
		if selector, _, err = unstructured.NestedString(obj.Object, v.scale.selector.fields()...); err != nil {
			return nil, err
		}
	}
	out := &autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{APIVersion: autoscalingv1.SchemeGroupVersion.String(), Kind: "Scale"},
		ObjectMeta: metav1.ObjectMeta{
			Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(),
			ResourceVersion: obj.GetResourceVersion(), CreationTimestamp: obj.GetCreationTimestamp(),
		},
		Spec:   autoscalingv1.ScaleSpec{Replicas: int32(want)},                       //nolint:gosec // validated
		Status: autoscalingv1.ScaleStatus{Replicas: int32(have), Selector: selector}, //nolint:gosec // validated
	}
	if !found {
		return out, fmt.Errorf("the spec replicas field %q %w", string(v.scale.spec), ErrNoReplicas)
	}
	return out, nil
}

// SetReplicas changes the number of replicas that an object wants. It fails if the object has something else in place
// of the objects that the number is in.
func (v *Version) SetReplicas(obj *unstructured.Unstructured, replicas int32) error {
	if v.scale == nil {
		return ErrNoScale
	}
	return unstructured.SetNestedField(obj.Object, int64(replicas), v.scale.spec.fields()...)
}
