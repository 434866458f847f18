package simulated_test

import (
	"context"
	"errors"
	"fmt"
	"os"
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

// A script: what a container writes, and how it answers commands.
func ExampleStreams() {
	runtime := simulated.New(simulated.Options{Program: func(p simulated.Process) simulated.Program {
		return simulated.Program{
			Log: simulated.Text("starting " + p.Image),
			Streams: simulated.Streams{Exec: func(_ context.Context, command []string, s cri.StreamIO) (int32, error) {
				_, err := fmt.Fprintln(s.Stdout, "running", command)
				return 0, err
			}},
		}
	}})
	defer runtime.Close()
	ctx := context.Background()
	ref, _ := runtime.PullImage(ctx, cri.ImageSpec{Image: "app"}, nil)
	pod := cri.SandboxConfig{Metadata: cri.SandboxMetadata{Namespace: "default", Name: "web", UID: "1"}}
	sandbox, _ := runtime.RunPodSandbox(ctx, pod)
	id, _ := runtime.CreateContainer(ctx, sandbox, cri.ContainerConfig{
		Metadata: cri.ContainerMetadata{Name: "main"}, Image: cri.ImageSpec{Image: ref, UserSpecified: "app"},
	}, pod)
	_ = runtime.StartContainer(ctx, id)

	log, _ := runtime.OpenLog(ctx, id)
	for _, line := range log.Next() {
		fmt.Println(line.Text)
	}
	_ = runtime.WriteLog(id, "ready")
	fmt.Println(log.Next()[0].Text)
	code, err := runtime.HandleExec(ctx, id, []string{"ls"}, cri.StreamIO{Stdout: os.Stdout})
	fmt.Println(code, err)
	// Output:
	// starting app
	// ready
	// running [ls]
	// 0 <nil>
}
