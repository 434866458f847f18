package dra_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/kubelet/dra"
)

func (w *world) devices(p *corev1.Pod, container int) string {
	names, err := w.CDIDevices(p, &p.Spec.Containers[container])
	if err != nil {
		return err.Error()
	}
	return strings.Join(names, " ")
}

func (w *world) files() string {
	w.t.Helper()
	entries, err := os.ReadDir(filepath.Join(w.dir, "dra"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	return fmt.Sprint(len(entries))
}

// Claims are prepared once, shared by pods, and unprepared after the last of them.
func TestLife(t *testing.T) {
	w := newWorld(t, dra.Options{})
	s := w.serve(driverName)
	a, b := pod("a", "x", "y"), pod("b", "x")
	w.claim("x", []string{driverName}, a, b)
	w.claim("y", []string{driverName}, a)
	equal(t, "before", w.devices(a, 0), "ResourceClaim x is not prepared")
	w.prepare(a, "done")
	equal(t, "calls", s.took(), "prepare default/x, prepare default/y")
	gpu, all := driverName+"/gpu=0", driverName+"/all=1"
	equal(t, "a container with both claims", w.devices(a, 0), strings.Join([]string{gpu, all, gpu, all}, " "))
	equal(t, "one with a request", w.devices(a, 1), gpu+" "+all)
	equal(t, "one with another request", w.devices(a, 2), all)
	equal(t, "one without", w.devices(a, 3), "")
	w.prepare(a, "done")
	w.prepare(b, "done")
	equal(t, "calls for what is prepared", s.took(), "")
	elsewhere := a.DeepCopy()
	elsewhere.Namespace = "elsewhere"
	equal(t, "one of another namespace", w.devices(elsewhere, 0), "ResourceClaim x is not prepared")
	w.release(a, "done")
	equal(t, "calls while b has x", s.took(), "unprepare default/y")
	equal(t, "b still has", w.devices(b, 0), gpu+" "+all)
	w.release(a, "done")
	w.release(pod("stranger"), "done")
	w.release(b, "done")
	equal(t, "calls after b", s.took(), "unprepare default/x")
	equal(t, "files", w.files(), "0")
	equal(t, "after", w.devices(b, 0), "ResourceClaim x is not prepared")
	if s.patience < 40*time.Second || s.patience > 45*time.Second {
		t.Errorf("calls take at most %v", s.patience)
	}
}

// The claims of a pod are unprepared in one order.
func TestOrder(t *testing.T) {
	w := newWorld(t, dra.Options{})
	s := w.serve(driverName)
	a := pod("a", "p", "q", "r", "s", "t")
	want := ""
	for _, name := range []string{"p", "q", "r", "s", "t"} {
		w.claim(name, []string{driverName}, a)
		want += ", unprepare default/" + name
	}
	w.prepare(a, "done")
	s.took()
	w.release(a, "done")
	equal(t, "calls", s.took(), want[2:])
}

// A later kubelet knows what was prepared, and gives it back.
func TestRestart(t *testing.T) {
	w := newWorld(t, dra.Options{})
	s := w.serve(driverName)
	a := pod("a", "x")
	w.claim("x", []string{driverName}, a)
	w.prepare(a, "done")
	s.set(func() { s.status = nil; s.calls = nil })
	w.stop()
	w.start(dra.Options{})
	w.until("registration", func() bool { return s.told() == "registered" })
	equal(t, "devices", w.devices(a, 1), driverName+"/gpu=0 "+driverName+"/all=1")
	w.prepare(a, "done")
	equal(t, "calls", s.took(), "")
	live := func(types.UID) bool { return true }
	if orphans, err := w.Orphans(live); len(orphans) != 0 || err != nil {
		t.Errorf("orphans %v, %v", orphans, err)
	}
	orphans, err := w.Orphans(func(uid types.UID) bool { return uid != "a" })
	if fmt.Sprint(orphans) != "[a]" || err != nil {
		t.Errorf("orphans %v, %v", orphans, err)
	}
	early, err := dra.New(w.dir, "n", w.api, dra.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := early.Release(t.Context(), a.UID); !errors.Is(err, dra.ErrNotRegistered) {
		t.Errorf("released before the driver is there: %v", err)
	}
	w.release(a, "done")
	equal(t, "calls", s.took(), "unprepare default/x")
	w.stop()
	for name, content := range map[string]string{"u.json": "{", "v.json": `{"uid":"w"}`} {
		at := filepath.Join(w.dir, "dra", name)
		if err := os.WriteFile(at, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := dra.New(w.dir, "n", w.api, dra.Options{}); err == nil || !strings.Contains(err.Error(), at) {
			t.Errorf("%s: %v", name, err)
		}
		if err := os.Remove(at); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(w.dir, "dra", "notes.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.start(dra.Options{})
	if _, err := dra.New("relative", "n", w.api, dra.Options{}); err == nil {
		t.Error("a relative directory is taken")
	}
}

func TestRefusals(t *testing.T) {
	w := newWorld(t, dra.Options{})
	s := w.serve(driverName)
	mine := pod("mine", "x")
	other := w.claim("x", []string{driverName}, pod("other"))
	w.prepare(mine, fmt.Sprintf("prepare dynamic resources: pod mine (mine) is not allowed to use ResourceClaim x (%s)", other.UID))
	w.prepare(pod("mine", "gone"), `prepare dynamic resources: fetch ResourceClaim gone: resourceclaims.resource.k8s.io "gone" not found`)
	w.claim("far", []string{"far.example.com"}, mine)
	w.prepare(pod("mine", "far"), "prepare dynamic resources: DRA driver far.example.com is not registered")
	if err := w.Prepare(t.Context(), pod("mine", "far")); !errors.Is(err, dra.ErrNotRegistered) {
		t.Errorf("got %v", err)
	}
	made := pod("made", "x")
	made.Spec.ResourceClaims[0] = corev1.PodResourceClaim{Name: "x", ResourceClaimTemplateName: ptr.To("t")}
	w.prepare(made, `prepare dynamic resources: pod "default/made": ResourceClaim not created yet`)
	equal(t, "of a reference that has no claim yet", w.devices(made, 0), `pod "default/made": ResourceClaim not created yet`)
	made.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "x"}}
	w.prepare(made, "done")
	equal(t, "of a reference without a claim", w.devices(made, 0), "")
	made.Status.ResourceClaimStatuses[0].ResourceClaimName = ptr.To("foreign")
	w.claim("foreign", []string{driverName}, made)
	w.prepare(made, "prepare dynamic resources: ResourceClaim default/foreign was not created for Pod default/made (Pod is not owner)")
	equal(t, "calls", s.took(), "")
	equal(t, "files", w.files(), "0")
}

// What a driver fails to do is tried again.
func TestFailures(t *testing.T) {
	w := newWorld(t, dra.Options{Timeout: time.Second})
	s := w.serve(driverName)
	a := pod("a", "x")
	c := w.claim("x", []string{driverName}, a)
	for _, tt := range []struct {
		change                func()
		preparing, afterwards string
	}{
		{func() { s.fail = errors.New("broken") }, "NodePrepareResources: rpc error: code = Unknown desc = broken", "NodeUnprepareResources: rpc error: code = Unknown desc = broken"},
		{func() { s.refuse = "no such device" }, "NodePrepareResources failed for ResourceClaim x: no such device", "NodeUnprepareResources failed for ResourceClaim x: no such device"},
		{func() { s.skip = true }, "NodePrepareResources skipped 1 ResourceClaims", "NodeUnprepareResources skipped 1 ResourceClaims"},
		{func() { s.strange = true }, "NodePrepareResources returned result for unknown claim UID strange", "NodeUnprepareResources returned result for unknown claim UID strange"},
		{func() { s.hang = true }, "NodePrepareResources: rpc error: code = DeadlineExceeded…", "NodeUnprepareResources: rpc error: code = DeadlineExceeded…"},
	} {
		s.set(tt.change)
		w.prepare(a, "prepare dynamic resources: "+tt.preparing)
		equal(t, "while it fails", w.devices(a, 0), "ResourceClaim x is not prepared")
		w.release(a, "unprepare dynamic resources: "+tt.afterwards)
		s.set(func() { s.fail, s.refuse, s.skip, s.strange, s.hang = nil, "", false, false, false })
		// It is going, so no pod may have it before it is gone.
		w.prepare(a, "prepare dynamic resources: ResourceClaim x is being unprepared")
		w.release(a, "done")
		equal(t, "files", w.files(), "0")
	}
	w.prepare(a, "done")
	if err := w.api.Delete(t.Context(), target(c, ""), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b := pod("b", "x")
	w.claim("x", []string{driverName}, b)
	w.prepare(b, fmt.Sprintf("prepare dynamic resources: old ResourceClaim with same name x and different UID %s still exists (previous pod force-deleted?!)", c.UID))
	w.release(a, "done")
	w.prepare(b, "done")
}

// The devices of a claim may be of several drivers.
func TestDrivers(t *testing.T) {
	w := newWorld(t, dra.Options{})
	one, two := w.serve(driverName), w.serve("nic.example.com")
	a := pod("a", "x")
	w.claim("x", []string{"nic.example.com", driverName}, a)
	two.set(func() { two.refuse = "later" })
	w.prepare(a, "prepare dynamic resources: NodePrepareResources failed for ResourceClaim x: later")
	two.set(func() { two.refuse = "" })
	w.prepare(a, "done")
	equal(t, "devices", w.devices(a, 2), driverName+"/all=1 nic.example.com/all=1")
	equal(t, "calls of one", one.took(), "prepare default/x, prepare default/x")
	w.release(a, "done")
	equal(t, "calls of the other", two.took(), "prepare default/x, prepare default/x, unprepare default/x")
}

func TestRegistration(t *testing.T) {
	w := newWorld(t, dra.Options{})
	old := w.serve("old.example.com", func(s *script) { s.versions = []string{"v1alpha3.Node"} })
	if got := old.told(); !strings.Contains(got, `none of services supported by the plugin (["v1alpha3.Node"]) are supported by the kubelet (["v1.DRAPlugin"])`) {
		t.Errorf("told %s", got)
	}
	mute := w.serve("mute.example.com", func(s *script) { s.versions = nil })
	if got := mute.told(); !strings.Contains(got, "empty list of supported gRPC services (aka supported versions)") {
		t.Errorf("told %s", got)
	}
	disk := &script{name: "disk.example.com", endpoint: filepath.Join(w.dir, "disk.sock"), kind: registration.CSIPlugin, versions: []string{"1.0.0"}}
	w.listen(disk)
	equal(t, "a driver", w.serve(driverName).told(), "registered")
	equal(t, "a driver of volumes", disk.told(), "")
}

// What a driver published goes when the driver has been gone for a while, also while no kubelet ran.
func TestSlices(t *testing.T) {
	w := newWorld(t, dra.Options{Absence: 2 * time.Second})
	w.stop()
	publish := func(name, driver, node string) {
		controllerstest.Add(t, w.api, &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{
			Driver: driver, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1}, Devices: []resourcev1.Device{{Name: "gpu-0"}},
		}})
	}
	publish("here", driverName, "n")
	publish("elsewhere", driverName, "m")
	publish("lost", "lost.example.com", "n")
	left := func() string {
		obj, err := w.api.List(t.Context(), client.Target{Resource: resourcev1.SchemeGroupVersion.WithResource("resourceslices")}, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, s := range obj.(*resourcev1.ResourceSliceList).Items {
			names = append(names, s.Name)
		}
		return strings.Join(names, " ")
	}
	s := &script{name: driverName, endpoint: filepath.Join(w.dir, "gpu.sock"), kind: registration.DRAPlugin, versions: []string{"v1.DRAPlugin"}}
	stop := w.listen(s)
	w.start(dra.Options{Absence: 2 * time.Second})
	w.until("the end of the lost driver's slices", func() bool { return left() == "elsewhere here" })
	publish("found", "lost.example.com", "n") // of a driver that the kubelet does not know: it is not its own any more
	stop()
	w.until("the end of the driver's slices", func() bool { return !strings.HasSuffix(left(), " here") })
	equal(t, "slices", left(), "elsewhere found")
	w.prepare(pod("a"), "done")
	late := pod("late", "x")
	w.claim("x", []string{driverName}, late)
	w.prepare(late, "prepare dynamic resources: DRA driver gpu.example.com is not registered")
}
