package connect

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/keelson-dev/keelson/internal/upgrade"
)

const (
	// protocolV5 is remote command over WebSocket with a signal for the end of a channel.
	protocolV5 = "v5.channel.k8s.io"
	// protocolV4 is remote command over SPDY with exit codes.
	protocolV4 = "v4.channel.k8s.io"

	tunnelPrefix = "SPDY/3.1+"
	tunnelSuffix = ".k8s.io"

	spdyUpgrade   = "SPDY/3.1"
	versionHeader = "X-Stream-Protocol-Version"
	closeTimeout  = time.Second
	writeTimeout  = 10 * time.Second
)

// offers tells whether a request asks for a WebSocket and offers the subprotocol.
func offers(r *http.Request, protocol string) bool {
	if !websocket.IsWebSocketUpgrade(r) {
		return false
	}
	for _, p := range websocket.Subprotocols(r) {
		if p == protocol {
			return true
		}
	}
	return false
}

// tunneled returns the SPDY subprotocols that a request offers to tunnel through a WebSocket.
func tunneled(r *http.Request) []string {
	if !websocket.IsWebSocketUpgrade(r) {
		return nil
	}
	var all []string
	for _, p := range websocket.Subprotocols(r) {
		if strings.HasPrefix(p, tunnelPrefix) && strings.HasSuffix(p, tunnelSuffix) {
			all = append(all, strings.TrimPrefix(p, tunnelPrefix))
		}
	}
	return all
}

// accept upgrades the client's connection to a WebSocket. If that fails it has answered.
func accept(w http.ResponseWriter, r *http.Request, protocol string) (*websocket.Conn, error) {
	u := websocket.Upgrader{
		Subprotocols: []string{protocol},
		CheckOrigin:  func(*http.Request) bool { return true }, // browsers have no credentials to abuse
	}
	return u.Upgrade(w, r, nil)
}

// spdyHeader asks for SPDY with one of the subprotocols.
func spdyHeader(protocols ...string) http.Header {
	return http.Header{"Connection": {"Upgrade"}, "Upgrade": {spdyUpgrade}, versionHeader: protocols}
}

// tunnel carries a SPDY connection with a kubelet through the messages of a WebSocket.
func tunnel(w http.ResponseWriter, r *http.Request, to upgrade.Backend) error {
	answer, backend, err := to.Ask(r.Context(), http.MethodPost, spdyHeader(tunneled(r)...))
	var refused *upgrade.Refused
	switch {
	case errors.As(err, &refused):
		refused.Write(w)
		return nil
	case err != nil:
		return err
	}
	ws, err := accept(w, r, tunnelPrefix+answer.Get(versionHeader))
	if err != nil {
		_ = backend.Close()
		return nil //nolint:nilerr // it was answered
	}
	upgrade.Join(r.Context(), &messages{ws: ws}, backend)
	return nil
}

// messages are a WebSocket's binary messages as one stream. One may write while another reads.
type messages struct {
	ws      *websocket.Conn
	current io.Reader
	closing sync.Once
}

func (m *messages) Read(p []byte) (int, error) {
	for {
		if m.current == nil {
			_, next, err := m.ws.NextReader()
			if err != nil {
				return 0, err
			}
			m.current = next
		}
		n, err := m.current.Read(p)
		if err == io.EOF {
			m.current, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

func (m *messages) Write(p []byte) (int, error) {
	if err := m.ws.WriteMessage(websocket.BinaryMessage, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (m *messages) Close() error {
	var err error
	m.closing.Do(func() {
		end := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
		_ = m.ws.WriteControl(websocket.CloseMessage, end, time.Now().Add(closeTimeout)) // a client that is gone needs no close message
		err = m.ws.Close()
	})
	return err
}
