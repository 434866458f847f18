package wire

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/restclient"
)

// Options of a Source. The zero value shows all objects of the resource.
type Options struct {
	// Namespace, LabelSelector and FieldSelector narrow the selection; empty ones do not.
	Namespace     string
	LabelSelector string
	FieldSelector string
	// PageSize is how many objects a request of a list asks for; 0 means 500.
	PageSize int64
	// StreamList takes lists from a watch with initial events (KEP-3157), which costs a server
	// less memory; a server that does not serve them is asked for ordinary lists.
	StreamList bool
	// WatchFor is after how long the server is asked to end a watch; 0 means seven minutes.
	WatchFor time.Duration
}

// Source is an informer.Source of a resource of an API server. Make one with New.
type Source[T informer.Object] struct {
	client   rest.Interface
	resource string
	options  Options
}

// New makes a source of the resource whose kind is T. The scheme knows T and its list. As
// everywhere in client-go, a config with QPS 0 is held to 5 lists a second and a negative QPS
// lifts the limit.
func New[T informer.Object](config *rest.Config, scheme *runtime.Scheme, resource schema.GroupVersionResource, options Options) (*Source[T], error) {
	clients, err := restclient.New(config, scheme)
	if err != nil {
		return nil, err
	}
	client, err := clients.For(resource.GroupVersion())
	if err != nil {
		return nil, err
	}
	if options.PageSize <= 0 {
		options.PageSize = 500
	}
	if options.WatchFor <= 0 {
		options.WatchFor = 7 * time.Minute
	}
	return &Source[T]{client: client, resource: resource.Resource, options: options}, nil
}

// request starts a GET of the selection.
func (s *Source[T]) request(options metav1.ListOptions) *rest.Request {
	options.LabelSelector, options.FieldSelector = s.options.LabelSelector, s.options.FieldSelector
	r := s.client.Get().Resource(s.resource)
	if s.options.Namespace != "" {
		r.Namespace(s.options.Namespace)
	}
	return r.SpecificallyVersionedParams(&options, metav1.ParameterCodec, schema.GroupVersion{Version: "v1"})
}

// List implements informer.Source.
func (s *Source[T]) List(ctx context.Context) ([]T, string, error) {
	if s.options.StreamList {
		items, version, err := s.streamList(ctx)
		if !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
			return items, version, err
		}
	}
	items, version, err := s.pages(ctx, s.options.PageSize)
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		// The pages took longer than the server keeps history: one request, however large.
		items, version, err = s.pages(ctx, 0)
	}
	return items, version, expired(err)
}

// pages lists with at most size objects in a request; 0 is no bound.
func (s *Source[T]) pages(ctx context.Context, size int64) ([]T, string, error) {
	var items []T
	var version, next string
	for {
		list, err := s.request(metav1.ListOptions{Limit: size, Continue: next}).Do(ctx).Get()
		if err != nil {
			return nil, "", err
		}
		// Each object gets memory of its own, so that one which stays does not keep the page.
		err = meta.EachListItemWithAlloc(list, func(obj runtime.Object) error {
			typed, err := as[T](obj)
			items = append(items, typed)
			return err
		})
		if err != nil {
			return nil, "", fmt.Errorf("list %s: %w", s.resource, err)
		}
		m, err := meta.ListAccessor(list)
		if err != nil {
			return nil, "", fmt.Errorf("list %s: %w", s.resource, err)
		}
		version, next = m.GetResourceVersion(), m.GetContinue()
		if next == "" {
			return items, version, nil
		}
	}
}

// streamList lists by a watch that starts with what is there.
func (s *Source[T]) streamList(ctx context.Context) ([]T, string, error) {
	initial := true
	st, err := s.open(ctx, metav1.ListOptions{
		SendInitialEvents:    &initial,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if err != nil {
		return nil, "", err
	}
	defer st.Close()
	found := map[string]T{}
	for {
		e, end, err := st.one(ctx)
		if err != nil {
			return nil, "", err
		}
		switch e.Type {
		case informer.Added, informer.Modified:
			found[pathOf(e.Object)] = e.Object
		case informer.Deleted:
			delete(found, pathOf(e.Object))
		case informer.Bookmark:
			if !end {
				continue
			}
			items := make([]T, 0, len(found))
			for _, obj := range found {
				items = append(items, obj)
			}
			slices.SortFunc(items, func(a, b T) int { return strings.Compare(pathOf(a), pathOf(b)) })
			return items, e.Version, nil
		}
	}
}

// pathOf orders objects as a server's list does.
func pathOf(obj metav1.Object) string {
	if obj.GetNamespace() == "" {
		return obj.GetName()
	}
	return obj.GetNamespace() + "/" + obj.GetName()
}

// Watch implements informer.Source. The stream ends with ctx, too.
func (s *Source[T]) Watch(ctx context.Context, version string) (informer.Stream[T], error) {
	st, err := s.open(ctx, metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		return nil, err
	}
	return st, nil
}

func (s *Source[T]) open(ctx context.Context, options metav1.ListOptions) (*stream[T], error) {
	seconds := int64(s.options.WatchFor / time.Second)
	options.Watch, options.AllowWatchBookmarks, options.TimeoutSeconds = true, true, &seconds
	ctx, cancel := context.WithCancel(ctx)
	w, err := s.request(options).Watch(ctx)
	if err != nil {
		cancel()
		return nil, expired(err)
	}
	return &stream[T]{watch: w, cancel: cancel}, nil
}

// stream is one watch.
type stream[T informer.Object] struct {
	watch     watch.Interface
	cancel    context.CancelFunc
	closeOnce sync.Once
}

// Next implements informer.Stream.
func (st *stream[T]) Next(ctx context.Context) ([]informer.Event[T], error) {
	e, _, err := st.one(ctx)
	if err != nil {
		return nil, err
	}
	return []informer.Event[T]{e}, nil
}

// one returns the next event, and whether it is the bookmark after the initial ones.
func (st *stream[T]) one(ctx context.Context) (e informer.Event[T], end bool, err error) {
	if err := ctx.Err(); err != nil {
		return e, false, err
	}
	select {
	case <-ctx.Done():
		return e, false, ctx.Err()
	case raw, open := <-st.watch.ResultChan():
		if !open {
			if err := ctx.Err(); err != nil {
				return e, false, err
			}
			return e, false, io.EOF
		}
		e, end, err = convert[T](raw)
		if err != nil && ctx.Err() != nil {
			err = ctx.Err() // which is why the stream broke
		}
		return e, end, err
	}
}

// Close implements informer.Stream. It returns when the goroutine that reads is gone.
func (st *stream[T]) Close() {
	st.closeOnce.Do(func() {
		st.cancel()
		st.watch.Stop()
		for {
			if _, open := <-st.watch.ResultChan(); !open {
				return
			}
		}
	})
}

// convert makes an event of one of client-go.
func convert[T informer.Object](raw watch.Event) (e informer.Event[T], end bool, err error) {
	if raw.Type == watch.Error {
		return e, false, expired(apierrors.FromObject(raw.Object))
	}
	obj, err := as[T](raw.Object)
	if err != nil {
		return e, false, fmt.Errorf("%s event: %w", raw.Type, err)
	}
	e = informer.Event[T]{Object: obj, Version: obj.GetResourceVersion()}
	switch raw.Type {
	case watch.Added:
		e.Type = informer.Added
	case watch.Modified:
		e.Type = informer.Modified
	case watch.Deleted:
		e.Type = informer.Deleted
	case watch.Bookmark:
		end = obj.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
		e = informer.Event[T]{Type: informer.Bookmark, Version: e.Version}
	default:
		return e, false, fmt.Errorf("unknown event type %q", raw.Type)
	}
	return e, end, nil
}

func as[T informer.Object](obj runtime.Object) (T, error) {
	typed, ok := obj.(T)
	if !ok {
		return typed, fmt.Errorf("got a %T, want a %T", obj, typed)
	}
	return typed, nil
}

// expired marks the errors that mean it.
func expired(err error) error {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return fmt.Errorf("%w: %w", informer.ErrExpired, err)
	}
	return err
}
