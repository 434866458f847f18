package prober_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/kubelet/prober"
)

// deaf is a port that accepts no connections: its backlog is full.
func deaf(t *testing.T) int32 {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	port := name.(*syscall.SockaddrInet4).Port
	for range 16 {
		c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), 100*time.Millisecond)
		if err != nil {
			return int32(port)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	t.Fatal("the kernel takes connections without end")
	return 0
}

// TestNothingIsDialedAfterwards: pending connections to containers are given up with the probe.
func TestNothingIsDialedAfterwards(t *testing.T) {
	port := deaf(t)
	p := prober.New(prober.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	web := corev1.HTTPGetAction{Port: intstr.FromInt32(port)}
	in := target(pod(), corev1.ProbeHandler{HTTPGet: &web})
	check(t, p.Probe(ctx, in), fmt.Sprintf(`Get "http://127.0.0.1:%d": context deadline exceeded (Client.Timeout exceeded while awaiting headers)`, port))
	tcp := target(pod(), corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(port)}})
	tcp.Probe.TimeoutSeconds = 1
	check(t, p.Probe(t.Context(), tcp), fmt.Sprintf("dial tcp 127.0.0.1:%d: i/o timeout", port))
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := p.Hook(short, in, &web); err == nil {
		t.Error("the hook cannot have been called")
	}
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	if n := strings.Count(string(stacks), "net.(*sysDialer).dialTCP"); n > 0 {
		t.Errorf("%d connections are still being made:\n%s", n, stacks)
	}
}
