package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/remote"
)

// client holds the runtime and the output.
type client struct {
	*remote.Runtime
	out         io.Writer
	image, logs string
}

func (c client) show(ctx context.Context) (err error) {
	version, err := c.Version(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "%s %s at %s\n", version.Name, version.Version, c.Endpoint())
	sandbox, container, err := c.start(ctx, nil)
	if sandbox != "" {
		defer func() {
			err = errors.Join(err, c.RemovePodSandbox(context.WithoutCancel(ctx), sandbox))
			fmt.Fprintln(c.out, "removed")
		}()
	}
	if err != nil {
		return err
	}
	if err := c.list(ctx); err != nil {
		return err
	}
	if err := c.exec(ctx, container, []string{"echo", "hello from exec"}); err != nil {
		return err
	}
	if err := c.StopContainer(ctx, container, 5*time.Second); err != nil {
		return err
	}
	return c.log(ctx, container)
}

// start pulls the image unless it is present, and runs a container in its own sandbox.
func (c client) start(ctx context.Context, command []string) (sandbox, container string, err error) {
	spec := cri.ImageSpec{Image: c.image}
	if _, err = c.ImageStatus(ctx, spec); errors.Is(err, cri.ErrNotFound) {
		fmt.Fprintln(c.out, "pulling", c.image)
		_, err = c.PullImage(ctx, spec, nil)
	}
	if err != nil {
		return "", "", err
	}
	status, err := c.Status(ctx)
	if err != nil {
		return "", "", err
	}
	uid := fmt.Sprint(time.Now().UnixNano())
	pod := cri.SandboxConfig{
		Metadata: cri.SandboxMetadata{Name: "criclient", Namespace: "default", UID: uid}, Hostname: "criclient",
		LogDirectory: filepath.Join(c.logs, uid), Labels: map[string]string{cri.LabelPodUID: uid},
	}
	if !status.Network.Ready {
		fmt.Fprintln(c.out, "the pod gets the node's network, for that of pods is not ready:", status.Network.Message)
		pod.Hostname, pod.Namespaces.Network = "", cri.NamespaceNode
	}
	if sandbox, err = c.RunPodSandbox(ctx, pod); err != nil {
		return "", "", err
	}
	if len(command) == 0 {
		command = []string{"sh", "-c", "trap 'echo asked to stop; exit 0' TERM; echo hello from $(hostname); while :; do sleep 0.1; done"}
	}
	container, err = c.CreateContainer(ctx, sandbox, cri.ContainerConfig{
		Metadata: cri.ContainerMetadata{Name: "main"}, Image: spec, Process: cri.Process{Command: command},
		LogPath: "main.log", Namespaces: pod.Namespaces,
	}, pod)
	if err != nil {
		return sandbox, "", err
	}
	return sandbox, container, c.StartContainer(ctx, container)
}

func (c client) list(ctx context.Context) error {
	all, err := c.ListContainers(ctx, cri.Filter{})
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CONTAINER\tNAME\tIMAGE\tSTATE\tSANDBOX")
	for _, one := range all {
		fmt.Fprintf(w, "%.13s\t%s\t%s\t%s\t%.13s\n", one.ID, one.Metadata.Name, one.Image.Image, one.State, one.SandboxID)
	}
	return errors.Join(err, w.Flush())
}

func (c client) exec(ctx context.Context, id string, command []string) error {
	result, err := c.ExecSync(ctx, id, command, 0)
	if err == nil && result.ExitCode != 0 {
		err = fmt.Errorf("%q ended with exit code %d", command, result.ExitCode)
	}
	fmt.Fprintf(c.out, "%s%s", result.Stdout, result.Stderr)
	return err
}

// log prints the lines of a log without the time, stream and tag at the start of each.
func (c client) log(ctx context.Context, id string) error {
	status, err := c.ContainerStatus(ctx, id)
	if err != nil {
		return err
	}
	file, err := os.Open(status.LogPath)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if parts := strings.SplitN(lines.Text(), " ", 4); len(parts) == 4 {
			fmt.Fprintln(c.out, parts[3])
		}
	}
	return lines.Err()
}
