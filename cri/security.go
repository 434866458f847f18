package cri

// SandboxSecurity is the security context of a sandbox.
type SandboxSecurity struct {
	// As in a pod's securityContext.
	Privileged, ReadOnlyRootfs bool
	// RunAsUser and RunAsGroup are nil for the runtime's choice.
	RunAsUser, RunAsGroup    *int64
	SupplementalGroups       []int64
	SupplementalGroupsPolicy SupplementalGroupsPolicy
	SELinux                  *SELinux
	// Seccomp and AppArmor are nil for the runtime's choice.
	Seccomp, AppArmor *Profile
}

// Security is the security context of a container.
type Security struct {
	// As in a container's securityContext.
	Privileged, ReadOnlyRootfs, NoNewPrivs bool
	Capabilities                           Capabilities
	// RunAsUser and RunAsGroup are nil for the image's choice; RunAsUsername is looked up in the
	// image.
	RunAsUser, RunAsGroup    *int64
	RunAsUsername            string
	SupplementalGroups       []int64
	SupplementalGroupsPolicy SupplementalGroupsPolicy
	// MaskedPaths cannot be read, ReadonlyPaths cannot be written.
	MaskedPaths, ReadonlyPaths []string
	SELinux                    *SELinux
	// Seccomp and AppArmor are nil for the runtime's choice.
	Seccomp, AppArmor *Profile
}

// Capabilities are changes to the runtime's default set.
type Capabilities struct {
	// Names without "CAP_"; "ALL" means all capabilities.
	Add, Drop, AddAmbient []string
}

// SupplementalGroupsPolicy says whether groups of the image's /etc/group are added (KEP-3619).
type SupplementalGroupsPolicy int

// The policies.
const (
	SupplementalGroupsMerge SupplementalGroupsPolicy = iota
	SupplementalGroupsStrict
)

// SELinux is an SELinux label.
type SELinux struct {
	User, Role, Type, Level string // the parts of the label
}

// ProfileType is where a profile comes from.
type ProfileType int

// The profile types of CRI.
const (
	ProfileRuntimeDefault ProfileType = iota
	ProfileUnconfined
	ProfileLocalhost
)

// Profile is a seccomp or AppArmor profile.
type Profile struct {
	Type      ProfileType
	Localhost string // path or name of a ProfileLocalhost
}
