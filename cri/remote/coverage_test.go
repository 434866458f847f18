package remote_test

import (
	"context"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	v1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/remote"
)

// notCalled are the calls of CRI that the client does not make.
func notCalled() map[string]string {
	return map[string]string{
		"CheckpointContainer":       "nothing here checkpoints",
		"CheckpointPod":             "alpha",
		"RestorePod":                "alpha",
		"ContainerStats":            "the list with a filter tells the same",
		"PodSandboxStats":           "the list with a filter tells the same",
		"ListMetricDescriptors":     "metrics are made of statistics",
		"ListPodSandboxMetrics":     "metrics are made of statistics",
		"StreamPodSandboxMetrics":   "metrics are made of statistics",
		"UpdatePodSandboxResources": "pods are not resized yet",
	}
}

// notSent are the fields of requests that the client leaves empty.
func notSent() map[string]string {
	return map[string]string{
		"VersionRequest.version":                      "runtimes ignore it",
		"StatusRequest.verbose":                       "for people who debug a runtime",
		"PodSandboxStatusRequest.verbose":             "for people who debug a runtime",
		"ContainerStatusRequest.verbose":              "for people who debug a runtime",
		"ImageStatusRequest.verbose":                  "for people who debug a runtime",
		"ListImagesRequest.filter":                    "ImageStatus tells of one image",
		"StreamImagesRequest.filter":                  "ImageStatus tells of one image",
		"PullImageRequest.sandbox_config":             "images are pulled for a node",
		"UpdateContainerResourcesRequest.windows":     "nodes are Linux",
		"UpdateContainerResourcesRequest.annotations": "they are for runtimes' own resources",
	}
}

// recorder answers nothing and remembers what it was asked.
type recorder struct {
	mu     sync.Mutex
	called map[string]proto.Message // by method
}

func (r *recorder) handle(_ any, stream grpc.ServerStream) error {
	full, _ := grpc.MethodFromServerStream(stream)
	service, method, _ := strings.Cut(strings.TrimPrefix(full, "/"), "/")
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service + "." + method))
	if err != nil {
		return err
	}
	input := found.(protoreflect.MethodDescriptor).Input() //nolint:forcetypeassert // a method's name
	kind, err := protoregistry.GlobalTypes.FindMessageByName(input.FullName())
	if err != nil {
		return err
	}
	message := kind.New().Interface()
	if err := stream.RecvMsg(message); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.called[method] = message
	switch {
	case strings.HasPrefix(method, "List"):
		return status.Error(codes.ResourceExhausted, "too long") // so that it is asked for as a stream
	case method == "Version":
		return stream.SendMsg(&v1.VersionResponse{})
	}
	return status.Error(codes.Unimplemented, "only recorded")
}

// everything makes every call with every argument.
func everything(ctx context.Context, c *remote.Runtime) {
	filter := cri.Filter{ID: "id", SandboxID: "sandbox", Labels: map[string]string{"a": "b"}}
	all := cri.Streams{Stdin: true, Stdout: true, Stderr: true, TTY: true}
	image, pod := cri.ImageSpec{Image: "image"}, cri.SandboxConfig{RuntimeHandler: "handler"}
	_, _ = c.Version(ctx)
	_, _ = c.Status(ctx)
	_, _ = c.RunPodSandbox(ctx, pod)
	_ = c.StopPodSandbox(ctx, "id")
	_ = c.RemovePodSandbox(ctx, "id")
	_, _ = c.SandboxStatus(ctx, "id")
	_, _ = c.ListSandboxes(ctx, filter)
	_, _ = c.CreateContainer(ctx, "id", cri.ContainerConfig{}, pod)
	_ = c.StartContainer(ctx, "id")
	_ = c.StopContainer(ctx, "id", time.Second)
	_ = c.RemoveContainer(ctx, "id")
	_, _ = c.ContainerStatus(ctx, "id")
	_, _ = c.ListContainers(ctx, filter)
	_, _ = c.ExecSync(ctx, "id", []string{"true"}, time.Second)
	_, _ = c.PullImage(ctx, image, &cri.Auth{Username: "user"})
	_ = c.RemoveImage(ctx, image)
	_, _ = c.ImageStatus(ctx, image)
	_, _ = c.ListImages(ctx)
	_, _, _ = c.ImageFilesystem(ctx)
	if stream, err := c.Events(ctx); err == nil {
		_, _ = stream.Next(ctx)
		stream.Close()
	}
	_, _ = c.ListContainerStats(ctx, filter)
	_, _ = c.ListSandboxStats(ctx, filter)
	_, _ = c.Exec(ctx, cri.ExecRequest{ContainerID: "id", Command: []string{"true"}, Streams: all})
	_, _ = c.Attach(ctx, cri.AttachRequest{ContainerID: "id", Streams: all})
	_, _ = c.PortForward(ctx, "id", []int32{80})
	_ = c.ReopenContainerLog(ctx, "id")
	_ = c.UpdateContainerResources(ctx, "id", cri.Resources{CPUShares: 1})
	_, _ = c.CgroupDriver(ctx)
	_ = c.UpdateRuntimeConfig(ctx, "10.0.0.0/24")
}

// TestEveryCall: each call of CRI is made, with all its fields, or is in a list above: a new version
// of CRI brings nothing unnoticed.
func TestEveryCall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cri.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	r := recorder{called: map[string]proto.Message{}}
	server := grpc.NewServer(grpc.UnknownServiceHandler(r.handle), grpc.WaitForHandlers(true))
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	everything(t.Context(), dial(t, path))
	server.Stop()
	if err := <-served; err != nil {
		t.Error(err)
	}

	skipped, empty := notCalled(), notSent()
	services := v1.File_staging_src_k8s_io_cri_api_pkg_apis_runtime_v1_api_proto.Services()
	for i := range services.Len() {
		for methods, j := services.Get(i).Methods(), 0; j < methods.Len(); j++ {
			name := string(methods.Get(j).Name())
			message, called := r.called[name]
			if _, skip := skipped[name]; called == skip {
				t.Errorf("%s is called: %t", name, called)
			}
			delete(skipped, name)
			if !called {
				continue
			}
			m := message.ProtoReflect()
			for fields, k := m.Descriptor().Fields(), 0; k < fields.Len(); k++ {
				field := string(m.Descriptor().Name()) + "." + string(fields.Get(k).Name())
				if _, skip := empty[field]; m.Has(fields.Get(k)) == skip {
					t.Errorf("%s is sent: %t", field, !skip)
				}
				delete(empty, field)
			}
		}
	}
	if len(skipped)+len(empty) > 0 {
		t.Errorf("there is no %v, %v", slices.Collect(maps.Keys(skipped)), slices.Collect(maps.Keys(empty)))
	}
}
