package cri

import "time"

// The labels by which a kubelet marks its sandboxes and containers in a runtime. Filters use
// them, and so do tools that inspect a node's containers.
const (
	LabelPodName       = "io.kubernetes.pod.name"
	LabelPodNamespace  = "io.kubernetes.pod.namespace"
	LabelPodUID        = "io.kubernetes.pod.uid"
	LabelContainerName = "io.kubernetes.container.name"
)

// Version names a runtime.
type Version struct {
	// Name is the runtime's name, such as "containerd"; container IDs in the API
	// are NAME://ID.
	Name string
	// Version is the runtime's own version.
	Version string
}

// RuntimeStatus says what the runtime can do now.
type RuntimeStatus struct {
	Runtime Condition // whether it can run containers
	Network Condition // whether it can set up pod networks
	// Handlers are those of the runtime classes that it supports; the one without a name is the default.
	Handlers []RuntimeHandler
	Features RuntimeFeatures
}

// RuntimeHandler is the handler of a runtime class.
type RuntimeHandler struct {
	Name string
	// Optional features that it supports.
	RecursiveReadOnlyMounts, UserNamespaces bool
}

// RuntimeFeatures are optional features that all handlers of a runtime support.
type RuntimeFeatures struct {
	// Whether the feature is supported.
	SupplementalGroupsPolicy, UserNamespacesHostNetwork, MountOptions bool
}

// Condition is one aspect of a runtime's health.
type Condition struct {
	Ready bool // whether it is healthy
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

// NamespaceMode is whose namespace a pod or container uses.
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
	Network, PID, IPC NamespaceMode // the mode of each kind
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

// IDMapping maps a range of IDs of a container to IDs of the host.
type IDMapping struct {
	Host, Container uint32 // first ID of each range
	Length          uint32 // of both
}

// DNS is the content of resolv.conf; the zero value means the node's.
type DNS struct {
	// Values of nameserver, search and options.
	Servers, Searches, Options []string
}

// PortMapping publishes a port of the sandbox on the node.
type PortMapping struct {
	// Protocol is "TCP", "UDP" or "SCTP".
	Protocol                string
	ContainerPort, HostPort int32
	HostIP                  string
}

// SandboxConfig is everything a runtime needs to create a sandbox.
type SandboxConfig struct {
	Metadata SandboxMetadata
	// Hostname is empty if the pod has the node's network, and thus its name.
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
	// Resources are the sum of the containers' resources, Overhead the resources of the sandbox itself.
	Resources, Overhead Resources
}

// Sandbox is a sandbox in a list.
type Sandbox struct {
	ID          string // chosen by the runtime
	Metadata    SandboxMetadata
	State       SandboxState
	CreatedAt   time.Time // by the node's clock
	Labels      map[string]string
	Annotations map[string]string
	// RuntimeHandler is the handler that created it; empty is the default.
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
	// Labels must all be present with these values.
	Labels map[string]string
}

// EnvVar is one environment variable.
type EnvVar struct {
	Name, Value string // as in the environment
}

// Mount makes a host path, or an image's content, visible in a container.
type Mount struct {
	ContainerPath, HostPath string // absolute
	ReadOnly                bool   // for the container
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

// Device makes a device of the host available in a container.
type Device struct {
	ContainerPath, HostPath string // absolute
	Permissions             string // some of "r", "w" and "m"
}

// Resources are limits and requests in a runtime's units; 0 is unset.
type Resources struct {
	// As in cgroups; CPUQuota and CPUPeriod are in microseconds.
	CPUShares, CPUQuota, CPUPeriod int64
	// MemoryLimit and MemorySwapLimit, which includes memory, are in bytes.
	MemoryLimit, MemorySwapLimit int64
	OOMScoreAdj                  int64
	// CPUs and MemoryNodes are lists such as "0-3,8"; empty is all.
	CPUs, MemoryNodes string
	Hugepages         []HugepageLimit
	// Unified are values for cgroup v2 files, by file name.
	Unified map[string]string
}

// HugepageLimit limits the use of huge pages of one size.
type HugepageLimit struct {
	PageSize string // such as "2MB"
	Limit    uint64 // bytes
}

// ContainerConfig is everything a runtime needs to create a container.
type ContainerConfig struct {
	Metadata ContainerMetadata
	Image    ImageSpec // usually the reference returned by PullImage
	Process
	Stdio
	Mounts  []Mount
	Devices []Device
	// CDIDevices are fully qualified names of devices that the runtime injects as their CDI specifications say, such as
	// "vendor.com/class=device".
	CDIDevices  []string
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
	// Command and Args, if not empty, replace the image's entry point and arguments.
	Command, Args []string
	WorkingDir    string
	Env           []EnvVar
	// StopSignal, such as "SIGQUIT", replaces the image's if not empty.
	StopSignal string
}

// Stdio is how a container's input and output are connected.
type Stdio struct {
	// Stdin keeps the input open, StdinOnce only until the first attached client disconnects.
	Stdin, StdinOnce bool
	TTY              bool
}

// Container is a container in a list.
type Container struct {
	ID        string // chosen by the runtime
	SandboxID string // of its sandbox
	Metadata  ContainerMetadata
	State     ContainerState
	Image     ImageSpec // as in its ContainerConfig
	// ImageRef is the reference, usually with a digest, and ImageID the ID of its image.
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
	// ExitCode, Reason ("Completed", "Error", "OOMKilled" …) and Message say how an Exited container ended.
	ExitCode int32
	Reason   string
	Message  string
	// LogPath is where the log is on the host.
	LogPath string
	Mounts  []Mount
	// Resources and User are those in effect, nil if the runtime does not report them.
	Resources *Resources
	User      *User
	// StopSignal is the signal to stop the container, such as "SIGTERM"; empty if unknown.
	StopSignal string
}

// User is the user of a container's first process.
type User struct {
	// As numbers inside the container.
	UID, GID           int64
	SupplementalGroups []int64
}

// ExecResult is the outcome of a command.
type ExecResult struct {
	Stdout, Stderr []byte // its output
	ExitCode       int32  // of the command
}

// ImageSpec names an image.
type ImageSpec struct {
	// Image is a name such as "docker.io/library/nginx:1.27", or a reference that a runtime
	// returned.
	Image string
	// UserSpecified is the name in the pod's spec, if Image is a reference.
	UserSpecified string
	// Ref is the digest of a mounted image, set in its container's status.
	Ref         string
	Annotations map[string]string
	// RuntimeHandler is the runtime class's handler; empty is the default.
	RuntimeHandler string
}

// Auth is the credentials for a registry.
type Auth struct {
	Username, Password string // for basic authentication
	// Auth is username and password in base64, as in a docker config; IdentityToken and
	// RegistryToken are bearer tokens.
	Auth, IdentityToken, RegistryToken string
	ServerAddress                      string
}

// Image is an image in the runtime's store.
type Image struct {
	// ID is the digest of the image's configuration.
	ID string
	// Tags and Digests are its names.
	Tags, Digests []string
	// Size is in bytes.
	Size uint64
	// Username or UID is the user of the image's configuration.
	Username string
	UID      *int64
	// Pinned asks garbage collectors to leave the image alone.
	Pinned bool
}

// EventType is what happened to a container.
type EventType int

// The event types. An event of a sandbox looks like one of a container, with the sandbox's ID.
const (
	EventCreated EventType = iota
	EventStarted
	EventStopped
	EventDeleted
)

// Event is a change of a container or sandbox. It is a hint to read the state, which may have changed again by then.
type Event struct {
	Type EventType
	// ID is the ID of the container or sandbox.
	ID string
	// Pod is the metadata of the sandbox it belongs to.
	Pod SandboxMetadata
	At  time.Time
}
