package admit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/client/manifest"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/internal/quota"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/codec"
)

// Decode reads the objects of a YAML or JSON text, as package manifest does.
func Decode(text []byte) ([]runtime.Object, error) {
	var all []runtime.Object
	for is, err := range manifest.Read(text) {
		u := &unstructured.Unstructured{}
		if err == nil {
			err = json.Unmarshal(is.JSON, u)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, u)
	}
	return all, nil
}

// rank is the order in which objects are loaded: what defines kinds, then namespaces, then the rest.
func rank(obj registry.Object) int {
	switch obj.(type) {
	case *apiextensionsv1.CustomResourceDefinition:
		return 0
	case *corev1.Namespace:
		return 1
	}
	return 2
}

// loaded is an object of the state.
type loaded struct {
	at  *registry.Resource // stored version
	obj registry.Object
}

// load stores the state, and what controllers would add to it.
func (w *World) load(ctx context.Context, state []runtime.Object) error {
	ctx = authn.NewContext(ctx, cluster.Admin())
	custom, rest := []runtime.Object{}, []runtime.Object{}
	for _, obj := range state {
		data, err := w.encode(obj)
		if err != nil {
			return stateError(obj, err)
		}
		named, err := identify(data)
		if err != nil {
			return stateError(obj, err)
		}
		if named.GroupVersionKind().GroupKind() == apiextensionsv1.Kind("CustomResourceDefinition") {
			custom = append(custom, obj)
		} else {
			rest = append(rest, obj)
		}
	}
	if err := w.add(ctx, custom); err != nil {
		return err
	}
	for _, obj := range custom {
		if err := w.established(ctx, obj); err != nil {
			return err
		}
	}
	if err := w.add(ctx, rest); err != nil {
		return err
	}
	if err := w.accounts(ctx); err != nil {
		return err
	}
	return w.count(ctx)
}

// add stores objects.
func (w *World) add(ctx context.Context, objects []runtime.Object) error {
	all := make([]loaded, len(objects))
	for i, obj := range objects {
		var err error
		if all[i], err = w.decode(ctx, obj); err != nil {
			return stateError(obj, err)
		}
	}
	slices.SortStableFunc(all, func(a, b loaded) int { return cmp.Compare(rank(a.obj), rank(b.obj)) })
	for _, l := range all {
		if err := w.store(ctx, l); err != nil {
			return fmt.Errorf("%w: %s %s/%s: %w", ErrState, l.at.Names.Kind, l.obj.GetNamespace(), l.obj.GetName(), err)
		}
	}
	return nil
}

// decode reads an object, in the version in which it is stored and with its defaults. What a server would ignore is an error.
func (w *World) decode(ctx context.Context, obj runtime.Object) (loaded, error) {
	data, err := w.encode(obj)
	if err != nil {
		return loaded{}, err
	}
	named, err := identify(data)
	if err != nil {
		return loaded{}, err
	}
	at, err := w.find(named.GroupVersionKind(), schema.GroupVersionResource{})
	if err != nil {
		return loaded{}, err
	}
	if !at.Stored() {
		return loaded{}, errors.New("is not stored")
	}
	into := at.New()
	var strict []error
	if at.Decode != nil {
		strict, err = at.Decode(data, into)
	} else {
		_, strict, err = codec.DecodeStrict(data, into)
	}
	if err = errors.Join(append(strict, err)...); err != nil {
		return loaded{}, err
	}
	if at.Namespaced {
		into.SetNamespace(cmp.Or(into.GetNamespace(), metav1.NamespaceDefault))
	}
	stored, err := at.ToStored(ctx, into)
	if err != nil {
		return loaded{}, err
	}
	at = at.Storage()
	if at.Rules.Default != nil {
		at.Rules.Default(stored)
	}
	return loaded{at, stored}, nil
}

// store creates an object by the rules of its kind, and then gives it the status and the metadata that it came with. As these are
// not for clients to write, the record itself is replaced.
func (w *World) store(ctx context.Context, l loaded) error {
	fresh := l.obj.DeepCopyObject().(registry.Object)
	fresh.SetResourceVersion("")
	_, err := l.at.Create(ctx, fresh, registry.CreateOptions{})
	exists := errors.Is(err, registry.ErrExists)
	if err != nil && !exists || rank(l.obj) == 0 { // the status of definitions is their controller's
		return err
	}
	current, err := l.at.Get(ctx, l.obj.GetNamespace(), l.obj.GetName(), "")
	if err != nil {
		return err
	}
	next := current.Object.DeepCopyObject().(registry.Object)
	if exists { // it is one that every cluster has
		uid := next.GetUID()
		next = l.obj.DeepCopyObject().(registry.Object)
		next.SetUID(cmp.Or(next.GetUID(), uid))
	}
	l.restore(next)
	next.SetResourceVersion("")
	if l.at.Rules.Store != nil {
		l.at.Rules.Store(next)
	}
	value, err := codec.Stored(l.at.StoredAs(), next)
	if err != nil {
		return err
	}
	key := registry.Root + l.at.Prefix + "/" + strings.TrimPrefix(next.GetNamespace()+"/"+next.GetName(), "/")
	revision, err := w.records.Update(ctx, key, value, current.Revision)
	if err != nil {
		return err
	}
	_, err = l.at.Get(ctx, next.GetNamespace(), next.GetName(), strconv.FormatInt(revision, 10))
	return err
}

// restore sets what a create does not take from clients.
func (l loaded) restore(next registry.Object) {
	if uid := l.obj.GetUID(); uid != "" {
		next.SetUID(uid)
	}
	if at := l.obj.GetCreationTimestamp(); !at.IsZero() {
		next.SetCreationTimestamp(at)
	}
	if n := l.obj.GetGeneration(); n != 0 {
		next.SetGeneration(n)
	}
	next.SetDeletionTimestamp(l.obj.GetDeletionTimestamp())
	next.SetDeletionGracePeriodSeconds(l.obj.GetDeletionGracePeriodSeconds())
	if from, ok := l.obj.(*unstructured.Unstructured); ok {
		if status, ok := from.Object["status"]; ok {
			next.(*unstructured.Unstructured).Object["status"] = runtime.DeepCopyJSONValue(status)
		}
		return
	}
	from := reflect.ValueOf(l.obj.DeepCopyObject()).Elem().FieldByName("Status")
	if from.IsValid() && !from.IsZero() {
		reflect.ValueOf(next).Elem().FieldByName("Status").Set(from)
	}
}

// established waits until the kind of a definition is served.
func (w *World) established(ctx context.Context, obj runtime.Object) error {
	l, err := w.decode(ctx, obj)
	if err != nil {
		return stateError(obj, err)
	}
	all, watch, err := l.at.ListAndWatch(ctx, registry.Selection{}, "")
	if err != nil {
		return err
	}
	ready := func(o registry.Object) (bool, error) {
		crd := o.(*apiextensionsv1.CustomResourceDefinition)
		if crd.Name != l.obj.GetName() {
			return false, nil
		}
		_, served := w.cluster.Registry().Resource(schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural})
		for _, c := range crd.Status.Conditions {
			switch {
			case c.Type == apiextensionsv1.NamesAccepted && c.Status == apiextensionsv1.ConditionFalse,
				c.Type == apiextensionsv1.NonStructuralSchema && c.Status == apiextensionsv1.ConditionTrue:
				return false, stateError(crd, errors.New(c.Message))
			case c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue:
				return served, nil
			}
		}
		return false, nil
	}
	for _, item := range all.Items {
		if ok, err := ready(item.Object); ok || err != nil {
			return err
		}
	}
	for {
		events, err := watch.Next(ctx)
		if err != nil {
			return err
		}
		for _, e := range events {
			if e.Item == nil {
				continue
			}
			if ok, err := ready(e.Item.Object); ok || err != nil {
				return err
			}
		}
	}
}

// accounts gives every namespace the account that pods have without one of their own.
func (w *World) accounts(ctx context.Context) error {
	access := w.cluster.Registry().Access()
	all, err := access.List(ctx, schema.GroupResource{Resource: "namespaces"}, "")
	if err != nil {
		return err
	}
	for _, ns := range all {
		_, err := access.Create(ctx, schema.GroupResource{Resource: "serviceaccounts"}, &corev1.ServiceAccount{
			ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: ns.GetName()},
		})
		if err != nil && !errors.Is(err, registry.ErrExists) {
			return err
		}
	}
	return nil
}

// count writes the usage of quotas that have none yet, as a controller does.
func (w *World) count(ctx context.Context) error {
	r := w.cluster.Registry()
	quotas, err := r.Access().List(ctx, schema.GroupResource{Resource: "resourcequotas"}, "")
	if err != nil {
		return err
	}
	for _, obj := range quotas {
		q := obj.(*corev1.ResourceQuota)
		if q.Status.Hard != nil || q.Status.Used != nil {
			continue
		}
		used, err := w.usage(ctx, q)
		if err != nil {
			return err
		}
		at, _ := r.Resource(schema.GroupResource{Resource: "resourcequotas"})
		if _, _, err := at.Update(ctx, q.Namespace, q.Name, func(_ context.Context, current registry.Object) (registry.Object, error) {
			next := current.DeepCopyObject().(*corev1.ResourceQuota)
			next.Status = corev1.ResourceQuotaStatus{Hard: next.Spec.Hard.DeepCopy(), Used: used}
			return next, nil
		}, registry.UpdateOptions{Raw: true}); err != nil {
			return err
		}
	}
	return nil
}

// usage is what the objects in a quota's namespace use.
func (w *World) usage(ctx context.Context, q *corev1.ResourceQuota) (corev1.ResourceList, error) {
	used := corev1.ResourceList{}
	now := time.Now()
	for _, res := range w.cluster.Registry().Resources() {
		gr := res.GroupResource()
		if !res.Stored() || !res.Namespaced || quota.Ignored(gr) {
			continue
		}
		evaluator := quota.For(gr)
		objects, err := w.cluster.Registry().Access().List(ctx, gr, q.Namespace)
		if err != nil {
			return nil, err
		}
		for _, obj := range objects {
			if evaluator.InScope(&q.Spec, obj) {
				used = quota.Add(used, evaluator.Usage(obj, now))
			}
		}
	}
	zero := corev1.ResourceList{}
	for name, limit := range q.Spec.Hard {
		limit = limit.DeepCopy()
		limit.Sub(limit)
		zero[name] = limit
	}
	return quota.Mask(quota.Add(zero, used), q.Spec.Hard), nil
}
