package controllerruntime

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var (
	errContinue = errors.New("continue list option is not supported by the cache")
	errInexact  = errors.New("non-exact field matches are not supported by the cache")
)

// reader reads one form of a kind from its informer's store.
type reader struct {
	indexer    toolscache.Indexer
	gvk        schema.GroupVersionKind
	namespaced bool
	share      bool
}

func (r reader) get(key client.ObjectKey, out client.Object, options []client.GetOption) error {
	var o client.GetOptions
	o.ApplyOptions(options)
	storeKey := key.Name
	if r.namespaced && key.Namespace != "" {
		storeKey = key.Namespace + "/" + key.Name
	}
	found, ok, err := r.indexer.GetByKey(storeKey)
	if err != nil {
		return err
	}
	if !ok {
		// As in controller-runtime, whose errors name the kind instead of the resource.
		return apierrors.NewNotFound(schema.GroupResource{Group: r.gvk.Group, Resource: r.gvk.Kind}, key.Name)
	}
	obj := r.given(found.(runtime.Object), o.UnsafeDisableDeepCopy)
	to, from := reflect.ValueOf(out), reflect.ValueOf(obj)
	if !from.Type().AssignableTo(to.Type()) {
		return fmt.Errorf("cache had type %s, but %s was asked for", from.Type(), to.Type())
	}
	to.Elem().Set(from.Elem())
	return nil
}

// given returns an object for a caller: a copy with its type set, or with share the cached one.
func (r reader) given(obj runtime.Object, share *bool) runtime.Object {
	if r.share || share != nil && *share {
		return obj
	}
	obj = obj.DeepCopyObject()
	obj.GetObjectKind().SetGroupVersionKind(r.gvk)
	return obj
}

func (r reader) list(out client.ObjectList, options []client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	if o.Continue != "" {
		return errContinue
	}
	found, err := r.candidates(&o)
	if err != nil {
		return err
	}
	items := make([]runtime.Object, 0, len(found))
	for _, item := range found {
		if o.Limit > 0 && int64(len(items)) >= o.Limit {
			break
		}
		obj := item.(client.Object)
		if o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(obj.GetLabels())) {
			items = append(items, r.given(obj, o.UnsafeDisableDeepCopy))
		}
	}
	if err := meta.SetList(out, items); err != nil {
		return fmt.Errorf("make a list of %s: %w", r.gvk.Kind, err)
	}
	out.SetContinue("continue-not-supported")
	return nil
}

// candidates returns the objects that match everything but the label selector.
func (r reader) candidates(o *client.ListOptions) ([]any, error) {
	switch {
	case o.FieldSelector != nil:
		return r.byFields(o.FieldSelector, o.Namespace)
	case o.Namespace != "":
		return r.indexer.ByIndex(toolscache.NamespaceIndex, o.Namespace)
	}
	return r.indexer.List(), nil
}

func (r reader) byFields(s fields.Selector, namespace string) ([]any, error) {
	required := s.Requirements()
	if len(required) == 0 || slices.ContainsFunc(required, func(q fields.Requirement) bool {
		return q.Operator != selection.Equals && q.Operator != selection.DoubleEquals
	}) {
		return nil, errInexact
	}
	found, err := r.indexer.ByIndex(indexName(required[0].Field), indexValue(namespace, required[0].Value))
	if err != nil {
		return nil, err
	}
	indexers := r.indexer.GetIndexers()
	for _, q := range required[1:] {
		if len(found) == 0 {
			return nil, nil
		}
		values, ok := indexers[indexName(q.Field)]
		if !ok {
			return nil, fmt.Errorf("index with name %s does not exist", indexName(q.Field))
		}
		kept := make([]any, 0, len(found))
		for _, obj := range found {
			has, err := values(obj)
			if err != nil {
				return nil, err
			}
			if slices.Contains(has, indexValue(namespace, q.Value)) {
				kept = append(kept, obj)
			}
		}
		found = kept
	}
	return found, nil
}

// indexName is the name of the index of a field, as in controller-runtime's cache, so that handlers can find it in the
// store.
func indexName(field string) string { return "field:" + field }

// indexValue is that index's key for a value in a namespace, or with "" in any.
func indexValue(namespace, value string) string {
	if namespace == "" {
		namespace = "__all_namespaces"
	}
	return namespace + "/" + value
}
