package volumes

import (
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/informer"
)

// ahead is an informer's cache with some objects in a state that they are about to get. Such a state counts until the
// informer has another version than that from which it was made.
type ahead[T informer.Object] struct {
	in       *informer.Informer[T]
	resource schema.GroupResource

	mu      *sync.RWMutex // guards the rest
	assumed map[types.NamespacedName]T
}

func newAhead[T informer.Object](in *informer.Informer[T], resource schema.GroupResource) ahead[T] {
	return ahead[T]{in: in, resource: resource, mu: new(sync.RWMutex), assumed: map[types.NamespacedName]T{}}
}

func nameOf(obj informer.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// stored returns the informer's state.
func (a *ahead[T]) stored(name types.NamespacedName) (T, error) {
	obj, ok := a.in.Get(name.Namespace, name.Name)
	if !ok {
		return obj, apierrors.NewNotFound(a.resource, strings.TrimPrefix(name.String(), "/"))
	}
	return obj, nil
}

// get returns the assumed state, if there is one, or the informer's.
func (a *ahead[T]) get(name types.NamespacedName) (T, error) {
	obj, err := a.stored(name)
	if err != nil {
		return obj, err
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.newest(obj), nil
}

// byIndex is the informer's with assumed states; these are indexed like those from which they were made.
func (a *ahead[T]) byIndex(index, value string) []T {
	objs := a.in.ByIndex(index, value)
	a.mu.RLock()
	defer a.mu.RUnlock()
	for i, obj := range objs {
		objs[i] = a.newest(obj)
	}
	return objs
}

func (a *ahead[T]) newest(obj T) T {
	if len(a.assumed) == 0 {
		return obj
	}
	if assumed, ok := a.assumed[nameOf(obj)]; ok && assumed.GetResourceVersion() == obj.GetResourceVersion() {
		return assumed
	}
	return obj
}

// assume sets the state of an object that is to be written. It fails if the informer has another version.
func (a *ahead[T]) assume(obj T) error {
	name := nameOf(obj)
	a.mu.Lock()
	defer a.mu.Unlock()
	stored, err := a.stored(name)
	if err != nil {
		return err
	}
	if was, is := obj.GetResourceVersion(), stored.GetResourceVersion(); was != is {
		return fmt.Errorf("%q is out of sync (stored: %s, assume: %s)", strings.TrimPrefix(name.String(), "/"), is, was)
	}
	a.assumed[name] = obj
	return nil
}

// restore takes back an assumed state, unless it was written, or has been replaced, in the meantime.
func (a *ahead[T]) restore(obj T) {
	name := nameOf(obj)
	a.mu.Lock()
	defer a.mu.Unlock()
	if assumed, ok := a.assumed[name]; ok && assumed.GetResourceVersion() == obj.GetResourceVersion() {
		delete(a.assumed, name)
	}
}

// expire drops the assumed state of an object after an event, if that state is not the newest any more.
func (a *ahead[T]) expire(obj T) {
	name := nameOf(obj)
	a.mu.Lock()
	defer a.mu.Unlock()
	assumed, ok := a.assumed[name]
	if !ok {
		return
	}
	if stored, err := a.stored(name); err != nil || stored.GetResourceVersion() != assumed.GetResourceVersion() {
		delete(a.assumed, name)
	}
}
