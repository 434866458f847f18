package deviceplugin_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	devices "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/keelson-dev/keelson/kubelet/deviceplugin"
	"github.com/keelson-dev/keelson/kubelet/internal/registrars"
)

const refused = "UnexpectedAdmissionError: Allocate failed due to "

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
	w.admit(one, "admitted")
	equal(t, "one", w.has(one), "main DEVICES=a")
	w.admit(pod("big", "main 2"), refused+"requested number of devices unavailable for example.com/device. Requested: 2, Available: 1, which is unexpected")
	w.admit(two, "admitted")
	equal(t, "two", w.has(two), "main DEVICES=b")
	w.admit(pod("late", "main 1"), refused+"requested number of devices unavailable for example.com/device. Requested: 1, Available: 0, which is unexpected")
	w.admit(pod("plain", "main"), "admitted")
	w.admit(pod("unknown", "main 1 example.com/unknown"), "admitted")
	if got := w.Allocated(); len(got) != 1 || got[resourceName] != 2 {
		t.Errorf("allocated %v", got)
	}
	w.release(one)
	w.admit(pod("late", "main 1"), "admitted")
	equal(t, "calls", s.took(), "allocate a, allocate b, allocate a")
	claimed := pod("claimed", "main 1")
	claimed.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{RequestMappings: []corev1.ContainerExtendedResourceRequest{
		{ContainerName: "main", ResourceName: resourceName, RequestName: "r"},
	}}
	w.admit(claimed, "admitted")
	equal(t, "the claimed", w.has(claimed), "")
}

// TestReservations: what one pod was admitted with is not given to another before it is allocated.
func TestReservations(t *testing.T) {
	w := newWorld(t, deviceplugin.Options{})
	w.plugin(resourceName, "a", "b", "c")
	first := pod("first", "init 2", "main 1")
	if refusal := w.Admit(first); refusal != nil {
		t.Fatal(refusal)
	}
	if got := w.Allocated()[resourceName]; got != 2 {
		t.Errorf("%d devices are reserved", got)
	}
	w.admit(pod("second", "main 2"), refused+"requested number of devices unavailable for example.com/device. Requested: 2, Available: 1…")
	w.admit(pod("third", "main 1"), "admitted")
	w.admit(first, "admitted")
	equal(t, "the first", w.has(first), "init DEVICES=b,c; main DEVICES=b")
}

// TestReuse: containers use the devices of the init containers before them, unless those still run.
func TestReuse(t *testing.T) {
	for want, containers := range map[string][]string{
		"init DEVICES=a,b; main DEVICES=a":                                    {"init 2", "main 1"},
		"init DEVICES=a; main DEVICES=a,b":                                    {"init 1", "main 2"},
		"init1 DEVICES=a; init2 DEVICES=a,b; main DEVICES=a; other DEVICES=b": {"init1 1", "init2 2", "main 1", "other 1"},
		"init DEVICES=a,b; side DEVICES=a; main DEVICES=b; other DEVICES=c":   {"init 2", "side 1", "main 1", "other 1"},
		"side DEVICES=a; init DEVICES=b; main DEVICES=b,c":                    {"side 1", "init 1", "main 2"},
		"init DEVICES=a; main DEVICES=a; other DEVICES=b":                     {"init 1", "main 1", "other 1"},
	} {
		t.Run(strings.Join(containers, ", "), func(t *testing.T) {
			w := newWorld(t, deviceplugin.Options{})
			w.plugin(resourceName, "a", "b", "c")
			p := pod("p", containers...)
			w.admit(p, "admitted")
			equal(t, "containers", w.has(p), want)
			w.admit(pod("rest", fmt.Sprintf("main %d", 3-int(w.Allocated()[resourceName]))), "admitted")
		})
	}
	w := newWorld(t, deviceplugin.Options{})
	w.plugin(resourceName, "a", "b")
	w.admit(pod("p", "init 2", "side 1", "main 2"), refused+"requested number of devices unavailable for example.com/device. Requested: 1, Available: 0…")
}

// TestHealth: unhealthy devices count for the capacity only, are not allocated, and are reported of the pods that have them.
func TestHealth(t *testing.T) {
	w := newWorld(t, deviceplugin.Options{})
	s := w.plugin(resourceName, "a", "b")
	p := pod("p", "main 1")
	w.admit(p, "admitted")
	health := func() string {
		var all []string
		for _, r := range w.Health(p.UID, "main") {
			for _, d := range r.Resources {
				all = append(all, fmt.Sprint(r.Name, " ", d.ResourceID, " ", d.Health))
			}
		}
		return strings.Join(all, ", ")
	}
	synced := func() string {
		w.mu.Lock()
		defer w.mu.Unlock()
		defer func() { w.synced = nil }()
		return fmt.Sprint(w.synced)
	}
	equal(t, "health", health(), "example.com/device a Healthy")
	s.lists("a!", "b")
	w.counts(resourceName, "2/1")
	equal(t, "health", health(), "example.com/device a Unhealthy")
	equal(t, "synced", synced(), "[p]")
	s.lists("a!", "b!")
	w.counts(resourceName, "2/0")
	equal(t, "synced", synced(), "[]")
	w.admit(pod("q", "main 1"), refused+"no healthy devices present; cannot allocate unhealthy devices example.com/device, which is unexpected")
	s.lists()
	w.counts(resourceName, "0/0")
	equal(t, "health", health(), "example.com/device a Healthy")
	s.lists("a", "b")
	w.counts(resourceName, "2/2")
	equal(t, "synced", synced(), "[p]")
	w.until("a report", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.told > 0 })
	if w.Health("other", "main") != nil || w.Health(p.UID, "other") != nil {
		t.Error("devices of nobody are reported")
	}
}

// TestAbsence: without its plugin, a resource's devices are unhealthy, and 0 after a while. Pods keep theirs.
func TestAbsence(t *testing.T) {
	w := newWorld(t, deviceplugin.Options{Absence: 400 * time.Millisecond})
	s := w.plugin(resourceName, "a", "b")
	p := pod("p", "main 1")
	w.admit(p, "admitted")
	s.stop()
	w.counts(resourceName, "2/0")
	w.admit(pod("q", "main 1"), refused+"no healthy devices present; cannot allocate unhealthy devices example.com/device…")
	w.counts(resourceName, "0/0")
	w.admit(pod("q", "main 1"), refused+"cannot allocate unregistered device example.com/device…")
	equal(t, "the pod", w.has(p), "main: endpoint not found in cache for a registered resource: example.com/device")
	w.plugin(resourceName, "a")
	w.counts(resourceName, "1/1")
	equal(t, "the pod", w.has(p), "main DEVICES=a")
}

// TestPluginsComeAndGo: a pod that was prepared is not refused because of a plugin that has gone since, or has come.
func TestPluginsComeAndGo(t *testing.T) {
	w := newWorld(t, deviceplugin.Options{})
	s := w.plugin(resourceName, "a")
	p := pod("p", "main 1", "none 0", "other 1 example.com/other")
	w.admit(p, "admitted")
	s.stop()
	w.counts(resourceName, "1/0")
	w.plugin("example.com/other", "x!")
	w.counts("example.com/other", "1/0")
	if err := w.Prepare(t.Context(), p); err != nil {
		t.Error(err)
	}
	unknown := pod("of-an-earlier-kubelet", "main 1")
	if err := w.Prepare(t.Context(), unknown); err != nil {
		t.Error(err)
	}
}

// TestOthers: a resource may have several plugins, of which the last that registered is asked, and then one that is left.
func TestOthers(t *testing.T) {
	w := newWorld(t, deviceplugin.Options{})
	old := w.plugin(resourceName, "a", "b")
	equal(t, "again", w.register(&devices.RegisterRequest{Version: devices.Version, Endpoint: filepath.Base(old.socket), ResourceName: resourceName}),
		"rpc error: code = Unknown desc = device plugin already connected: "+old.socket)
	next := w.serve(resourceName, w.path("next.sock"), "a", "b", "c")
	w.enroll(next, 3)
	w.admit(pod("one", "main 1"), "admitted")
	equal(t, "calls of the next", next.took(), "allocate a")
	next.stop()
	w.until("the old one", func() bool {
		p := pod("two", "main 1")
		defer w.release(p)
		return w.Admit(p) == nil && w.Prepare(t.Context(), p) == nil && old.took() != ""
	})
	w.counts(resourceName, "3/3")
	other := w.plugin("example.com/other", "a")
	w.admit(pod("both", "main 1 example.com/other 1 example.com/device"), "admitted")
	equal(t, "calls", old.took()+", "+other.took(), "allocate b, allocate a")

	// Another process with the same socket takes the place of the first, even if that is still connected.
	if err := os.Remove(other.socket); err != nil {
		t.Fatal(err)
	}
	w.enroll(w.serve("example.com/other", other.socket, "x", "y"), 2)
	other.stop()
	w.counts("example.com/other", "2/2")
}

// TestRestart: a later kubelet knows which devices pods have, and gives those of the pods that are gone to others.
func TestRestart(t *testing.T) {
	w := newWorld(t, deviceplugin.Options{})
	if !w.Resources().Reset {
		t.Error("a new machine is not reset")
	}
	s := w.plugin(resourceName, "a@0", "b@1", "c@1")
	p, gone := pod("p", "init 1", "main 2"), pod("gone", "main 1")
	w.admit(p, "admitted")
	w.admit(gone, "admitted")
	w.stop()
	if err := os.WriteFile(w.path("kept"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.start(deviceplugin.Options{})
	w.until("that sockets are removed", func() bool { _, err := os.Stat(s.socket); return errors.Is(err, os.ErrNotExist) })
	if _, err := os.Stat(w.path("kept")); err != nil {
		t.Error(err)
	}
	if found := w.Resources(); found.Reset {
		t.Error("a machine is reset that has a checkpoint")
	}
	equal(t, "the resource", w.count(resourceName), "0/0")
	w.admit(p, "admitted")
	equal(t, "the pod", w.has(p), "init DEVICES=a@0; main DEVICES=a@0,b@1")
	w.admit(pod("new", "main 1"), refused+"no healthy devices present; cannot allocate unhealthy devices example.com/device…")
	s.stop()
	w.plugin(resourceName, "a@0", "b@1", "c@1")
	w.admit(pod("new", "main 1"), refused+"requested number of devices unavailable for example.com/device. Requested: 1, Available: 0…")
	live := func(uid types.UID) bool { return uid == p.UID }
	orphans, err := w.Orphans(live)
	if equal(t, "orphans", fmt.Sprint(orphans, err), "[gone] <nil>"); len(orphans) == 1 {
		w.release(gone)
	}
	w.admit(pod("new", "main 1"), "admitted")
}

// TestCorrupt: a kubelet starts without a checkpoint that it cannot read.
func TestCorrupt(t *testing.T) {
	for _, content := range []string{"", "{", "[]", `{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{"a/b":[]}},"Checksum":1}`} {
		w := newWorld(t, deviceplugin.Options{})
		w.plugin(resourceName, "a")
		w.admit(pod("p", "main 1"), "admitted")
		w.stop()
		if err := os.WriteFile(w.path("kubelet_internal_checkpoint"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		w.start(deviceplugin.Options{})
		equal(t, content, w.count(resourceName)+w.count("a/b"), "--")
	}
}

// TestPreference: a plugin chooses among the free devices, but no others.
func TestPreference(t *testing.T) {
	w := newWorld(t, deviceplugin.Options{})
	s := w.plugin(resourceName, "a", "b", "c", "d", "e!")
	s.stop()
	w.counts(resourceName, "5/0")
	s = w.serve(resourceName, w.path("p.sock"), "a", "b", "c", "d", "e!")
	s.options.GetPreferredAllocationAvailable = true
	var prefers []string
	var fail error
	s.prefer = func(*devices.ContainerPreferredAllocationRequest) (*devices.PreferredAllocationResponse, error) {
		return &devices.PreferredAllocationResponse{ContainerResponses: []*devices.ContainerPreferredAllocationResponse{{DeviceIDs: prefers}}}, fail
	}
	w.enroll(s, 5)
	w.counts(resourceName, "5/4")
	for _, c := range []struct {
		prefers []string
		fail    error
		want    string
	}{
		{[]string{"c"}, nil, "c"},
		{[]string{"e", "z", "d", "d", "b"}, nil, "b"},
		{nil, nil, "a"},
		{nil, errors.New("no"), "later " + refused + "device plugin GetPreferredAllocation rpc failed with err: rpc error: code = Unknown desc = no, which is unexpected"},
	} {
		s.set(func() { prefers, fail = c.prefers, c.fail })
		p := pod("p", "main 1")
		if c.fail != nil {
			w.admit(p, c.want)
			continue
		}
		w.admit(p, "admitted")
		equal(t, fmt.Sprint(c.prefers), w.has(p), "main DEVICES="+c.want)
		w.release(p)
	}
	s.took()
	s.set(func() { prefers, fail = []string{"d"}, nil })
	p := pod("p", "init 1", "main 2")
	w.admit(p, "admitted")
	equal(t, "calls", s.took(), "prefer 1 of [a b c d] with [], allocate d, prefer 2 of [a b c d] with [d], allocate a d")
}

// TestPreStart: a plugin is told before a container starts, if it wants to know.
func TestPreStart(t *testing.T) {
	w := newWorld(t, deviceplugin.Options{})
	w.until("the directory", func() bool { _, err := os.Stat(w.path("kubelet.sock")); return err == nil })
	s := w.serve(resourceName, w.path("p.sock"), "a")
	s.options.PreStartRequired = true
	w.enroll(s, 1)
	p := pod("p", "main 1", "other")
	w.admit(p, "admitted")
	equal(t, "the pod", w.has(p), "main DEVICES=a")
	equal(t, "calls", s.took(), "allocate a, start a")
	s.set(func() { s.start = func() error { return errors.New("busy") } })
	equal(t, "the pod", w.has(p), "main: device plugin PreStartContainer rpc failed with err: rpc error: code = Unknown desc = busy")
}

// TestLate: a container gets devices of a plugin that registers after its pod was admitted.
func TestLate(t *testing.T) {
	w := newWorld(t, deviceplugin.Options{})
	p, q := pod("p", "main 1"), pod("q", "main 1")
	w.admit(p, "admitted")
	w.admit(q, "admitted")
	equal(t, "the pod", w.has(p), "")
	w.plugin(resourceName, "a")
	equal(t, "the pod", w.has(p), "main DEVICES=a")
	equal(t, "the other", w.has(q), "main: requested number of devices unavailable for example.com/device. Requested: 1, Available: 0")
}

// TestConcurrent: pods that are prepared at the same time get different devices.
func TestConcurrent(t *testing.T) {
	w := newWorld(t, deviceplugin.Options{})
	var ids []string
	for i := range 20 {
		ids = append(ids, fmt.Sprint("d", i))
	}
	w.plugin(resourceName, ids...)
	var all sync.WaitGroup
	for i := range 10 {
		p := pod(fmt.Sprint("p", i), "main 2")
		if refusal := w.Admit(p); refusal != nil {
			t.Fatal(refusal)
		}
		for range 2 {
			all.Go(func() {
				if err := w.Prepare(context.Background(), p); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	if got := w.Allocated()[resourceName]; got != 20 {
		t.Errorf("%d devices are allocated", got)
	}
	w.admit(pod("late", "main 1"), refused+"requested number of devices unavailable…")
}
