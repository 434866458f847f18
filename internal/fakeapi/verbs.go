package fakeapi

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/informer"
)

// Get returns a copy of the stored object, or its scale. Of other subresources but status there
// are none.
func (s *Server) Get(_ context.Context, t client.Target) (runtime.Object, error) {
	if err := s.begin(Action{Verb: Get, Target: t}); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	obj, err := s.stored(t)
	if err != nil {
		return nil, err
	}
	if t.Subresource == "scale" {
		return scaleOf(t, obj)
	}
	return obj.DeepCopyObject(), nil
}

// scaleOf is the scale subresource of an object that has a replica count in its spec.
func scaleOf(t client.Target, obj informer.Object) (runtime.Object, error) {
	spec := fieldOf(obj, "Spec")
	if !spec.IsValid() || !spec.FieldByName("Replicas").IsValid() {
		return nil, apierrors.NewNotFound(t.Resource.GroupResource(), t.Name)
	}
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{
		Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(),
	}}
	if n, ok := spec.FieldByName("Replicas").Interface().(*int32); ok && n != nil {
		scale.Spec.Replicas = *n
	}
	return scale, nil
}

// List returns copies of the selected objects as the kind's typed list, in key order.
func (s *Server) List(_ context.Context, t client.Target, options metav1.ListOptions) (runtime.Object, error) {
	if err := s.begin(Action{Verb: List, Target: t}); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	gvk, err := s.kind(t.Resource)
	if err != nil {
		return nil, err
	}
	list, err := s.scheme.New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		return nil, err
	}
	selected, err := s.selected(t, options)
	if err != nil {
		return nil, err
	}
	items := make([]runtime.Object, len(selected))
	for i, obj := range selected {
		items[i] = obj.DeepCopyObject()
	}
	if err := meta.SetList(list, items); err != nil {
		return nil, err
	}
	listMeta, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	listMeta.SetResourceVersion(strconv.FormatInt(s.revision, 10))
	return list, nil
}

// selected returns the stored objects of a collection in key order; the caller holds the lock.
func (s *Server) selected(t client.Target, options metav1.ListOptions) ([]informer.Object, error) {
	byLabel, err := labels.Parse(options.LabelSelector)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	byField, err := fields.ParseSelector(options.FieldSelector)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	var out []informer.Object
	for _, key := range slices.Sorted(maps.Keys(s.objects[t.Resource])) {
		obj := s.objects[t.Resource][key].shared
		if t.Namespace != "" && obj.GetNamespace() != t.Namespace {
			continue
		}
		if byLabel.Matches(labels.Set(obj.GetLabels())) && byField.Matches(selectable(obj)) {
			out = append(out, obj)
		}
	}
	return out, nil
}

func selectable(obj informer.Object) fields.Set {
	set := fields.Set{"metadata.name": obj.GetName(), "metadata.namespace": obj.GetNamespace()}
	if pod, ok := obj.(*corev1.Pod); ok {
		set["spec.nodeName"] = pod.Spec.NodeName
		set["status.phase"] = string(pod.Status.Phase)
	}
	return set
}

// versionSet is no error of the client's to the API server, which finds out about it in its store.
func versionSet() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: "resourceVersion should not be set on objects to be created",
	}}
}

// Create stores a new object, or serves the binding and eviction subresources of pods.
func (s *Server) Create(_ context.Context, t client.Target, obj runtime.Object, _ metav1.CreateOptions) (runtime.Object, error) {
	if err := s.begin(Action{Verb: Create, Target: t, Object: obj}); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.Subresource != "" {
		return s.post(t, obj)
	}
	gvk, err := s.kind(t.Resource)
	if err != nil {
		return nil, err
	}
	source, ok := obj.(informer.Object)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%T is not an object", obj))
	}
	created := copyOf(source)
	if created.GetNamespace() != "" && created.GetNamespace() != t.Namespace {
		return nil, apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	created.SetNamespace(t.Namespace)
	if created.GetName() == "" {
		if created.GetGenerateName() == "" {
			return nil, apierrors.NewInvalid(gvk.GroupKind(), "", field.ErrorList{field.Required(field.NewPath("metadata", "name"), "name or generateName is required")})
		}
		s.names++
		created.SetName(created.GetGenerateName() + s.options.Name(s.names))
	}
	if err := oneController(gvk, created); err != nil {
		return nil, err
	}
	if version, err := strconv.ParseUint(created.GetResourceVersion(), 10, 64); err == nil && version != 0 {
		return nil, versionSet()
	}
	if _, exists := s.objects[t.Resource][objectKey(t.Namespace, created.GetName())]; exists {
		return nil, apierrors.NewAlreadyExists(t.Resource.GroupResource(), created.GetName())
	}
	s.uids++
	created.SetUID(types.UID(fmt.Sprintf("uid-%05d", s.uids)))
	created.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	created.SetDeletionTimestamp(nil)
	if _, slice := obj.(*discoveryv1.EndpointSlice); slice || fieldOf(created, "Spec").IsValid() {
		created.SetGeneration(1)
	}
	s.put(t.Resource, created, informer.Added)
	return created.DeepCopyObject(), nil
}

// Update replaces an object, or its status, finalize or scale subresource.
func (s *Server) Update(_ context.Context, t client.Target, obj runtime.Object, _ metav1.UpdateOptions) (runtime.Object, error) {
	if t.Name == "" {
		if accessor, err := meta.Accessor(obj); err == nil {
			t.Name = accessor.GetName()
		}
	}
	if err := s.begin(Action{Verb: Update, Target: t, Object: obj}); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next, ok := obj.(informer.Object)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%T is not an object", obj))
	}
	old, err := s.stored(t)
	if err != nil {
		return nil, err
	}
	if uid := next.GetUID(); uid != "" && uid != old.GetUID() {
		return nil, apierrors.NewConflict(t.Resource.GroupResource(), t.Name,
			fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", uid, old.GetUID()))
	}
	return s.replace(t, old, copyOf(next))
}

// replace carries an update out; the caller holds the lock and passes a next of its own.
func (s *Server) replace(t client.Target, old, next informer.Object) (runtime.Object, error) {
	gvk, err := s.kind(t.Resource)
	if err != nil {
		return nil, err
	}
	if version := next.GetResourceVersion(); version != "" && version != old.GetResourceVersion() {
		return nil, apierrors.NewConflict(t.Resource.GroupResource(), t.Name,
			fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
	}
	if err := oneController(gvk, next); err != nil {
		return nil, err
	}
	merged := merge(t.Subresource, old, next)
	if reflect.DeepEqual(old, merged) {
		return old.DeepCopyObject(), nil
	}
	if specChanged(old, merged) {
		merged.SetGeneration(old.GetGeneration() + 1)
	}
	if done(merged) {
		s.drop(t.Resource, merged)
	} else {
		s.put(t.Resource, merged, informer.Modified)
	}
	return merged.DeepCopyObject(), nil
}

// merge keeps what a request may not change: everything but status (and annotations) for the
// status subresource, the status for the main resource, and what the server alone sets.
func merge(subresource string, old, next informer.Object) informer.Object {
	out := next
	switch subresource {
	case "":
		copyField("Status", old, out)
	case "status":
		out = copyOf(old)
		out.SetAnnotations(next.GetAnnotations())
		copyField("Status", next, out)
	default:
		out = copyOf(old)
		copyField("Spec", next, out)
	}
	out.SetName(old.GetName())
	out.SetNamespace(old.GetNamespace())
	out.SetUID(old.GetUID())
	out.SetResourceVersion(old.GetResourceVersion())
	out.SetGeneration(old.GetGeneration())
	out.SetCreationTimestamp(old.GetCreationTimestamp())
	out.SetDeletionTimestamp(old.GetDeletionTimestamp())
	out.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	out.GetObjectKind().SetGroupVersionKind(old.GetObjectKind().GroupVersionKind())
	return out
}

// fieldOf returns the field of the struct behind obj, or the zero Value when it has none.
func fieldOf(obj runtime.Object, name string) reflect.Value {
	return reflect.ValueOf(obj).Elem().FieldByName(name)
}

func copyField(name string, from, to informer.Object) {
	if target := fieldOf(to, name); target.IsValid() {
		target.Set(fieldOf(copyOf(from), name))
	}
}

func sameField(name string, a, b informer.Object) bool {
	v := fieldOf(a, name)
	return !v.IsValid() || reflect.DeepEqual(v.Interface(), fieldOf(b, name).Interface())
}

// specChanged tells whether the generation goes up.
func specChanged(old, next informer.Object) bool {
	before, ok := old.(*discoveryv1.EndpointSlice)
	if !ok {
		return !sameField("Spec", old, next)
	}
	after := next.(*discoveryv1.EndpointSlice)
	return !reflect.DeepEqual(before.Endpoints, after.Endpoints) || !reflect.DeepEqual(before.Ports, after.Ports) ||
		!maps.Equal(before.Labels, after.Labels)
}

func oneController(gvk schema.GroupVersionKind, obj informer.Object) error {
	controllers := 0
	for _, ref := range obj.GetOwnerReferences() {
		if ref.Controller != nil && *ref.Controller {
			controllers++
		}
	}
	if controllers <= 1 {
		return nil
	}
	return apierrors.NewInvalid(gvk.GroupKind(), obj.GetName(), field.ErrorList{field.Invalid(
		field.NewPath("metadata", "ownerReferences"), obj.GetOwnerReferences(), "Only one reference can have Controller set to true")})
}
