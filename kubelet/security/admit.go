package security

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Refusal says why a node rejects a pod.
type Refusal struct{ Reason, Message string } // of the pod's status

// Admit decides whether the node can and will give a pod the settings that it requests; nil means yes.
func (p *Policy) Admit(pod *corev1.Pod) *Refusal {
	if r := p.admitSysctls(pod); r != nil {
		return r
	}
	if pod.Status.Phase != corev1.PodPending && pod.Status.Phase != "" {
		return nil // it was admitted before
	}
	if r := p.admitAppArmor(pod); r != nil {
		return r
	}
	return p.admitNoNewPrivs(pod)
}

func (p *Policy) admitSysctls(pod *corev1.Pod) *Refusal {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	for _, s := range pod.Spec.SecurityContext.Sysctls {
		if err := p.sysctls.check(s.Name, pod.Spec.HostNetwork, pod.Spec.HostIPC); err != nil {
			return &Refusal{"SysctlForbidden", fmt.Sprintf("forbidden sysctl: %v", err)}
		}
	}
	return nil
}

func (p *Policy) admitAppArmor(pod *corev1.Pod) *Refusal {
	refuse := func(err error) *Refusal { return &Refusal{"AppArmor", fmt.Sprintf("Cannot enforce AppArmor: %v", err)} }
	if !needsAppArmor(pod) {
		return nil
	}
	if p.options.Host.AppArmor != nil {
		return refuse(p.options.Host.AppArmor)
	}
	var empty *corev1.AppArmorProfile
	anyContainer(pod, func(c *corev1.Container) bool {
		profile := appArmorOf(pod, c)
		if profile == nil || profile.Type != corev1.AppArmorProfileTypeLocalhost {
			return false
		}
		if profile.LocalhostProfile == nil || strings.TrimSpace(*profile.LocalhostProfile) == "" {
			empty = profile
		}
		return empty != nil
	})
	if empty != nil {
		return refuse(fmt.Errorf("invalid empty AppArmor profile name: %q", empty))
	}
	return nil
}

// needsAppArmor reports whether the pod requests any profile other than Unconfined.
func needsAppArmor(pod *corev1.Pod) bool {
	confines := func(profile *corev1.AppArmorProfile) bool {
		return profile != nil && profile.Type != corev1.AppArmorProfileTypeUnconfined
	}
	if pod.Spec.SecurityContext != nil && confines(pod.Spec.SecurityContext.AppArmorProfile) {
		return true
	}
	for key, value := range pod.Annotations {
		if strings.HasPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix) &&
			value != corev1.DeprecatedAppArmorBetaProfileNameUnconfined {
			return true
		}
	}
	return anyContainer(pod, func(c *corev1.Container) bool {
		return c.SecurityContext != nil && confines(c.SecurityContext.AppArmorProfile)
	})
}

// admitNoNewPrivs matters only for kernels or runtimes that cannot prevent processes from gaining privileges; all
// current ones can.
func (p *Policy) admitNoNewPrivs(pod *corev1.Pod) *Refusal {
	if p.options.Host.NoNewPrivs == nil {
		return nil
	}
	asked := anyContainer(pod, func(c *corev1.Container) bool {
		return c.SecurityContext != nil && c.SecurityContext.AllowPrivilegeEscalation != nil && !*c.SecurityContext.AllowPrivilegeEscalation
	})
	if !asked {
		return nil
	}
	return &Refusal{"NoNewPrivs", fmt.Sprintf("Cannot enforce NoNewPrivs: %v", p.options.Host.NoNewPrivs)}
}
