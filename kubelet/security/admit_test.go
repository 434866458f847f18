package security_test

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/kubelet/security"
)

func TestAdmit(t *testing.T) {
	sysctls := func(names ...string) *corev1.PodSecurityContext {
		sc := &corev1.PodSecurityContext{}
		for _, n := range names {
			sc.Sysctls = append(sc.Sysctls, corev1.Sysctl{Name: n, Value: "1"})
		}
		return sc
	}
	noAppArmor := security.Options{Host: security.Host{AppArmor: security.ErrNoAppArmor}}
	profile := func(p corev1.AppArmorProfileType) *corev1.SecurityContext {
		return &corev1.SecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: p}}
	}
	local := profile(corev1.AppArmorProfileTypeLocalhost)
	local.AppArmorProfile.LocalhostProfile = new(" ")
	modern := security.Options{Host: security.Host{Kernel: "6.1.0-18-amd64"}}
	custom := security.Options{AllowedUnsafeSysctls: []string{"kernel.msg*", "net.core.somaxconn"}}
	for name, test := range map[string]struct {
		pod     *corev1.PodSecurityContext
		c       *corev1.SecurityContext
		change  func(*corev1.Pod)
		options security.Options
		want    string
	}{
		"nothing requested":        {},
		"safe":                     {pod: sysctls("net.ipv4.tcp_syncookies", "kernel/shm_rmid_forced")},
		"safe in this kernel":      {pod: sysctls("net.ipv4.tcp_rmem"), options: modern},
		"not safe in any kernel":   {pod: sysctls("net.ipv4.tcp_rmem"), want: `SysctlForbidden: forbidden sysctl: "net.ipv4.tcp_rmem" not allowlisted`},
		"unsafe":                   {pod: sysctls("kernel.msgmax"), want: `SysctlForbidden: forbidden sysctl: "kernel.msgmax" not allowlisted`},
		"unsafe, allowed":          {pod: sysctls("kernel.msgmax", "net.core.somaxconn"), options: custom},
		"unsafe, others allowed":   {pod: sysctls("net.core.somaxconn2"), options: custom, want: `SysctlForbidden: forbidden sysctl: "net.core.somaxconn2" not allowlisted`},
		"host network":             {pod: sysctls("net.ipv4.tcp_syncookies"), change: hostNetwork, want: `SysctlForbidden: forbidden sysctl: "net.ipv4.tcp_syncookies" not allowed with host Net enabled`},
		"host network, other":      {pod: sysctls("kernel.shm_rmid_forced"), change: hostNetwork},
		"host IPC":                 {pod: sysctls("kernel.shm_rmid_forced"), change: hostIPC, want: `SysctlForbidden: forbidden sysctl: "kernel.shm_rmid_forced" not allowed with host IPC enabled`},
		"host IPC, pattern":        {pod: sysctls("kernel.msgmax"), change: hostIPC, options: custom, want: `SysctlForbidden: forbidden sysctl: "kernel.msgmax" not allowed with host IPC enabled`},
		"AppArmor":                 {c: profile(corev1.AppArmorProfileTypeRuntimeDefault)},
		"no AppArmor":              {c: profile(corev1.AppArmorProfileTypeRuntimeDefault), options: noAppArmor, want: "AppArmor: Cannot enforce AppArmor: AppArmor is not enabled on the host"},
		"no AppArmor, for the pod": {pod: &corev1.PodSecurityContext{AppArmorProfile: local.AppArmorProfile}, options: noAppArmor, want: "AppArmor: Cannot enforce AppArmor: AppArmor is not enabled on the host"},
		"no AppArmor, annotated": {options: noAppArmor, change: func(p *corev1.Pod) {
			p.Annotations = map[string]string{"container.apparmor.security.beta.kubernetes.io/c": "runtime/default"}
		}, want: "AppArmor: Cannot enforce AppArmor: AppArmor is not enabled on the host"},
		"no AppArmor, not needed": {c: profile(corev1.AppArmorProfileTypeUnconfined), options: noAppArmor},
		"no AppArmor, runs already": {c: profile(corev1.AppArmorProfileTypeRuntimeDefault), options: noAppArmor,
			change: func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }},
		"no AppArmor, unconfined pod": {pod: &corev1.PodSecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}}, options: noAppArmor},
		"no AppArmor, annotated otherwise": {options: noAppArmor, change: func(p *corev1.Pod) {
			p.Annotations = map[string]string{"container.apparmor.security.beta.kubernetes.io/c": "unconfined", "example.com/profile": "runtime/default"}
		}},
		"no AppArmor, pending": {c: profile(corev1.AppArmorProfileTypeRuntimeDefault), options: noAppArmor,
			change: func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, want: "AppArmor: Cannot enforce AppArmor: AppArmor is not enabled on the host"},
		"AppArmor without a name": {c: profile(corev1.AppArmorProfileTypeLocalhost), want: "AppArmor: Cannot enforce AppArmor: invalid empty AppArmor profile name: "},
		"AppArmor with an empty name, of the first": {c: local, want: "AppArmor: Cannot enforce AppArmor: invalid empty AppArmor profile name: ", change: func(p *corev1.Pod) {
			named := profile(corev1.AppArmorProfileTypeLocalhost)
			named.AppArmorProfile.LocalhostProfile = new("name")
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "named", SecurityContext: named}, corev1.Container{Name: "none"})
		}},
		"AppArmor of one, none of another": {c: profile(corev1.AppArmorProfileTypeRuntimeDefault), change: func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "none"}, corev1.Container{Name: "nothing", SecurityContext: &corev1.SecurityContext{}})
		}},
		"AppArmor with an empty name, of the second": {c: profile(corev1.AppArmorProfileTypeRuntimeDefault), want: "AppArmor: Cannot enforce AppArmor: invalid empty AppArmor profile name: ", change: func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "none"}, corev1.Container{Name: "second", SecurityContext: local})
		}},
		"new privileges do not matter": {c: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false)}},
		"no new privileges, unset": {c: &corev1.SecurityContext{}, options: security.Options{Host: security.Host{NoNewPrivs: errors.New("the kernel is too old")}}, change: func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "none"})
		}},
		"AppArmor with an empty name": {c: local, want: "AppArmor: Cannot enforce AppArmor: invalid empty AppArmor profile name: "},
		"no new privileges": {c: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false)},
			options: security.Options{Host: security.Host{NoNewPrivs: errors.New("the kernel is too old")}},
			want:    "NoNewPrivs: Cannot enforce NoNewPrivs: the kernel is too old"},
		"no new privileges, not requested": {c: &corev1.SecurityContext{AllowPrivilegeEscalation: new(true)},
			options: security.Options{Host: security.Host{NoNewPrivs: errors.New("the kernel is too old")}}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod(test.pod, test.c)
			if test.change != nil {
				test.change(pod)
			}
			got := ""
			if r := newPolicy(t, test.options).Admit(pod); r != nil {
				got = r.Reason + ": " + r.Message
			}
			if got != test.want && (!strings.HasSuffix(test.want, "name: ") || !strings.HasPrefix(got, test.want)) {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}

func hostNetwork(p *corev1.Pod) { p.Spec.HostNetwork = true }
func hostIPC(p *corev1.Pod)     { p.Spec.HostIPC = true }

func TestAllowedUnsafeSysctls(t *testing.T) {
	long := strings.Repeat("a", 254)
	regex := ` must have at most 253 characters and match regex ([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]`
	for pattern, want := range map[string]string{
		"kernel.sem":            "",
		"net.*":                 "",
		"net/ipv4/conf/a.b/all": "",
		"fs.mqueue.*":           "",
		"vm.swappiness":         `the sysctls "vm.swappiness" are not known to be namespaced`,
		"*":                     `the sysctls "" are not known to be namespaced`,
		"Kernel.sem":            `sysctl "Kernel.sem"` + regex,
		"kernel.*.x":            `sysctl "kernel.*.x"` + regex,
		"":                      `sysctl ""` + regex,
		long:                    `sysctl "` + long + `"` + regex,
	} {
		_, err := security.New(security.Options{AllowedUnsafeSysctls: []string{pattern}})
		if text(err) != want {
			t.Errorf("%s:\ngot  %q\nwant %q", pattern, text(err), want)
		}
	}
}

func TestInspect(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	got := security.Inspect(fstest.MapFS{
		"proc/sys/kernel/osrelease":                                   file("6.1.0-18-amd64\n"),
		"sys/kernel/security/apparmor/profiles":                       file(""),
		"sys/module/apparmor/parameters/enabled":                      file("Y\n"),
		"sys/devices/system/cpu/cpu10/thermal_throttle/x":             file(""),
		"sys/devices/system/cpu/cpu2/thermal_throttle/x":              file(""),
		"sys/devices/system/cpu/cpu3/topology/x":                      file(""),
		"sys/devices/system/cpu/cpufreq/thermal_throttle_is_not_this": file(""),
	})
	want := "/sys/devices/system/cpu/cpu2/thermal_throttle /sys/devices/system/cpu/cpu10/thermal_throttle"
	if got.Kernel != "6.1.0-18-amd64" || got.AppArmor != nil || got.NoNewPrivs != nil || strings.Join(got.MaskedPaths, " ") != want {
		t.Errorf("got %+v", got)
	}
	for name, root := range map[string]fstest.MapFS{
		"empty":          {},
		"no file system": {"sys/module/apparmor/parameters/enabled": file("Y\n")},
		"disabled":       {"sys/kernel/security/apparmor/profiles": file(""), "sys/module/apparmor/parameters/enabled": file("N\n")},
	} {
		if got := security.Inspect(root); !errors.Is(got.AppArmor, security.ErrNoAppArmor) || got.Kernel != "" {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// FuzzSysctls: every request of a pod is either admitted or rejected.
func FuzzSysctls(f *testing.F) {
	for _, s := range []string{"net.ipv4.tcp_syncookies", "kernel/sem", "net/ipv4/conf/eth0.1/x", "..", "*", "kernel.*"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, allowed, asked string) {
		p, err := security.New(security.Options{AllowedUnsafeSysctls: []string{allowed}})
		if err != nil {
			return
		}
		pod := newPod(&corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: asked}}}, nil)
		r := p.Admit(pod)
		if asked == allowed && !strings.Contains(allowed, "*") && r != nil {
			t.Errorf("%q is allowed and refused: %s", asked, r.Message)
		}
	})
}

// A sysctl is safe from a certain kernel version on, and the first matching pattern decides.
func TestSafeSysctlsByKernel(t *testing.T) {
	admits := func(o security.Options, name string, change func(*corev1.Pod)) bool {
		pod := newPod(&corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: name, Value: "1"}}}, nil)
		if change != nil {
			change(pod)
		}
		return newPolicy(t, o).Admit(pod) == nil
	}
	for name, since := range map[string][2]string{
		"net.ipv4.ip_local_reserved_ports": {"3.15.9", "3.16"},
		"net.ipv4.tcp_keepalive_time":      {"4.4.200", "4.5.0"},
		"net.ipv4.tcp_fin_timeout":         {"4.5.1", "4.6-rc1"},
		"net.ipv4.tcp_wmem":                {"4.14", "4.15.0-generic"},
		"net.ipv4.tcp_syncookies":          {"", "2.6"},
	} {
		for i, kernel := range since {
			if got := admits(security.Options{Host: security.Host{Kernel: kernel}}, name, nil); got != (i == 1 || name == "net.ipv4.tcp_syncookies") {
				t.Errorf("%s in %q: %v", name, kernel, got)
			}
		}
	}
	patterns := security.Options{AllowedUnsafeSysctls: []string{"kernel.msg*", "net.*"}}
	for name, want := range map[string]bool{"kernel.msgmax": false, "net.core.somaxconn": true, "fs.mqueue.x": false} {
		if got := admits(patterns, name, hostIPC); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	for length, want := range map[int]bool{253: true, 254: false} {
		name := "net." + strings.Repeat("a", length-4)
		_, err := security.New(security.Options{AllowedUnsafeSysctls: []string{name}})
		if (err == nil) != want {
			t.Errorf("%d characters: %v", length, err)
		}
	}
}

// A pod without sysctls sets none, whatever else is in its spec.
func TestNoSysctls(t *testing.T) {
	for _, sc := range []*corev1.PodSecurityContext{nil, {}} {
		if got := security.Sysctls(newPod(sc, nil)); got != nil {
			t.Errorf("%v", got)
		}
	}
}
