package csi_test

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/kubelet/volume/csi"
)

// lines is a log that can be read while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// other is a registrar of a plugin of another kind.
type other struct {
	registration.UnimplementedRegistrationServer
	asked atomic.Int64
}

func (o *other) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	o.asked.Add(1)
	return &registration.PluginInfo{Type: registration.DevicePlugin, Name: "other"}, nil
}

// registrar runs a further registrar until the test ends.
func (b *bench) registrar(name string, s registration.RegistrationServer) (path string) {
	b.Helper()
	server := grpc.NewServer()
	registration.RegisterRegistrationServer(server, s)
	path = filepath.Join(b.dir, "plugins_registry", name)
	l, err := net.Listen("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(l) }) // ends with the server
	b.Cleanup(func() { server.Stop(); running.Wait() })
	return path
}

// TestSecondRegistrar: a driver stays as long as one of its registrars does.
func TestSecondRegistrar(t *testing.T) {
	b := start(t, csi.Options{}, object(nil))
	b.script.set(func() { b.script.status = nil })
	second := b.registrar("second.sock", b.script)
	b.eventually("the second registrar is told", func() bool { return b.status().GetPluginRegistered() })
	b.must(os.Remove(second))
	o := &other{}
	b.registrar("other.sock", o)
	b.eventually("the directory is looked at again", func() bool { return o.asked.Load() > 0 })
	b.must(b.setUp(mountOf("p")))
	if drivers := get[*storagev1.CSINode](b, "csinodes", "", "node").Spec.Drivers; len(drivers) != 1 {
		t.Errorf("drivers %+v", drivers)
	}
}

// TestUntoldRegistrar: a registrar that could not be told is told later.
func TestUntoldRegistrar(t *testing.T) {
	b := start(t, csi.Options{}, object(nil))
	b.stop()
	b.script.set(func() { b.script.status, b.script.fail["notify"] = nil, errDriver })
	b.run()
	b.eventually("the registrar is told", func() bool { return b.status().GetPluginRegistered() })
}

// TestLostLabel: what a driver says of the node is said again if somebody has removed it.
func TestLostLabel(t *testing.T) {
	b := start(t, csi.Options{}, object(nil))
	node := get[*corev1.Node](b, "nodes", "", "node").DeepCopy()
	delete(node.Labels, "example.com/zone")
	if _, err := b.api.Others.Update(b.Context(), client.Target{Resource: corev1.SchemeGroupVersion.WithResource("nodes"), Name: "node"}, node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.restart()
	if got := get[*corev1.Node](b, "nodes", "", "node").Labels["example.com/zone"]; got != "z" {
		t.Errorf("zone %q", got)
	}
	b.script.info = &csispec.NodeGetInfoResponse{NodeId: "n-2"}
	b.restart()
	if got := get[*corev1.Node](b, "nodes", "", "node").Annotations["csi.volume.kubernetes.io/nodeid"]; got != `{"disks.example.com":"n-2"}` {
		t.Errorf("names %s", got)
	}
}

// TestCSINodeOfAnother: it is no failure if somebody else makes the CSINode meanwhile.
func TestCSINodeOfAnother(t *testing.T) {
	var log lines
	b := start(t, csi.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	b.stop()
	at := client.Target{Resource: storagev1.SchemeGroupVersion.WithResource("csinodes"), Name: "node"}
	b.must(b.api.Others.Delete(b.Context(), at, metav1.DeleteOptions{}))
	b.api.Inject(faults.Fault{Verb: faults.Create, Resource: "csinodes", Err: apierrors.NewAlreadyExists(at.Resource.GroupResource(), "node"), Lost: true})
	b.restart()
	if got := len(get[*storagev1.CSINode](b, "csinodes", "", "node").Spec.Drivers); got != 1 || strings.Contains(log.String(), "there is no CSINode yet") {
		t.Errorf("%d drivers, log %s", got, log.String())
	}
}
