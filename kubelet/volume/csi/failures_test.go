package csi_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/kubelet/volume/csi"
)

// TestSetUpWithoutAPI: what the API server does not say keeps a volume from its pod.
func TestSetUpWithoutAPI(t *testing.T) {
	for request, want := range map[faults.Fault]string{
		{Verb: faults.Get, Resource: "csidrivers"}:        "down",
		{Verb: faults.Get, Resource: "nodes"}:             "reading node node: down",
		{Verb: faults.Patch, Resource: "nodes/status"}:    "reporting the volumes in use: down",
		{Verb: faults.Get, Resource: "volumeattachments"}: "Volume not attached according to node status", // is not asked for yet
	} {
		b := start(t, csi.Options{})
		request.Err, request.Times = errDown, -1
		b.api.Inject(request)
		if err := b.setUp(mountOf("p")); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s %s: %v", request.Verb, request.Resource, err)
		}
		b.took("")
		b.api.Heal()
	}
}

// TestSetUpOnAFullDisk: a volume whose data cannot be kept is not mounted: nobody could take it down.
func TestSetUpOnAFullDisk(t *testing.T) {
	staged := "plugins/kubernetes.io/csi/" + driverName
	for name, c := range map[string]struct {
		file  string // in the way
		asked string
	}{
		"of the pod":       {"pods/uid-p", ""},
		"of the volume":    {"pods/uid-p/volumes/kubernetes.io~csi/pv/vol_data.json/x", ""},
		"of its staging":   {staged, ""},
		"of what it keeps": {staged + "/aaa9402664f1a41f40ebbc52c9993eb66aeb366602958fdfaa283b71e64db123/vol_data.json/x", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, csi.Options{}, object(nil))
			path := filepath.Join(b.dir, filepath.FromSlash(c.file))
			b.must(errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, nil, 0o600)))
			if err := b.setUp(mountOf("p")); err == nil {
				t.Error("no error")
			}
			b.took(c.asked)
			b.must(os.RemoveAll(path))
			if filepath.Base(path) == "x" {
				b.must(os.Remove(filepath.Dir(path)))
			}
			b.must(b.setUp(mountOf("p")))
			b.took("stage h, publish h")
		})
	}
}

// TestDriverThatDoesNotSayWhatItCan: nothing is asked of it.
func TestDriverThatDoesNotSayWhatItCan(t *testing.T) {
	b := start(t, csi.Options{}, object(func(s *storagev1.CSIDriverSpec) {
		s.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral}
	}))
	b.script.set(func() { b.script.fail["can"] = errDriver })
	const why = "rpc error: code = Unknown desc = no such disk"
	if err := b.setUp(mountOf("p")); err == nil || err.Error() != `MountVolume.MountDevice failed for volume "" : `+why {
		t.Errorf("%v", err)
	}
	if err := b.setUp(inlineOf("p")); err == nil || !strings.HasSuffix(err.Error(), why) || strings.Contains(err.Error(), "MountDevice") {
		t.Errorf("%v", err)
	}
	b.took("")
	// Nor of a volume that has grown.
	b.script.set(func() { delete(b.script.fail, "can") })
	m := mountOf("p")
	b.must(b.setUp(m))
	m.Persistent.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
	b.script.took()
	b.script.set(func() { b.script.fail["can"] = errDriver })
	b.must(b.setUp(m))
	b.took("")
	if told := strings.Join(b.events.Take(), ", "); !strings.Contains(told, "VolumeResizeFailed") || !strings.Contains(told, why) {
		t.Errorf("told is %s", told)
	}
}

// TestMissingSecret: without the secret for staging, nothing is staged.
func TestMissingSecret(t *testing.T) {
	b := start(t, csi.Options{}, object(nil))
	m := mountOf("p")
	m.Persistent.Spec.CSI.NodeStageSecretRef = &corev1.SecretReference{Namespace: "default", Name: "none"}
	if err := b.setUp(m); err == nil || !strings.HasPrefix(err.Error(), `MountVolume.MountDevice failed for volume "" : fetching NodeStageSecretRef default/none failed`) {
		t.Errorf("%v", err)
	}
	b.took("")
}

// TestTokensInSecrets: a driver that wants its tokens among the secrets gets them there, even if there are no others.
func TestTokensInSecrets(t *testing.T) {
	b := start(t, csi.Options{}, object(func(s *storagev1.CSIDriverSpec) {
		s.TokenRequests, s.ServiceAccountTokenInSecrets = []storagev1.TokenRequest{{}}, new(true)
	}))
	b.must(b.setUp(mountOf("p")))
	const name = "csi.storage.k8s.io/serviceAccount.tokens"
	if r := b.script.publish; r.GetSecrets()[name] != `{"":{"token":"default/sa for []","expirationTimestamp":null}}` || r.GetVolumeContext()[name] != "" {
		t.Errorf("published with %v", r)
	}
}

// TestWhatAFailureLeaves: of a volume that certainly was not published nothing stays; of one that may have been, all
// does.
func TestWhatAFailureLeaves(t *testing.T) {
	for code, stays := range map[codes.Code]bool{
		codes.Internal: false, codes.Unknown: false, codes.Aborted: true, codes.Canceled: true, codes.DeadlineExceeded: true, codes.Unavailable: true, codes.ResourceExhausted: true,
	} {
		b := start(t, csi.Options{}, object(nil))
		b.script.set(func() {
			b.script.mount = func(target string) error {
				if err := os.MkdirAll(target, 0o750); err != nil {
					return err
				}
				return status.Error(code, "busy")
			}
		})
		if err := b.setUp(mountOf("p")); status.Code(err) != code {
			t.Errorf("%s: %v", code, err)
		}
		_, err := os.Stat(filepath.Join(b.at(mountOf("p")), "mount"))
		if got := err == nil; got != stays {
			t.Errorf("%s: it stays: %t", code, got)
		}
	}
}

// TestTearDownWithoutDriver: a volume stays until its driver is there to take it down, or if nobody knows which it is.
func TestTearDownWithoutDriver(t *testing.T) {
	var log lines
	b := start(t, csi.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))}, object(nil))
	b.must(b.setUp(mountOf("p")))
	b.stop()
	var err error
	b.drivers, err = csi.New(b.dir, "node", csi.Sources{Client: b.api, Tokens: tokens{}}, csi.Options{})
	b.must(err)
	if err := b.tearDown(mountOf("p")); !errors.Is(err, csi.ErrNotRegistered) || !strings.HasPrefix(err.Error(), "kubernetes.io/csi: Unmounter.TearDownAt failed to get CSI client: ") {
		t.Errorf("%v", err)
	}
	path := filepath.Join(b.at(mountOf("p")), "vol_data.json")
	content, err := os.ReadFile(path)
	b.must(err)
	if log.String() != "" {
		t.Errorf("logged is %s", log.String())
	}
	b.must(os.WriteFile(path, []byte("{"), 0o600))
	if err := b.tearDown(mountOf("p")); err == nil || !strings.HasPrefix(err.Error(), path+": ") {
		t.Errorf("%v", err)
	}
	b.restart()
	if !strings.Contains(log.String(), "a volume of a pod is not known") {
		t.Errorf("logged is %s", log.String())
	}
	b.must(os.WriteFile(path, content, 0o600))
	b.must(b.tearDown(mountOf("p")))
	b.bare()
}

// TestTearDownWaits: taking a volume down waits for another operation with it, until its context ends.
func TestTearDownWaits(t *testing.T) {
	b := start(t, csi.Options{}, object(nil))
	b.must(b.setUp(mountOf("p")))
	b.script.took()
	b.script.set(func() { b.script.hang["publish"] = true })
	ctx, cancel := context.WithCancel(t.Context())
	hung := make(chan error, 1)
	go func() { _, err := b.drivers.SetUp(ctx, mountOf("q"), b.at(mountOf("q"))); hung <- err }()
	b.eventually("publishing", func() bool { return strings.HasSuffix(b.script.took(), "publish h") })
	brief, done := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer done()
	if err := b.drivers.TearDown(brief, "uid-p", b.at(mountOf("p"))); !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), "waiting for another operation with the volume: ") {
		t.Errorf("%v", err)
	}
	cancel()
	if err := <-hung; err == nil {
		t.Error("no error")
	}
	b.took("")
}

// TestSyncsEachPodOnce: with each look, each pod with volumes is synced once.
func TestSyncsEachPodOnce(t *testing.T) {
	var mu sync.Mutex
	count := map[types.UID]int{}
	b := start(t, csi.Options{Sync: func(uid types.UID) {
		mu.Lock()
		defer mu.Unlock()
		count[uid]++
	}}, object(func(s *storagev1.CSIDriverSpec) {
		s.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral}
	}))
	b.stop()
	b.run()
	b.eventually("the driver is registered", func() bool { return b.setUp(mountOf("q")) == nil })
	b.must(b.setUp(mountOf("p")))
	b.must(b.setUp(inlineOf("p")))
	b.stop()
	mu.Lock()
	clear(count)
	mu.Unlock()
	b.run()
	b.eventually("many syncs", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return count["uid-q"] >= 20
	})
	b.stop()
	if p, q := count["uid-p"], count["uid-q"]; p < q-1 || p > q+1 {
		t.Errorf("%d and %d syncs", p, q)
	}
}

// TestRunFails: without its directory there are no drivers.
func TestRunFails(t *testing.T) {
	if _, err := csi.New("here", "node", csi.Sources{}, csi.Options{}); err == nil {
		t.Error("a relative directory is accepted")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "plugins_registry"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{dir, filepath.Join(dir, "[")} { // the second is a malformed pattern
		drivers, err := csi.New(dir, "node", csi.Sources{}, csi.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := drivers.Run(t.Context()); err == nil {
			t.Error("no error")
		}
	}
}

// TestDefaults: without a recorder and a logger, what they would be told is discarded.
func TestDefaults(t *testing.T) {
	b := start(t, csi.Options{}, object(nil))
	b.must(b.setUp(mountOf("p")))
	b.stop()
	drivers, err := csi.New(b.dir, "node", csi.Sources{Client: b.api, Tokens: tokens{}}, csi.Options{})
	b.must(err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- drivers.Run(ctx) }()
	m := mountOf("p")
	m.Persistent.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
	b.script.set(func() { b.script.fail["expand"] = errDriver })
	b.eventually("the driver is registered", func() bool {
		_, err := drivers.SetUp(t.Context(), m, b.at(m))
		return err == nil
	})
	cancel()
	b.must(<-ended)
}
