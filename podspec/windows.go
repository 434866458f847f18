package podspec

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// operatingSystem validates spec.os and forbids what that system does not support (KEP-2802).
func (v *validator) operatingSystem(p *field.Path) {
	if v.spec.OS == nil {
		return
	}
	switch name := v.spec.OS.Name; name {
	case corev1.Linux:
		v.linuxOnly(p)
	case corev1.Windows:
		v.windowsOnly(p)
	case "":
		v.required(p.Child("os", "name"), "")
	default:
		oneOf(&v.report, p.Child("os"), name, corev1.Linux, corev1.Windows)
	}
}

func (v *validator) linuxOnly(p *field.Path) {
	const detail = "windows options cannot be set for a linux pod"
	if sc := v.spec.SecurityContext; sc != nil && sc.WindowsOptions != nil {
		v.forbidden(p.Child("securityContext", "windowsOptions"), detail)
	}
	for at, c := range containerPaths(v.spec, p) {
		if c.SecurityContext != nil && c.SecurityContext.WindowsOptions != nil {
			v.forbidden(at.Child("securityContext", "windowsOptions"), detail)
		}
	}
}

// setField is the name of a field and whether it is set.
type setField struct {
	name string
	set  bool
}

func (v *validator) windowsOnly(p *field.Path) {
	if sc := v.spec.SecurityContext; sc != nil {
		v.notOnWindows(p.Child("securityContext"), []setField{
			{"appArmorProfile", sc.AppArmorProfile != nil},
			{"seLinuxOptions", sc.SELinuxOptions != nil},
			{"seccompProfile", sc.SeccompProfile != nil},
			{"fsGroup", sc.FSGroup != nil},
			{"fsGroupChangePolicy", sc.FSGroupChangePolicy != nil},
			{"sysctls", len(sc.Sysctls) > 0},
			{"runAsUser", sc.RunAsUser != nil},
			{"runAsGroup", sc.RunAsGroup != nil},
			{"supplementalGroups", sc.SupplementalGroups != nil},
			{"supplementalGroupsPolicy", sc.SupplementalGroupsPolicy != nil},
			{"seLinuxChangePolicy", sc.SELinuxChangePolicy != nil},
		})
	}
	v.notOnWindows(p, []setField{
		{"hostUsers", v.spec.HostUsers != nil},
		{"hostPID", v.spec.HostPID},
		{"hostIPC", v.spec.HostIPC},
		{"shareProcessNamespace", v.spec.ShareProcessNamespace != nil},
	})
	for at, c := range containerPaths(v.spec, p) {
		sc := c.SecurityContext
		if sc == nil {
			continue
		}
		v.notOnWindows(at.Child("securityContext"), []setField{
			{"appArmorProfile", sc.AppArmorProfile != nil},
			{"seLinuxOptions", sc.SELinuxOptions != nil},
			{"seccompProfile", sc.SeccompProfile != nil},
			{"capabilities", sc.Capabilities != nil},
			{"readOnlyRootFilesystem", sc.ReadOnlyRootFilesystem != nil},
			{"privileged", sc.Privileged != nil},
			{"allowPrivilegeEscalation", sc.AllowPrivilegeEscalation != nil},
			{"procMount", sc.ProcMount != nil},
			{"runAsUser", sc.RunAsUser != nil},
			{"runAsGroup", sc.RunAsGroup != nil},
		})
	}
}

func (v *validator) notOnWindows(p *field.Path, fields []setField) {
	for _, f := range fields {
		if f.set {
			v.forbidden(p.Child(f.name), "cannot be set for a windows pod")
		}
	}
}

func (v *validator) windowsOptions(o *corev1.WindowsSecurityContextOptions, p *field.Path) {
	if o == nil {
		return
	}
	if o.GMSACredentialSpecName != nil {
		v.invalid(p.Child("gmsaCredentialSpecName"), o.GMSACredentialSpecName, validation.IsDNS1123Subdomain(*o.GMSACredentialSpecName)...)
	}
	if s := o.GMSACredentialSpec; s != nil {
		const longest = 64 // KiB
		if *s == "" {
			v.invalid(p.Child("gmsaCredentialSpec"), s, "gmsaCredentialSpec cannot be an empty string")
		} else if len(*s) > longest*1024 {
			v.invalid(p.Child("gmsaCredentialSpec"), s, fmt.Sprintf("gmsaCredentialSpec size must be under %d KiB", longest))
		}
	}
	if o.RunAsUserName != nil {
		for _, msg := range windowsUserErrors(*o.RunAsUserName) {
			v.invalid(p.Child("runAsUserName"), o.RunAsUserName, "runAsUserName"+msg)
		}
	}
}

// windowsUserErrors validates a name such as DOMAIN\user by the naming rules of Active Directory and NetBIOS.
func windowsUserErrors(name string) []string {
	const longestDomain, longestUser = 256, 104
	domain, user, hasDomain := strings.Cut(name, `\`)
	if !hasDomain {
		domain, user = "", name
	}
	switch {
	case name == "":
		return []string{" cannot be an empty string"}
	case matches(`[[:cntrl:]]+`, name):
		return []string{" cannot contain control characters"}
	case strings.Contains(user, `\`):
		return []string{" cannot contain more than one backslash"}
	}
	var errs []string
	if len(domain) >= longestDomain {
		errs = append(errs, fmt.Sprintf("'s Domain length must be under %d characters", longestDomain))
	}
	const netBIOS = `^[^\\/:\*\?"<>|\.][^\\/:\*\?"<>|]{0,14}$`
	const label = `[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?`
	if hasDomain && !matches(netBIOS, domain) && !matches(`^`+label+`(?:\.`+label+`)*$`, domain) {
		errs = append(errs, "'s Domain doesn't match the NetBios nor the DNS format")
	}
	if user == "" {
		errs = append(errs, "'s User cannot be empty")
	} else if len(user) > longestUser {
		errs = append(errs, fmt.Sprintf("'s User length must not be longer than %d characters", longestUser))
	}
	if matches(`^[\. ]+$`, user) {
		errs = append(errs, "'s User cannot contain only periods or spaces")
	}
	if matches(`["/\\:;|=,\+\*\?<>@\[\]]`, user) {
		errs = append(errs, `'s User cannot contain the following characters: "/\:;|=,+*?<>@[]`)
	}
	return errs
}

// matches is for the formats of rarely used fields: compiled expressions for them would be kept as long as the process
// runs.
func matches(format, s string) bool {
	ok, err := regexp.MatchString(format, s)
	return err == nil && ok
}

// hostProcess validates containers that run as processes of a Windows host (KEP-1981): all of a pod's containers or
// none.
func (v *validator) hostProcess(p *field.Path) {
	var ofPod *bool
	if sc := v.spec.SecurityContext; sc != nil && sc.WindowsOptions != nil {
		ofPod = sc.WindowsOptions.HostProcess
	}
	all, n := 0, 0
	for at, c := range containerPaths(v.spec, p) {
		all++
		own := ofPod
		if sc := c.SecurityContext; sc != nil && sc.WindowsOptions != nil && sc.WindowsOptions.HostProcess != nil {
			own = sc.WindowsOptions.HostProcess
			if ofPod != nil && *ofPod != *own {
				v.invalid(at.Child("securityContext", "windowsOptions", "hostProcess"), *own,
					fmt.Sprintf("pod hostProcess value must be identical if both are specified, was %v", *ofPod))
			}
		}
		if own != nil && *own {
			n++
		}
	}
	if n == 0 {
		return
	}
	if n != all {
		v.invalid(p, "", "If pod contains any hostProcess containers then all containers must be HostProcess containers")
	}
	if !v.spec.HostNetwork {
		v.invalid(p.Child("hostNetwork"), false, "hostNetwork must be true if pod contains any hostProcess containers")
	}
}
