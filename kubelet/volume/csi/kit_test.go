package csi_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/kubelet/volume/claims"
	"github.com/keelson-dev/keelson/kubelet/volume/csi"
)

const driverName = "disks.example.com"

// script is a driver that does what it is told, over a real socket.
type script struct {
	csispec.UnimplementedNodeServer
	registration.UnimplementedRegistrationServer
	endpoint string

	mu       sync.Mutex
	versions []string
	can      []csispec.NodeServiceCapability_RPC_Type
	info     *csispec.NodeGetInfoResponse
	fail     map[string]error // by verb
	hang     map[string]bool  // until the caller gives up
	calls    []string
	status   *registration.RegistrationStatus
	stage    *csispec.NodeStageVolumeRequest
	publish  *csispec.NodePublishVolumeRequest
	expand   *csispec.NodeExpandVolumeRequest
	mount    func(target string) error // what publishing does
	unmount  func(target string) error
}

func (s *script) call(ctx context.Context, verb, what string) error {
	s.mu.Lock()
	s.calls = append(s.calls, strings.TrimSpace(verb+" "+what))
	err, hang := s.fail[verb], s.hang[verb]
	s.mu.Unlock()
	if hang {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (s *script) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// took returns the calls since the last time.
func (s *script) took() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := strings.Join(s.calls, ", ")
	s.calls = nil
	return out
}

func (s *script) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fail["ask"]; err != nil {
		delete(s.fail, "ask")
		return nil, err
	}
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: driverName, Endpoint: s.endpoint, SupportedVersions: s.versions}, nil
}

func (s *script) NotifyRegistrationStatus(_ context.Context, status *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fail["notify"]; err != nil {
		delete(s.fail, "notify")
		return nil, err
	}
	s.status = status
	return &registration.RegistrationStatusResponse{}, nil
}

func (s *script) NodeGetInfo(ctx context.Context, _ *csispec.NodeGetInfoRequest) (*csispec.NodeGetInfoResponse, error) {
	if err := s.call(ctx, "info", ""); err != nil {
		return nil, err
	}
	return s.info, nil
}

func (s *script) NodeGetCapabilities(context.Context, *csispec.NodeGetCapabilitiesRequest) (*csispec.NodeGetCapabilitiesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fail["can"]; err != nil {
		return nil, err
	}
	out := &csispec.NodeGetCapabilitiesResponse{}
	for _, c := range s.can {
		out.Capabilities = append(out.Capabilities, &csispec.NodeServiceCapability{
			Type: &csispec.NodeServiceCapability_Rpc{Rpc: &csispec.NodeServiceCapability_RPC{Type: c}},
		})
	}
	return out, nil
}

func (s *script) NodeStageVolume(ctx context.Context, r *csispec.NodeStageVolumeRequest) (*csispec.NodeStageVolumeResponse, error) {
	s.set(func() { s.stage = r })
	return &csispec.NodeStageVolumeResponse{}, s.call(ctx, "stage", r.GetVolumeId())
}

func (s *script) NodeUnstageVolume(ctx context.Context, r *csispec.NodeUnstageVolumeRequest) (*csispec.NodeUnstageVolumeResponse, error) {
	return &csispec.NodeUnstageVolumeResponse{}, s.call(ctx, "unstage", r.GetVolumeId())
}

func (s *script) NodePublishVolume(ctx context.Context, r *csispec.NodePublishVolumeRequest) (*csispec.NodePublishVolumeResponse, error) {
	s.set(func() { s.publish = r })
	if err := s.call(ctx, "publish", r.GetVolumeId()); err != nil {
		return nil, err
	}
	return &csispec.NodePublishVolumeResponse{}, s.mount(r.GetTargetPath())
}

func (s *script) NodeUnpublishVolume(ctx context.Context, r *csispec.NodeUnpublishVolumeRequest) (*csispec.NodeUnpublishVolumeResponse, error) {
	if err := s.call(ctx, "unpublish", r.GetVolumeId()); err != nil {
		return nil, err
	}
	return &csispec.NodeUnpublishVolumeResponse{}, s.unmount(r.GetTargetPath())
}

func (s *script) NodeExpandVolume(ctx context.Context, r *csispec.NodeExpandVolumeRequest) (*csispec.NodeExpandVolumeResponse, error) {
	s.set(func() { s.expand = r })
	return &csispec.NodeExpandVolumeResponse{}, s.call(ctx, "expand", fmt.Sprint(r.GetVolumeId(), " ", r.GetCapacityRange().GetRequiredBytes()))
}

// serve runs the driver and its registrar, until stop is called.
func (s *script) serve(t *testing.T, dir string) (stop func()) {
	t.Helper()
	server := grpc.NewServer()
	csispec.RegisterNodeServer(server, s)
	registration.RegisterRegistrationServer(server, s)
	s.endpoint = filepath.Join(dir, "plugins", "csi.sock")
	var running sync.WaitGroup
	for _, path := range []string{s.endpoint, filepath.Join(dir, "plugins_registry", driverName+"-reg.sock")} {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() { _ = server.Serve(l) }) // ends with the server
	}
	return func() { server.Stop(); running.Wait() }
}

// bench is a node with its drivers, an API, and a driver to script.
type bench struct {
	*testing.T
	dir     string
	api     *controllerstest.API
	events  controllerstest.Recorder
	script  *script
	options csi.Options
	client  client.Client // of the node; nil is the API
	drivers *csi.Drivers
	stop    func() // the drivers of the node
	leave   func() // the scripted driver
}

// tokens issues one to all accounts but "none".
type tokens struct{}

func (tokens) Token(_ context.Context, namespace, account string, r authenticationv1.TokenRequestSpec) (authenticationv1.TokenRequestStatus, error) {
	if account == "none" {
		return authenticationv1.TokenRequestStatus{}, errors.New("no such account")
	}
	return authenticationv1.TokenRequestStatus{Token: fmt.Sprint(namespace, "/", account, " for ", r.Audiences)}, nil
}

func start(t *testing.T, o csi.Options, objects ...informer.Object) *bench {
	t.Helper()
	dir, err := os.MkdirTemp("", "csi") // the paths of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	b := &bench{T: t, dir: dir, api: controllerstest.Start(t, controllerstest.Options{Objects: append(objects, node)})}
	b.script = &script{
		versions: []string{"1.0.0"}, fail: map[string]error{}, hang: map[string]bool{},
		can:   []csispec.NodeServiceCapability_RPC_Type{csispec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME, csispec.NodeServiceCapability_RPC_EXPAND_VOLUME},
		info:  &csispec.NodeGetInfoResponse{NodeId: "n-1", MaxVolumesPerNode: 7, AccessibleTopology: &csispec.Topology{Segments: map[string]string{"example.com/zone": "z"}}},
		mount: func(target string) error { return os.MkdirAll(target, 0o750) }, unmount: os.RemoveAll,
	}
	b.options = o
	b.options.Recorder = &b.events
	b.options.Period = 10 * time.Millisecond
	b.leave = b.script.serve(t, dir)
	t.Cleanup(func() { b.leave() })
	b.run()
	t.Cleanup(func() { b.stop() })
	b.eventually("the driver is registered", func() bool { return b.status().GetPluginRegistered() })
	b.script.took()
	return b
}

// run starts the drivers of the node anew.
func (b *bench) run() {
	b.Helper()
	var err error
	if b.client == nil {
		b.client = b.api
	}
	b.drivers, err = csi.New(b.dir, "node", csi.Sources{Client: b.client, Tokens: tokens{}}, b.options)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.drivers.Run(ctx) }()
	b.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
		b.stop = func() {}
	}
}

// restart ends the drivers of the node as kill -9 does, and starts others.
func (b *bench) restart() {
	b.Helper()
	b.stop()
	b.script.set(func() { b.script.status = nil })
	b.run()
	b.eventually("the driver is registered again", func() bool { return b.status() != nil })
	b.script.took()
}

func (b *bench) status() *registration.RegistrationStatus {
	b.script.mu.Lock()
	defer b.script.mu.Unlock()
	return b.script.status
}

func (b *bench) eventually(what string, is func() bool) {
	b.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("not %s in time", what)
		}
	}
}

func get[T informer.Object](b *bench, gvr string, namespace, name string) T {
	b.Helper()
	at := client.Target{Resource: corev1.SchemeGroupVersion.WithResource(gvr), Namespace: namespace, Name: name}
	if gvr == "csinodes" {
		at.Resource = storagev1.SchemeGroupVersion.WithResource(gvr)
	}
	obj, err := client.As[T](b.api.Others.Get(b.Context(), at))
	if err != nil {
		b.Fatal(err)
	}
	return obj
}

// mountOf is a persistent volume of a pod, with the claim between them.
func mountOf(pod string) claims.Mount {
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	return claims.Mount{
		Pod:    &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: "default", UID: types.UID("uid-" + pod)}, Spec: corev1.PodSpec{ServiceAccountName: "sa"}},
		Volume: &corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}},
		Claim: &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "default"}, Status: corev1.PersistentVolumeClaimStatus{Capacity: size},
		},
		Persistent: &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pv"},
			Spec: corev1.PersistentVolumeSpec{
				Capacity: size, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, MountOptions: []string{"noatime"},
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
					Driver: driverName, VolumeHandle: "h", FSType: "ext4", VolumeAttributes: map[string]string{"a": "b"},
				}},
			},
		},
	}
}

// inlineOf is a volume in the spec of a pod.
func inlineOf(pod string) claims.Mount {
	m := mountOf(pod)
	m.Claim, m.Persistent = nil, nil
	m.Volume = &corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: driverName}}}
	return m
}

// object is the CSIDriver, whose volumes need not be attached.
func object(change func(*storagev1.CSIDriverSpec)) *storagev1.CSIDriver {
	d := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driverName}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(false)}}
	if change != nil {
		change(&d.Spec)
	}
	return d
}

func (b *bench) at(m claims.Mount) string {
	return filepath.Join(b.dir, "pods", string(m.Pod.UID), "volumes", "kubernetes.io~csi", m.Name())
}

func (b *bench) setUp(m claims.Mount) error {
	path, err := b.drivers.SetUp(b.Context(), m, b.at(m))
	if err == nil && path != filepath.Join(b.at(m), "mount") {
		b.Errorf("the volume is at %s", path)
	}
	return err
}

func (b *bench) tearDown(m claims.Mount) error {
	return b.drivers.TearDown(b.Context(), m.Pod.UID, b.at(m))
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// took checks what the driver was asked since the last time.
func (b *bench) took(want string) {
	b.Helper()
	if got := b.script.took(); got != want {
		b.Errorf("the driver was asked to %q, want %q", got, want)
	}
}

// bare checks that nothing is left of any volume.
func (b *bench) bare() {
	b.Helper()
	err := filepath.WalkDir(b.dir, func(path string, _ os.DirEntry, err error) error {
		if base := filepath.Base(path); err == nil && slices.Contains([]string{"mount", "globalmount", "vol_data.json"}, base) {
			return fmt.Errorf("%s is left", path)
		}
		return err
	})
	if err != nil {
		b.Error(err)
	}
}

var errDriver = errors.New("no such disk")
