package security_test

import (
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/security"
)

func newPolicy(t *testing.T, o security.Options) *security.Policy {
	t.Helper()
	p, err := security.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func newPod(podSC *corev1.PodSecurityContext, sc *corev1.SecurityContext) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u1"},
		Spec:       corev1.PodSpec{SecurityContext: podSC, Containers: []corev1.Container{{Name: "c", SecurityContext: sc}}},
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func masked() []string {
	return []string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
		"/sys/devices/virtual/powercap",
	}
}

func readonly() []string {
	return []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
}

func TestContainer(t *testing.T) {
	strict, odd := corev1.SupplementalGroupsPolicyStrict, corev1.SupplementalGroupsPolicy("Odd")
	unmasked := corev1.UnmaskedProcMount
	local := corev1.SeccompProfileTypeLocalhost
	root := cri.Image{UID: new(int64)}
	plain := func(change func(*cri.Security)) cri.Security {
		out := cri.Security{
			RunAsUser: new(int64), MaskedPaths: masked(), ReadonlyPaths: readonly(), Seccomp: &cri.Profile{Type: cri.ProfileUnconfined},
		}
		if change != nil {
			change(&out)
		}
		return out
	}
	for name, test := range map[string]struct {
		pod     *corev1.PodSecurityContext
		c       *corev1.SecurityContext
		image   cri.Image
		options security.Options
		want    cri.Security
		err     string
	}{
		"nothing set": {image: root, want: plain(nil)},
		"image's user": {image: cri.Image{Username: "nginx"}, want: plain(func(s *cri.Security) {
			s.RunAsUser, s.RunAsUsername = nil, "nginx"
		})},
		"image without a user": {want: plain(nil)},
		"container before pod": {
			pod: &corev1.PodSecurityContext{
				RunAsUser: new(int64(1)), RunAsGroup: new(int64(2)), SELinuxOptions: &corev1.SELinuxOptions{Type: "pod_t"},
			},
			c: &corev1.SecurityContext{
				RunAsUser: new(int64(5)), SELinuxOptions: &corev1.SELinuxOptions{User: "u", Role: "r", Type: "t", Level: "l"},
			},
			image: root,
			want: plain(func(s *cri.Security) {
				s.RunAsUser, s.RunAsGroup = new(int64(5)), new(int64(2))
				s.SELinux = &cri.SELinux{User: "u", Role: "r", Type: "t", Level: "l"}
			}),
		},
		"only the pod's": {
			pod:   &corev1.PodSecurityContext{RunAsUser: new(int64(1)), SELinuxOptions: &corev1.SELinuxOptions{Type: "pod_t"}},
			image: cri.Image{Username: "nginx"},
			want:  plain(func(s *cri.Security) { s.RunAsUser, s.SELinux = new(int64(1)), &cri.SELinux{Type: "pod_t"} }),
		},
		"privileged, read-only, no escalation, capabilities": {
			c: &corev1.SecurityContext{
				Privileged: new(true), ReadOnlyRootFilesystem: new(true), AllowPrivilegeEscalation: new(false),
				Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN", "SYS_TIME"}, Drop: []corev1.Capability{"ALL"}},
			},
			image: root,
			want: plain(func(s *cri.Security) {
				s.Privileged, s.ReadOnlyRootfs, s.NoNewPrivs = true, true, true
				s.Capabilities = cri.Capabilities{Add: []string{"NET_ADMIN", "SYS_TIME"}, Drop: []string{"ALL"}}
			}),
		},
		"escalation allowed": {c: &corev1.SecurityContext{AllowPrivilegeEscalation: new(true)}, want: plain(nil)},
		"unmasked": {c: &corev1.SecurityContext{ProcMount: &unmasked}, want: plain(func(s *cri.Security) {
			s.MaskedPaths, s.ReadonlyPaths = nil, nil
		})},
		"masked on this machine": {
			options: security.Options{Host: security.Host{MaskedPaths: []string{"/x"}}},
			want:    plain(func(s *cri.Security) { s.MaskedPaths = append(masked(), "/x") }),
		},
		"groups": {
			pod: &corev1.PodSecurityContext{
				FSGroup: new(int64(7)), SupplementalGroups: []int64{8, 9}, SupplementalGroupsPolicy: &strict,
			},
			options: security.Options{Groups: func(*corev1.Pod) []int64 { return []int64{10} }},
			want: plain(func(s *cri.Security) {
				s.SupplementalGroups, s.SupplementalGroupsPolicy = []int64{7, 8, 9, 10}, cri.SupplementalGroupsStrict
			}),
		},
		"groups by an unknown policy": {
			pod: &corev1.PodSecurityContext{SupplementalGroupsPolicy: &odd}, err: "unsupported supplementalGroupsPolicy: Odd",
		},
		"seccomp by default": {
			options: security.Options{SeccompDefault: true},
			want:    plain(func(s *cri.Security) { s.Seccomp = &cri.Profile{Type: cri.ProfileRuntimeDefault} }),
		},
		"seccomp of the pod": {
			pod:  &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			want: plain(func(s *cri.Security) { s.Seccomp = &cri.Profile{Type: cri.ProfileRuntimeDefault} }),
		},
		"seccomp of the container": {
			pod:     &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			c:       &corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}},
			options: security.Options{SeccompDefault: true},
			want:    plain(nil),
		},
		"seccomp from a file": {
			c: &corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: local, LocalhostProfile: new("a/b.json")}},
			want: plain(func(s *cri.Security) {
				s.Seccomp = &cri.Profile{Type: cri.ProfileLocalhost, Localhost: "/var/lib/kubelet/seccomp/a/b.json"}
			}),
		},
		"seccomp from a file elsewhere": {
			c:       &corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: local, LocalhostProfile: new("b.json")}},
			options: security.Options{SeccompRoot: "/s"},
			want:    plain(func(s *cri.Security) { s.Seccomp = &cri.Profile{Type: cri.ProfileLocalhost, Localhost: "/s/b.json"} }),
		},
		"seccomp from no file": {
			c:   &corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: local}},
			err: "localhostProfile must be set if seccompProfile type is Localhost.",
		},
		"AppArmor of the pod": {
			pod:  &corev1.PodSecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}},
			want: plain(func(s *cri.Security) { s.AppArmor = &cri.Profile{Type: cri.ProfileUnconfined} }),
		},
		"AppArmor by name": {
			c: &corev1.SecurityContext{AppArmorProfile: &corev1.AppArmorProfile{
				Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: new("mine"),
			}},
			want: plain(func(s *cri.Security) { s.AppArmor = &cri.Profile{Type: cri.ProfileLocalhost, Localhost: "mine"} }),
		},
		"AppArmor without a name": {
			c:   &corev1.SecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost}},
			err: "missing localhost apparmor profile name",
		},
		"AppArmor of an unknown type": {
			c: &corev1.SecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: "X"}}, err: `unknown apparmor profile type: "X"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod(test.pod, test.c)
			before := pod.DeepCopy()
			got, err := newPolicy(t, test.options).Container(pod, &pod.Spec.Containers[0], test.image)
			if text(err) != test.err {
				t.Fatalf("got error %q, want %q", text(err), test.err)
			}
			if err == nil && !reflect.DeepEqual(got, test.want) {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
			if !reflect.DeepEqual(pod, before) {
				t.Error("the pod was changed")
			}
		})
	}
}

func TestAppArmorByAnnotation(t *testing.T) {
	for value, want := range map[string]*cri.Profile{
		"runtime/default": {Type: cri.ProfileRuntimeDefault},
		"unconfined":      {Type: cri.ProfileUnconfined},
		"localhost/mine":  {Type: cri.ProfileLocalhost, Localhost: "mine"},
		"nonsense":        nil,
	} {
		pod := newPod(nil, nil)
		pod.Annotations = map[string]string{"container.apparmor.security.beta.kubernetes.io/c": value}
		got, err := newPolicy(t, security.Options{}).Container(pod, &pod.Spec.Containers[0], cri.Image{})
		if err != nil || !reflect.DeepEqual(got.AppArmor, want) {
			t.Errorf("%s: got %+v, %v; want %+v", value, got.AppArmor, err, want)
		}
	}
}

func TestNonRoot(t *testing.T) {
	nonRoot := &corev1.SecurityContext{RunAsNonRoot: new(true)}
	as := func(user int64) *corev1.SecurityContext {
		return &corev1.SecurityContext{RunAsNonRoot: new(true), RunAsUser: &user}
	}
	for name, test := range map[string]struct {
		pod   *corev1.PodSecurityContext
		c     *corev1.SecurityContext
		image cri.Image
		want  string
	}{
		"root given":           {c: as(0), image: cri.Image{}, want: "container's runAsUser breaks non-root policy (pod: \"web_ns(u1)\", container: c)"},
		"allowed":              {c: &corev1.SecurityContext{RunAsNonRoot: new(false), RunAsUser: new(int64(0))}},
		"overridden":           {pod: &corev1.PodSecurityContext{RunAsNonRoot: new(true)}, c: &corev1.SecurityContext{RunAsNonRoot: new(false)}},
		"of the pod":           {pod: &corev1.PodSecurityContext{RunAsNonRoot: new(true)}, want: `container has runAsNonRoot and image will run as root (pod: "web_ns(u1)", container: c)`},
		"user given":           {c: as(5), image: cri.Image{Username: "root"}},
		"image without a user": {c: nonRoot, want: `container has runAsNonRoot and image will run as root (pod: "web_ns(u1)", container: c)`},
		"image of root":        {c: nonRoot, image: cri.Image{UID: new(int64(0))}, want: `container has runAsNonRoot and image will run as root (pod: "web_ns(u1)", container: c)`},
		"image with a number":  {c: nonRoot, image: cri.Image{UID: new(int64(101))}},
		"image with a name": {c: nonRoot, image: cri.Image{Username: "nginx"},
			want: `container has runAsNonRoot and image has non-numeric user (nginx), cannot verify user is non-root (pod: "web_ns(u1)", container: c)`},
		"image with an odd number": {c: nonRoot, image: cri.Image{UID: new(int64(-1))},
			want: `container has runAsNonRoot and image has an invalid user id (-1). (Must be 1-(2147483647)): must be between 0 and 2147483647, inclusive (pod: "web_ns(u1)", container: c)`},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod(test.pod, test.c)
			_, err := newPolicy(t, security.Options{}).Container(pod, &pod.Spec.Containers[0], test.image)
			if text(err) != test.want {
				t.Errorf("got  %q\nwant %q", text(err), test.want)
			}
		})
	}
}

func TestSandbox(t *testing.T) {
	strict := corev1.SupplementalGroupsPolicyStrict
	pod := newPod(&corev1.PodSecurityContext{
		RunAsUser: new(int64(1)), RunAsGroup: new(int64(2)), FSGroup: new(int64(3)), SupplementalGroups: []int64{5},
		SupplementalGroupsPolicy: &strict, SELinuxOptions: &corev1.SELinuxOptions{Level: "s0"},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined},
		Sysctls:        []corev1.Sysctl{{Name: "net/ipv4/tcp_syncookies", Value: "1"}, {Name: "kernel.sem", Value: "2"}},
	}, nil)
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
		EphemeralContainerCommon: corev1.EphemeralContainerCommon{SecurityContext: &corev1.SecurityContext{Privileged: new(true)}},
	}}
	p := newPolicy(t, security.Options{Groups: func(*corev1.Pod) []int64 { return []int64{4} }})
	got, err := p.Sandbox(pod)
	want := cri.SandboxSecurity{
		Privileged: true, RunAsUser: new(int64(1)), RunAsGroup: new(int64(2)), SupplementalGroups: []int64{3, 4, 5},
		SupplementalGroupsPolicy: cri.SupplementalGroupsStrict, SELinux: &cri.SELinux{Level: "s0"},
		Seccomp: &cri.Profile{Type: cri.ProfileRuntimeDefault},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
	if got, want := security.Sysctls(pod), map[string]string{"net.ipv4.tcp_syncookies": "1", "kernel.sem": "2"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got sysctls %v, want %v", got, want)
	}

	bare := newPod(nil, nil)
	got, err = p.Sandbox(bare)
	if want := (cri.SandboxSecurity{Seccomp: want.Seccomp}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
	if got := security.Sysctls(bare); got != nil {
		t.Errorf("got sysctls %v, want none", got)
	}
}

func TestStopSignal(t *testing.T) {
	signal := corev1.SIGUSR1
	for _, test := range []struct {
		c    corev1.Container
		want string
	}{
		{corev1.Container{}, ""},
		{corev1.Container{Lifecycle: &corev1.Lifecycle{}}, ""},
		{corev1.Container{Lifecycle: &corev1.Lifecycle{StopSignal: &signal}}, "SIGUSR1"},
	} {
		if got := security.StopSignal(&test.c); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

func TestNamespaces(t *testing.T) {
	node := &cri.UserNamespace{Mode: cri.NamespaceNode}
	own := []cri.IDMapping{{Host: 65536, Length: 65536}}
	for name, test := range map[string]struct {
		spec    corev1.PodSpec
		handler string
		options func(*security.Options)
		want    cri.Namespaces
		err     string
	}{
		"its own":        {want: cri.Namespaces{PID: cri.NamespaceContainer, User: node}},
		"shared":         {spec: corev1.PodSpec{ShareProcessNamespace: new(true)}, want: cri.Namespaces{PID: cri.NamespacePod, User: node}},
		"the host's PID": {spec: corev1.PodSpec{ShareProcessNamespace: new(true), HostPID: true}, want: cri.Namespaces{PID: cri.NamespaceNode, User: node}},
		"the host's": {spec: corev1.PodSpec{HostNetwork: true, HostIPC: true, HostUsers: new(true)},
			want: cri.Namespaces{PID: cri.NamespaceContainer, IPC: cri.NamespaceNode, Network: cri.NamespaceNode, User: node}},
		"own users": {spec: corev1.PodSpec{HostUsers: new(false)},
			want: cri.Namespaces{PID: cri.NamespaceContainer, User: &cri.UserNamespace{Mode: cri.NamespacePod, UIDs: own, GIDs: own}}},
		"none left": {spec: corev1.PodSpec{HostUsers: new(false)}, options: func(o *security.Options) { o.Users = nil },
			err: "create user namespace: the node has no users for pods"},
		"runtime cannot": {spec: corev1.PodSpec{HostUsers: new(false)},
			options: func(o *security.Options) { o.UserNamespaces = func(string) (bool, error) { return false, nil } },
			err:     "can't set `spec.hostUsers: false`, runtime does not support user namespaces"},
		"runtime class cannot": {spec: corev1.PodSpec{HostUsers: new(false)}, handler: "kata",
			options: func(o *security.Options) { o.UserNamespaces = func(string) (bool, error) { return false, nil } },
			err:     "can't set `spec.hostUsers: false`, RuntimeClass handler \"kata\" does not support user namespaces"},
		"runtime support unknown": {spec: corev1.PodSpec{HostUsers: new(false)},
			options: func(o *security.Options) {
				o.UserNamespaces = func(string) (bool, error) { return true, cri.ErrUnavailable }
			},
			err: "can't set `spec.hostUsers: false`, runtime does not support user namespaces: container runtime unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			users, err := security.NewAllocator(security.Users{})
			if err != nil {
				t.Fatal(err)
			}
			o := security.Options{Users: users}
			if test.options != nil {
				test.options(&o)
			}
			got, err := newPolicy(t, o).Namespaces(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u1"}, Spec: test.spec}, test.handler)
			if text(err) != test.err {
				t.Fatalf("got error %q, want %q", text(err), test.err)
			}
			if err == nil && !reflect.DeepEqual(got, test.want) {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
}

func TestTargeting(t *testing.T) {
	own := cri.Namespaces{PID: cri.NamespaceContainer}
	if got := security.Targeting(own, "id"); got.PID != cri.NamespaceTarget || got.Target != "id" {
		t.Errorf("got %+v", got)
	}
	for _, n := range []cri.Namespaces{{PID: cri.NamespacePod}, {PID: cri.NamespaceNode}} {
		if got := security.Targeting(n, "id"); got != n {
			t.Errorf("got %+v, want %+v", got, n)
		}
	}
	if got := security.Targeting(own, ""); got != own {
		t.Errorf("got %+v, want %+v", got, own)
	}
}

func TestResultsAreNotShared(t *testing.T) {
	p, pod := newPolicy(t, security.Options{}), newPod(nil, nil)
	for range 2 {
		got, err := p.Container(pod, &pod.Spec.Containers[0], cri.Image{})
		if err != nil || !slices.Equal(got.MaskedPaths, masked()) || !slices.Equal(got.ReadonlyPaths, readonly()) {
			t.Fatalf("got %+v, %v", got, err)
		}
		got.MaskedPaths[0], got.ReadonlyPaths[0] = "spoiled", "spoiled"
	}
}
