package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/keelson-dev/keelson/internal/upgrade"
)

// The channels of a WebSocket, by the byte that begins each message.
const (
	channelStdin  = 0
	channelStdout = 1
	channelStderr = 2
	channelError  = 3
	channelResize = 4
	channelClose  = 255 // the next byte names the channel that ends
)

// streamType is the header that tells SPDY streams apart.
const streamType = "Streamtype"

// pingPeriod is how often an idle connection is kept alive.
const pingPeriod = 5 * time.Second

// maxStatus bounds how much is read of a command's final status.
const maxStatus = 1 << 20

// streams are the ones that a client wants.
type streams struct{ stdin, stdout, stderr, tty bool }

// query are the streams as a kubelet reads them.
func (s streams) query() url.Values {
	query := url.Values{}
	for name, set := range map[string]bool{"input": s.stdin, "output": s.stdout, "error": s.stderr, "tty": s.tty} {
		if set {
			query.Set(name, "1")
		}
	}
	return query
}

// translation is one command, between a client over a WebSocket and a kubelet over SPDY.
type translation struct {
	streams
	ws        *websocket.Conn
	writing   sync.Mutex // messages go one at a time
	receiving sync.WaitGroup

	end        httpstream.Stream // how the command ended
	in, resize httpstream.Stream
	out        map[byte]httpstream.Stream
}

// translate connects a WebSocket client of protocol v5 to a backend that speaks SPDY.
func translate(w http.ResponseWriter, r *http.Request, to upgrade.Backend, s streams) error {
	ws, err := accept(w, r, protocolV5)
	if err != nil {
		return nil // it was answered
	}
	t := &translation{streams: s, ws: ws, out: map[byte]httpstream.Stream{}}
	defer func() { _ = ws.Close() }()
	stop := context.AfterFunc(r.Context(), func() {
		time.AfterFunc(closeTimeout, func() { _ = ws.Close() }) // the client may not read the close message
	})
	defer stop()
	if err := t.sendConnected(); err != nil {
		return nil // the client is gone
	}
	t.sendStatus(t.run(r.Context(), to))
	t.receiving.Wait()
	return nil
}

// sendConnected tells the client that it is connected, by an empty message on the first channel.
func (t *translation) sendConnected() error {
	switch {
	case t.stdout:
		return t.write(channelStdout, nil)
	case t.stderr:
		return t.write(channelStderr, nil)
	}
	return t.write(channelError, nil)
}

// sendStatus tells the client how the command ended, and leaves it a moment to close the connection, too. What the client
// still sends is read: closing a connection with unread data would lose what was sent to it.
func (t *translation) sendStatus(status metav1.Status) {
	_ = t.ws.SetWriteDeadline(time.Now().Add(writeTimeout))
	if data, err := json.Marshal(status); err == nil {
		_ = t.write(channelError, data) // nobody is left to tell
	}
	end := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	_ = t.ws.WriteControl(websocket.CloseMessage, end, time.Now().Add(closeTimeout))
	_ = t.ws.SetReadDeadline(time.Now().Add(closeTimeout))
}

func (t *translation) write(channel byte, data []byte) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	return t.ws.WriteMessage(websocket.BinaryMessage, append([]byte{channel}, data...))
}

// run connects to the backend and copies in both directions until the command has ended.
func (t *translation) run(ctx context.Context, to upgrade.Backend) metav1.Status {
	_, raw, err := to.Ask(ctx, http.MethodPost, spdyHeader(protocolV4))
	var refused *upgrade.Refused
	switch {
	case errors.As(err, &refused):
		return failed(fmt.Errorf("unable to upgrade connection: %s", message(refused.Text)))
	case err != nil:
		return failed(err)
	}
	raw = &closedOnce{Conn: raw}
	defer func() { _ = raw.Close() }()
	conn, err := spdy.NewClientConnectionWithPings(raw, pingPeriod)
	if err != nil {
		return failed(err)
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer stop()
	if err := t.open(conn); err != nil {
		return failed(fmt.Errorf("error creating streams: %w", err))
	}
	t.receiving.Go(func() {
		t.receive()
		_ = raw.Close() // without a client, the outcome is of no interest
	})
	var copying sync.WaitGroup
	for channel, from := range t.out {
		copying.Go(func() { _, _ = io.Copy(channelWriter{t, channel}, from) })
	}
	status := t.outcome(ctx)
	copying.Wait()
	return status
}

// open makes the streams of the protocol, in its order.
func (t *translation) open(conn httpstream.Connection) error {
	open := func(kind string, wanted bool, into *httpstream.Stream) error {
		if !wanted {
			return nil
		}
		stream, err := conn.CreateStream(http.Header{streamType: {kind}})
		*into = stream
		return err
	}
	var out, errs httpstream.Stream
	for _, s := range []struct {
		kind   string
		wanted bool
		into   *httpstream.Stream
	}{{"error", true, &t.end}, {"stdin", t.stdin, &t.in}, {"stdout", t.stdout, &out}, {"stderr", t.stderr, &errs}, {"resize", t.tty, &t.resize}} {
		if err := open(s.kind, s.wanted, s.into); err != nil {
			return err // a kubelet that does not answer one will not answer the others, each after half a minute
		}
	}
	for channel, stream := range map[byte]httpstream.Stream{channelStdout: out, channelStderr: errs} {
		if stream != nil {
			t.out[channel] = stream
		}
	}
	return nil
}

// closedOnce is a connection that may be closed twice. The SPDY library takes an error of the second time for one that its
// caller wants, and waits a second for it.
type closedOnce struct {
	net.Conn
	closing sync.Once
}

func (c *closedOnce) Close() error {
	var err error
	c.closing.Do(func() { err = c.Conn.Close() })
	return err
}

// receive passes on what the client sends, until it ends.
func (t *translation) receive() {
	for {
		_, message, err := t.ws.NextReader()
		if err != nil {
			return
		}
		var channel [1]byte
		if _, err := io.ReadFull(message, channel[:]); err != nil {
			continue // an empty message says nothing
		}
		to := t.input(channel[0])
		if channel[0] == channelClose {
			ended, err := io.ReadAll(io.LimitReader(message, 2))
			if err != nil || len(ended) != 1 {
				return // as upstream: a client that gets this wrong speaks another protocol
			}
			if to := t.input(ended[0]); to != nil {
				_ = to.Close()
			}
			continue
		}
		if to == nil {
			continue
		}
		// A command may end without having read its input.
		if _, err := io.Copy(to, message); err != nil {
			_, _ = io.Copy(io.Discard, message)
		}
	}
}

// input is the stream of a channel that the client writes to, or nil.
func (t *translation) input(channel byte) io.WriteCloser {
	switch {
	case channel == channelStdin && t.in != nil:
		return t.in
	case channel == channelResize && t.resize != nil:
		return t.resize
	}
	return nil
}

// outcome reads how the command ended.
func (t *translation) outcome(ctx context.Context) metav1.Status {
	data, err := io.ReadAll(io.LimitReader(t.end, maxStatus))
	var status metav1.Status
	switch {
	case len(data) == 0 && ctx.Err() != nil:
		return failed(errors.New("the API server has ended the connection"))
	case err != nil:
		return failed(fmt.Errorf("error reading from error stream: %w", err))
	case len(data) == 0:
		return failed(errors.New("the connection to the kubelet was lost before the command ended"))
	case json.Unmarshal(data, &status) != nil:
		return failed(fmt.Errorf("error stream protocol error: %q", data))
	}
	return status
}

// channelWriter writes messages of one channel.
type channelWriter struct {
	to      *translation
	channel byte
}

func (c channelWriter) Write(p []byte) (int, error) {
	if err := c.to.write(c.channel, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

func failed(err error) metav1.Status { return apierrors.NewInternalError(err).Status() }

// message is the text of a refusal, which may be a Status.
func message(text string) string {
	var status metav1.Status
	if json.Unmarshal([]byte(text), &status) == nil && status.Message != "" {
		return status.Message
	}
	return strings.TrimSpace(text)
}
