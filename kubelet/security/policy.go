package security

import (
	"cmp"
	"errors"
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/node/util/sysctl"

	"github.com/keelson-dev/keelson/cri"
)

const defaultSeccompRoot = "/var/lib/kubelet/seccomp"

// Options configures a Policy. The zero value is upstream's defaults on a node with working AppArmor and without user
// namespaces.
type Options struct {
	// SeccompRoot is the node's directory of Localhost profiles; empty is /var/lib/kubelet/seccomp.
	SeccompRoot string
	// SeccompDefault confines containers without a profile by the runtime's default profile instead of not at all.
	SeccompDefault bool
	// AllowedUnsafeSysctls are names, or patterns that end in *, of sysctls that pods may set in addition to the safe
	// ones.
	AllowedUnsafeSysctls []string
	// Host is what the machine supports; see Inspect.
	Host Host
	// Users allocates user IDs for user namespaces; if nil, pods with hostUsers: false are rejected.
	Users *Allocator
	// UserNamespaces reports whether a runtime class's handler, "" for the default one, supports user namespaces; nil
	// means that all do.
	UserNamespaces func(handler string) (bool, error)
	// Groups returns the supplemental groups that a pod's volumes require; nil means none.
	Groups func(pod *corev1.Pod) []int64
}

// Policy translates security contexts into a runtime's settings. Make one with New.
type Policy struct {
	options Options
	sysctls allowlist
}

// New makes a Policy. It fails if AllowedUnsafeSysctls has an entry that is not a pattern of namespaced sysctls.
func New(o Options) (*Policy, error) {
	o.SeccompRoot = cmp.Or(o.SeccompRoot, defaultSeccompRoot)
	list, err := newAllowlist(append(safeSysctls(o.Host.Kernel), o.AllowedUnsafeSysctls...))
	if err != nil {
		return nil, err
	}
	return &Policy{options: o, sysctls: list}, nil
}

// Sandbox returns the privileges of a pod's sandbox.
func (p *Policy) Sandbox(pod *corev1.Pod) (cri.SandboxSecurity, error) {
	out := cri.SandboxSecurity{
		Privileged: anyContainer(pod, func(c *corev1.Container) bool {
			return c.SecurityContext != nil && isTrue(c.SecurityContext.Privileged)
		}),
		// The process that holds the namespaces needs no more, whatever its containers need.
		Seccomp: &cri.Profile{Type: cri.ProfileRuntimeDefault},
	}
	sc := pod.Spec.SecurityContext
	if sc == nil {
		return out, nil
	}
	out.RunAsUser, out.RunAsGroup = sc.RunAsUser, sc.RunAsGroup
	out.SELinux = seLinux(sc.SELinuxOptions)
	if sc.FSGroup != nil {
		out.SupplementalGroups = append(out.SupplementalGroups, *sc.FSGroup)
	}
	out.SupplementalGroups = append(out.SupplementalGroups, p.volumeGroups(pod)...)
	out.SupplementalGroups = append(out.SupplementalGroups, sc.SupplementalGroups...)
	var err error
	out.SupplementalGroupsPolicy, err = groupsPolicy(sc)
	return out, err
}

// Sysctls returns the kernel parameters that the pod sets in its sandbox, by their names with dots.
func Sysctls(pod *corev1.Pod) map[string]string {
	if pod.Spec.SecurityContext == nil || len(pod.Spec.SecurityContext.Sysctls) == 0 {
		return nil
	}
	out := map[string]string{}
	for _, s := range pod.Spec.SecurityContext.Sysctls {
		out[sysctl.NormalizeName(s.Name)] = s.Value
	}
	return out
}

// StopSignal returns the signal that asks a container to exit, such as "SIGQUIT"; if empty, the image decides.
func StopSignal(c *corev1.Container) string {
	if c.Lifecycle == nil || c.Lifecycle.StopSignal == nil {
		return ""
	}
	return string(*c.Lifecycle.StopSignal)
}

// Container returns the privileges of a container that runs an image, or an error that says why it must not run.
func (p *Policy) Container(pod *corev1.Pod, c *corev1.Container, image cri.Image) (cri.Security, error) {
	sc := effective(pod, c)
	user := userOf(image)
	if err := verifyNonRoot(pod, c, sc, user); err != nil {
		return cri.Security{}, err
	}
	out := cri.Security{
		Privileged:     isTrue(sc.Privileged),
		ReadOnlyRootfs: isTrue(sc.ReadOnlyRootFilesystem),
		NoNewPrivs:     sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation,
		RunAsUser:      sc.RunAsUser,
		RunAsGroup:     sc.RunAsGroup,
		SELinux:        seLinux(sc.SELinuxOptions),
	}
	if out.RunAsUser == nil {
		out.RunAsUser, out.RunAsUsername = user.uid, user.name
	}
	if sc.Capabilities != nil {
		out.Capabilities = cri.Capabilities{Add: texts(sc.Capabilities.Add), Drop: texts(sc.Capabilities.Drop)}
	}
	if sc.ProcMount == nil || *sc.ProcMount != corev1.UnmaskedProcMount {
		out.MaskedPaths = append(maskedPaths(), p.options.Host.MaskedPaths...)
		out.ReadonlyPaths = readonlyPaths()
	}
	if err := p.profiles(pod, c, &out); err != nil {
		return cri.Security{}, err
	}
	if podSC := pod.Spec.SecurityContext; podSC != nil {
		if podSC.FSGroup != nil {
			out.SupplementalGroups = append(out.SupplementalGroups, *podSC.FSGroup)
		}
		out.SupplementalGroups = append(out.SupplementalGroups, podSC.SupplementalGroups...)
		var err error
		if out.SupplementalGroupsPolicy, err = groupsPolicy(podSC); err != nil {
			return cri.Security{}, err
		}
	}
	out.SupplementalGroups = append(out.SupplementalGroups, p.volumeGroups(pod)...)
	return out, nil
}

func (p *Policy) volumeGroups(pod *corev1.Pod) []int64 {
	if p.options.Groups == nil {
		return nil
	}
	return p.options.Groups(pod)
}

// profiles fills in a container's seccomp and AppArmor profiles.
func (p *Policy) profiles(pod *corev1.Pod, c *corev1.Container, out *cri.Security) (err error) {
	if out.Seccomp, err = p.seccomp(pod, c); err != nil {
		return err
	}
	out.AppArmor, err = appArmor(pod, c)
	return err
}

func (p *Policy) seccomp(pod *corev1.Pod, c *corev1.Container) (*cri.Profile, error) {
	var profile *corev1.SeccompProfile
	if sc := pod.Spec.SecurityContext; sc != nil {
		profile = sc.SeccompProfile
	}
	if sc := c.SecurityContext; sc != nil && sc.SeccompProfile != nil {
		profile = sc.SeccompProfile
	}
	switch {
	case profile == nil && p.options.SeccompDefault, profile != nil && profile.Type == corev1.SeccompProfileTypeRuntimeDefault:
		return &cri.Profile{Type: cri.ProfileRuntimeDefault}, nil
	case profile == nil || profile.Type != corev1.SeccompProfileTypeLocalhost:
		return &cri.Profile{Type: cri.ProfileUnconfined}, nil
	case profile.LocalhostProfile == nil || *profile.LocalhostProfile == "":
		return nil, errors.New("localhostProfile must be set if seccompProfile type is Localhost.") //nolint:revive,staticcheck // upstream's words
	}
	return &cri.Profile{Type: cri.ProfileLocalhost, Localhost: path.Join(p.options.SeccompRoot, *profile.LocalhostProfile)}, nil
}

func appArmor(pod *corev1.Pod, c *corev1.Container) (*cri.Profile, error) {
	profile := appArmorOf(pod, c)
	if profile == nil {
		return nil, nil //nolint:nilnil // nil leaves the choice to the runtime
	}
	switch profile.Type {
	case corev1.AppArmorProfileTypeRuntimeDefault:
		return &cri.Profile{Type: cri.ProfileRuntimeDefault}, nil
	case corev1.AppArmorProfileTypeUnconfined:
		return &cri.Profile{Type: cri.ProfileUnconfined}, nil
	case corev1.AppArmorProfileTypeLocalhost:
		if profile.LocalhostProfile == nil {
			return nil, errors.New("missing localhost apparmor profile name")
		}
		return &cri.Profile{Type: cri.ProfileLocalhost, Localhost: *profile.LocalhostProfile}, nil
	default:
		return nil, fmt.Errorf("unknown apparmor profile type: %q", profile.Type)
	}
}
