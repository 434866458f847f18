package deviceplugin_test

import (
	"testing"

	"google.golang.org/grpc"

	"github.com/keelson-dev/keelson/kubelet/deviceplugin"
	"github.com/keelson-dev/keelson/kubelet/internal/registrars"
)

func dial(t *testing.T, socket string) *grpc.ClientConn {
	t.Helper()
	conn, err := registrars.Connect(socket)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestAllocation: pods get devices while there are any, and leave them to others.
func TestAllocation(t *testing.T) {
	w := newWorld(t, deviceplugin.Options{})
	s := w.plugin(resourceName, "a", "b", "c!")
	w.counts(resourceName, "3/2")
	one, two := pod("one", "main 1"), pod("two", "main 1")
	w.admit(one, "admitted")
	equal(t, "one", w.has(one), "main DEVICES=a")
	w.admit(pod("big", "main 2"), "UnexpectedAdmissionError: Allocate failed due to requested number of devices unavailable for example.com/device. Requested: 2, Available: 1, which is unexpected")
	w.admit(two, "admitted")
	equal(t, "two", w.has(two), "main DEVICES=b")
	w.admit(pod("late", "main 1"), "UnexpectedAdmissionError: Allocate failed due to requested number of devices unavailable for example.com/device. Requested: 1, Available: 0, which is unexpected")
	w.admit(pod("plain", "main"), "admitted")
	w.admit(pod("unknown", "main 1 example.com/unknown"), "admitted")
	w.release(one)
	w.admit(pod("late", "main 1"), "admitted")
	equal(t, "calls", s.took(), "allocate a, allocate b, allocate a")
}
