package cri

import "time"

// The labels by which a kubelet marks its sandboxes and containers in a runtime. Filters use
// them, and so does everybody who looks at a node's containers.
const (
	LabelPodName       = "io.kubernetes.pod.name"
	LabelPodNamespace  = "io.kubernetes.pod.namespace"
	LabelPodUID        = "io.kubernetes.pod.uid"
	LabelContainerName = "io.kubernetes.container.name"
)

// Version names a runtime.
type Version struct {
	// Name is the runtime's name, such as "containerd"; container ids are told to the API as
	// NAME://ID.
	Name string
	// Version is the runtime's own version.
	Version string
}

// RuntimeStatus says what the runtime can do now.
type RuntimeStatus struct {
	Runtime Condition
	Network Condition
	// Handlers are the runtime classes that it knows; the one without a name is the default.
	Handlers []RuntimeHandler
	Features RuntimeFeatures
}

// RuntimeHandler is one runtime class's handler and what it can do beyond the ordinary.
type RuntimeHandler struct {
	Name                                    string
	RecursiveReadOnlyMounts, UserNamespaces bool
}

// RuntimeFeatures are what all handlers of a runtime can do beyond the ordinary.
type RuntimeFeatures struct {
	SupplementalGroupsPolicy, UserNamespacesHostNetwork, MountOptions bool
}

// Condition is one aspect of a runtime's health.
type Condition struct {
	Ready bool
	// Reason and Message explain a condition that is not ready.
	Reason  string
	Message string
}

// SandboxState is the state of a sandbox.
type SandboxState int

// The states of a sandbox. A sandbox that was stopped or lost its network is NotReady and stays so.
const (
	SandboxReady SandboxState = iota
	SandboxNotReady
)

// ContainerState is the state of a container; it only ever moves forward.
type ContainerState int

// The states of a container.
const (
	ContainerCreated ContainerState = iota
	ContainerRunning
	ContainerExited
	ContainerUnknown
)

// String is the word that a kubelet uses for the state.
func (s ContainerState) String() string {
	switch s {
	case ContainerCreated:
		return "created"
	case ContainerRunning:
		return "running"
	case ContainerExited:
		return "exited"
	default:
		return "unknown"
	}
}

// SandboxMetadata identifies a sandbox: no two sandboxes have the same.
type SandboxMetadata struct {
	Name, UID, Namespace string
	// Attempt counts the sandboxes made for the pod before this one.
	Attempt uint32
}

// ContainerMetadata identifies a container within its sandbox.
type ContainerMetadata struct {
	Name string
	// Attempt counts the containers of that name made for the pod before this one.
	Attempt uint32
}

// NamespaceMode says whose namespace a pod or container uses.
type NamespaceMode int

// The namespace modes of CRI.
const (
	NamespacePod NamespaceMode = iota
	NamespaceContainer
	NamespaceNode
	NamespaceTarget
)

// Namespaces are the Linux namespaces of a sandbox or container.
type Namespaces struct {
	Network, PID, IPC NamespaceMode
	// Target is the container whose namespaces are used in mode NamespaceTarget.
	Target string
	// User, if set, gives a user namespace of its own to the pod.
	User *UserNamespace
}

// UserNamespace maps the users of a pod to users of the node.
type UserNamespace struct {
	// Mode is NamespacePod, or NamespaceNode for none at all.
	Mode       NamespaceMode
	UIDs, GIDs []IDMapping
}

// IDMapping maps Length ids from Container on, as they are within, to those from Host on.
type IDMapping struct{ Host, Container, Length uint32 }

// DNS is what goes into resolv.conf; the zero value is the node's.
type DNS struct {
	Servers, Searches, Options []string
}

// PortMapping publishes a port of the sandbox on the node.
type PortMapping struct {
	// Protocol is "TCP", "UDP" or "SCTP".
	Protocol                string
	ContainerPort, HostPort int32
	HostIP                  string
}

// SandboxConfig is all that a runtime needs to make a sandbox.
type SandboxConfig struct {
	Metadata SandboxMetadata
	// Hostname is empty where the pod has the node's network, and so the node's name.
	Hostname string
	// LogDirectory is the host directory that the containers' log paths are relative to.
	LogDirectory string
	DNS          DNS
	Ports        []PortMapping
	Labels       map[string]string
	Annotations  map[string]string
	// RuntimeHandler is the runtime class's handler; empty is the default.
	RuntimeHandler string
	CgroupParent   string
	Sysctls        map[string]string
	Namespaces     Namespaces
	Security       SandboxSecurity
	// Resources are the sum of what the containers have, Overhead what the sandbox itself takes.
	Resources, Overhead Resources
}

// Sandbox is a sandbox in a list.
type Sandbox struct {
	ID          string
	Metadata    SandboxMetadata
	State       SandboxState
	CreatedAt   time.Time
	Labels      map[string]string
	Annotations map[string]string
	// RuntimeHandler is the runtime class's handler that it was made with.
	RuntimeHandler string
}

// SandboxStatus is a sandbox with its network.
type SandboxStatus struct {
	Sandbox
	// IPs are the pod's addresses, the primary one first; none with the node's network.
	IPs        []string
	Namespaces Namespaces
}

// Filter selects sandboxes or containers. Fields left at their zero values select everything.
type Filter struct {
	// ID selects one sandbox or container.
	ID string
	// SandboxID selects the containers of a sandbox; sandboxes ignore it.
	SandboxID string
	// Labels must all be there with these values.
	Labels map[string]string
}

// EnvVar is one environment variable.
type EnvVar struct{ Name, Value string }

// Mount makes a host path, or an image's content, visible in a container.
type Mount struct {
	ContainerPath, HostPath string
	ReadOnly                bool
	// RecursiveReadOnly makes the mounts below it read-only too; it needs ReadOnly and a private
	// propagation.
	RecursiveReadOnly bool
	Propagation       MountPropagation
	SELinuxRelabel    bool
	// UIDMappings and GIDMappings are those of an id-mapped mount.
	UIDMappings, GIDMappings []IDMapping
	// Image, if set, is mounted instead of a host path: its content below ImageSubPath.
	Image        *ImageSpec
	ImageSubPath string
	// Options are further options of a bind mount, such as "noexec"; only runtimes with the feature
	// MountOptions take them.
	Options []string
}

// MountPropagation says which later mounts are seen on the other side.
type MountPropagation int

// The propagations of CRI: none; those of the host; both sides'.
const (
	PropagationPrivate MountPropagation = iota
	PropagationHostToContainer
	PropagationBidirectional
)

// Device gives a container a device of the host. Permissions are some of "r", "w" and "m".
type Device struct{ ContainerPath, HostPath, Permissions string }

// Resources are limits and requests as a runtime takes them; 0 is unset.
type Resources struct {
	CPUShares, CPUQuota, CPUPeriod int64
	// MemoryLimit and MemorySwapLimit, which includes memory, are in bytes.
	MemoryLimit, MemorySwapLimit int64
	OOMScoreAdj                  int64
	// CPUs and MemoryNodes are lists such as "0-3,8"; empty is all.
	CPUs, MemoryNodes string
	Hugepages         []HugepageLimit
	// Unified are values for files of cgroup v2, by their names.
	Unified map[string]string
}

// HugepageLimit is how many bytes of pages of a size, such as "2MB", may be used.
type HugepageLimit struct {
	PageSize string
	Limit    uint64
}

// ContainerConfig is all that a runtime needs to make a container.
type ContainerConfig struct {
	Metadata ContainerMetadata
	Image    ImageSpec
	Process
	Stdio
	Mounts      []Mount
	Devices     []Device
	Labels      map[string]string
	Annotations map[string]string
	// LogPath is relative to the sandbox's LogDirectory.
	LogPath    string
	Resources  Resources
	Namespaces Namespaces
	Security   Security
}

// Process is what a container runs.
type Process struct {
	// Command and Args replace the image's entry point and arguments where they are not empty.
	Command, Args []string
	WorkingDir    string
	Env           []EnvVar
	// StopSignal, such as "SIGQUIT", replaces the image's; empty does not.
	StopSignal string
}

// Stdio is how a container's input and output are connected.
type Stdio struct {
	// Stdin keeps an input open, StdinOnce only until the first who attached is gone.
	Stdin, StdinOnce bool
	TTY              bool
}

// Container is a container in a list.
type Container struct {
	ID        string
	SandboxID string
	Metadata  ContainerMetadata
	State     ContainerState
	Image     ImageSpec
	// ImageRef is the reference, usually with a digest, and ImageID the id of what it runs.
	ImageRef, ImageID string
	CreatedAt         time.Time
	Labels            map[string]string
	Annotations       map[string]string
}

// ContainerStatus is a container with its history.
type ContainerStatus struct {
	Container
	// StartedAt and FinishedAt are zero before the container started and finished.
	StartedAt, FinishedAt time.Time
	// ExitCode, Reason ("Completed", "Error", "OOMKilled" …) and Message tell how an Exited
	// container ended.
	ExitCode int32
	Reason   string
	Message  string
	// LogPath is where the log is on the host.
	LogPath string
	Mounts  []Mount
	// Resources and User are what the container really has, nil where the runtime does not say.
	Resources *Resources
	User      *User
	// StopSignal is what asks the container to end, such as "SIGTERM"; empty where not known.
	StopSignal string
}

// User is whom a container's first process runs as.
type User struct {
	UID, GID           int64
	SupplementalGroups []int64
}

// ExecResult is what a command left behind.
type ExecResult struct {
	Stdout, Stderr []byte
	ExitCode       int32
}

// ImageSpec names an image.
type ImageSpec struct {
	// Image is a name such as "docker.io/library/nginx:1.27", or a reference that a runtime
	// returned.
	Image string
	// UserSpecified is the name as the pod wrote it, where Image is a reference.
	UserSpecified string
	// Ref is the digest of an image that is mounted, told by its container's status.
	Ref         string
	Annotations map[string]string
	// RuntimeHandler is the runtime class's handler; empty is the default.
	RuntimeHandler string
}

// Auth is what a registry asks for.
type Auth struct {
	Username, Password string
	// Auth is username and password in base64, as in a docker config; IdentityToken and
	// RegistryToken are bearer tokens.
	Auth, IdentityToken, RegistryToken string
	ServerAddress                      string
}

// Image is an image that is there.
type Image struct {
	// ID is the digest of the image's configuration.
	ID string
	// Tags and Digests are the names it is known by.
	Tags, Digests []string
	// Size is in bytes.
	Size uint64
	// Username or UID is whom the image wants to run as.
	Username string
	UID      *int64
	// Pinned asks garbage collectors to leave the image alone.
	Pinned bool
}

// EventType says what happened to a container.
type EventType int

// The event types. A sandbox is told of as the container it is in CRI, under its own id.
const (
	EventCreated EventType = iota
	EventStarted
	EventStopped
	EventDeleted
)

// Event tells that a container or sandbox has changed. It is a hint to look, not the state
// itself: by the time it is read more may have happened.
type Event struct {
	Type EventType
	// ID is the container's id, or the sandbox's where the event is about a sandbox.
	ID string
	// Pod is the metadata of the sandbox it belongs to.
	Pod SandboxMetadata
	At  time.Time
}
