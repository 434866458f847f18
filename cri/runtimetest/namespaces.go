package runtimetest

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/cri"
)

func itoa(i int) string { return strconv.Itoa(i) }

// namespace is the identity of a namespace of this process.
func namespace(t *testing.T, kind string) string {
	t.Helper()
	id, err := os.Readlink("/proc/self/ns/" + kind)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (s suite) hostNamespaces(t *testing.T) {
	for kind, n := range map[string]cri.Namespaces{
		"net": {Network: cri.NamespaceNode, PID: cri.NamespaceContainer},
		"pid": {PID: cri.NamespaceNode},
		"ipc": {IPC: cri.NamespaceNode, PID: cri.NamespaceContainer},
	} {
		_, id := s.shell(t, idle, func(p *cri.SandboxConfig, _ *cri.ContainerConfig) {
			p.Namespaces = n
			if kind == "net" {
				p.Hostname = ""
			}
		})
		for _, k := range []string{"net", "pid", "ipc"} {
			same := s.sh(t, id, "readlink /proc/self/ns/"+k) == namespace(t, k)
			if same != (k == kind) {
				t.Errorf("with the node's %s namespace it has the node's %s namespace: %t", kind, k, same)
			}
		}
	}
}

// pair runs two containers in a pod.
func (s suite) pair(t *testing.T, pid cri.NamespaceMode) (sandbox, first, second string) {
	t.Helper()
	n := cri.Namespaces{PID: pid}
	sandbox, first = s.shell(t, "exec sleep 27182", func(p *cri.SandboxConfig, _ *cri.ContainerConfig) { p.Namespaces = n })
	c := config(*s.pods[sandbox], "second", s.program(idle), s.pull(t, Program{Image: s.Shell}))
	c.Namespaces = n
	return sandbox, first, s.container(t, sandbox, c, true)
}

// sleeps is how many of the first container's processes the second sees.
const sleeps = "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep 2718[2]' || true"

func (s suite) sharedPIDs(t *testing.T) {
	_, first, second := s.pair(t, cri.NamespacePod)
	s.says(t, second, sleeps, "1")
	if got := s.sh(t, first, "tr '\\0' ' ' < /proc/1/cmdline"); strings.Contains(got, "27182") {
		t.Errorf("the first process of a pod with a PID namespace of its own is %q", got)
	}
	_, first, second = s.pair(t, cri.NamespaceContainer)
	s.says(t, second, sleeps, "0")
	s.says(t, first, "tr '\\0' ' ' < /proc/1/cmdline", "sleep 27182 ")
	for _, kind := range []string{"net", "ipc", "uts"} {
		if s.sh(t, first, "readlink /proc/self/ns/"+kind) != s.sh(t, second, "readlink /proc/self/ns/"+kind) {
			t.Errorf("the containers of a pod have different %s namespaces", kind)
		}
	}
}

// targetPIDs is what debugging with an ephemeral container needs.
func (s suite) targetPIDs(t *testing.T) {
	sandbox, first, _ := s.pair(t, cri.NamespaceContainer)
	c := config(*s.pods[sandbox], "debugger", s.program(idle), s.pull(t, Program{Image: s.Shell}))
	c.Namespaces = cri.Namespaces{PID: cri.NamespaceTarget, Target: first}
	debugger := s.container(t, sandbox, c, true)
	s.says(t, debugger, sleeps, "1")
	s.says(t, debugger, "tr '\\0' ' ' < /proc/1/cmdline", "sleep 27182 ")
}

// userNamespace needs a runtime that supports it.
func (s suite) userNamespace(t *testing.T) {
	if !s.able(t, func(h cri.RuntimeHandler) bool { return h.UserNamespaces }) {
		t.Log("this runtime makes no user namespaces")
		return
	}
	mapping := []cri.IDMapping{{Host: 655_360, Length: 65_536}}
	_, id := s.shell(t, idle, func(p *cri.SandboxConfig, _ *cri.ContainerConfig) {
		p.Namespaces.User = &cri.UserNamespace{Mode: cri.NamespacePod, UIDs: mapping, GIDs: mapping}
	})
	s.says(t, id, "tr -s ' ' < /proc/self/uid_map | sed 's/^ //'", "0 655360 65536")
	s.says(t, id, "id -u; touch /file && stat -c %u /file", "0\n0")
}

func (s suite) sysctls(t *testing.T) {
	_, id := s.shell(t, idle, func(p *cri.SandboxConfig, _ *cri.ContainerConfig) {
		p.Sysctls = map[string]string{"kernel.shm_rmid_forced": "1", "net.ipv4.ip_local_port_range": "1024 2048"}
	})
	s.says(t, id, "cat /proc/sys/kernel/shm_rmid_forced", "1")
	s.says(t, id, "cat /proc/sys/net/ipv4/ip_local_port_range", "1024\t2048")
}

func (s suite) hostnameAndDNS(t *testing.T) {
	_, id := s.shell(t, idle, func(p *cri.SandboxConfig, _ *cri.ContainerConfig) {
		p.Hostname = "its-name"
		p.DNS = cri.DNS{Servers: []string{"192.0.2.53", "192.0.2.54"}, Searches: []string{"a.example", "b.example"}, Options: []string{"ndots:5"}}
	})
	s.says(t, id, "hostname", "its-name")
	have := s.sh(t, id, "cat /etc/resolv.conf")
	for _, want := range []string{"nameserver 192.0.2.53\n", "nameserver 192.0.2.54\n", "search a.example b.example\n", "options ndots:5\n"} {
		if !strings.Contains(have+"\n", want) {
			t.Errorf("resolv.conf lacks %q:\n%s", want, have)
		}
	}
	_, id = s.shell(t, idle, nil)
	if node, err := os.ReadFile("/etc/resolv.conf"); err == nil {
		s.says(t, id, "cat /etc/resolv.conf", strings.TrimSuffix(string(node), "\n"))
	}
}
