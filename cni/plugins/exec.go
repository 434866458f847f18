package plugins

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/keelson-dev/keelson/cni"
)

const (
	// linger is how long to wait for the output of an ended plugin while a child of it keeps it open.
	linger = time.Second
	// busyRetry is how long to wait while an executable is being written.
	busyRetry = 50 * time.Millisecond
	maxStderr = 4 << 10
)

// executor runs plugins for libcni: each in a process group of its own that is killed when the
// context ends, with errors that name the plugin.
type executor struct {
	version.PluginDecoder
	log *slog.Logger
}

// FindInPath returns the path of a plugin's executable.
func (*executor) FindInPath(plugin string, paths []string) (string, error) {
	if path := executable(plugin, paths); path != "" {
		return path, nil
	}
	return "", fmt.Errorf("%w: no executable %q in %s: install the plugin there", cni.ErrNotReady, plugin, strings.Join(paths, ", "))
}

// ExecPlugin runs a plugin and returns what it wrote.
func (e *executor) ExecPlugin(ctx context.Context, path string, stdin []byte, environ []string) ([]byte, error) {
	name, command, start := filepath.Base(path), commandOf(environ), time.Now()
	for {
		stdout, stderr, err := run(ctx, path, stdin, environ)
		if len(stderr) > 0 {
			e.log.Debug("A network plugin wrote to its standard error", "plugin", name, "command", command, "text", string(stderr))
		}
		switch {
		case err == nil:
			return stdout, nil
		case ctx.Err() != nil:
			return nil, &cni.TimeoutError{Plugin: name, Command: command, After: time.Since(start), Err: ctx.Err()}
		case errors.Is(err, syscall.ETXTBSY):
			e.log.Debug("A network plugin is being written; it is tried again", "plugin", name)
			select {
			case <-time.After(busyRetry):
				continue
			case <-ctx.Done():
				return nil, &cni.TimeoutError{Plugin: name, Command: command, After: time.Since(start), Err: ctx.Err()}
			}
		}
		return nil, failure(&cni.PluginError{Plugin: name, Command: command}, stdout, stderr, err)
	}
}

func run(ctx context.Context, path string, stdin []byte, environ []string) (stdout, stderr []byte, err error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, path)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = environ, bytes.NewReader(stdin), &out, &errs
	cmd.WaitDelay = linger
	err = runInGroup(cmd)
	if errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil {
		err = nil // the plugin succeeded, but a child holds its output open
	}
	return out.Bytes(), errs.Bytes(), err
}

func commandOf(environ []string) string {
	for _, kv := range environ {
		if command, ok := strings.CutPrefix(kv, "CNI_COMMAND="); ok {
			return command
		}
	}
	return ""
}

// failure fills in the plugin's report, or how it ended without one.
func failure(e *cni.PluginError, stdout, stderr []byte, ended error) error {
	var report types.Error
	if json.Unmarshal(stdout, &report) == nil && (report.Msg != "" || report.Code != 0) {
		e.Code, e.Message, e.Details = report.Code, report.Msg, report.Details
	} else {
		e.Message = ended.Error()
		e.Details = strings.TrimSpace(string(stderr[max(0, len(stderr)-maxStderr):]))
		if text := strings.TrimSpace(string(stdout)); e.Details == "" && text != "" {
			e.Details = fmt.Sprintf("it wrote %.200q", text)
		}
	}
	if e.Command == "VERSION" && e.Message == "unknown CNI_COMMAND: VERSION" {
		return errors.New(e.Message) // libcni compares this text
	}
	return e
}
