package upgrade

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	dialTimeout = 30 * time.Second
	// answerTimeout is how long the other side may take to answer an upgrade request.
	answerTimeout = 30 * time.Second
	// linger is how long one side may continue after the other has ended.
	linger = time.Second
	// maxRefusal bounds the body of a refusal.
	maxRefusal = 64 << 10
)

// Wanted reports whether a request is an upgrade request.
func Wanted(r *http.Request) bool {
	for _, values := range r.Header.Values("Connection") {
		for value := range strings.SplitSeq(values, ",") {
			if strings.EqualFold(strings.TrimSpace(value), "Upgrade") {
				return r.Header.Get("Upgrade") != ""
			}
		}
	}
	return false
}

// Backend is the server to which a request is forwarded.
type Backend struct {
	// URL has the scheme http or https, and a path and query.
	URL *url.URL
	// TLS is for https; nil verifies with the system's authorities.
	TLS *tls.Config
	// Connect, if set, is how to connect to the address "host:port" of the URL; nil is over the network.
	Connect func(ctx context.Context, network, address string) (net.Conn, error)
}

// Dial connects to the backend.
func (b Backend) Dial(ctx context.Context) (net.Conn, error) {
	port := b.URL.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[b.URL.Scheme]
	}
	connect := b.Connect
	if connect == nil {
		connect = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	conn, err := connect(ctx, "tcp", net.JoinHostPort(b.URL.Hostname(), port))
	if err != nil || b.URL.Scheme != "https" {
		return conn, err
	}
	config := b.TLS.Clone()
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	config.NextProtos = []string{"http/1.1"} // HTTP/2 upgrades nothing
	if config.ServerName == "" {
		config.ServerName = b.URL.Hostname()
	}
	secure := tls.Client(conn, config)
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return secure, nil
}

// Refused is a response that is not an upgrade.
type Refused struct {
	Code   int
	Header http.Header
	// Text is the response body, or the text of the status code if there is none.
	Text string
}

// Error implements error.
func (r *Refused) Error() string { return strings.TrimSpace(r.Text) }

// Write forwards the response.
func (r *Refused) Write(w http.ResponseWriter) {
	for _, name := range []string{"Content-Type", "Retry-After"} {
		if v := r.Header.Get(name); v != "" {
			w.Header().Set(name, v)
		}
	}
	w.WriteHeader(r.Code)
	_, _ = io.WriteString(w, r.Text) // a client that is gone is no error of ours
}

// Ask connects to the backend and requests an upgrade with the given method and headers. It returns the response's
// headers and the connection for the new protocol, or an error, which is a *Refused if the backend refused.
func (b Backend) Ask(ctx context.Context, method string, header http.Header) (http.Header, net.Conn, error) {
	conn, err := b.Dial(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("error dialing backend: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(answerTimeout))
	answer, reader, err := b.ask(conn, method, header)
	switch {
	case err != nil:
	case !stop():
		err = context.Cause(ctx)
	default:
		_ = conn.SetDeadline(time.Time{})
		return answer, &buffered{conn, reader}, nil
	}
	_ = conn.Close() // the first error counts
	var refused *Refused
	if !errors.As(err, &refused) {
		err = fmt.Errorf("error upgrading connection: %w", err)
	}
	return nil, nil, err
}

func (b Backend) ask(conn net.Conn, method string, header http.Header) (http.Header, *bufio.Reader, error) {
	// Only its fields are sent: it has no body, and its context is the caller's.
	r := &http.Request{Method: method, URL: b.URL, Host: b.URL.Host, Header: header, ProtoMajor: 1, ProtoMinor: 1}
	if err := r.Write(conn); err != nil {
		return nil, nil, err
	}
	reader := bufio.NewReader(conn)
	answer, err := http.ReadResponse(reader, r)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = answer.Body.Close() }() // the connection is closed, or no longer HTTP
	if answer.StatusCode == http.StatusSwitchingProtocols {
		return answer.Header, reader, nil
	}
	refused := &Refused{Code: answer.StatusCode, Header: answer.Header, Text: answer.Status}
	if text, err := io.ReadAll(io.LimitReader(answer.Body, maxRefusal)); err == nil && len(text) > 0 {
		refused.Text = string(text)
	}
	return nil, nil, refused
}

// buffered is a connection with data that may already have been read.
type buffered struct {
	net.Conn
	reader *bufio.Reader
}

func (b *buffered) Read(p []byte) (int, error) { return b.reader.Read(p) }

// CloseWrite ends the sending direction.
func (b *buffered) CloseWrite() error {
	if half, ok := b.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Proxy forwards an upgrade request to the backend, with its headers, and then copies bytes in both directions until
// one side or the request's context ends. A response that is not an upgrade is forwarded too. An error means that the
// client was sent nothing.
func (b Backend) Proxy(w http.ResponseWriter, r *http.Request) error {
	header := r.Header.Clone()
	header.Del("Authorization") // is meant for this server
	answer, backend, err := b.Ask(r.Context(), r.Method, header)
	var refused *Refused
	switch {
	case errors.As(err, &refused):
		refused.Write(w)
		return nil
	case err != nil:
		return err
	}
	client, err := Hijack(w)
	if err != nil {
		return errors.Join(err, backend.Close())
	}
	if err := writeHead(client, answer); err != nil {
		_, _ = client.Close(), backend.Close()
		return nil //nolint:nilerr // the client is gone
	}
	Join(r.Context(), client, backend)
	return nil
}

// writeHead sends a hijacked client the response that switches protocols.
func writeHead(client net.Conn, header http.Header) error {
	var b strings.Builder
	b.WriteString("HTTP/1.1 101 Switching Protocols\r\n")
	if err := header.Write(&b); err != nil {
		return err
	}
	b.WriteString("\r\n")
	_, err := io.WriteString(client, b.String())
	return err
}

// Hijack takes over the client's connection.
func Hijack(w http.ResponseWriter) (net.Conn, error) {
	conn, buffer, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, fmt.Errorf("unable to upgrade: %w; it needs HTTP/1.1 over a connection of its own", err)
	}
	_ = conn.SetDeadline(time.Time{})
	return &buffered{conn, buffer.Reader}, nil
}

// Join copies between the connections in both directions until one of them or ctx ends, and closes both. The other side
// gets a moment to end too, and what it still sends is read: closing a connection with unread data may lose data that
// was sent.
func Join(ctx context.Context, a, b io.ReadWriteCloser) {
	ended := make(chan io.ReadWriteCloser, 2)
	pipe := func(to, from io.ReadWriteCloser) {
		_, _ = io.Copy(to, from) // how a connection ends is up to the protocol in it
		ended <- to
		_, _ = io.Copy(io.Discard, from)
	}
	var pipes sync.WaitGroup
	pipes.Go(func() { pipe(a, b) })
	pipes.Go(func() { pipe(b, a) })
	select {
	case to := <-ended:
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite() // a side that receives nothing more may still send
			await(ctx, &pipes)
		}
	case <-ctx.Done():
	}
	_ = a.Close()
	_ = b.Close()
	pipes.Wait()
}

// await waits a moment for the pipes to end.
func await(ctx context.Context, pipes *sync.WaitGroup) {
	ended := make(chan struct{})
	go func() {
		pipes.Wait()
		close(ended)
	}()
	moment := time.NewTimer(linger)
	defer moment.Stop()
	select {
	case <-ended:
	case <-moment.C:
	case <-ctx.Done():
	}
}
