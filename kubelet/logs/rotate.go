package logs

import (
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/cri"
)

// The defaults of upstream's kubelet.
const (
	maxSize       = 10 << 20
	maxFiles      = 5
	rotatePeriod  = 10 * time.Second
	stampFormat   = "20060102-150405"
	firstRotation = 1
)

// Runtime is what a Rotator needs from a container runtime.
type Runtime interface {
	cri.ContainerReader
	cri.LogReopener
}

// RotatorOptions configures a Rotator; zero values are upstream's defaults.
type RotatorOptions struct {
	// MaxSize is the size, in bytes, above which a log is rotated; 10 MiB by default.
	MaxSize int64
	// MaxFiles is the maximum number of files of a container's log, at least 2; 5 by default.
	MaxFiles int
	// Period is how often logs are checked; 10 s by default.
	Period time.Duration
	Logger *slog.Logger
}

// Rotator keeps the logs of running containers small. Another Rotator, or the runtime itself, must
// not rotate the same logs.
type Rotator struct {
	runtime Runtime
	options RotatorOptions
}

// NewRotator returns a Rotator for the logs of a runtime's containers.
func NewRotator(runtime Runtime, o RotatorOptions) *Rotator {
	o.MaxSize = cmp.Or(max(o.MaxSize, 0), maxSize)
	o.MaxFiles = max(cmp.Or(max(o.MaxFiles, 0), maxFiles), 2)
	o.Period = cmp.Or(max(o.Period, 0), rotatePeriod)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Rotator{runtime, o}
}

// Run rotates logs until the context ends.
func (r *Rotator) Run(ctx context.Context) error {
	tick := time.NewTicker(r.options.Period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := r.Rotate(ctx); err != nil && ctx.Err() == nil {
				r.options.Logger.Warn("container logs not rotated", "error", err)
			}
		}
	}
}

// Rotate checks all logs once and rotates those that are too big. It continues after an error, and returns all errors.
func (r *Rotator) Rotate(ctx context.Context) error {
	containers, err := r.runtime.ListContainers(ctx, cri.Filter{})
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	var errs []error
	for _, c := range containers {
		if c.State != cri.ContainerRunning {
			continue // it writes no more
		}
		if err := r.look(ctx, c.ID); err != nil && !errors.Is(err, cri.ErrNotFound) {
			errs = append(errs, fmt.Errorf("log of container %s: %w", c.ID, err))
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

func (r *Rotator) look(ctx context.Context, id string) error {
	status, err := r.runtime.ContainerStatus(ctx, id)
	if err != nil || status.LogPath == "" {
		return err
	}
	info, err := os.Stat(status.LogPath)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r.runtime.ReopenContainerLog(ctx, id) // it was removed, or a rotation was interrupted
	case err != nil:
		return err
	case info.Size() < r.options.MaxSize:
		return nil
	}
	return r.rotate(ctx, id, status.LogPath)
}

// rotate makes room among the rotated files, compresses them, and renames the log last, so that followers can still
// read what was just written.
func (r *Rotator) rotate(ctx context.Context, id, path string) error {
	if err := sweep(path); err != nil {
		return err
	}
	older, err := Rotated(path)
	if err != nil {
		return err
	}
	// The log being rotated and its successor count too.
	for len(older) > r.options.MaxFiles-2 {
		if err := os.Remove(older[0]); err != nil {
			return err
		}
		older = older[1:]
	}
	for _, name := range older {
		if !strings.HasSuffix(name, compressed) {
			if err := compress(name); err != nil {
				return err
			}
		}
	}
	away, err := freeName(path)
	if err != nil {
		return err
	}
	if err := os.Rename(path, away); err != nil {
		return err
	}
	if err := r.runtime.ReopenContainerLog(ctx, id); err != nil {
		return errors.Join(fmt.Errorf("reopen: %w", err), os.Rename(away, path)) // try again later
	}
	return nil
}

// freeName is the new name of the log at path. Names sort by time, even within one second.
func freeName(path string) (string, error) {
	name := path + "." + time.Now().Format(stampFormat)
	free := name
	for i := firstRotation; ; i++ {
		taken := false
		for _, candidate := range []string{free, free + compressed} {
			_, err := os.Lstat(candidate)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return "", err
			}
			taken = taken || err == nil
		}
		if !taken {
			return free, nil
		}
		free = fmt.Sprintf("%s-%03d", name, i)
	}
}

// sweep removes what interrupted rotations have left behind.
func sweep(path string) error {
	names, err := filepath.Glob(globbed(path) + ".*")
	if err != nil {
		return err
	}
	for _, name := range names {
		_, done := os.Lstat(name + compressed)
		if strings.HasSuffix(name, unfinished) || done == nil {
			if err := os.Remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// globbed escapes a path for use in a pattern.
func globbed(path string) string {
	return strings.NewReplacer("\\", "\\\\", "*", "\\*", "?", "\\?", "[", "\\[").Replace(path)
}

// compress replaces a file by name.gz. A crash leaves either or both.
func compress(name string) error {
	from, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // it was read
	info, err := from.Stat()
	if err != nil {
		return err
	}
	to, err := os.OpenFile(name+unfinished, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	z := gzip.NewWriter(to)
	_, err = io.Copy(z, from)
	if err := errors.Join(err, z.Close(), to.Close()); err != nil {
		return errors.Join(fmt.Errorf("compress %s: %w", name, err), os.Remove(name+unfinished))
	}
	if err := os.Rename(name+unfinished, name+compressed); err != nil {
		return err
	}
	return os.Remove(name)
}

// Remove removes the log at path and all its rotated files, for a container that is removed. Missing files are not an
// error.
func Remove(path string) error {
	names, err := filepath.Glob(globbed(path) + ".*")
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range append(names, path) {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
