package host_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	drav1 "k8s.io/kubelet/pkg/apis/dra/v1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/keelson-dev/keelson/node/internal/nodetest"
)

// gpus is a DRA driver whose devices are /dev/null by another name, with a variable.
type gpus struct {
	drav1.UnimplementedDRAPluginServer
	registration.UnimplementedRegistrationServer
	endpoint, spec string

	mu       sync.Mutex
	prepared map[string]bool
}

func (g *gpus) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.DRAPlugin, Name: "gpu.example.com", Endpoint: g.endpoint, SupportedVersions: []string{drav1.DRAPluginService}}, nil
}

func (g *gpus) NotifyRegistrationStatus(context.Context, *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	return &registration.RegistrationStatusResponse{}, nil
}

func (g *gpus) NodePrepareResources(_ context.Context, r *drav1.NodePrepareResourcesRequest) (*drav1.NodePrepareResourcesResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	answer := &drav1.NodePrepareResourcesResponse{Claims: map[string]*drav1.NodePrepareResourceResponse{}}
	for _, c := range r.GetClaims() {
		spec := fmt.Sprintf(`{"cdiVersion": "0.6.0", "kind": "gpu.example.com/gpu", "devices": [{"name": %q, "containerEdits": {
			"env": ["GPU=%s"], "deviceNodes": [{"path": "/dev/gpu0", "hostPath": "/dev/null"}]}}]}`, c.GetUid(), c.GetName())
		if err := os.WriteFile(g.spec, []byte(spec), 0o600); err != nil {
			return nil, err
		}
		g.prepared[c.GetName()] = true
		answer.Claims[c.GetUid()] = &drav1.NodePrepareResourceResponse{Devices: []*drav1.Device{{CdiDeviceIds: []string{"gpu.example.com/gpu=" + c.GetUid()}}}}
	}
	return answer, nil
}

func (g *gpus) NodeUnprepareResources(_ context.Context, r *drav1.NodeUnprepareResourcesRequest) (*drav1.NodeUnprepareResourcesResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	answer := &drav1.NodeUnprepareResourcesResponse{Claims: map[string]*drav1.NodeUnprepareResourceResponse{}}
	for _, c := range r.GetClaims() {
		delete(g.prepared, c.GetName())
		answer.Claims[c.GetUid()] = &drav1.NodeUnprepareResourceResponse{}
	}
	return answer, nil
}

func (g *gpus) has(claim string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.prepared[claim]
}

// TestDRA: a container gets the device that a driver has prepared, also one that is started by a later kubelet, and the device
// is given back when the pod is gone.
func TestDRA(t *testing.T) {
	dir, err := os.MkdirTemp("", "dra") // the paths of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := nodetest.Start(t, nodetest.Options{Dir: filepath.Join(dir, "node")})
	g := &gpus{
		endpoint: filepath.Join(dir, "dra.sock"), prepared: map[string]bool{},
		spec: filepath.Join("/var/run/cdi", fmt.Sprintf("keelson-test-%d.json", os.Getpid())),
	}
	w.Check(os.MkdirAll(filepath.Dir(g.spec), 0o755))
	t.Cleanup(func() { _ = os.Remove(g.spec) })
	server := grpc.NewServer()
	drav1.RegisterDRAPluginServer(server, g)
	registration.RegisterRegistrationServer(server, g)
	found, err := filepath.Glob(filepath.Join(dir, "node", "*", "plugins_registry"))
	if w.Check(err); len(found) == 0 {
		found, err = filepath.Glob(filepath.Join(dir, "node", "plugins_registry"))
		w.Check(err)
	}
	var serving sync.WaitGroup
	for _, path := range []string{g.endpoint, filepath.Join(found[0], "gpu.sock")} {
		l, err := net.Listen("unix", path)
		w.Check(err)
		serving.Go(func() { _ = server.Serve(l) })
	}
	t.Cleanup(func() { server.Stop(); serving.Wait() })

	claims := w.Clients.ResourceV1().ResourceClaims("default")
	claim, err := claims.Create(w.Context, &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "fast"},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
			{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}},
		}}},
	}, metav1.CreateOptions{})
	w.Check(err)
	c := nodetest.Shell("c", `[ "$GPU" = fast ] && [ -c /dev/gpu0 ] || exit 1; trap "exit 0" TERM; while [ ! -e /v/end ]; do sleep 0.1; done; rm /v/end`)
	c.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
	c.Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	pod := nodetest.Pod("train", c)
	pod.Spec.NodeName = "node-0"
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("fast")}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}}}}
	pod = w.Create(pod)
	claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
		{Request: "r", Driver: "gpu.example.com", Pool: "node-0", Device: "gpu-0"},
	}}}
	claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
	_, err = claims.UpdateStatus(w.Context, claim, metav1.UpdateOptions{})
	w.Check(err)
	if pod = w.Ready("train"); pod.Status.ContainerStatuses[0].RestartCount != 0 || !g.has("fast") {
		t.Errorf("the container is %+v", pod.Status.ContainerStatuses[0])
	}
	w.KillKubelet()
	w.StartKubelet()
	w.Ready("train")
	w.Check(os.WriteFile(filepath.Join(dir, "end"), nil, 0o600))
	w.Until("train", "its second container", func(p *corev1.Pod) bool {
		s := p.Status.ContainerStatuses[0]
		return s.RestartCount == 1 && s.Ready
	})
	w.Delete("train", 2)
	w.Gone("train")
	if g.has("fast") {
		t.Error("the device was not given back")
	}
	w.Clean()
}
