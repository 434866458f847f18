// Package endpointslices has what the controllers that write EndpointSlices share: the slices of one writer, read from
// a cache that may lag behind the writes, and the comparison of endpoints and ports.
package endpointslices

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/backends"
	"github.com/keelson-dev/keelson/controllers/ownership"
	"github.com/keelson-dev/keelson/informer"
)

// byService indexes slices by the service in their label.
const byService = "endpointslice service"

// Client is what a writer of slices needs of the server.
type Client interface {
	client.Creator
	client.Updater
	client.Deleter
}

// Slices are those of one writer. Make them with New. They are safe for concurrent use, by one worker for each service.
type Slices struct {
	in        *informer.Informer[*discoveryv1.EndpointSlice]
	client    Client
	managedBy string
	waiting   *backends.Waiting
	written   *tracker
}

// New returns the slices with this value of the label endpointslice.kubernetes.io/managed-by. It adds an index to the
// informer, unless another writer has, and therefore must be called before the informer runs.
func New(in *informer.Informer[*discoveryv1.EndpointSlice], c Client, managedBy string) *Slices {
	in.AddIndex(byService, func(slice *discoveryv1.EndpointSlice) []string { return []string{ServiceOf(slice).String()} })
	return &Slices{in: in, client: c, managedBy: managedBy, waiting: backends.NewWaiting(), written: newTracker()}
}

func kind() ownership.Kind {
	return ownership.Kind{GroupVersionKind: discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), Resource: "endpointslices"}
}

// ServiceOf returns the key of the service in the slice's label.
func ServiceOf(slice *discoveryv1.EndpointSlice) controllers.Key {
	return controllers.Key{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}
}

func (s *Slices) ours(slice *discoveryv1.EndpointSlice) bool {
	return slice.Labels[discoveryv1.LabelManagedBy] == s.managedBy
}

// Watch enqueues services some time after others have changed their slices, and at once when the cache shows a write
// that Of waits for.
func (s *Slices) Watch(q controllers.Queue, delay time.Duration) {
	later := func(slice *discoveryv1.EndpointSlice) {
		if key := ServiceOf(slice); key.Name != "" {
			q.AddAfter(key, delay)
		}
	}
	seen := func(slice *discoveryv1.EndpointSlice) {
		if key := ServiceOf(slice); s.waiting.Take(key) {
			q.Add(key)
		}
	}
	s.in.AddHandler(informer.Handler[*discoveryv1.EndpointSlice]{
		Added: func(slice *discoveryv1.EndpointSlice) {
			if s.ours(slice) && s.written.foreign(slice) {
				later(slice)
			}
			seen(slice)
		},
		Updated: func(old, slice *discoveryv1.EndpointSlice) {
			if s.ours(old) && (!s.ours(slice) || ServiceOf(old) != ServiceOf(slice) || slice.DeletionTimestamp != nil) {
				s.went(old) // the cache need not show it any more
			}
			switch {
			case ServiceOf(old) != ServiceOf(slice):
				later(slice)
				later(old)
			case s.ours(old) != s.ours(slice), s.ours(slice) && s.written.foreign(slice):
				later(slice)
			}
			seen(slice)
		},
		Deleted: func(slice *discoveryv1.EndpointSlice) {
			if s.ours(slice) && s.went(slice) {
				later(slice)
			}
			seen(slice)
		},
	})
}

// went notes that a slice is no longer one of a service's, and reports whether that was somebody else's doing.
func (s *Slices) went(slice *discoveryv1.EndpointSlice) bool {
	return ServiceOf(slice).Name != "" && s.written.deleted(slice)
}

// Of returns the slices of a service that are not being deleted, by name, and whether the cache shows the last write.
// If not, the service is enqueued as soon as it does.
func (s *Slices) Of(service controllers.Key) ([]*discoveryv1.EndpointSlice, bool) {
	existing, current := s.read(service)
	if !current {
		s.waiting.Add(service)
		existing, current = s.read(service) // they may have arrived before the service began to wait
	}
	return existing, current
}

func (s *Slices) read(service controllers.Key) ([]*discoveryv1.EndpointSlice, bool) {
	var existing []*discoveryv1.EndpointSlice
	for _, slice := range s.in.ByIndex(byService, service.String()) {
		if s.ours(slice) && slice.DeletionTimestamp == nil {
			existing = append(existing, slice)
		}
	}
	return existing, !s.written.behind(service, existing)
}

// Forget drops what is known of a service.
func (s *Slices) Forget(service controllers.Key) {
	s.written.forget(service)
	s.waiting.Take(service)
}

// Ending reports whether a creation failed because the namespace is being deleted: a retry would fail, too.
func Ending(err error) bool { return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) }

// Create creates a slice.
func (s *Slices) Create(ctx context.Context, slice *discoveryv1.EndpointSlice) error {
	return s.note(s.client.Create(ctx, kind().Target(slice.Namespace, ""), slice, metav1.CreateOptions{}))
}

// Update updates a slice.
func (s *Slices) Update(ctx context.Context, slice *discoveryv1.EndpointSlice) error {
	return s.note(s.client.Update(ctx, kind().Target(slice.Namespace, slice.Name), slice, metav1.UpdateOptions{}))
}

// note records the result of a write until the cache shows it.
func (s *Slices) note(got any, err error) error {
	if err != nil {
		return err
	}
	slice, ok := got.(*discoveryv1.EndpointSlice)
	if !ok {
		return errors.New("server answered with another kind")
	}
	s.written.wrote(slice)
	return nil
}

// Delete deletes a slice.
func (s *Slices) Delete(ctx context.Context, slice *discoveryv1.EndpointSlice) error {
	s.written.expectDeletion(slice) // first, since the deletion may be seen before the call returns
	err := s.client.Delete(ctx, kind().Target(slice.Namespace, slice.Name), metav1.DeleteOptions{})
	if err != nil {
		s.written.wrote(slice)
	}
	return err
}
