package runtimetest

import (
	"net/netip"
	"testing"

	"github.com/keelson-dev/keelson/cri"
)

func (s suite) status(t *testing.T) {
	version, err := s.runtime.Version(s.context(t))
	if err != nil || version.Name == "" || version.Version == "" {
		t.Errorf("Version: %+v, %v", version, err)
	}
	status, err := s.runtime.Status(s.context(t))
	if err != nil || !status.Runtime.Ready || !status.Network.Ready {
		t.Errorf("Status: %+v, %v", status, err)
	}
}

func (s suite) sandboxLife(t *testing.T) {
	ctx, want := s.context(t), pod(t, "pod")
	id := s.sandbox(t, want)
	status, err := s.runtime.SandboxStatus(ctx, id)
	switch {
	case err != nil:
		t.Fatalf("SandboxStatus: %v", err)
	case status.ID != id, status.State != cri.SandboxReady, status.Metadata != want.Metadata:
		t.Errorf("a new sandbox is %+v", status)
	case status.Labels[cri.LabelPodUID] != want.Metadata.UID, status.Annotations["runtimetest"] != "yes":
		t.Errorf("labels and annotations are %v and %v", status.Labels, status.Annotations)
	case status.CreatedAt.IsZero():
		t.Error("a sandbox without a time of creation")
	}
	for range 2 {
		if err := s.runtime.StopPodSandbox(ctx, id); err != nil {
			t.Errorf("StopPodSandbox: %v", err)
		}
	}
	if status, err = s.runtime.SandboxStatus(ctx, id); err != nil || status.State != cri.SandboxNotReady {
		t.Errorf("a stopped sandbox is %+v, %v", status, err)
	}
	for range 2 {
		if err := s.runtime.RemovePodSandbox(ctx, id); err != nil {
			t.Errorf("RemovePodSandbox: %v", err)
		}
	}
	_, err = s.runtime.SandboxStatus(ctx, id)
	is(t, "SandboxStatus of a removed sandbox", err, cri.ErrNotFound)
}

func (s suite) sandboxUnknown(t *testing.T) {
	ctx := s.context(t)
	_, err := s.runtime.SandboxStatus(ctx, "unknown")
	is(t, "SandboxStatus", err, cri.ErrNotFound)
	unknown := pod(t, "pod")
	_, err = s.runtime.CreateContainer(ctx, "unknown", config(unknown, "main", s.Sleeper, s.pull(t, s.Sleeper)), unknown)
	is(t, "CreateContainer", err, cri.ErrNotFound)
	if err := s.runtime.StopPodSandbox(ctx, "unknown"); err != nil {
		t.Errorf("StopPodSandbox: %v", err)
	}
	if err := s.runtime.RemovePodSandbox(ctx, "unknown"); err != nil {
		t.Errorf("RemovePodSandbox: %v", err)
	}
}

func (s suite) sandboxNames(t *testing.T) {
	config := pod(t, "pod")
	first := s.sandbox(t, config)
	if id, err := s.runtime.RunPodSandbox(s.context(t), config); err == nil {
		t.Errorf("two sandboxes with the same metadata: %s and %s", first, id)
	}
	config.Metadata.Attempt = 1
	if second := s.sandbox(t, config); second == first {
		t.Error("the second attempt has the id of the first")
	}
}

func (s suite) sandboxFilters(t *testing.T) {
	ctx := s.context(t)
	a, b := pod(t, "a"), pod(t, "b")
	first, second := s.sandbox(t, a), s.sandbox(t, b)
	a.Metadata.Attempt = 1
	third := s.sandbox(t, a)
	byUID := map[string]string{cri.LabelPodUID: a.Metadata.UID}
	for _, c := range []struct {
		what   string
		filter cri.Filter
		want   []string
	}{
		{"by uid", cri.Filter{Labels: byUID}, []string{third, first}},
		{"by id", cri.Filter{ID: second}, []string{second}},
		{"by id and label", cri.Filter{ID: second, Labels: byUID}, nil},
		{"by a label that none has", cri.Filter{Labels: map[string]string{"no": "such"}}, nil},
	} {
		list, err := s.runtime.ListSandboxes(ctx, c.filter)
		if err != nil {
			t.Fatalf("ListSandboxes: %v", err)
		}
		var got []string
		for _, item := range list {
			got = append(got, item.ID)
		}
		same(t, c.what, got, c.want)
	}
}

func (s suite) sandboxAddresses(t *testing.T) {
	ctx := s.context(t)
	seen := map[string]bool{}
	for _, name := range []string{"a", "b", "c"} {
		status, err := s.runtime.SandboxStatus(ctx, s.sandbox(t, pod(t, name)))
		if err != nil || len(status.IPs) == 0 {
			t.Fatalf("SandboxStatus: %+v, %v", status, err)
		}
		if _, err := netip.ParseAddr(status.IPs[0]); err != nil || seen[status.IPs[0]] {
			t.Errorf("address %q is malformed or in use", status.IPs[0])
		}
		seen[status.IPs[0]] = true
	}
	host := pod(t, "host")
	host.Hostname = "" // it has the node's
	host.Namespaces.Network = cri.NamespaceNode
	status, err := s.runtime.SandboxStatus(ctx, s.sandbox(t, host))
	if err != nil || len(status.IPs) != 0 || status.Namespaces.Network != cri.NamespaceNode {
		t.Errorf("a sandbox in the node's network is %+v, %v", status, err)
	}
}

func (s suite) stoppedSandbox(t *testing.T) {
	ctx := s.context(t)
	sandbox, running := s.running(t, s.Sleeper)
	created := s.container(t, sandbox, config(*s.pods[sandbox], "late", s.Sleeper, s.pull(t, s.Sleeper)), false)
	if err := s.runtime.StopPodSandbox(ctx, sandbox); err != nil {
		t.Fatalf("StopPodSandbox: %v", err)
	}
	if status := s.exited(t, running); status.ExitCode == 0 {
		t.Errorf("a container of a stopped sandbox ended with code %d, want that of an end by force", status.ExitCode)
	}
	if _, err := s.runtime.CreateContainer(ctx, sandbox, config(*s.pods[sandbox], "more", s.Sleeper, s.pull(t, s.Sleeper)), *s.pods[sandbox]); err == nil {
		t.Error("a stopped sandbox takes a container")
	}
	if err := s.runtime.StartContainer(ctx, created); err == nil {
		t.Error("a container starts in a stopped sandbox")
	}
}

func (s suite) removeSandbox(t *testing.T) {
	ctx := s.context(t)
	sandbox, container := s.running(t, s.Sleeper)
	if err := s.runtime.RemovePodSandbox(ctx, sandbox); err != nil {
		t.Fatalf("RemovePodSandbox: %v", err)
	}
	_, err := s.runtime.ContainerStatus(ctx, container)
	is(t, "ContainerStatus in a removed sandbox", err, cri.ErrNotFound)
	list, err := s.runtime.ListContainers(ctx, cri.Filter{SandboxID: sandbox})
	if err != nil || len(list) > 0 {
		t.Errorf("a removed sandbox still has %v, %v", list, err)
	}
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
		return
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("%s: got %v, want %v", what, got, want)
			return
		}
	}
}
