package apiserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
)

// errTransportClosed is the error of requests to a closed Transport.
var errTransportClosed = errors.New("in-process transport closed")

// Transport is an http.RoundTripper that calls a handler in the same process. It uses no sockets, so that in a
// testing/synctest bubble nothing waits for the outside. Requests pass the same chain as requests over a network.
// Long-running requests, such as watches, run in goroutines of their own, which end when the response body is closed, the
// request's context ends or the Transport is closed. All other requests are served in the caller's goroutine. It is safe
// for concurrent use.
type Transport struct {
	handler http.Handler
	prepare func(context.Context) context.Context

	mu      sync.Mutex
	closed  bool
	streams map[*pipe]context.CancelFunc
	running sync.WaitGroup
}

// NewTransport returns a transport to the handler. prepare, if not nil, derives the context in which each request is served:
// it can attach an identity of this process.
func NewTransport(handler http.Handler, prepare func(context.Context) context.Context) *Transport {
	return &Transport{handler: handler, prepare: prepare, streams: map[*pipe]context.CancelFunc{}}
}

// Close ends all watches and waits for all requests to return. Later requests fail.
func (t *Transport) Close() {
	t.mu.Lock()
	t.closed = true
	for p, cancel := range t.streams {
		cancel()
		p.end(errTransportClosed)
	}
	t.mu.Unlock()
	t.running.Wait()
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	ctx := r.Context()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if t.prepare != nil {
		ctx = t.prepare(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	in := r.Clone(ctx)
	if in.Host == "" {
		in.Host = r.URL.Host
	}
	in.RequestURI = r.URL.RequestURI()
	in.RemoteAddr = "in-process"
	if in.Body == nil {
		in.Body = http.NoBody
	}
	if q := ParseRequest(in); q.LongRunning() {
		return t.stream(in, r, cancel)
	}
	defer cancel()
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil, errTransportClosed
	}
	t.running.Add(1)
	t.mu.Unlock()
	defer t.running.Done()
	rec := &recorder{header: http.Header{}}
	err := serve(t.handler, rec, in)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	if r.Method == http.MethodHead {
		rec.body.Reset()
	}
	resp := response(r, rec.code, rec.header, io.NopCloser(bytes.NewReader(rec.body.Bytes())))
	resp.ContentLength = int64(rec.body.Len())
	return resp, nil
}

// stream serves a watch in a goroutine and returns once its headers are there.
func (t *Transport) stream(in, r *http.Request, cancel context.CancelFunc) (*http.Response, error) {
	p := newPipe()
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		cancel()
		return nil, errTransportClosed
	}
	t.streams[p] = cancel
	t.running.Add(1)
	t.mu.Unlock()
	go func() {
		defer t.running.Done()
		defer func() {
			p.WriteHeader(http.StatusOK) // as net/http answers for a handler that wrote nothing
			end := in.Context().Err()
			if end == nil {
				end = io.EOF
			}
			cancel()
			p.end(end)
			t.mu.Lock()
			delete(t.streams, p)
			t.mu.Unlock()
		}()
		stop := context.AfterFunc(in.Context(), func() { p.end(in.Context().Err()) })
		defer stop()
		if err := serve(t.handler, p, in); err != nil {
			p.end(err)
		}
	}()
	select {
	case <-p.started:
	case <-in.Context().Done():
		if err := r.Context().Err(); err != nil {
			return nil, err
		}
		select {
		case <-p.started: // it has already ended
		default:
			return nil, errTransportClosed
		}
	}
	return response(r, p.code, p.sent, &pipeReader{pipe: p, cancel: cancel}), nil
}

// serve calls a handler. If that aborts the request, by panicking with http.ErrAbortHandler, the client sees a broken
// connection.
func serve(h http.Handler, w http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			err = io.ErrUnexpectedEOF
		default:
			panic(p)
		}
	}()
	h.ServeHTTP(w, r)
	return nil
}

func response(r *http.Request, code int, header http.Header, body io.ReadCloser) *http.Response {
	if code == 0 {
		code = http.StatusOK
	}
	return &http.Response{
		Status: strconv.Itoa(code) + " " + http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: body, ContentLength: -1, Request: r,
	}
}

// recorder keeps a whole response, for a caller of this process: it is a callerWriter.
type recorder struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (w *recorder) servesCaller() {}

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(code int) {
	if w.code == 0 {
		w.code = code
	}
}

func (w *recorder) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// pipeLimit is how many bytes a watch may be ahead of its reader.
const pipeLimit = 256 << 10

// pipe carries a response body from the handler's goroutine to the reader, through a bounded buffer: the writer waits while
// it is full.
type pipe struct {
	header  http.Header
	sent    http.Header
	code    int
	started chan struct{}

	mu     sync.Mutex
	buffer bytes.Buffer
	err    error
	ready  chan struct{} // closed when there is something to read, or the end
	room   chan struct{} // closed when there is room again, or the end
}

func newPipe() *pipe {
	return &pipe{header: http.Header{}, started: make(chan struct{}), ready: make(chan struct{}), room: make(chan struct{})}
}

func (p *pipe) Header() http.Header { return p.header }

func (p *pipe) WriteHeader(code int) {
	if p.code == 0 {
		p.code = code
		p.sent = p.header.Clone()
		close(p.started)
	}
}

// Flush implements http.Flusher: it sends the headers. What is written can be read at once without it.
func (p *pipe) Flush() { p.WriteHeader(http.StatusOK) }

func (p *pipe) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	for {
		p.mu.Lock()
		if p.err != nil {
			p.mu.Unlock()
			return 0, p.err
		}
		if p.buffer.Len() < pipeLimit {
			p.buffer.Write(b)
			signal(p.ready)
			p.mu.Unlock()
			return len(b), nil
		}
		p.room = make(chan struct{})
		room := p.room
		p.mu.Unlock()
		<-room
	}
}

func (p *pipe) read(b []byte) (int, error) {
	for {
		p.mu.Lock()
		if p.buffer.Len() > 0 {
			n, _ := p.buffer.Read(b)
			signal(p.room)
			p.mu.Unlock()
			return n, nil
		}
		if p.err != nil {
			p.mu.Unlock()
			return 0, p.err
		}
		p.ready = make(chan struct{})
		ready := p.ready
		p.mu.Unlock()
		<-ready
	}
}

// end makes reads fail with err once the buffer is empty, and writes at once.
func (p *pipe) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
	signal(p.ready)
	signal(p.room)
}

// signal closes a channel that may be closed already; the pipe's lock is held.
func signal(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

type pipeReader struct {
	pipe   *pipe
	cancel context.CancelFunc
}

func (r *pipeReader) Read(b []byte) (int, error) { return r.pipe.read(b) }

// Close ends the request.
func (r *pipeReader) Close() error {
	r.cancel()
	r.pipe.end(io.ErrClosedPipe)
	return nil
}
