package deviceplugin_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	devices "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/keelson-dev/keelson/kubelet/deviceplugin"
	"github.com/keelson-dev/keelson/kubelet/deviceplugin/internal/checkpoint"
)

// journal is what was logged.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) says(what string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Contains(j.text.String(), what)
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

// TestNone: who wants no device needs no plugin, even if that of the resource has gone.
func TestNone(t *testing.T) {
	w := newWorld(t, deviceplugin.Options{})
	s := w.plugin(resourceName, "a")
	p := pod("p", "main 1", "none 0")
	if w.admit(pod("nothing", "none 0"), "admitted"); len(w.Allocated()) != 0 {
		t.Errorf("%v are allocated", w.Allocated())
	}
	w.admit(p, "admitted")
	s.stop()
	w.counts(resourceName, "1/0")
	equal(t, "the pod", w.has(p), "main DEVICES=a")
}

// TestNotListed: a plugin that has not listed its devices yet has nothing to do with pods.
func TestNotListed(t *testing.T) {
	w := newWorld(t, deviceplugin.Options{})
	s := w.serve(resourceName, w.path("p.sock"))
	s.set(func() { s.list = nil })
	r := &devices.RegisterRequest{Version: devices.Version, Endpoint: "p.sock", ResourceName: resourceName}
	equal(t, "registration", w.register(r), "registered")
	p := pod("p", "main 1")
	w.admit(p, "admitted")
	equal(t, "the pod", w.has(p), "")
	equal(t, "the resource", w.count(resourceName), "-")
	// The same file with another time is that of another process.
	if err := os.Chtimes(s.socket, time.Time{}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	equal(t, "another process", w.register(r), "registered")
	equal(t, "the same process", w.register(r), "rpc error: code = Unknown desc = device plugin already connected: "+s.socket)
}

// TestNotAdmitted: a pod that nobody has admitted gets its devices when its container is created; only the claim of the
// container itself makes them unnecessary.
func TestNotAdmitted(t *testing.T) {
	w := newWorld(t, deviceplugin.Options{})
	w.plugin(resourceName, "a", "b")
	equal(t, "the pod", w.has(pod("p", "main 1")), "main DEVICES=a")
	claimed := pod("claimed", "main 1", "other 1 example.com/other")
	claimed.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{RequestMappings: []corev1.ContainerExtendedResourceRequest{
		{ContainerName: "other", ResourceName: resourceName, RequestName: "r"},
	}}
	equal(t, "a pod with the claim of another", w.has(claimed), "main DEVICES=b")
}

// TestOrder: containers that run at once share no device, and none has that of an init container behind it.
func TestOrder(t *testing.T) {
	w := newWorld(t, deviceplugin.Options{})
	w.plugin(resourceName, "a", "b", "c")
	w.admit(pod("large", "main 2", "other 2"), refused+"requested number of devices unavailable for example.com/device. Requested: 2, Available: 1, which is unexpected")
	p := pod("p", "init1 1", "init2 1")
	got, err := w.Container(t.Context(), p, &p.Spec.InitContainers[1])
	equal(t, "the second", fmt.Sprint(got.Env, err), "[{DEVICES a}] <nil>")
	equal(t, "the pod", w.has(p), "init1 DEVICES=b; init2 DEVICES=a")
}

// TestBackAgain: a pod is synced when its device is back, even if that is ill.
func TestBackAgain(t *testing.T) {
	w := newWorld(t, deviceplugin.Options{})
	s := w.plugin(resourceName, "a")
	w.admit(pod("p", "main 1"), "admitted")
	s.lists()
	w.counts(resourceName, "0/0")
	s.lists("a!")
	w.counts(resourceName, "1/0")
	w.until("the sync", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return fmt.Sprint(w.synced) == "[p]" })
}

// TestDevicesThatFallIll: what was reserved may not be there when it is allocated.
func TestDevicesThatFallIll(t *testing.T) {
	w := newWorld(t, deviceplugin.Options{})
	s := w.plugin(resourceName, "a", "b", "c")
	p := pod("p", "main 2")
	if refusal := w.Admit(p); refusal != nil {
		t.Fatal(refusal)
	}
	s.lists("a", "b!", "c!")
	w.counts(resourceName, "3/1")
	w.admit(pod("q", "main 1"), refused+"requested number of devices unavailable for example.com/device. Requested: 1, Available: 0, which is unexpected")
	w.admit(p, "later "+refused+"requested number of devices unavailable for example.com/device. Requested: 2, Available: 1, which is unexpected")
}

// TestNoPreference: a plugin that prefers nothing gets the first devices.
func TestNoPreference(t *testing.T) {
	w := newWorld(t, deviceplugin.Options{})
	s := w.serve(resourceName, w.path("p.sock"), "a", "b")
	s.options.GetPreferredAllocationAvailable = true
	s.prefer = func(*devices.ContainerPreferredAllocationRequest) (*devices.PreferredAllocationResponse, error) {
		return &devices.PreferredAllocationResponse{}, nil
	}
	w.enroll(s, 2)
	p := pod("p", "main 1")
	w.admit(p, "admitted")
	equal(t, "the pod", w.has(p), "main DEVICES=a")
}

// TestWhileThePluginIsAsked: until a plugin has answered, its container cannot be created, nor its pod released.
func TestWhileThePluginIsAsked(t *testing.T) {
	w := newWorld(t, deviceplugin.Options{})
	s := w.plugin(resourceName, "a")
	asked, release := make(chan struct{}), make(chan struct{})
	s.set(func() {
		s.answer = func([]string) (*devices.AllocateResponse, error) {
			close(asked)
			<-release
			return respond(&devices.ContainerAllocateResponse{Envs: map[string]string{"LATE": "yes"}}), nil
		}
	})
	p := pod("p", "main 1")
	if refusal := w.Admit(p); refusal != nil {
		t.Fatal(refusal)
	}
	done := make(chan error, 1)
	go func() { done <- w.Prepare(t.Context(), p) }()
	<-asked
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := w.Container(ended, p, &p.Spec.Containers[0]); err == nil {
		t.Errorf("the container has %v", got)
	}
	if err := w.Release(ended, p.UID); err == nil {
		t.Error("the pod is released")
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	equal(t, "the pod", w.has(p), "main LATE=yes")
}

// TestUnwritable: a pod does not get devices of which the next kubelet would not know.
func TestUnwritable(t *testing.T) {
	log := &journal{}
	w := newWorld(t, deviceplugin.Options{Logger: log.logger()})
	s := w.plugin(resourceName, "a")
	p := pod("p", "main 1")
	w.until("the checkpoint", func() bool { return os.Remove(w.path("kubelet_internal_checkpoint")) == nil })
	if err := os.MkdirAll(w.path("kubelet_internal_checkpoint/full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if refusal := w.Admit(p); refusal != nil {
		t.Fatal(refusal)
	}
	const want = `failed to write checkpoint file "kubelet_internal_checkpoint": …`
	equal(t, "the pod", fmt.Sprint(w.Prepare(t.Context(), p)), "Allocate failed due to "+want)
	equal(t, "the release of another", fmt.Sprint(w.Release(t.Context(), "q")), want)
	const said = `msg="Writing checkpoint encountered" when="listing devices"`
	if log.says(said) {
		t.Error("a failure is logged that there was not")
	}
	s.lists("a", "b")
	w.until("the failure", func() bool { return log.says(said) })
}

// TestCheckpoint: what an earlier kubelet has written is known, except what nobody can read.
func TestCheckpoint(t *testing.T) {
	content, err := checkpoint.Encode([]checkpoint.PodDevicesEntry{
		{PodUID: "p", ContainerName: "main", ResourceName: resourceName, DeviceIDs: checkpoint.DevicesPerNUMA{0: {"b", "a"}, 1: {"a"}}},
		{PodUID: "q", ContainerName: "main", ResourceName: resourceName, DeviceIDs: checkpoint.DevicesPerNUMA{-1: {"c"}}, AllocResp: []byte{0xff}},
	}, map[string][]string{resourceName: {"a"}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "device-plugins"), 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "device-plugins", "kubelet_internal_checkpoint")
	const continues = "Continue after failing to read checkpoint file"
	for _, corrupt := range []bool{false, true} {
		if corrupt {
			content = content[1:]
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		log := &journal{}
		p, err := deviceplugin.New(dir, deviceplugin.Options{Logger: log.logger()})
		if err != nil {
			t.Fatal(err)
		}
		if corrupt {
			if !log.says(continues) || p.Health("p", "main") != nil {
				t.Errorf("it goes on with %v", p.Allocated())
			}
			continue
		}
		equal(t, "devices", fmt.Sprint(p.Allocated()), "map[example.com/device:2]")
		equal(t, "health", fmt.Sprint(p.Health("p", "main")[0].Resources), "[{a Healthy <nil>} {b Healthy <nil>}]")
		if log.says(continues) || !log.says("Can't unmarshal allocResp") || p.Health("q", "main") != nil {
			t.Errorf("a pod of which nothing can be read has %v", p.Health("q", "main"))
		}
	}
}

// TestRestartWithoutTopology: devices of no NUMA node are known to the next kubelet, too, and a resource that is forgotten is not.
func TestRestartWithoutTopology(t *testing.T) {
	w := newWorld(t, deviceplugin.Options{Absence: 200 * time.Millisecond})
	s := w.plugin(resourceName, "a", "b")
	w.admit(pod("p", "main 2"), "admitted")
	registered := func() string {
		content, err := os.ReadFile(w.path("kubelet_internal_checkpoint"))
		if err != nil {
			t.Fatal(err)
		}
		_, all, err := checkpoint.Decode(content)
		return fmt.Sprint(all, err)
	}
	equal(t, "registered", registered(), "map[example.com/device:[a b]] <nil>")
	s.stop()
	w.counts(resourceName, "0/0")
	equal(t, "registered", registered(), "map[] <nil>")
	w.stop()
	w.start(deviceplugin.Options{})
	equal(t, "devices", fmt.Sprint(w.Allocated()), "map[example.com/device:2]")
}

// TestChanged: that numbers have changed is told once, and nothing if there is no change.
func TestChanged(t *testing.T) {
	w := newWorld(t, deviceplugin.Options{})
	told := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.told
	}
	bad := w.serve("cpu", filepath.Join(w.dir, "plugins_registry", "bad.sock"), "a")
	look := func() { // twice: what was begun before may not have ended
		for range 2 {
			bad.set(func() { bad.status = nil })
			w.until("a look at plugins_registry", func() bool { return bad.told() != "" })
		}
	}
	look()
	if told() != 0 {
		t.Error("told of nothing")
	}
	s := w.plugin(resourceName, "a")
	w.until("the report", func() bool { return told() > 0 })
	if look(); told() != 1 {
		t.Errorf("told %d times", told())
	}
	s.stop()
	w.until("the report of its end", func() bool { return told() == 2 })
}

// TestLogged: what becomes of plugins is logged, and that the kubelet ends is no failure of theirs.
func TestLogged(t *testing.T) {
	log := &journal{}
	w := newWorld(t, deviceplugin.Options{Logger: log.logger()})
	one, two := w.plugin("example.com/a", "1"), w.plugin("example.com/b", "1")
	if w.register(&devices.RegisterRequest{Version: devices.Version, Endpoint: "none.sock", ResourceName: "cpu"}); !log.says(`msg="a device plugin cannot register" resource=cpu`) {
		t.Error("a plugin that cannot register is not logged")
	}
	one.answer = func([]string) (*devices.AllocateResponse, error) {
		return respond(&devices.ContainerAllocateResponse{Envs: map[string]string{"A": "1", "B": "1"}}), nil
	}
	two.answer = func([]string) (*devices.AllocateResponse, error) {
		return respond(&devices.ContainerAllocateResponse{Envs: map[string]string{"A": "2", "B": "1"}}), nil
	}
	p := pod("p", "main 1 example.com/a 1 example.com/b")
	w.admit(p, "admitted")
	equal(t, "the pod", w.has(p), "main A=1; main B=1")
	if !log.says(`msg="device plugins disagree" pod=default/p container=main about="variable A"`) || log.says(`about="variable B"`) {
		t.Error("that plugins disagree is not logged, or too much is")
	}
	const ended = `msg="ListAndWatch ended unexpectedly for device plugin" resource=example.com/`
	one.stop()
	w.until("the end of a plugin", func() bool { return log.says(ended + "a") })
	w.stop()
	if log.says(ended+"b") || log.says(`cannot register" resource=example.com`) {
		t.Error("the end of the kubelet is logged as that of a plugin")
	}
}

// TestCannotRun: where the kubelet cannot listen, or make its directories, it says so.
func TestCannotRun(t *testing.T) {
	if _, err := deviceplugin.New("kubelet", deviceplugin.Options{}); err == nil || err.Error() != "bad socketPath, must be an absolute path: kubelet" {
		t.Error(err)
	}
	for name, dir := range map[string]bool{
		"device-plugins": false, "plugins_registry": false, "device-plugins/kubelet.sock": true, "device-plugins/DEPRECATION": true,
	} {
		in, err := os.MkdirTemp("", "dp")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(in) })
		path := filepath.Join(in, name)
		if dir {
			err = os.MkdirAll(filepath.Join(path, "full"), 0o700)
		} else {
			err = os.WriteFile(path, nil, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		p, err := deviceplugin.New(in, deviceplugin.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if err := p.Run(ctx); err == nil {
			t.Errorf("it runs although %s is in its way", name)
		}
		cancel()
	}
}
