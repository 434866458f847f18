package containerd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/pause"
)

// dial makes a connection to the daemon, without waiting for it.
func (d *Daemon) dial() (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("unix://"+d.Socket(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		return nil, fmt.Errorf("connect to containerd: %w", err)
	}
	return conn, nil
}

// ready waits until the daemon answers CRI, while its process lives and at most for the given time.
func (d *Daemon) ready(ctx context.Context, p process, most time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	var last error
	for p.alive() {
		if last = d.version(ctx); last == nil {
			return nil
		}
		if err := pause.For(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("%w: it does not answer: %w", ErrNotRunning, errors.Join(err, last))
		}
	}
	return fmt.Errorf("%w: %w", ErrNotRunning, errEnded)
}

// version makes a call that succeeds only when everything behind it is up. Each try has its own connection: a failed
// one would wait a second before it reconnects.
func (d *Daemon) version(ctx context.Context) error {
	conn, err := d.dial()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // nothing is lost with it
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err = runtime.NewRuntimeServiceClient(conn).Version(ctx, &runtime.VersionRequest{}); err != nil {
		return fmt.Errorf("ask containerd for its version: %w", err)
	}
	return nil
}

// Images returns the names that pods may use without a pull, sorted.
func (d *Daemon) Images(ctx context.Context) ([]string, error) {
	conn, err := d.dial()
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // nothing is lost with it
	answer, err := runtime.NewImageServiceClient(conn).ListImages(ctx, &runtime.ListImagesRequest{})
	if err != nil {
		return nil, fmt.Errorf("%w: list images: %w", ErrNotRunning, err)
	}
	var names []string
	for _, image := range answer.Images {
		names = append(names, image.RepoTags...)
	}
	slices.Sort(names)
	return names, nil
}

// Import loads the images of an archive (OCI layout or docker save, in a tar file) under the names in it and returns
// these when pods may use them. progress, unless nil, is called for each.
func (d *Daemon) Import(ctx context.Context, archive string, progress func(line string)) ([]string, error) {
	cmd := exec.CommandContext(ctx, d.tools.Ctr, "--address", d.Socket(), "--namespace", "k8s.io", "images", "import", "--local", archive)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("import %s: %w: %s", archive, err, bytes.TrimSpace(stderr.Bytes()))
	}
	names := imported(stdout.String())
	if len(names) == 0 {
		return nil, fmt.Errorf("import %s: no names in it", archive)
	}
	// CRI learns of images by events.
	for {
		have, err := d.Images(ctx)
		if err != nil {
			return nil, fmt.Errorf("import %s: %w", archive, err)
		}
		if !slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(have, n) }) {
			break
		}
		if err := pause.For(ctx, 5*time.Millisecond); err != nil {
			return nil, fmt.Errorf("import %s: wait for the images to be known: %w", archive, err)
		}
	}
	if progress != nil {
		for _, n := range names {
			progress("imported " + n)
		}
	}
	return names, nil
}

// imported finds the names in ctr's output: lines such as "unpacking docker.io/library/nginx:latest (sha256:…)...done".
func imported(out string) []string {
	var names []string
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == "unpacking" {
			names = append(names, f[1])
		}
	}
	return names
}
