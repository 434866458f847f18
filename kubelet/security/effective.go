package security

import (
	"fmt"
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/keelson-dev/keelson/cri"
)

// effective is a container's security context, with unset fields taken from its pod's. Profiles are not merged here:
// they have rules of their own.
func effective(pod *corev1.Pod, c *corev1.Container) corev1.SecurityContext {
	var out corev1.SecurityContext
	if c.SecurityContext != nil {
		out = *c.SecurityContext
	}
	if sc := pod.Spec.SecurityContext; sc != nil {
		out.SELinuxOptions = first(out.SELinuxOptions, sc.SELinuxOptions)
		out.RunAsUser = first(out.RunAsUser, sc.RunAsUser)
		out.RunAsGroup = first(out.RunAsGroup, sc.RunAsGroup)
		out.RunAsNonRoot = first(out.RunAsNonRoot, sc.RunAsNonRoot)
	}
	return out
}

func first[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

// imageUser is the user in an image's configuration: an ID, or a name whose ID only the image knows.
type imageUser struct {
	uid  *int64
	name string
}

// userOf returns an image's user; root if it names none.
func userOf(image cri.Image) imageUser {
	switch {
	case image.UID != nil:
		return imageUser{uid: image.UID}
	case image.Username != "":
		return imageUser{name: image.Username}
	default:
		return imageUser{uid: new(int64)}
	}
}

// verifyNonRoot makes sure that a container that must not run as root does not.
func verifyNonRoot(pod *corev1.Pod, c *corev1.Container, sc corev1.SecurityContext, user imageUser) error {
	if !isTrue(sc.RunAsNonRoot) {
		return nil
	}
	where := fmt.Sprintf("(pod: %q, container: %s)", pod.Name+"_"+pod.Namespace+"("+string(pod.UID)+")", c.Name)
	switch {
	case sc.RunAsUser != nil && *sc.RunAsUser == 0:
		return fmt.Errorf("container's runAsUser breaks non-root policy %s", where)
	case sc.RunAsUser != nil:
		return nil
	case user.uid == nil:
		return fmt.Errorf("container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root %s", user.name, where)
	case *user.uid == 0:
		return fmt.Errorf("container has runAsNonRoot and image will run as root %s", where)
	}
	if problems := validation.IsValidUserID(*user.uid); len(problems) > 0 {
		return fmt.Errorf("container has runAsNonRoot and image has an invalid user id (%d). (Must be 1-(%d)): %s %s",
			*user.uid, math.MaxInt32, strings.Join(problems, "; "), where)
	}
	return nil
}

// appArmorOf returns the AppArmor profile of a container: its own, that of the annotation that preceded the field, or
// its pod's.
func appArmorOf(pod *corev1.Pod, c *corev1.Container) *corev1.AppArmorProfile {
	if c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
		return c.SecurityContext.AppArmorProfile
	}
	if value, ok := pod.Annotations[corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+c.Name]; ok {
		if profile := annotatedProfile(value); profile != nil {
			return profile
		}
	}
	if pod.Spec.SecurityContext != nil {
		return pod.Spec.SecurityContext.AppArmorProfile
	}
	return nil
}

func annotatedProfile(value string) *corev1.AppArmorProfile {
	switch value {
	case corev1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	case corev1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	}
	if name, ok := strings.CutPrefix(value, corev1.DeprecatedAppArmorBetaProfileNamePrefix); ok {
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &name}
	}
	return nil
}

func seLinux(o *corev1.SELinuxOptions) *cri.SELinux {
	if o == nil {
		return nil
	}
	return &cri.SELinux{User: o.User, Role: o.Role, Type: o.Type, Level: o.Level}
}

func groupsPolicy(sc *corev1.PodSecurityContext) (cri.SupplementalGroupsPolicy, error) {
	if sc.SupplementalGroupsPolicy == nil {
		return cri.SupplementalGroupsMerge, nil
	}
	switch *sc.SupplementalGroupsPolicy {
	case corev1.SupplementalGroupsPolicyMerge:
		return cri.SupplementalGroupsMerge, nil
	case corev1.SupplementalGroupsPolicyStrict:
		return cri.SupplementalGroupsStrict, nil
	default:
		return 0, fmt.Errorf("unsupported supplementalGroupsPolicy: %s", *sc.SupplementalGroupsPolicy)
	}
}

func texts(list []corev1.Capability) []string {
	var out []string
	for _, c := range list {
		out = append(out, string(c))
	}
	return out
}

func isTrue(b *bool) bool { return b != nil && *b }

// anyContainer reports whether is holds for any of a pod's containers, of whatever kind.
func anyContainer(pod *corev1.Pod, is func(*corev1.Container) bool) bool {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if is(&list[i]) {
				return true
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		c := corev1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		if is(&c) {
			return true
		}
	}
	return false
}

// maskedPaths returns the kernel's files that are hidden from containers on every machine.
func maskedPaths() []string {
	return []string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
		"/sys/devices/virtual/powercap",
	}
}

// readonlyPaths returns the kernel's files that containers can read but not write.
func readonlyPaths() []string {
	return []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
}
