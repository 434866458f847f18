package fakeapi

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/jsonpatch"
	"github.com/keelson-dev/keelson/internal/strategicpatch"
)

// Patch applies a JSON, merge or strategic merge patch, within the limits that the API server has. A
// patch that names another uid than the object's is invalid, as upstream.
func (s *Server) Patch(ctx context.Context, t client.Target, patch client.Patch, _ metav1.PatchOptions) (runtime.Object, error) {
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
	after, err := patched(ctx, before, patch, empty)
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

func patched(ctx context.Context, before []byte, patch client.Patch, kind runtime.Object) ([]byte, error) {
	switch patch.Type {
	case types.StrategicMergePatchType:
		return strategicpatch.MergeJSON(ctx, before, patch.Data, kind)
	case types.MergePatchType:
		return jsonpatch.Merge(before, patch.Data)
	default:
		operations, err := jsonpatch.Decode(patch.Data)
		if err != nil {
			return nil, err
		}
		if len(operations) > jsonpatch.MaxOperations {
			return nil, fmt.Errorf("the allowed maximum operations in a JSON patch is %d, got %d", jsonpatch.MaxOperations, len(operations))
		}
		return operations.Apply(ctx, before)
	}
}
