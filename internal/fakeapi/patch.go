package fakeapi

import (
	"context"
	"encoding/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/informer"
)

// Patch applies a JSON, merge or strategic merge patch. A patch that names another uid than the
// object's is invalid, as upstream.
func (s *Server) Patch(_ context.Context, t client.Target, patch client.Patch, _ metav1.PatchOptions) (runtime.Object, error) {
	if err := s.begin(Action{Verb: Patch, Target: t, Patch: patch.Data}); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	gvk, err := s.kind(t.Resource)
	if err != nil {
		return nil, err
	}
	old, err := s.stored(t)
	if err != nil {
		return nil, err
	}
	before, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	empty, err := s.scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	after, err := patched(before, patch, empty)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	next := empty.(informer.Object)
	if err := json.Unmarshal(after, next); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if next.GetUID() != old.GetUID() {
		return nil, apierrors.NewInvalid(gvk.GroupKind(), t.Name, field.ErrorList{field.Invalid(
			field.NewPath("metadata", "uid"), next.GetUID(), "field is immutable")})
	}
	return s.replace(t, old, next)
}

func patched(before []byte, patch client.Patch, kind runtime.Object) ([]byte, error) {
	switch patch.Type {
	case types.StrategicMergePatchType:
		return strategicpatch.StrategicMergePatch(before, patch.Data, kind)
	case types.MergePatchType:
		return jsonpatch.MergePatch(before, patch.Data)
	default:
		operations, err := jsonpatch.DecodePatch(patch.Data)
		if err != nil {
			return nil, err
		}
		return operations.Apply(before)
	}
}
