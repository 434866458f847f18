package security_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/security"
)

func facts[T any](t *testing.T, file string) []T {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var list []T
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// canonical renders a value such that empty and missing lists are equal.
func canonical(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(data), "[]", "null")
}

// TestAsUpstream compares with what the kubelet of Kubernetes 1.36.1 (pkg/kubelet/kuberuntime) sent to a runtime for
// random pods.
func TestAsUpstream(t *testing.T) {
	type fact struct {
		Pod                 *corev1.Pod
		UID                 *int64
		Username            string
		SeccompDefault      bool
		Groups              []int64
		Masked              bool
		Container           *cri.Security
		Sandbox             *cri.SandboxSecurity
		Namespaces          *cri.Namespaces
		Error, SandboxError string
	}
	good := 0
	for i, f := range facts[fact](t, "testdata/security.json") {
		p := newPolicy(t, security.Options{SeccompDefault: f.SeccompDefault, Groups: func(*corev1.Pod) []int64 { return f.Groups }})
		got, err := p.Container(f.Pod, &f.Pod.Spec.Containers[0], cri.Image{UID: f.UID, Username: f.Username})
		if text(err) != f.Error {
			t.Errorf("%d: got error %q, want %q", i, text(err), f.Error)
		}
		if f.Container != nil {
			good++
			if f.Masked {
				f.Container.MaskedPaths, f.Container.ReadonlyPaths = masked(), readonly()
			}
			if got, want := canonical(t, got), canonical(t, f.Container); got != want {
				t.Errorf("%d: container\ngot  %s\nwant %s", i, got, want)
			}
			f.Namespaces.User = &cri.UserNamespace{Mode: cri.NamespaceNode}
			n, err := p.Namespaces(f.Pod, "")
			if got, want := canonical(t, n), canonical(t, f.Namespaces); err != nil || got != want {
				t.Errorf("%d: namespaces %v\ngot  %s\nwant %s", i, err, got, want)
			}
		}
		sandbox, err := p.Sandbox(f.Pod)
		if text(err) != f.SandboxError {
			t.Errorf("%d: got error %q for the sandbox, want %q", i, text(err), f.SandboxError)
		}
		if f.Sandbox != nil {
			if got, want := canonical(t, sandbox), canonical(t, f.Sandbox); got != want {
				t.Errorf("%d: sandbox\ngot  %s\nwant %s", i, got, want)
			}
		}
	}
	if good < 80 {
		t.Errorf("only %d pods may run: that proves little", good)
	}
}

// TestSysctlsAsUpstream compares with pkg/kubelet/sysctl of Kubernetes 1.36.1, except for namespaced sysctls that only
// 1.37 knows.
func TestSysctlsAsUpstream(t *testing.T) {
	type fact struct {
		Allowed              []string
		Name                 string
		HostNetwork, HostIPC bool
		BadPatterns, Message string
	}
	for _, f := range facts[fact](t, "testdata/sysctls.json") {
		p, err := security.New(security.Options{AllowedUnsafeSysctls: f.Allowed})
		if text(err) != f.BadPatterns {
			t.Errorf("%q: got %q, want %q", f.Allowed, text(err), f.BadPatterns)
		}
		if err != nil {
			continue
		}
		pod := newPod(&corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: f.Name}}}, nil)
		pod.Spec.HostNetwork, pod.Spec.HostIPC = f.HostNetwork, f.HostIPC
		got := ""
		if r := p.Admit(pod); r != nil {
			got = r.Message
		}
		if got != f.Message {
			t.Errorf("%+v: got %q", f, got)
		}
	}
}
