package deviceplugin_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	devices "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/keelson-dev/keelson/kubelet/deviceplugin"
)

// TestRegistration: what plugins say of themselves is checked.
func TestRegistration(t *testing.T) {
	w := newWorld(t, deviceplugin.Options{})
	w.until("the kubelet's socket", func() bool { _, err := os.Stat(w.path("kubelet.sock")); return err == nil })
	w.serve(resourceName, w.path("p.sock"), "a")
	w.serve(resourceName, w.path("silent.sock")).options = nil
	const unknown = "rpc error: code = Unknown desc = "
	for _, c := range []struct{ version, endpoint, resource, want string }{
		{"", "p.sock", resourceName, `requested API version "" is not supported by kubelet. Supported version is ["v1beta1"]`},
		{"v1", "p.sock", resourceName, `requested API version "v1" is not supported by kubelet. Supported version is ["v1beta1"]`},
		{devices.Version, "p.sock", "", `the ResourceName "" is invalid`},
		{devices.Version, "p.sock", "device", `the ResourceName "device" is invalid`},
		{devices.Version, "p.sock", "kubernetes.io/device", `the ResourceName "kubernetes.io/device" is invalid`},
		{devices.Version, "p.sock", "x.kubernetes.io/device", `the ResourceName "x.kubernetes.io/device" is invalid`},
		{devices.Version, "p.sock", "requests.example.com/device", `the ResourceName "requests.example.com/device" is invalid`},
		{devices.Version, "p.sock", "example.com/a/b", `the ResourceName "example.com/a/b" is invalid`},
		{devices.Version, "p.sock", "example.com/-", `the ResourceName "example.com/-" is invalid`},
		{devices.Version, "p.sock", "example.com/" + strings.Repeat("x", 64), `the ResourceName "example.com/x…`},
		{devices.Version, "none.sock", resourceName, "failed to dial device plugin: …"},
		{devices.Version, "", resourceName, "…"},
		{devices.Version, "silent.sock", resourceName, "failed to get device plugin options: rpc error: code = Unknown desc = no options"},
	} {
		got := w.register(&devices.RegisterRequest{Version: c.version, Endpoint: c.endpoint, ResourceName: c.resource})
		if c.endpoint == "" { // the directory itself: nobody ever answers there
			if got == "registered" {
				t.Error("the directory is registered")
			}
			continue
		}
		equal(t, c.endpoint+" "+c.resource, got, unknown+c.want)
	}
	equal(t, "the resource", w.count(resourceName), "-")
}

// TestWatcher: plugins register with a socket in plugins_registry, too, and are gone with it.
func TestWatcher(t *testing.T) {
	w := newWorld(t, deviceplugin.Options{})
	dir := filepath.Join(w.dir, "plugins_registry")
	good := w.serve(resourceName, filepath.Join(dir, "p.sock"), "a", "b")
	w.until("the registration", func() bool { return good.told() != "" })
	equal(t, "told", good.told(), "registered")
	w.counts(resourceName, "2/2")
	for want, spoil := range map[string]func(*registration.PluginInfo){
		"manager version, v1beta1, is not among plugin supported versions [v1 v2]": func(i *registration.PluginInfo) { i.SupportedVersions = []string{"v1", "v2"} },
		"manager version, v1beta1, is not among plugin supported versions []":      func(i *registration.PluginInfo) { i.SupportedVersions = nil },
		`invalid name of device plugin socket: the ResourceName "cpu" is invalid`:  func(i *registration.PluginInfo) { i.Name = "cpu" },
		"failed to dial device plugin: …":                                          func(i *registration.PluginInfo) { i.Endpoint = filepath.Join(w.dir, "none.sock") },
	} {
		bad := w.serve("example.com/bad", filepath.Join(dir, "bad.sock"), "a")
		bad.set(func() { spoil(bad.info) })
		bad.set(func() { bad.status = nil })
		w.until("the answer", func() bool { return strings.Contains(bad.told(), strings.TrimSuffix(want, "…")) })
		bad.stop()
		w.until("that the socket is gone", func() bool { _, err := os.Stat(bad.socket); return errors.Is(err, os.ErrNotExist) })
	}
	if err := os.Remove(good.socket); err != nil {
		t.Fatal(err)
	}
	w.counts(resourceName, "2/0")
}

// TestAnswers: what plugins answer about containers is checked, and whatever they answer, others go on.
func TestAnswers(t *testing.T) {
	w := newWorld(t, deviceplugin.Options{})
	s := w.plugin(resourceName, "a")
	for _, c := range []struct {
		name, want string
		answer     func([]string) (*devices.AllocateResponse, error)
	}{
		{"an error", "rpc error: code = Unknown desc = out of order", func([]string) (*devices.AllocateResponse, error) { return nil, errors.New("out of order") }},
		{"nothing", "no containers return in allocation response ", func([]string) (*devices.AllocateResponse, error) { return respond(), nil }},
		{"too much", "rpc error: code = ResourceExhausted desc = ", func([]string) (*devices.AllocateResponse, error) {
			return respond(&devices.ContainerAllocateResponse{Envs: map[string]string{"X": strings.Repeat("x", 5<<20)}}), nil
		}},
	} {
		s.set(func() { s.answer = c.answer })
		w.admit(pod("p", "main 1"), "later "+refused+c.want+"…")
		if got := w.Allocated()[resourceName]; got != 0 {
			t.Errorf("%s: %d devices are allocated", c.name, got)
		}
	}
	s.set(func() { s.answer = nil })
	w.admit(pod("p", "main 1"), "admitted")
}

// TestPatience: a plugin that does not answer is not waited for without end, and no other pod waits for it.
func TestPatience(t *testing.T) {
	w := newWorld(t, deviceplugin.Options{Timeout: time.Second})
	s, other := w.plugin(resourceName, "a"), w.plugin("example.com/other", "a")
	asked, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	s.set(func() {
		s.answer = func([]string) (*devices.AllocateResponse, error) {
			close(asked)
			<-release
			return nil, errors.New("late")
		}
	})
	p := pod("p", "main 1")
	if refusal := w.Admit(p); refusal != nil {
		t.Fatal(refusal)
	}
	done := make(chan error, 1)
	go func() { done <- w.Prepare(t.Context(), p) }()
	<-asked
	w.admit(pod("q", "main 1 example.com/other"), "admitted")
	equal(t, "calls", other.took(), "allocate a")
	equal(t, "the pod", fmt.Sprint(<-done), "Allocate failed due to rpc error: code = DeadlineExceeded desc = …") // either side may notice first

	// Who has the kubelet stop waiting is not refused.
	ctx, cancel := context.WithCancel(t.Context())
	s.set(func() {
		s.answer = func([]string) (*devices.AllocateResponse, error) {
			cancel()
			<-release
			return nil, errors.New("late")
		}
	})
	if err := w.Prepare(ctx, p); !errors.Is(err, context.Canceled) && !strings.Contains(fmt.Sprint(err), "Canceled") {
		t.Errorf("got %v", err)
	}
	s.set(func() { s.answer = nil })
	w.admit(p, "admitted")
}

// TestParts: a container gets everything that its plugins name, each thing once.
func TestParts(t *testing.T) {
	w := newWorld(t, deviceplugin.Options{})
	one, two := w.plugin("example.com/a", "1"), w.plugin("example.com/b", "1")
	one.answer = func([]string) (*devices.AllocateResponse, error) {
		return respond(&devices.ContainerAllocateResponse{
			Envs:        map[string]string{"B": "1", "A": "1"},
			Devices:     []*devices.DeviceSpec{{ContainerPath: "/dev/a", HostPath: "/dev/null", Permissions: "rw"}, {ContainerPath: "/dev/a", HostPath: "/dev/zero"}},
			Mounts:      []*devices.Mount{{ContainerPath: "/m", HostPath: "/h", ReadOnly: true}},
			Annotations: map[string]string{"k": "1"},
			CdiDevices:  []*devices.CDIDevice{{Name: "example.com/a=1"}, {Name: "example.com/a=1"}},
		}, &devices.ContainerAllocateResponse{Envs: map[string]string{"SECOND": "1"}}), nil
	}
	two.answer = func([]string) (*devices.AllocateResponse, error) {
		return respond(&devices.ContainerAllocateResponse{
			Envs:        map[string]string{"B": "2", "C": "2"},
			Devices:     []*devices.DeviceSpec{{ContainerPath: "/dev/b", HostPath: "/dev/null"}},
			Mounts:      []*devices.Mount{{ContainerPath: "/m", HostPath: "/other"}, {ContainerPath: "/n", HostPath: "/h"}},
			Annotations: map[string]string{"k": "2", "l": "2"},
			CdiDevices:  []*devices.CDIDevice{{Name: "example.com/b=1"}},
		}), nil
	}
	p := pod("p", "main 1 example.com/a 1 example.com/b")
	w.admit(p, "admitted")
	for range 2 {
		got, err := w.Container(t.Context(), p, &p.Spec.Containers[0])
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "variables", fmt.Sprint(got.Env), "[{A 1} {B 1} {C 2}]")
		equal(t, "devices", fmt.Sprint(got.Devices), "[{/dev/a /dev/null rw} {/dev/b /dev/null }]")
		equal(t, "annotations", fmt.Sprint(got.Annotations), "map[k:1 l:2]")
		equal(t, "CDI devices", fmt.Sprint(got.CDIDevices), "[example.com/a=1 example.com/b=1]")
		var mounts []string
		for _, m := range got.Mounts {
			mounts = append(mounts, fmt.Sprint(m.ContainerPath, m.HostPath, m.ReadOnly))
		}
		equal(t, "mounts", strings.Join(mounts, " "), "/m/htrue /n/hfalse")
		w.stop()
		w.start(deviceplugin.Options{})
	}
}

// FuzzList: whatever devices a plugin lists, they are counted, and no more of them are given away than are healthy.
func FuzzList(f *testing.F) {
	f.Add("a b c! a! @9", uint8(3))
	f.Add("", uint8(0))
	f.Add("! !! a!!", uint8(255))
	f.Fuzz(func(t *testing.T, list string, wanted uint8) {
		w := newWorld(t, deviceplugin.Options{})
		s := w.plugin(resourceName, "first", "second")
		if list = strings.ToValidUTF8(list, ""); len(list) > 1000 {
			return
		}
		ids := append(strings.Fields(list), "last")
		s.lists(ids...)
		healthy := map[string]bool{}
		for _, d := range s.list {
			healthy[d.GetID()] = d.GetHealth() == devices.Healthy
		}
		n := 0
		for _, ok := range healthy {
			if ok {
				n++
			}
		}
		w.counts(resourceName, fmt.Sprintf("%d/%d", len(healthy), n))
		p := pod("p", fmt.Sprintf("main %d", wanted))
		want := "admitted"
		if int(wanted) > n {
			want = fmt.Sprintf("%srequested number of devices unavailable for example.com/device. Requested: %d, Available: %d…", refused, wanted, n)
		}
		w.admit(p, want)
	})
}
