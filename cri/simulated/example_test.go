package simulated_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
)

// A registry that is away, and a program that crashes.
func Example() {
	runtime := simulated.New(simulated.Options{
		Behave: func(op simulated.Operation) simulated.Outcome {
			if op.Verb == simulated.PullImage && op.Image == "away/app" {
				return simulated.Outcome{Err: cri.ErrRegistryUnavailable}
			}
			return simulated.Outcome{}
		},
		Program: func(simulated.Process) simulated.Program {
			return simulated.Program{Exits: true, ExitCode: 1}
		},
	})
	defer runtime.Close()
	ctx := context.Background()

	_, err := runtime.PullImage(ctx, cri.ImageSpec{Image: "away/app"}, nil)
	fmt.Println(errors.Is(err, cri.ErrRegistryUnavailable))

	ref, _ := runtime.PullImage(ctx, cri.ImageSpec{Image: "app"}, nil)
	pod := cri.SandboxConfig{Metadata: cri.SandboxMetadata{Namespace: "default", Name: "web", UID: "1"}}
	sandbox, _ := runtime.RunPodSandbox(ctx, pod)
	id, _ := runtime.CreateContainer(ctx, sandbox, cri.ContainerConfig{
		Metadata: cri.ContainerMetadata{Name: "main"}, Image: cri.ImageSpec{Image: ref},
	}, pod)
	_ = runtime.StartContainer(ctx, id)
	status, _ := runtime.ContainerStatus(ctx, id)
	fmt.Println(status.State, status.ExitCode, status.Reason)
	fmt.Println(runtime.StopContainer(ctx, id, time.Second))
	// Output:
	// true
	// exited 1 Error
	// <nil>
}
