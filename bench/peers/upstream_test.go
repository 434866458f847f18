package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/keelson-dev/keelson/internal/upstream"
)

// All of upstream's programs are started with existing files, count as one side, and end with it. Shell scripts replace
// them here.
func TestUpstreamsProcesses(t *testing.T) {
	programs := t.TempDir()
	names := []string{"etcd", upstream.APIServer, upstream.ControllerManager, upstream.Scheduler}
	for _, name := range names {
		script := "#!/bin/sh\nif [ \"$1\" = --version ]; then echo " + name + " v1.2.3; exit; fi\nexec sleep 1000\n"
		if err := os.WriteFile(filepath.Join(programs, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	u, err := newUpstream(t.Context(), programs)
	if err != nil {
		t.Fatal(err)
	}
	if u.versions["kubernetes"] != "v1.2.3" || u.versions["etcd"] != "v1.2.3" {
		t.Errorf("versions: %v", u.versions)
	}
	dir := filepath.Join(t.TempDir(), "site")
	p, err := u.start(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var processes []int
	if err := soon(t.Context(), "processes", func(context.Context) (err error) { processes, err = p.processes(); return err }); err != nil {
		t.Error(err)
	}
	if len(processes) != len(names) {
		t.Errorf("processes %v", processes)
	}
	if err := p.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if _, err := p.processes(); err == nil {
		t.Error("after stop some run")
	}
}
