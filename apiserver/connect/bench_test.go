package connect_test

import (
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/keelson-dev/keelson/authn"
)

// BenchmarkExec is a command that does nothing, by way of API server, kubelet and the runtime's
// streaming server.
func BenchmarkExec(b *testing.B) {
	w := start(b)
	w.pod(b, "p", "main")
	u := w.at("p", "exec", command(corev1.PodExecOptions{Command: []string{"true"}, Stdout: true}))
	for name, e := range executors(b, w.config(b, "admin", authn.GroupMasters), u) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := e.StreamWithContext(b.Context(), remotecommand.StreamOptions{Stdout: io.Discard}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOutput is 16 MiB of a command's output.
func BenchmarkOutput(b *testing.B) {
	w := start(b)
	w.pod(b, "p", "main")
	u := w.at("p", "exec", command(corev1.PodExecOptions{Command: []string{"head", "-c", "16777216", "/dev/zero"}, Stdout: true}))
	for name, e := range executors(b, w.config(b, "admin", authn.GroupMasters), u) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(16 << 20)
			for b.Loop() {
				if err := e.StreamWithContext(b.Context(), remotecommand.StreamOptions{Stdout: io.Discard}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLogs is a log of 80,000 lines, and its last line.
func BenchmarkLogs(b *testing.B) {
	w := start(b)
	_, cs := w.pod(b, "p", "main")
	lines := make([]string, 80_000)
	for i := range lines {
		lines[i] = day + "03:04:05.123456789Z stdout F " + strings.Repeat("x", 100)
	}
	w.write(b, cs[0], lines...)
	client := w.client(b)
	for name, tail := range map[string]string{"all": "80000", "last": "1"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				log, err := client.Get().AbsPath("/api/v1/namespaces/default/pods/p/log").Param("tailLines", tail).Stream(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				n, err := io.Copy(io.Discard, log)
				if err != nil || n == 0 {
					b.Fatal(n, err)
				}
				_ = log.Close()
			}
		})
	}
}
