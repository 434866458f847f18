package controlplane

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// A program that ends is restarted with a new process ID, and given up if it ends repeatedly.
func TestDaemon(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "log")
	d := StartDaemon(shell, []string{"-c", "sleep 60"}, log)
	number := func() int {
		t.Helper()
		for {
			pid, err := d.PID()
			if err == nil {
				return pid
			}
			time.Sleep(time.Millisecond)
		}
	}
	first := number()
	p, err := os.FindProcess(first)
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
	for number() == first {
		time.Sleep(time.Millisecond)
	}
	if err := d.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if _, err := d.PID(); !errors.Is(err, ErrEnded) {
		t.Errorf("after stop: %v", err)
	}
	d = StartDaemon(shell, []string{"-c", "echo words; exit 3"}, log)
	<-d.Done()
	if err := d.Stop(); !errors.Is(err, ErrEnded) || !strings.Contains(err.Error(), "words") {
		t.Errorf("one that ends by itself: %v", err)
	}
}

// The files in the arguments exist, and the certificates' users are those to which upstream's roles are bound.
func TestSite(t *testing.T) {
	s, err := New(filepath.Join(t.TempDir(), "site"))
	if err != nil {
		t.Fatal(err)
	}
	arguments, err := s.Arguments(t.Context())
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
	config, err := s.Config("admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rest.TLSConfigFor(config); err != nil {
		t.Error(err)
	}
	loaded, err := clientcmd.BuildConfigFromFlags("", s.File("scheduler.kubeconfig"))
	if err != nil || loaded.Host != config.Host {
		t.Errorf("%v, %v", loaded, err)
	}
	if s.client == s.members || s.client == s.serve || s.members == s.serve {
		t.Errorf("ports %d, %d, %d", s.client, s.members, s.serve)
	}
}
