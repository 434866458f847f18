package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/node/util/sysctl"
)

func (v *validator) podSecurityContext(p *field.Path) {
	sc := v.spec.SecurityContext
	if sc == nil {
		return
	}
	v.groupID(p.Child("fsGroup"), sc.FSGroup)
	v.userID(p.Child("runAsUser"), sc.RunAsUser)
	v.groupID(p.Child("runAsGroup"), sc.RunAsGroup)
	for i := range sc.SupplementalGroups {
		v.groupID(p.Child("supplementalGroups").Index(i), &sc.SupplementalGroups[i])
	}
	v.sysctls(sc.Sysctls, p.Child("sysctls"))
	if sc.FSGroupChangePolicy != nil {
		oneOf(&v.report, p.Child("fsGroupChangePolicy"), *sc.FSGroupChangePolicy,
			corev1.FSGroupChangeAlways, corev1.FSGroupChangeOnRootMismatch)
	}
	v.seccomp(sc.SeccompProfile, p.Child("seccompProfile"))
	v.windowsOptions(sc.WindowsOptions, p.Child("windowsOptions"))
	v.appArmor(sc.AppArmorProfile, p.Child("appArmorProfile"))
	if sc.SupplementalGroupsPolicy != nil {
		oneOf(&v.report, p.Child("supplementalGroupsPolicy"), *sc.SupplementalGroupsPolicy,
			corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict)
	}
	if sc.SELinuxChangePolicy != nil {
		oneOf(&v.report, p.Child("seLinuxChangePolicy"), *sc.SELinuxChangePolicy,
			corev1.SELinuxChangePolicyMountOption, corev1.SELinuxChangePolicyRecursive)
	}
}

// securityContext validates that of a container. Privileged containers are allowed, as with the API server's
// --allow-privileged; policies of the namespace may be stricter.
func (v *validator) securityContext(sc *corev1.SecurityContext, p *field.Path) {
	if sc == nil {
		return
	}
	v.userID(p.Child("runAsUser"), sc.RunAsUser)
	v.groupID(p.Child("runAsGroup"), sc.RunAsGroup)
	if m := sc.ProcMount; m != nil {
		oneOf(&v.report, p.Child("procMount"), *m, corev1.DefaultProcMount, corev1.UnmaskedProcMount)
		if *m == corev1.UnmaskedProcMount && v.onHostUsers() {
			v.invalid(p.Child("procMount"), m, "`hostUsers` must be false to use `Unmasked`")
		}
	}
	v.seccomp(sc.SeccompProfile, p.Child("seccompProfile"))
	if escalate := sc.AllowPrivilegeEscalation; escalate != nil && !*escalate {
		v.unescalated(sc, p)
	}
	v.windowsOptions(sc.WindowsOptions, p.Child("windowsOptions"))
	v.appArmor(sc.AppArmorProfile, p.Child("appArmorProfile"))
}

// unescalated forbids what would grant privileges to a container that must not gain any.
func (v *validator) unescalated(sc *corev1.SecurityContext, p *field.Path) {
	if sc.Privileged != nil && *sc.Privileged {
		v.invalid(p, asInternal(sc), "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
	}
	if v.allow.unescalatedSysAdmin || sc.Capabilities == nil {
		return
	}
	for _, capability := range sc.Capabilities.Add {
		if capability == "CAP_SYS_ADMIN" {
			v.invalid(p, asInternal(sc), "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN")
		}
	}
}

func (v *validator) onHostUsers() bool { return v.spec.HostUsers == nil || *v.spec.HostUsers }

// userNamespace forbids what does not work in the pod's own user namespace (KEP-127).
func (v *validator) userNamespace(p *field.Path) {
	const detail = "when `hostUsers` is false"
	if v.onHostUsers() {
		return
	}
	if v.spec.HostNetwork && !v.allow.hostNetworkUserNamespace {
		v.forbidden(p.Child("hostNetwork"), detail)
	}
	if v.spec.HostPID {
		v.forbidden(p.Child("HostPID"), detail)
	}
	if v.spec.HostIPC {
		v.forbidden(p.Child("HostIPC"), detail)
	}
	if v.allow.userNamespaceDevices {
		return
	}
	for at, c := range containerPaths(v.spec, p) {
		if len(c.VolumeDevices) > 0 {
			v.forbidden(at.Child("volumeDevices"), detail)
		}
	}
}

func (v *validator) sysctls(list []corev1.Sysctl, p *field.Path) {
	const segment = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
	const format = "^(" + segment + "[\\./])*" + segment + "$"
	const longest = 253
	seen := map[string]bool{}
	for i, s := range list {
		at := p.Index(i).Child("name")
		if v.need(at, s.Name) {
			if len(s.Name) > longest || !matches(format, s.Name) {
				v.invalid(at, s.Name, fmt.Sprintf("must have at most %d characters and match regex %s", longest, format))
			} else if seen[s.Name] {
				v.duplicate(at, s.Name)
			}
		}
		if !v.allow.hostSysctls {
			if msg := hostSysctlError(s.Name, v.spec); msg != "" {
				v.invalid(at, s.Name, msg)
			}
		}
		seen[s.Name] = true
	}
}

// hostSysctlError returns why a sysctl cannot be set in a pod that shares the host's namespace of that sysctl; empty if
// it can.
func hostSysctlError(name string, spec *corev1.PodSpec) string {
	namespace, _, _ := sysctl.GetNamespace(name)
	switch {
	case spec.HostNetwork && namespace == sysctl.NetNamespace:
		return "may not be specified when 'hostNetwork' is true"
	case spec.HostIPC && namespace == sysctl.IPCNamespace:
		return "may not be specified when 'hostIPC' is true"
	}
	return ""
}

func (v *validator) seccomp(s *corev1.SeccompProfile, p *field.Path) {
	if s == nil {
		return
	}
	if s.Type == "" {
		v.required(p.Child("type"), "type is required when seccompProfile is set")
	} else {
		oneOf(&v.report, p.Child("type"), s.Type,
			corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined)
	}
	at, local := p.Child("localhostProfile"), s.Type == corev1.SeccompProfileTypeLocalhost
	switch {
	case local && s.LocalhostProfile == nil:
		v.required(at, "must be set when seccomp type is Localhost")
	case local:
		v.descendingPath(at, *s.LocalhostProfile)
	case s.LocalhostProfile != nil:
		v.invalid(at, asInternal(s), "can only be set when seccomp type is Localhost")
	}
}

func (r *report) appArmor(a *corev1.AppArmorProfile, p *field.Path) {
	if a == nil {
		return
	}
	at := p.Child("localhostProfile")
	switch a.Type {
	case corev1.AppArmorProfileTypeLocalhost:
		r.localAppArmor(a.LocalhostProfile, at)
	case corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined:
		if a.LocalhostProfile != nil {
			r.invalid(at, a.LocalhostProfile, "can only be set when AppArmor type is Localhost")
		}
	case "":
		r.required(p.Child("type"), "type is required when appArmorProfile is set")
	default:
		oneOf(r, p.Child("type"), a.Type,
			corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined)
	}
}

func (r *report) localAppArmor(profile *string, p *field.Path) {
	const detail = "must be set when AppArmor type is Localhost"
	const longest = 4095
	if profile == nil {
		r.required(p, detail)
		return
	}
	if strings.TrimSpace(*profile) != *profile {
		r.invalid(p, *profile, "must not be padded with whitespace")
	} else if *profile == "" {
		r.required(p, detail)
	}
	if len(*profile) > longest {
		r.add(field.TooLong(p, "", longest))
	}
}
