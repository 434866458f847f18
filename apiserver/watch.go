package apiserver

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/codec"
)

const (
	// bookmarkEvery is how often a quiet watch that asked for it is told how far it is.
	bookmarkEvery = time.Minute
	// watchFor ends a watch whose client set no limit; upstream's lie between 30 and 60 minutes.
	watchFor = 45 * time.Minute
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
	initial, watch, err := c.open(ctx, o, selection)
	if err != nil && !errors.Is(err, registry.ErrExpired) && !registry.FutureRevision(err) {
		c.fail(err)
		return
	}
	s, refused := c.newStream(f, watch)
	if refused != nil {
		c.fail(refused)
		return
	}
	s.end = time.Now().Add(watchFor)
	if o.TimeoutSeconds != nil && *o.TimeoutSeconds > 0 {
		s.end = time.Now().Add(time.Duration(*o.TimeoutSeconds) * time.Second)
	}
	s.http1 = c.r.ProtoMajor == 1
	s.bookmarks = o.AllowWatchBookmarks
	s.initialEnd = s.bookmarks && o.SendInitialEvents != nil && *o.SendInitialEvents
	s.initial, s.failure = initial, err
	if x, ok := c.w.(*exchange); ok {
		x.rest = s
		return
	}
	s.serve(ctx)
}

// newStream refuses a form that no watch has.
func (c *call) newStream(f form, w *registry.Watch) (*watchStream, error) {
	s := &watchStream{endpoint: c.endpoint, w: c.w, form: f, watch: w}
	if f.as.Kind == kindTable {
		var err error
		if s.table, err = c.table(f); err != nil {
			return nil, err
		}
	}
	if f.media == mediaYAML {
		return nil, notAcceptable(streamed())
	}
	return s, nil
}

// open begins a watch where the client wants it: with the state it starts from or at a version.
func (c *call) open(ctx context.Context, o metav1.ListOptions, s registry.Selection) (*registry.List, *registry.Watch, error) {
	fromState := o.ResourceVersion == "" || o.ResourceVersion == "0"
	if o.SendInitialEvents != nil {
		if *o.SendInitialEvents {
			if o.ResourceVersion != "" {
				if _, err := c.ParseVersion(o.ResourceVersion); err != nil {
					return nil, nil, err
				}
			}
			return c.ListAndWatch(ctx, s, o.ResourceVersion)
		}
		if fromState {
			l, w, err := c.ListAndWatch(ctx, s, o.ResourceVersion)
			if l != nil {
				l.Items = nil
			}
			return l, w, err
		}
	}
	if fromState {
		return c.ListAndWatch(ctx, s, o.ResourceVersion)
	}
	revision, err := c.ParseVersion(o.ResourceVersion)
	if err != nil {
		return nil, nil, err
	}
	w, err := c.Watch(ctx, s, revision)
	return nil, w, err
}

// watchStream writes one watch to one client.
type watchStream struct {
	*endpoint
	w     http.ResponseWriter
	form  form
	watch *registry.Watch
	told  int64 // the last revision the client knows of
	end   time.Time
	http1 bool // the connection outlasts the stream
	// bookmarks tells that the client wants them, initialEnd that it wants the one behind the state.
	bookmarks, initialEnd bool
	// table makes tables of the objects, if the client wants them; titled tells that it knows
	// the columns.
	table  *table
	titled bool
	timer  *time.Timer
	// release ends what lets a writer go when the request ends; nil while nothing was written since the beginning.
	release func()
	// initial is the state to begin with, if there is one; failure is why there is no more to come. Neither is kept
	// longer than needed: the state may be large.
	initial *registry.List
	failure error
}

func (s *watchStream) start() {
	contentType := string(s.form.media)
	if s.form.media != mediaJSON { // upstream leaves JSON as it is
		contentType += ";stream=watch"
	}
	s.w.Header().Set("Content-Type", contentType)
	s.w.Header().Set("Cache-Control", "no-cache, private")
	s.w.WriteHeader(http.StatusOK)
	s.flush()
}

func (s *watchStream) flush() { _ = flush(s.w) }

// flush is http.ResponseController's, which is an allocation for each event told to each watcher.
func flush(w http.ResponseWriter) error {
	if f, ok := w.(interface{ FlushError() error }); ok {
		return f.FlushError()
	}
	return http.NewResponseController(w).Flush()
}

// serve answers with the state to begin with, if there is one, and the changes, or with what went wrong. While it
// waits its frame is all there is of a watch on the stack: it is kept small.
func (s *watchStream) serve(ctx context.Context) {
	defer s.close()
	if !s.begin(ctx) {
		return
	}
	for {
		events, err := s.watch.NextBefore(ctx, s.timer.C)
		if !s.tell(ctx, events, err) {
			return
		}
	}
}

// close leaves the connection to its next answer, which has its own time.
func (s *watchStream) close() {
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.release != nil {
		s.release()
	}
	if s.http1 {
		_ = http.NewResponseController(s.w).SetWriteDeadline(time.Time{})
	}
}

// wait is how long there may be nothing to do.
func (s *watchStream) wait() time.Duration {
	left := time.Until(s.end)
	if s.bookmarks {
		left = min(left, bookmarkEvery)
	}
	return left
}

// begin writes the state to begin with, and tells whether to go on.
//
//go:noinline
func (s *watchStream) begin(ctx context.Context) bool {
	_ = http.NewResponseController(s.w).SetWriteDeadline(s.end.Add(linger)) // lets go who is held up by a client that does not read
	defer unblock(ctx, s.w)()
	s.start()
	if s.failure != nil {
		// Upstream accepts the watch and says in its stream that the version is too old, or too new.
		s.fail(s.failure)
		return false
	}
	if s.initial != nil && !s.sendState() {
		return false
	}
	s.timer = time.NewTimer(s.wait())
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

// tell writes what came of waiting: events, an error, or nothing for a while, and tells whether to go on.
//
//go:noinline
func (s *watchStream) tell(ctx context.Context, events []registry.WatchEvent, err error) bool {
	if ctx.Err() != nil || !time.Now().Before(s.end) {
		return false
	}
	if s.release == nil { // once, not for each event: it is a tenth of what an event costs
		s.release = unblock(ctx, s.w)
	}
	if err != nil {
		s.fail(err)
		return false
	}
	if len(events) > 0 {
		return s.sendAll(events)
	}
	if revision, ok := s.watch.Progress(); ok && s.bookmarks && revision > s.told && !s.bookmark(revision, false) {
		return false
	}
	s.timer.Reset(s.wait())
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
		return false // no object is a list; upstream's stream ends without a word, too
	}
	s.told = e.Revision
	frame, err := s.frame(e.Type, e.Item)
	if err != nil {
		s.fail(err)
		return false
	}
	_, err = s.w.Write(frame)
	return err == nil
}

// frame is an event as the client wants it. It is built once for all who watch in the same form,
// but for tables, whose rows have ages.
func (s *watchStream) frame(t informer.EventType, i *registry.Item) ([]byte, error) {
	if s.table != nil {
		object, err := s.table.single(i, !s.titled)
		s.titled = true
		return frame(s.form.media, t, object), err
	}
	kept := registry.Form{GroupVersion: s.gv.String(), Media: string(s.form.media) + ";watch=" + string(t)}
	if s.form.as.Kind != "" {
		kept.Media += ";as=" + s.form.as.Kind + "." + s.form.as.Version
	}
	return i.Encoded(kept, func(registry.Object) ([]byte, error) { return s.build(t, i) })
}

// build makes the frame of an event.
func (s *watchStream) build(t informer.EventType, i *registry.Item) ([]byte, error) {
	gvk, body, raw := s.gvk(), s.body, s.raw
	if s.form.as.Kind != "" {
		gvk = s.form.as
		body = func(i *registry.Item) ([]byte, error) { return s.metadata(mediaJSON, i) }
		raw = func(i *registry.Item) ([]byte, error) { return s.metadata(mediaProtobuf, i) }
	}
	if s.form.media == mediaProtobuf {
		message, err := raw(i)
		if err != nil {
			return nil, err
		}
		object, err := codec.Envelope(gvk, message)
		return frame(s.form.media, t, object), err
	}
	data, err := body(i)
	return frame(s.form.media, t, codec.WithType(gvk, data)), err
}

// bookmark tells the client how far it is; the first one after a state also that it is whole
// (KEP-3157).
func (s *watchStream) bookmark(revision int64, initialEnd bool) bool {
	obj := s.New()
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

// fail ends the stream with what went wrong.
func (s *watchStream) fail(err error) {
	data, err := encode(s.form.media, statusGVK(), statusOf(err))
	if err != nil {
		return
	}
	_, _ = s.w.Write(frame(s.form.media, "ERROR", data)) // a client that is gone is no error of ours
	s.flush()
}

// frame wraps an encoded object into a watch event: a JSON document per line, or a protobuf
// message after its length in four bytes.
func frame(m media, t informer.EventType, object []byte) []byte {
	if m == mediaProtobuf {
		message := appendField(nil, 1, []byte(t))
		message = appendField(message, 2, appendField(nil, 1, object))
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...)
	}
	for len(object) > 0 && object[len(object)-1] == '\n' {
		object = object[:len(object)-1]
	}
	out := make([]byte, 0, len(object)+len(t)+24)
	out = append(out, `{"type":"`...)
	out = append(out, t...)
	out = append(out, `","object":`...)
	out = append(out, object...)
	return append(out, "}\n"...)
}

func marshalListMeta(meta metav1.ListMeta) []byte {
	data, _ := json.Marshal(meta) //nolint:errchkjson // strings and a number marshal
	return data
}
