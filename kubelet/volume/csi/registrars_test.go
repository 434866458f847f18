package csi_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// TestUntoldRegistrar: a registrar that could not be told is told later.
func TestUntoldRegistrar(t *testing.T) {
	b := start(t, csi.Options{}, object(nil))
	b.stop()
	b.script.set(func() { b.script.status, b.script.fail["notify"] = nil, errDriver })
	b.run()
	b.eventually("the registrar is told", func() bool { return b.status().GetPluginRegistered() })
	b.stop()
	b.script.set(func() { b.script.status, b.script.fail["ask"] = nil, errDriver })
	b.run()
	b.eventually("the registrar that said nothing is asked again", func() bool { return b.status().GetPluginRegistered() })
}

// TestBrokenData: what cannot be read or written of a volume is an error, and no reason to forget the volume.
func TestBrokenData(t *testing.T) {
	b := start(t, csi.Options{}, object(nil))
	m := mountOf("p")
	data := filepath.Join(b.at(m), "vol_data.json")
	b.must(os.MkdirAll(data, 0o750))
	if err := b.setUp(m); err == nil {
		t.Error("mounted without data")
	}
	b.took("")
	b.must(os.RemoveAll(data))
	b.must(b.setUp(m))
	b.must(os.WriteFile(data, []byte("{"), 0o600))
	if err := b.tearDown(m); err == nil || !strings.HasPrefix(err.Error(), data+": ") {
		t.Errorf("taken down without data: %v", err)
	}
	b.must(os.RemoveAll(data))
	b.must(os.MkdirAll(data, 0o750))
	if err := b.tearDown(m); err == nil {
		t.Error("taken down with a directory for data")
	}
}

// TestWithoutRecorder: the zero Options work.
func TestWithoutRecorder(t *testing.T) {
	b := start(t, csi.Options{}, object(nil))
	b.options = csi.Options{Period: b.options.Period}
	b.restart()
	b.script.set(func() { b.script.fail["expand"] = errDriver })
	m := mountOf("p")
	m.Persistent.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
	b.must(b.setUp(m))
	b.took("stage h, publish h, expand h 2147483648")
}

// TestLostLabel: what a driver says of the node is said again if somebody has removed it.
func TestLostLabel(t *testing.T) {
	b := start(t, csi.Options{}, object(nil))
	lost := func(key string) {
		t.Helper()
		node := get[*corev1.Node](b, "nodes", "", "node").DeepCopy()
		want := node.Labels[key]
		delete(node.Labels, key)
		if _, err := b.api.Others.Update(b.Context(), client.Target{Resource: corev1.SchemeGroupVersion.WithResource("nodes"), Name: "node"}, node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		b.restart()
		if got := get[*corev1.Node](b, "nodes", "", "node").Labels[key]; got != want || want == "" {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	lost("example.com/zone")
	segments := map[string]string{}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		segments["example.com/"+name] = name
	}
	b.script.info = &csispec.NodeGetInfoResponse{NodeId: "n-1", AccessibleTopology: &csispec.Topology{Segments: segments}}
	b.restart()
	lost("example.com/a") // one of many
	lost("example.com/f")
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
	b.stop()
	b.must(b.api.Others.Delete(b.Context(), at, metav1.DeleteOptions{}))
	b.api.Inject(faults.Fault{Verb: faults.Create, Resource: "csinodes", Err: errDriver})
	b.restart()
	if got := len(get[*storagev1.CSINode](b, "csinodes", "", "node").Spec.Drivers); got != 1 || !strings.Contains(log.String(), "there is no CSINode yet") {
		t.Errorf("%d drivers, log %s", got, log.String())
	}
}

// TestQuietRegistration: a registration that succeeds is no warning.
func TestQuietRegistration(t *testing.T) {
	var log lines
	b := start(t, csi.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	b.stop()
	if got := log.String(); got != "" {
		t.Errorf("log %s", got)
	}
}
