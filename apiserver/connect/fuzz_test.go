package connect_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	machinery "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/connect"
	"github.com/keelson-dev/keelson/registry"
)

// patience is how long anything may take; what takes longer hangs.
const patience = 30 * time.Second

// play is a kubelet that does with a connection what each test says, and an API server in front of it, with one pod.
type play struct {
	kubelet atomic.Pointer[func(net.Conn)] // what it does once it is SPDY's
	seen    atomic.Pointer[http.Header]    // what it was asked with
	node    *corev1.Node
	web     *httptest.Server
	ended   chan struct{} // by each connection of the API server's
}

// Get implements apiserver.Objects.
func (p *play) Get(_ context.Context, key registry.ObjectKey) (registry.Object, error) {
	if key.Resource.Resource == "nodes" {
		return p.node, nil
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "main"}}}}
	pod.Namespace, pod.Name = key.Namespace, key.Name
	return pod, nil
}

// List implements apiserver.Objects.
func (p *play) List(context.Context, schema.GroupResource, string) ([]registry.Object, error) {
	return nil, nil
}

func stage(f *testing.F, options machinery.Object) *play {
	f.Helper()
	p := &play{ended: make(chan struct{}, 1)}
	kubelet := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.seen.Store(&r.Header)
		hijacked, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		conn := &once{Conn: hijacked}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: "+r.Header.Get("X-Stream-Protocol-Version")+"\r\n\r\n")
		(*p.kubelet.Load())(conn)
	}))
	f.Cleanup(kubelet.Close)
	at, err := url.Parse(kubelet.URL)
	if err != nil {
		f.Fatal(err)
	}
	port, err := strconv.ParseInt(at.Port(), 10, 32)
	if err != nil {
		f.Fatal(err)
	}
	p.node = &corev1.Node{Status: corev1.NodeStatus{
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: at.Hostname()}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(port)}},
	}}
	roots := x509.NewCertPool()
	roots.AddCert(kubelet.Certificate())
	c := connect.New(connect.Options{TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}})
	f.Cleanup(c.Close)
	p.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { p.ended <- struct{}{} }()
		connection, err := c.Connect(r.Context(), p, apiserver.Target{Resource: schema.GroupResource{Resource: "pods"}, Namespace: "ns", Name: "p", Options: options})
		if err == nil {
			err = connection(w, r)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
	f.Cleanup(p.web.Close)
	return p
}

// once is a connection that may be closed again, as the SPDY of each kubelet does.
type once struct {
	net.Conn
	closing sync.Once
}

func (o *once) Close() error {
	o.closing.Do(func() { _ = o.Conn.Close() })
	return nil
}

// dial connects a client, whose secret is for the API server alone.
func (p *play) dial(t *testing.T, protocol string) *websocket.Conn {
	t.Helper()
	d := websocket.Dialer{Subprotocols: []string{protocol}}
	ws, _, err := d.DialContext(t.Context(), "ws"+strings.TrimPrefix(p.web.URL, "http"), http.Header{"Authorization": {"Bearer secret"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.Close() })
	return ws
}

// over waits for the end of the API server's part.
func (p *play) over(t *testing.T) {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Fatal("the connection does not end")
	}
	if seen := p.seen.Load(); seen != nil && strings.Contains(strings.Join(seen.Values("Authorization"), ""), "secret") {
		t.Error("the kubelet is told the client's secret")
	}
}

// frame writes a WebSocket frame as clients do; its mask changes nothing.
func frame(opcode byte, final bool, payload []byte) []byte {
	if final {
		opcode |= 0x80
	}
	head := []byte{opcode, 0x80 | 126, byte(len(payload) >> 8), byte(len(payload)), 0, 0, 0, 0}
	if len(payload) < 126 {
		head = []byte{opcode, 0x80 | byte(len(payload)), 0, 0, 0, 0}
	}
	return append(head, payload...)
}

// messages makes a client's messages of data, each of a byte that says how it is sent, its length and it: whole or in two parts, as text
// or as bytes, with a ping between. It returns them and how they are sent.
func messages(data []byte) (all [][]byte, sent []byte) {
	for len(data) >= 2 && len(all) < 64 {
		how, n := data[0], min(int(data[1]), len(data)-2)
		message := data[2 : 2+n]
		data = data[2+n:]
		all = append(all, message)
		opcode := 2 - how&1
		if how&2 == 0 {
			sent = append(sent, frame(opcode, true, message)...)
			continue
		}
		sent = append(sent, frame(opcode, false, message[:n/2])...)
		if how&4 != 0 {
			sent = append(sent, frame(9, true, []byte("ping"))...)
		}
		sent = append(sent, frame(0, true, message[n/2:])...)
	}
	return all, sent
}

// inputs are what the protocol makes of messages: what goes to each channel that a client writes to, until it closes it. ends tells that
// a message ends the connection, and is none of the protocol.
func inputs(all [][]byte) (in map[byte][]byte, closed map[byte]bool, ends bool) {
	in, closed = map[byte][]byte{}, map[byte]bool{}
	for _, m := range all {
		switch {
		case len(m) == 0:
		case m[0] == 255 && len(m) != 2:
			return in, closed, true
		case m[0] == 255:
			closed[m[1]] = true
		case (m[0] == 0 || m[0] == 4) && !closed[m[0]]:
			in[m[0]] = append(in[m[0]], m[1:]...)
		}
	}
	return in, closed, false
}

// commandStreams are the kubelet's side of a command.
type commandStreams struct {
	mu   sync.Mutex
	byID map[string]httpstream.Stream
	all  chan struct{} // closed when there are as many as wanted

	opened sync.WaitGroup
}

// serveSPDY accepts n streams.
func serveSPDY(conn net.Conn, n int) (*commandStreams, httpstream.Connection, error) {
	s := &commandStreams{byID: map[string]httpstream.Stream{}, all: make(chan struct{})}
	c, err := spdy.NewServerConnection(conn, func(stream httpstream.Stream, answered <-chan struct{}) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.byID[stream.Headers().Get("Streamtype")] = stream
		if len(s.byID) == n {
			s.opened.Go(func() {
				<-answered // until then the API server waits for it
				close(s.all)
			})
		}
		return nil
	})
	return s, c, err
}

// wait waits for the streams, or the end of the connection.
func (s *commandStreams) wait(c httpstream.Connection) bool {
	select {
	case <-s.all:
		return true
	case <-c.CloseChan():
		return false
	}
}

// received are a client's messages, by channel, until the connection ended.
type received struct {
	text   map[byte][]byte
	status [][]byte // of the channel for errors, without the greeting
}

func receive(ws *websocket.Conn) received {
	r := received{text: map[byte][]byte{}}
	_ = ws.SetReadDeadline(time.Now().Add(patience))
	for {
		_, m, err := ws.ReadMessage()
		if err != nil {
			return r
		}
		if len(m) > 1 && m[0] == 3 {
			r.status = append(r.status, m[1:])
		} else if len(m) > 0 {
			r.text[m[0]] = append(r.text[m[0]], m[1:]...)
		}
	}
}

// FuzzClient: whatever a client sends, the connection ends when one of them goes, and the command reads what the client's messages say
// it shall: all of it if nothing but messages came, and else nothing besides.
func FuzzClient(f *testing.F) {
	for _, data := range []string{
		"", "\x00\x06\x00hello", "\x02\x06\x00hello\x00\x03\x00ab", "\x06\x06\x00hello", "\x01\x04\x04{}\n", "\x00\x02\xff\x00\x00\x03\x00ab", "\x00\x01\xff", "\x00\x03\xff\x00\x00",
		"\x00\x00\x00\x01\x00", "\x00\x03\x07ab\x00\x03\x01ab\x00\x02\xff\x03", "\x00\x02\xff\x04\x00\x03\x04ab", "\x00\xc8\x00" + strings.Repeat("x", 200),
	} {
		for _, tail := range []string{"", "\x88\x80\x00\x00\x00\x00", "\x82\x05\x00hello", "\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff", "GET / HTTP/1.1\r\n\r\n"} {
			f.Add([]byte(data), []byte(tail))
		}
	}
	p := stage(f, &corev1.PodExecOptions{Stdin: true, Stdout: true, TTY: true, Command: []string{"cat"}})
	f.Fuzz(func(t *testing.T, data, tail []byte) {
		all, sent := messages(data)
		in, closed, ends := inputs(all)
		whole := len(tail) == 0 && !ends
		var stdin, resize []byte
		done := make(chan struct{})
		kubelet := func(conn net.Conn) {
			defer close(done)
			s, c, err := serveSPDY(conn, 4)
			if err != nil {
				return
			}
			defer func() { _, _ = c.Close(), conn.Close() }()
			if !s.wait(c) {
				return
			}
			var reading sync.WaitGroup
			reading.Go(func() { stdin, _ = io.ReadAll(s.byID["stdin"]) })
			reading.Go(func() { resize, _ = io.ReadAll(s.byID["resize"]) })
			reading.Wait()
			_, _ = io.WriteString(s.byID["stdout"], "done")
			_ = s.byID["stdout"].Close()
			_, _ = io.WriteString(s.byID["error"], `{"status":"Success"}`)
			_ = s.byID["error"].Close()
		}
		p.kubelet.Store(&kubelet)
		ws := p.dial(t, "v5.channel.k8s.io")
		got := make(chan received, 1)
		go func() { got <- receive(ws) }()
		for _, channel := range []byte{0, 4} {
			if !closed[channel] {
				sent = append(sent, frame(2, true, []byte{255, channel})...)
			}
		}
		if _, err := ws.NetConn().Write(append(sent, tail...)); err != nil {
			t.Logf("write: %v", err) // it may have been closed already
		}
		if !whole {
			_ = ws.NetConn().(*net.TCPConn).CloseWrite()
		}
		answer := <-got
		_ = ws.Close()
		p.over(t)
		<-done
		for channel, read := range map[byte][]byte{0: stdin, 4: resize} {
			if extra := len(tail); !bytes.HasPrefix(in[channel], read) && (!bytes.HasPrefix(read, in[channel]) || len(read) > len(in[channel])+extra) || whole && len(read) != len(in[channel]) {
				t.Errorf("channel %d of %q and then %q: the command has read %q, want %q", channel, all, tail, read, in[channel])
			}
		}
		if whole && (string(answer.text[1]) != "done" || len(answer.status) != 1 || !strings.Contains(string(answer.status[0]), `"Success"`)) {
			t.Errorf("%q: the client has got %q and %q", all, answer.text, answer.status)
		}
	})
}

// FuzzKubelet: whatever a kubelet sends, the client gets what was written to its streams, and then one status; that of a kubelet which
// says none that can be read is a failure. What it costs is bounded.
func FuzzKubelet(f *testing.F) {
	for _, data := range []string{
		"", "\x00\x05hello\x02\x14{\"status\":\"Success\"}", "\x01\x03err\x00\x02ab\x02\x02{}", "\x02\x02[]", "\x02\x04null", "\x00\x01a\x00\x01b\x01\x01c",
		"\x02\x3e{\"status\":\"Failure\",\"message\":\"exit\",\"reason\":\"NonZeroExitCode\"}",
	} {
		for _, tail := range []string{
			"", "\x80\x03\x00\x02\x01\x00\x00\x0a\x00\x00\x00\x01\x00\x00\x00\x00\xff\xff", "\x00\x00\x00\x03\x00\xff\xff\xff", "\x80\x03\x00\x04\x00\x00\x00\x04\xff\xff\xff\xff",
			"\x80\x03\x00\x07\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00", "HTTP/1.1 400 Bad Request\r\n\r\n", "\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x01",
		} {
			f.Add([]byte(data), []byte(tail))
		}
	}
	p := stage(f, &corev1.PodExecOptions{Stdout: true, Stderr: true, Command: []string{"true"}})
	f.Fuzz(func(t *testing.T, data, tail []byte) {
		if len(data)+len(tail) > 1<<12 {
			return
		}
		want := map[int][]byte{}
		kubelet := func(conn net.Conn) {
			s, c, err := serveSPDY(conn, 3)
			if err != nil {
				return
			}
			defer func() { _, _ = c.Close(), conn.Close() }()
			if !s.wait(c) {
				return
			}
			for rest := data; len(rest) >= 2; {
				to, n := int(rest[0])%3, min(int(rest[1]), len(rest)-2)
				want[to] = append(want[to], rest[2:2+n]...)
				_, _ = s.byID[[]string{"stdout", "stderr", "error"}[to]].Write(rest[2 : 2+n])
				rest = rest[2+n:]
			}
			if len(tail) > 0 {
				_, _ = conn.Write(tail)
			}
			for _, stream := range s.byID {
				_ = stream.Close()
			}
		}
		p.kubelet.Store(&kubelet)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		ws := p.dial(t, "v5.channel.k8s.io")
		got := receive(ws)
		_ = ws.Close()
		p.over(t)
		runtime.ReadMemStats(&after)
		if cost := after.TotalAlloc - before.TotalAlloc; cost > 128<<20 {
			t.Errorf("%d bytes cost %d bytes of memory", len(data)+len(tail), cost)
		}
		if len(got.status) != 1 {
			t.Fatalf("%d messages about the end: %q", len(got.status), got.status)
		}
		var status, said metav1.Status
		if err := json.Unmarshal(got.status[0], &status); err != nil {
			t.Fatalf("the end is %q: %v", got.status[0], err)
		}
		if len(tail) > 0 {
			return // it may have been anything in SPDY
		}
		if string(got.text[1]) != string(want[0]) || string(got.text[2]) != string(want[1]) {
			t.Errorf("the client has got %q, want %q and %q", got.text, want[0], want[1])
		}
		if err := json.Unmarshal(want[2], &said); err != nil {
			said = metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError}
		}
		if status.Status != said.Status || status.Reason != said.Reason {
			t.Errorf("the client is told %q, the kubelet says %q", got.status[0], want[2])
		}
	})
}

// FuzzTunnel: through a tunnel for port-forward all bytes pass as they are, in either direction, however they are cut into messages.
func FuzzTunnel(f *testing.F) {
	f.Add([]byte("\x00\x05hello\x02\x05there\x06\x04text\x01\x03abc"), []byte("answer"), 3)
	f.Add([]byte(""), []byte(""), 1)
	f.Add([]byte("\x00\x00\x00\x00\x02\x01a"), []byte("\x00\xff"), 0)
	f.Add([]byte("\x02\xff"+strings.Repeat("y", 255)), bytes.Repeat([]byte("z"), 1000), 700)
	p := stage(f, &corev1.PodPortForwardOptions{})
	f.Fuzz(func(t *testing.T, data, back []byte, cut int) {
		all, sent := messages(data)
		want := bytes.Join(all, nil)
		// How much is to come is told first: the kubelet answers when it has all.
		first := frame(2, true, binary.BigEndian.AppendUint32(nil, uint32(len(want)))) //nolint:gosec // it is short
		var read []byte
		done := make(chan struct{})
		kubelet := func(conn net.Conn) {
			defer close(done)
			var head [4]byte
			if _, err := io.ReadFull(conn, head[:]); err != nil {
				return
			}
			read = make([]byte, min(binary.BigEndian.Uint32(head[:]), 1<<20))
			_, _ = io.ReadFull(conn, read)
			part := max(min(cut, len(back)), 0)
			_, _ = conn.Write(back[:part])
			_, _ = conn.Write(back[part:])
		}
		p.kubelet.Store(&kubelet)
		ws := p.dial(t, "SPDY/3.1+portforward.k8s.io")
		if _, err := ws.NetConn().Write(append(first, sent...)); err != nil {
			t.Fatal(err)
		}
		var got []byte
		_ = ws.SetReadDeadline(time.Now().Add(patience))
		for {
			_, m, err := ws.ReadMessage()
			if err != nil {
				break
			}
			got = append(got, m...)
		}
		_ = ws.Close()
		p.over(t)
		<-done
		if !bytes.Equal(read, want) || !bytes.Equal(got, back) {
			t.Errorf("%q became %q, and %q back became %q", want, read, back, got)
		}
	})
}
