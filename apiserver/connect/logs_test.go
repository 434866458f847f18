package connect_test

import (
	"testing"

	"github.com/gorilla/websocket"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/authn"
)

// TestLogsOverWebSocket: an empty message first, then the log as it is, in binary messages unless the subprotocol
// asks for base64.
func TestLogsOverWebSocket(t *testing.T) {
	t.Parallel()
	w := start(t)
	_, cs := w.pod(t, "p", "main")
	w.write(t, cs[0], day+"03:04:05Z stdout F hello")
	config, err := rest.TLSConfigFor(w.config(t, "admin", authn.GroupMasters))
	if err != nil {
		t.Fatal(err)
	}
	for protocol, want := range map[string]string{"binary.k8s.io": "hello\n", "base64.binary.k8s.io": "aGVsbG8K"} {
		u := w.at("p", "log", nil)
		u.Scheme = "wss"
		d := websocket.Dialer{TLSClientConfig: config, Subprotocols: []string{protocol}}
		ws, _, err := d.DialContext(t.Context(), u.String(), nil)
		if err != nil {
			t.Fatalf("%s: %v", protocol, err)
		}
		var messages []string
		for {
			_, data, err := ws.ReadMessage()
			if err != nil {
				break
			}
			messages = append(messages, string(data))
		}
		_ = ws.Close()
		if len(messages) < 2 || messages[0] != "" || messages[1] != want {
			t.Errorf("%s: the messages are %q", protocol, messages)
		}
	}
}
