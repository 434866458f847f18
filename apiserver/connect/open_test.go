package connect

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// TestSilentKubelet: a kubelet that answers the first stream no more is waited for once, not for each of the others too.
func TestSilentKubelet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		conn, err := spdy.NewClientConnection(ours)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		all := &translation{streams: streams{stdin: true, stdout: true, stderr: true, tty: true}, out: map[byte]httpstream.Stream{}}
		if err := all.open(conn); err == nil || time.Since(begun) != 30*time.Second {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
		_, _, _ = conn.Close(), ours.Close(), theirs.Close()
	})
}
