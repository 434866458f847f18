package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/keelson-dev/keelson/internal/upstream"
)

// All of upstream's programs are started with files that are there, count as one side, and end with it. Shells stand in
// for them.
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

// What the arguments name is there, and who the certificates are for is who upstream's roles are bound to.
func TestSite(t *testing.T) {
	s, err := newSite(filepath.Join(t.TempDir(), "site"))
	if err != nil {
		t.Fatal(err)
	}
	arguments, err := s.arguments(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, args := range arguments {
		for _, arg := range args {
			flag, value, _ := strings.Cut(arg, "=")
			if strings.HasSuffix(flag, "-file") || flag == "--kubeconfig" {
				if _, err := os.Stat(value); err != nil {
					t.Errorf("%s %s: %v", name, flag, err)
				}
			}
		}
	}
	config, err := s.config("admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rest.TLSConfigFor(config); err != nil {
		t.Error(err)
	}
	loaded, err := clientcmd.BuildConfigFromFlags("", s.file("scheduler.kubeconfig"))
	if err != nil || loaded.Host != config.Host {
		t.Errorf("%v, %v", loaded, err)
	}
	if s.client == s.members || s.client == s.serve || s.members == s.serve {
		t.Errorf("ports %d, %d, %d", s.client, s.members, s.serve)
	}
}
