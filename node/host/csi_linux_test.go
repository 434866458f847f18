package host_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/keelson-dev/keelson/node/internal/nodetest"
)

// disks is a CSI driver whose volumes are directories.
type disks struct {
	csispec.UnimplementedNodeServer
	registration.UnimplementedRegistrationServer
	dir, endpoint string
}

func (d *disks) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: "disks.example.com", Endpoint: d.endpoint, SupportedVersions: []string{"1.0.0"}}, nil
}

func (d *disks) NotifyRegistrationStatus(context.Context, *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	return &registration.RegistrationStatusResponse{}, nil
}

func (d *disks) NodeGetInfo(context.Context, *csispec.NodeGetInfoRequest) (*csispec.NodeGetInfoResponse, error) {
	return &csispec.NodeGetInfoResponse{NodeId: "here"}, nil
}

func (d *disks) NodeGetCapabilities(context.Context, *csispec.NodeGetCapabilitiesRequest) (*csispec.NodeGetCapabilitiesResponse, error) {
	return &csispec.NodeGetCapabilitiesResponse{Capabilities: []*csispec.NodeServiceCapability{{Type: &csispec.NodeServiceCapability_Rpc{
		Rpc: &csispec.NodeServiceCapability_RPC{Type: csispec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME},
	}}}}, nil
}

func (d *disks) NodeStageVolume(_ context.Context, r *csispec.NodeStageVolumeRequest) (*csispec.NodeStageVolumeResponse, error) {
	source := filepath.Join(d.dir, r.GetVolumeId())
	if err := os.MkdirAll(source, 0o777); err != nil {
		return nil, err
	}
	return &csispec.NodeStageVolumeResponse{}, unix.Mount(source, r.GetStagingTargetPath(), "", unix.MS_BIND, "")
}

func (d *disks) NodeUnstageVolume(_ context.Context, r *csispec.NodeUnstageVolumeRequest) (*csispec.NodeUnstageVolumeResponse, error) {
	return &csispec.NodeUnstageVolumeResponse{}, unix.Unmount(r.GetStagingTargetPath(), 0)
}

func (d *disks) NodePublishVolume(_ context.Context, r *csispec.NodePublishVolumeRequest) (*csispec.NodePublishVolumeResponse, error) {
	if err := os.MkdirAll(r.GetTargetPath(), 0o755); err != nil {
		return nil, err
	}
	return &csispec.NodePublishVolumeResponse{}, unix.Mount(r.GetStagingTargetPath(), r.GetTargetPath(), "", unix.MS_BIND, "")
}

func (d *disks) NodeUnpublishVolume(_ context.Context, r *csispec.NodeUnpublishVolumeRequest) (*csispec.NodeUnpublishVolumeResponse, error) {
	return &csispec.NodeUnpublishVolumeResponse{}, unix.Unmount(r.GetTargetPath(), 0)
}

// TestCSI: a pod's claim leads to a volume of a driver, whose data outlive the kubelet and the pod.
func TestCSI(t *testing.T) {
	dir, err := os.MkdirTemp("", "csi") // the paths of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := nodetest.Start(t, nodetest.Options{Dir: filepath.Join(dir, "node")})
	d := &disks{dir: filepath.Join(dir, "disks"), endpoint: filepath.Join(dir, "csi.sock")}
	server := grpc.NewServer()
	csispec.RegisterNodeServer(server, d)
	registration.RegisterRegistrationServer(server, d)
	found, err := filepath.Glob(filepath.Join(dir, "node", "*", "plugins_registry"))
	if w.Check(err); len(found) == 0 {
		found, err = filepath.Glob(filepath.Join(dir, "node", "plugins_registry"))
		w.Check(err)
	}
	for _, path := range []string{d.endpoint, filepath.Join(found[0], "disks.sock")} {
		l, err := net.Listen("unix", path)
		w.Check(err)
		go func() { _ = server.Serve(l) }()
	}
	t.Cleanup(server.Stop)
	_, err = w.Clients.StorageV1().CSIDrivers().Create(w.Context, &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: "disks.example.com"}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(false)},
	}, metav1.CreateOptions{})
	w.Check(err)
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	_, err = w.Clients.CoreV1().PersistentVolumes().Create(w.Context, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "disk"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes, ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: "data"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "disks.example.com", VolumeHandle: "one"}},
		},
	}, metav1.CreateOptions{})
	w.Check(err)
	_, err = w.Clients.CoreV1().PersistentVolumeClaims("default").Create(w.Context, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "disk", StorageClassName: new(""), AccessModes: modes, Resources: corev1.VolumeResourceRequirements{Requests: size}},
	}, metav1.CreateOptions{})
	w.Check(err)
	for _, name := range []string{"first", "second"} {
		c := nodetest.Shell("c", "echo "+name+" >> /data/names; trap 'exit 0' TERM; while :; do sleep 3600 & wait; done")
		c.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
		pod := nodetest.Pod(name, c)
		pod.Spec.NodeName = "node-0"
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}
		w.Create(pod)
		w.Ready(name)
		if name == "first" {
			w.KillKubelet()
			w.StartKubelet()
			w.Ready(name)
		}
		for { // its container may run before its process does anything
			names, err := os.ReadFile(filepath.Join(d.dir, "one", "names"))
			if err == nil && strings.HasSuffix(string(names), name+"\n") {
				break
			}
			select {
			case <-w.Context.Done():
				t.Fatalf("the volume has %q, %v", names, err)
			case <-time.After(10 * time.Millisecond):
			}
		}
		w.Delete(name, 2)
		w.Gone(name)
	}
	if names, err := os.ReadFile(filepath.Join(d.dir, "one", "names")); err != nil || string(names) != "first\nsecond\n" {
		t.Errorf("the volume has %q, %v", names, err)
	}
	w.Clean()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if w.Check(err); len(mounts) > 0 && filepath.IsAbs(dir) {
		left, err := filepath.Glob(filepath.Join(filepath.Dir(found[0]), "plugins/kubernetes.io/csi/disks.example.com/*"))
		if w.Check(err); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
}
