package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// ErrDead means that a server did not end a watch within half a minute of the requested time: the connection is
// considered dead. Watch again from the last version.
var ErrDead = errors.New("watch outlived its time")

// Options of a Source. The zero value selects all objects of the resource.
type Options struct {
	// Namespace, LabelSelector and FieldSelector narrow the selection; empty ones do not.
	Namespace     string
	LabelSelector string
	FieldSelector string
	// Uninitialized also reads objects whose initializers are not done, of servers that have initializers.
	Uninitialized bool
	// PageSize is the limit of each list request; 0 means 500.
	PageSize int64
	// Paged makes lists use pages, even with servers that can stream them.
	Paged bool
	// WatchFor is after how long the server is asked to end a watch; 0 means seven minutes. A watch that lives half a
	// minute longer is considered dead.
	WatchFor time.Duration
}

// Source is an informer.Source of a resource of an API server. Make one with New or NewMetadata.
type Source[T informer.Object] struct {
	client   rest.Interface
	resource string
	options  Options
	// listAs and watchAs are the media types to request, if they are not the client's.
	listAs, watchAs string
}

// New makes a source of the resource whose kind is T. The scheme must know T and its list. As everywhere in client-go,
// a config with QPS 0 is limited to 5 lists a second, and a negative QPS lifts the limit. Unless the config sets media
// types, types with a protobuf form are requested in it.
func New[T informer.Object](config *rest.Config, scheme *runtime.Scheme, resource schema.GroupVersionResource, options Options) (*Source[T], error) {
	var example T
	if _, ok := any(example).(runtime.ProtobufMarshaller); ok && config.ContentType == "" && config.AcceptContentTypes == "" {
		config = rest.CopyConfig(config)
		config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	}
	return open[T](config, scheme, resource, options)
}

// NewMetadata makes a source of the metadata of a resource of any kind: the server omits the rest, so it costs neither
// network nor decoding.
func NewMetadata(config *rest.Config, resource schema.GroupVersionResource, options Options) (*Source[*metav1.PartialObjectMetadata], error) {
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		return nil, err
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	s, err := open[*metav1.PartialObjectMetadata](config, scheme, resource, options)
	if err != nil {
		return nil, err
	}
	as := func(kind string) string {
		form := ";as=" + kind + ";g=" + metav1.GroupName + ";v=v1"
		if config.ContentType == runtime.ContentTypeJSON {
			return runtime.ContentTypeJSON + form
		}
		return runtime.ContentTypeProtobuf + form + "," + runtime.ContentTypeJSON + form
	}
	s.listAs, s.watchAs = as("PartialObjectMetadataList"), as("PartialObjectMetadata")
	return s, nil
}

func open[T informer.Object](config *rest.Config, scheme *runtime.Scheme, resource schema.GroupVersionResource, options Options) (*Source[T], error) {
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
	if s.options.Uninitialized {
		r.Param("includeUninitialized", "true")
	}
	return r.SpecificallyVersionedParams(&options, metav1.ParameterCodec, schema.GroupVersion{Version: "v1"})
}

// List implements informer.Source.
func (s *Source[T]) List(ctx context.Context) ([]T, string, error) {
	return informer.Collect(ctx, s)
}

// ListEach implements informer.Lister by a watch that starts with the existing objects, which costs the server less
// memory than a list, or else by a list.
func (s *Source[T]) ListEach(ctx context.Context, sink informer.Sink[T]) (string, error) {
	if !s.options.Paged {
		version, refused, err := s.initial(ctx, sink)
		if !refused {
			return version, expired(err)
		}
		sink.Reset()
	}
	version, err := s.pages(ctx, s.options.PageSize, sink)
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		// The server's history expired between pages: make one request, however large.
		sink.Reset()
		version, err = s.pages(ctx, 0, sink)
	}
	return version, expired(err)
}

// pages lists with at most size objects per request; 0 is no bound.
func (s *Source[T]) pages(ctx context.Context, size int64, sink informer.Sink[T]) (string, error) {
	for next := ""; ; {
		r := s.request(metav1.ListOptions{Limit: size, Continue: next})
		if s.listAs != "" {
			r.SetHeader("Accept", s.listAs)
		}
		list, err := r.Do(ctx).Get()
		if err != nil {
			return "", err
		}
		m, err := meta.ListAccessor(list)
		if err != nil {
			return "", fmt.Errorf("list %s: %w", s.resource, err)
		}
		// Each object gets memory of its own, so that a single one does not keep the page alive.
		err = meta.EachListItemWithAlloc(list, func(obj runtime.Object) error {
			typed, err := as[T](obj)
			if err != nil {
				return err
			}
			return sink.Take(informer.Event[T]{Type: informer.Added, Object: typed})
		})
		if err != nil {
			return "", fmt.Errorf("list %s: %w", s.resource, err)
		}
		if next = m.GetContinue(); next == "" {
			return m.GetResourceVersion(), nil
		}
	}
}

// initial lists by a watch that starts with the existing objects. It fails if the server refuses, or does not support
// it and ends the watch without the final bookmark.
func (s *Source[T]) initial(ctx context.Context, sink informer.Sink[T]) (version string, refused bool, err error) {
	initial := true
	st, err := s.open(ctx, metav1.ListOptions{
		SendInitialEvents:    &initial,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if err != nil {
		return "", apierrors.IsInvalid(err) || apierrors.IsBadRequest(err), err
	}
	defer st.Close()
	for {
		e, end, err := st.one(ctx)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, ErrDead):
			return "", true, err
		case err != nil:
			return "", false, err
		case end:
			return e.Version, false, nil
		case e.Type == informer.Bookmark:
			continue
		}
		if err := sink.Take(e); err != nil {
			return "", false, err
		}
	}
}

// Watch implements informer.Source. The stream ends with ctx, too.
func (s *Source[T]) Watch(ctx context.Context, version string) (informer.Stream[T], error) {
	st, err := s.open(ctx, metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		return nil, err
	}
	return st, nil
}

// open starts a watch.
func (s *Source[T]) open(ctx context.Context, options metav1.ListOptions) (*stream[T], error) {
	seconds := int64(s.options.WatchFor / time.Second)
	options.Watch, options.AllowWatchBookmarks, options.TimeoutSeconds = true, true, &seconds
	ctx, cancel := context.WithCancel(ctx)
	r := s.request(options)
	if s.watchAs != "" {
		r.SetHeader("Accept", s.watchAs)
	}
	w, err := r.Watch(ctx)
	if err != nil {
		cancel()
		return nil, expired(err)
	}
	return &stream[T]{watch: w, cancel: cancel, dead: time.NewTimer(s.options.WatchFor + grace)}, nil
}

// grace is how much longer than requested a watch may last before its connection is considered dead.
const grace = 30 * time.Second

// stream is one watch.
type stream[T informer.Object] struct {
	watch     watch.Interface
	dead      *time.Timer
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
	case <-st.dead.C:
		return e, false, ErrDead
	case raw, open := <-st.watch.ResultChan():
		if !open {
			if err := ctx.Err(); err != nil {
				return e, false, err
			}
			return e, false, io.EOF
		}
		e, end, err = convert[T](raw)
		if err != nil && ctx.Err() != nil {
			err = ctx.Err() // the stream broke because of it
		}
		return e, end, err
	}
}

// Close implements informer.Stream. It returns when the reading goroutine has ended.
func (st *stream[T]) Close() {
	st.closeOnce.Do(func() {
		st.dead.Stop()
		st.cancel()
		st.watch.Stop()
		for {
			if _, open := <-st.watch.ResultChan(); !open {
				return
			}
		}
	})
}

// convert converts an event of client-go.
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

// expired maps the API errors that mean ErrExpired.
func expired(err error) error {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return fmt.Errorf("%w: %w", informer.ErrExpired, err)
	}
	return err
}
