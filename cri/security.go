package cri

// SandboxSecurity is what a sandbox's own process may do.
type SandboxSecurity struct {
	Privileged, ReadOnlyRootfs bool
	// RunAsUser and RunAsGroup are nil for the runtime's choice.
	RunAsUser, RunAsGroup    *int64
	SupplementalGroups       []int64
	SupplementalGroupsPolicy SupplementalGroupsPolicy
	SELinux                  *SELinux
	// Seccomp and AppArmor are nil for the runtime's choice.
	Seccomp, AppArmor *Profile
}

// Security is what a container's processes may do.
type Security struct {
	Privileged, ReadOnlyRootfs, NoNewPrivs bool
	Capabilities                           Capabilities
	// RunAsUser and RunAsGroup are nil for the image's choice; RunAsUsername is looked up in the
	// image.
	RunAsUser, RunAsGroup    *int64
	RunAsUsername            string
	SupplementalGroups       []int64
	SupplementalGroupsPolicy SupplementalGroupsPolicy
	// MaskedPaths cannot be read, ReadonlyPaths not be written.
	MaskedPaths, ReadonlyPaths []string
	SELinux                    *SELinux
	// Seccomp and AppArmor are nil for the runtime's choice.
	Seccomp, AppArmor *Profile
}

// Capabilities are changes to the runtime's default set; names come without "CAP_", and "ALL" is
// all of them.
type Capabilities struct{ Add, Drop, AddAmbient []string }

// SupplementalGroupsPolicy says whether groups of the image's /etc/group are added (KEP-3619).
type SupplementalGroupsPolicy int

// The policies.
const (
	SupplementalGroupsMerge SupplementalGroupsPolicy = iota
	SupplementalGroupsStrict
)

// SELinux is an SELinux label.
type SELinux struct{ User, Role, Type, Level string }

// ProfileType is where a profile comes from.
type ProfileType int

// The profile types of CRI.
const (
	ProfileRuntimeDefault ProfileType = iota
	ProfileUnconfined
	ProfileLocalhost
)

// Profile is a seccomp or AppArmor profile. Localhost is its path or name where the type is
// ProfileLocalhost.
type Profile struct {
	Type      ProfileType
	Localhost string
}
