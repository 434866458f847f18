package remote_test

import (
	"fmt"
	"testing"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/runtimetest"
	"github.com/keelson-dev/keelson/cri/simulated"
)

// Benchmark compares calls to a simulated runtime in process with the same through a socket.
func Benchmark(b *testing.B) {
	r := simulated.New(simulated.Options{})
	defer r.Close()
	var container string
	for i := range 100 {
		pod := cri.SandboxConfig{Metadata: cri.SandboxMetadata{Name: "web", Namespace: "default", UID: fmt.Sprint(i)}}
		sandbox, err := r.RunPodSandbox(b.Context(), pod)
		if err != nil {
			b.Fatal(err)
		}
		ref, err := r.PullImage(b.Context(), cri.ImageSpec{Image: "app"}, nil)
		if err != nil {
			b.Fatal(err)
		}
		container, err = r.CreateContainer(b.Context(), sandbox, cri.ContainerConfig{
			Metadata: cri.ContainerMetadata{Name: "main"}, Image: cri.ImageSpec{Image: ref},
			Labels:      map[string]string{cri.LabelPodName: "web", cri.LabelPodNamespace: "default", cri.LabelPodUID: fmt.Sprint(i), cri.LabelContainerName: "main"},
			Annotations: map[string]string{"io.kubernetes.container.hash": "12345678", "io.kubernetes.container.restartCount": "0"},
		}, pod)
		if err == nil {
			err = r.StartContainer(b.Context(), container)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	for name, runtime := range map[string]runtimetest.Runtime{"direct": r, "socket": dial(b, serveAt(b, r).path)} {
		b.Run("ContainerStatus/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := runtime.ContainerStatus(b.Context(), container); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("ListContainers100/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if list, err := runtime.ListContainers(b.Context(), cri.Filter{}); err != nil || len(list) != 100 {
					b.Fatal(len(list), err)
				}
			}
		})
	}
}
