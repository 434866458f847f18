package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"

	"github.com/keelson-dev/keelson/internal/upstream"
	"github.com/keelson-dev/keelson/internal/upstream/controlplane"
)

// theUpstream is upstream's control plane: its programs by name, and the versions they report.
type theUpstream struct {
	programs, versions map[string]string
}

// newUpstream finds the programs in a directory, or builds them.
func newUpstream(ctx context.Context, dir string) (*theUpstream, error) {
	u := &theUpstream{programs: map[string]string{}, versions: map[string]string{}}
	for _, name := range []string{upstream.Etcd, upstream.APIServer, upstream.ControllerManager, upstream.Scheduler, upstream.Kubelet} {
		path := filepath.Join(dir, name)
		var err error
		if dir == "" {
			path, err = build(ctx, name)
		} else {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			return nil, err
		}
		u.programs[name] = path
	}
	for name, program := range map[string]string{"kubernetes": upstream.APIServer, "etcd": upstream.Etcd} {
		said, err := exec.CommandContext(ctx, u.programs[program], "--version").Output()
		if err != nil {
			return nil, fmt.Errorf("%s --version: %w", program, err)
		}
		u.versions[name] = versionIn(string(said))
	}
	return u, nil
}

func versionIn(said string) string {
	if found := regexp.MustCompile(`v?\d+\.\d+\.\d+\S*`).FindString(said); found != "" {
		return found
	}
	return "unknown"
}

// build compiles a program into the repository's bin directory, unless an up-to-date one exists.
func build(ctx context.Context, name string) (string, error) {
	kubernetes, err := upstream.Find(ctx)
	if err != nil {
		return "", err
	}
	return kubernetes.Build(ctx, name)
}

// start starts all programs at once. Those that need others wait for them or are restarted, as when a machine boots.
func (u *theUpstream) start(ctx context.Context, dir string) (*plane, error) {
	p, _, err := u.launch(ctx, dir)
	return p, err
}

// launch is start, and also returns where everything is.
func (u *theUpstream) launch(ctx context.Context, dir string) (*plane, *controlplane.Site, error) {
	s, err := controlplane.New(dir)
	if err != nil {
		return nil, nil, err
	}
	arguments, err := s.Arguments(ctx)
	if err != nil {
		return nil, nil, err
	}
	config, err := s.Config("admin", "system:masters")
	if err != nil {
		return nil, nil, err
	}
	// In the order in which they are to be stopped.
	var all []*controlplane.Daemon
	for _, name := range []string{upstream.Scheduler, upstream.ControllerManager, upstream.APIServer, upstream.Etcd} {
		all = append(all, controlplane.StartDaemon(u.programs[name], arguments[name], s.File(name+".log")))
	}
	return &plane{config: config, processes: func() ([]int, error) {
		var numbers []int
		for _, d := range all {
			pid, err := d.PID()
			if err != nil {
				return nil, err
			}
			numbers = append(numbers, pid)
		}
		return numbers, nil
	}, stop: func() error {
		var errs []error
		for _, d := range all {
			errs = append(errs, d.Stop())
		}
		return errors.Join(errs...)
	}}, s, nil
}
