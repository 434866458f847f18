package host_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	devices "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/keelson-dev/keelson/node/internal/nodetest"
)

// nulls is a device plugin whose devices are /dev/null by another name.
type nulls struct {
	devices.UnimplementedDevicePluginServer
	dir string // is mounted

	mu      sync.Mutex
	started []string
}

func (*nulls) GetDevicePluginOptions(context.Context, *devices.Empty) (*devices.DevicePluginOptions, error) {
	return &devices.DevicePluginOptions{PreStartRequired: true}, nil
}

func (*nulls) ListAndWatch(_ *devices.Empty, stream grpc.ServerStreamingServer[devices.ListAndWatchResponse]) error {
	err := stream.Send(&devices.ListAndWatchResponse{Devices: []*devices.Device{{ID: "null-0", Health: devices.Healthy}}})
	<-stream.Context().Done()
	return err
}

func (n *nulls) Allocate(_ context.Context, r *devices.AllocateRequest) (*devices.AllocateResponse, error) {
	id := strings.Join(r.GetContainerRequests()[0].GetDevicesIds(), ",")
	return &devices.AllocateResponse{ContainerResponses: []*devices.ContainerAllocateResponse{{
		Envs:    map[string]string{"DEVICE": id, "OWN": "plugin"},
		Devices: []*devices.DeviceSpec{{ContainerPath: "/dev/fast0", HostPath: "/dev/null", Permissions: "rw"}},
		Mounts:  []*devices.Mount{{ContainerPath: "/driver", HostPath: n.dir, ReadOnly: true}},
	}}}, nil
}

func (n *nulls) PreStartContainer(_ context.Context, r *devices.PreStartContainerRequest) (*devices.PreStartContainerResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.started = append(n.started, r.GetDevicesIds()...)
	return &devices.PreStartContainerResponse{}, nil
}

func (n *nulls) starts() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.started)
}

// TestDevicePlugin: a container gets the device of a plugin, with its variable and mount, also one that a later kubelet starts;
// the node has the resource, and another pod the device once the first is gone.
func TestDevicePlugin(t *testing.T) {
	dir, err := os.MkdirTemp("", "dp") // the paths of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := nodetest.Start(t, nodetest.Options{Dir: filepath.Join(dir, "node")})
	n := &nulls{dir: filepath.Join(dir, "driver")}
	w.Check(os.Mkdir(n.dir, 0o755))
	w.Check(os.WriteFile(filepath.Join(n.dir, "version"), []byte("7"), 0o644))
	found, err := filepath.Glob(filepath.Join(dir, "node", "*", "device-plugins"))
	if w.Check(err); len(found) == 0 {
		found, err = filepath.Glob(filepath.Join(dir, "node", "device-plugins"))
		w.Check(err)
	}
	serve := func() {
		l, err := net.Listen("unix", filepath.Join(found[0], "null.sock"))
		w.Check(err)
		server := grpc.NewServer()
		devices.RegisterDevicePluginServer(server, n)
		var serving sync.WaitGroup
		serving.Go(func() { _ = server.Serve(l) })
		t.Cleanup(func() { server.Stop(); serving.Wait() })
		conn, err := grpc.NewClient("unix:"+filepath.Join(found[0], "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
		w.Check(err)
		defer func() { _ = conn.Close() }()
		_, err = devices.NewRegistrationClient(conn).Register(w.Context, &devices.RegisterRequest{
			Version: devices.Version, Endpoint: "null.sock", ResourceName: "example.com/device",
		})
		w.Check(err)
	}
	allocatable := func(want int64) {
		t.Helper()
		for range 600 {
			node, err := w.Clients.CoreV1().Nodes().Get(w.Context, "node-0", metav1.GetOptions{})
			w.Check(err)
			if n, ok := node.Status.Allocatable["example.com/device"]; ok && n.Value() == want {
				return
			}
			time.Sleep(100 * time.Millisecond) // a kubelet in another goroutine
		}
		t.Fatalf("the node does not have %d devices", want)
	}
	serve()
	allocatable(1)

	c := nodetest.Shell("c", `[ "$DEVICE" = null-0 ] && [ "$OWN" = mine ] && [ -c /dev/fast0 ] && echo x > /dev/fast0 && [ "$(cat /driver/version)" = 7 ] || exit 1
		trap "exit 0" TERM; while [ ! -e /v/end ]; do sleep 0.1; done; rm /v/end`)
	c.Env = []corev1.EnvVar{{Name: "OWN", Value: "mine"}}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
	c.Resources.Limits = corev1.ResourceList{"example.com/device": resource.MustParse("1")}
	pod := nodetest.Pod("train", c)
	pod.Spec.NodeName = "node-0"
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}}}}
	w.Create(pod)
	p := w.Ready("train")
	if s := p.Status.ContainerStatuses[0]; s.RestartCount != 0 || len(s.AllocatedResourcesStatus) != 1 || s.AllocatedResourcesStatus[0].Resources[0].ResourceID != "null-0" {
		t.Errorf("the container is %+v", s)
	}
	late := nodetest.Pod("late", c)
	late.Spec.NodeName, late.Spec.Volumes = "node-0", pod.Spec.Volumes
	w.Create(late)
	w.Until("late", "its rejection", func(p *corev1.Pod) bool {
		return p.Status.Reason == "UnexpectedAdmissionError" && strings.Contains(p.Status.Message, "Requested: 1, Available: 0")
	})
	w.Delete("late", 0)
	w.KillKubelet()
	w.StartKubelet()
	w.Ready("train")
	allocatable(0) // until it registers again
	w.Check(os.WriteFile(filepath.Join(dir, "end"), nil, 0o600))
	w.Until("train", "its second container", func(p *corev1.Pod) bool {
		s := p.Status.ContainerStatuses[0]
		return s.RestartCount == 1 && s.Ready
	})
	serve()
	allocatable(1)
	w.Delete("train", 2)
	w.Gone("train")
	w.Create(late)
	w.Ready("late")
	if n.starts() != 2 {
		t.Errorf("the plugin was told of %d starts", n.starts())
	}
	w.Delete("late", 2)
	w.Gone("late")
	w.Clean()
}
