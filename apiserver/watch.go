package apiserver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/codec"
)

const (
	// bookmarkInterval is how often a quiet watch that wants bookmarks gets one.
	bookmarkInterval = time.Minute
	// defaultWatchTimeout ends a watch whose client set no limit; upstream's lie between 30 and 60 minutes.
	defaultWatchTimeout = 45 * time.Minute
)

func (c *call) watch(ctx context.Context) {
	f, err := c.accept()
	if err != nil {
		c.fail(err)
		return
	}
	o, selection, err := c.listOptions(c.r.URL.Query(), true)
	if err != nil {
		c.fail(err)
		return
	}
	initial, watch, err := c.openWatch(ctx, o, selection)
	if err != nil && !errors.Is(err, registry.ErrExpired) && !registry.FutureRevision(err) {
		c.fail(err)
		return
	}
	s, refused := c.newWatchStream(f, watch)
	if refused == nil && initial != nil {
		refused = c.endpoint.convert(ctx, initial.Items)
	}
	if refused != nil {
		c.fail(refused)
		return
	}
	s.end = time.Now().Add(defaultWatchTimeout)
	if o.TimeoutSeconds != nil && *o.TimeoutSeconds > 0 {
		s.end = time.Now().Add(time.Duration(*o.TimeoutSeconds) * time.Second)
	}
	s.http1 = c.r.ProtoMajor == 1
	s.bookmarks = o.AllowWatchBookmarks
	s.initialEnd = s.bookmarks && o.SendInitialEvents != nil && *o.SendInitialEvents
	s.initial, s.failure = initial, err
	c.exchange.stream = s
}

// newWatchStream returns the stream of a watch, or an error if the form is not one for watches.
func (c *call) newWatchStream(f format, w *registry.Watch) (*watchStream, error) {
	s := &watchStream{endpoint: c.endpoint, w: c.exchange, form: f, watch: w}
	if f.as.Kind == kindTable {
		var err error
		if s.table, err = c.table(f); err != nil {
			return nil, err
		}
	}
	if f.mediaType == mediaYAML {
		return nil, notAcceptable(streamed(c.r))
	}
	return s, nil
}

// openWatch opens a watch where the client wants it to begin: with an initial state, or at a resource version.
func (c *call) openWatch(ctx context.Context, o metav1.ListOptions, s registry.Selection) (*registry.List, *registry.Watch, error) {
	var revision int64
	if o.ResourceVersion != "" {
		var err error
		if revision, err = c.resource.ParseVersion(o.ResourceVersion); err != nil {
			return nil, nil, err
		}
	}
	initial := o.SendInitialEvents
	if revision == 0 || initial != nil && *initial { // as upstream, by the number: 00 is as good as 0
		l, w, err := c.resource.ListAndWatch(ctx, s, o.ResourceVersion)
		if l != nil && initial != nil && !*initial {
			l.Items = nil
		}
		return l, w, err
	}
	w, err := c.resource.Watch(ctx, s, revision)
	return nil, w, err
}

// watchStream writes one watch to one client.
type watchStream struct {
	endpoint     *endpoint
	w            http.ResponseWriter
	form         format
	watch        *registry.Watch
	lastRevision int64 // the last one that the client knows of
	end          time.Time
	http1        bool // the connection outlasts the stream
	// bookmarks tells that the client wants them, initialEnd that it wants the one after the initial state.
	bookmarks, initialEnd bool
	// table encodes the objects as tables, if the client wants that; columnsSent tells that it has their definitions.
	table       *table
	columnsSent bool
	timer       *time.Timer
	// stopUnblock ends an unblock; nil until something is written after the initial state.
	stopUnblock func()
	// initial is the initial state, if there is one; it may be large and is dropped once it is sent. failure is why the watch
	// could not be opened.
	initial *registry.List
	failure error
}

func (s *watchStream) sendHeaders() {
	contentType := string(s.form.mediaType)
	switch s.form.mediaType {
	case mediaJSON: // as upstream, which adds nothing to JSON
	case mediaCBOR:
		contentType = string(mediaCBORs)
	default:
		contentType += ";stream=watch"
	}
	s.w.Header().Set("Content-Type", contentType)
	s.w.Header().Set("Cache-Control", "no-cache, private")
	s.w.WriteHeader(http.StatusOK)
	s.flush()
}

func (s *watchStream) flush() { _ = flush(s.w) }

// serve sends the initial state, if there is one, and the changes, or what went wrong. While it waits, its frame is all that
// a watch has on the stack: it is kept small.
func (s *watchStream) serve(ctx context.Context) {
	defer s.close()
	if !s.sendInitial(ctx) {
		return
	}
	for {
		events, err := s.watch.NextBefore(ctx, s.timer.C)
		if !s.handle(ctx, events, err) {
			return
		}
	}
}

// close removes the write deadline: the connection's next answer has one of its own.
func (s *watchStream) close() {
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.stopUnblock != nil {
		s.stopUnblock()
	}
	if s.http1 {
		_ = http.NewResponseController(s.w).SetWriteDeadline(time.Time{})
	}
}

// timeToWait is how long to wait for events: until the next bookmark, or the end.
func (s *watchStream) timeToWait() time.Duration {
	left := time.Until(s.end)
	if s.bookmarks {
		left = min(left, bookmarkInterval)
	}
	return left
}

// sendInitial sends the headers and the initial state. It returns false if the watch has ended. It is not inlined, so that
// serve's frame stays small.
//
//go:noinline
func (s *watchStream) sendInitial(ctx context.Context) bool {
	_ = http.NewResponseController(s.w).SetWriteDeadline(s.end.Add(lingerTime)) // a client that does not read may block the writes
	defer unblock(ctx, s.w)()
	s.sendHeaders()
	if s.failure != nil {
		// As upstream does: it accepts the watch, and says in the stream that the version is too old or too new.
		s.sendError(s.failure)
		return false
	}
	if s.initial != nil && !s.sendState() {
		return false
	}
	s.timer = time.NewTimer(s.timeToWait())
	return true
}

func (s *watchStream) sendState() bool {
	state := s.initial
	s.initial = nil
	for _, item := range state.Items {
		if !s.send(registry.WatchEvent{Type: informer.Added, Item: item, Revision: item.Revision}) {
			return false
		}
	}
	if s.initialEnd && !s.bookmark(state.Revision, true) {
		return false
	}
	s.flush()
	return true
}

// handle sends what came of waiting: events, an error, or a bookmark if nothing came. It returns false if the watch has
// ended. It is not inlined, so that serve's frame stays small.
//
//go:noinline
func (s *watchStream) handle(ctx context.Context, events []registry.WatchEvent, err error) bool {
	if ctx.Err() != nil || !time.Now().Before(s.end) {
		return false
	}
	if s.stopUnblock == nil { // once, not for each event, of whose cost it is a tenth
		s.stopUnblock = unblock(ctx, s.w)
	}
	if errors.Is(err, io.EOF) {
		return false // the kind was replaced or removed: the client finds out when it asks again
	}
	if err != nil {
		s.sendError(err)
		return false
	}
	if len(events) > 0 {
		return s.sendAll(events)
	}
	if revision, ok := s.watch.Progress(); ok && s.bookmarks && revision > s.lastRevision && !s.bookmark(revision, false) {
		return false
	}
	s.timer.Reset(s.timeToWait())
	return true
}

func (s *watchStream) sendAll(events []registry.WatchEvent) bool {
	for _, e := range events {
		if !s.send(e) {
			return false
		}
	}
	s.flush()
	return true
}

// send writes one event.
func (s *watchStream) send(e registry.WatchEvent) bool {
	if s.form.as.Kind == kindMetadataList {
		return false // an object is not a list; upstream's stream ends without an error, too
	}
	s.lastRevision = e.Revision
	frame, err := s.encodeEvent(e.Type, e.Item)
	if err != nil {
		s.sendError(err)
		return false
	}
	_, err = s.w.Write(frame)
	return err == nil
}

// encodeEvent returns an event in the form that the client wants. It is built once for all watches in that form, except for
// tables, whose rows have ages.
func (s *watchStream) encodeEvent(t informer.EventType, i *registry.Item) ([]byte, error) {
	if s.table != nil {
		object, err := s.table.single(i, !s.columnsSent)
		s.columnsSent = true
		if err != nil {
			return nil, err
		}
		return eventFrame(s.form.mediaType, t, object)
	}
	kept := registry.Form{GroupVersion: s.endpoint.gv.String(), Media: string(s.form.mediaType) + ";watch=" + string(t)}
	if s.form.as.Kind != "" {
		kept.Media += ";as=" + s.form.as.Kind + "." + s.form.as.Version
	}
	return i.Encoded(kept, func(registry.Object) ([]byte, error) { return s.buildEvent(t, i) })
}

// buildEvent builds an event.
func (s *watchStream) buildEvent(t informer.EventType, i *registry.Item) ([]byte, error) {
	gvk, body, raw := s.endpoint.gvk(), s.endpoint.itemJSON, s.endpoint.itemProtobuf
	if s.form.as.Kind != "" {
		gvk = s.form.as
		body = func(i *registry.Item) ([]byte, error) { return s.endpoint.itemMetadata(mediaJSON, i) }
		raw = func(i *registry.Item) ([]byte, error) { return s.endpoint.itemMetadata(mediaProtobuf, i) }
	}
	if s.form.mediaType == mediaProtobuf {
		message, err := raw(i)
		if err != nil {
			return nil, err
		}
		object, err := codec.Envelope(gvk, message)
		if err != nil {
			return nil, err
		}
		return eventFrame(s.form.mediaType, t, object)
	}
	data, err := body(i)
	if err != nil {
		return nil, err
	}
	return eventFrame(s.form.mediaType, t, codec.WithType(gvk, data))
}

// bookmark tells the client up to which revision it has seen everything. The one after the initial state also says that the
// state is complete (KEP-3157).
func (s *watchStream) bookmark(revision int64, initialEnd bool) bool {
	obj := s.endpoint.resource.Storage().New()
	obj.SetResourceVersion(itoa(revision))
	if initialEnd {
		obj.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	if !s.send(registry.WatchEvent{Type: informer.Bookmark, Item: &registry.Item{Object: obj}, Revision: revision}) {
		return false
	}
	s.flush()
	return true
}

// sendError ends the stream with what went wrong.
func (s *watchStream) sendError(err error) {
	m := s.form.mediaType
	if m.converted() {
		m = mediaJSON
	}
	data, err := encode(m, statusGVK(), statusOf(err))
	if err != nil {
		return
	}
	if data, err = eventFrame(s.form.mediaType, "ERROR", data); err != nil {
		return
	}
	_, _ = s.w.Write(data) // a client that is gone is no error of ours
	s.flush()
}
