package kubelet

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/decision"
)

// Host is what a kubelet needs from the machine to run real containers. Each part may be nil. Without any, for
// containers that run in name only, pods have no volumes, no cgroups, no credentials, and only the variables whose
// values are in their spec.
type Host struct {
	Volumes     Volumes
	Devices     Devices
	Environment Environment
	Cgroups     Cgroups
	Credentials Credentials
	Resolver    Resolver
	Security    Security
	// Admitters decide, in this order, whether the node accepts a pod, before its resources are known to suffice.
	Admitters []Admitter
	// Prober runs HTTP, TCP and gRPC probes; nil lets them all succeed, which is right where
	// nothing listens because nothing really runs. Hooks runs HTTP handlers of a container's
	// lifecycle; nil is the Prober.
	Prober, Hooks Prober
	// Messages reads termination messages; nil takes those that the runtime has.
	Messages Messages
	// Pressure reports what the node is short of; nil means nothing, ever.
	Pressure Pressure
	// Problem, if set, says why the node is not ready although its runtime is; Kubelet.Report makes a change known. It
	// must be quick.
	Problem func() error
	// Memory keeps what must survive a restart of the kubelet; nil keeps nothing.
	Memory Memory
	// Logs are where containers' logs are, and what removes them.
	Logs Logs
}

// complete replaces missing parts by ones that do nothing.
func (h *Host) complete() {
	if h.Volumes == nil {
		h.Volumes = bare{}
	}
	if h.Environment == nil {
		h.Environment = bare{}
	}
	if h.Cgroups == nil {
		h.Cgroups = bare{}
	}
	if h.Credentials == nil {
		h.Credentials = bare{}
	}
	if h.Resolver == nil {
		h.Resolver = bare{}
	}
	if h.Security == nil {
		h.Security = bare{}
	}
	if h.Pressure == nil {
		h.Pressure = bare{}
	}
	if h.Logs.Remover == nil {
		h.Logs.Remover = bare{}
	}
	if h.Memory == nil {
		h.Memory = bare{}
	}
	if h.Prober == nil {
		h.Prober = bare{}
	}
	if h.Hooks == nil {
		h.Hooks = h.Prober
	}
	if h.Messages == nil {
		h.Messages = bare{}
	}
}

// Volumes provides the files that containers see besides those of their image: the volumes of the spec, and files that
// every container gets, such as /etc/hosts and the termination message file. Implementations are safe for concurrent
// use, at least for different pods.
//
//nolint:interfacebloat // the life of the volumes of one pod
type Volumes interface {
	// Prepare sets up a pod's volumes, or updates them. It is called before any of the pod's containers is started and
	// on every sync of the pod, so it must be quick when nothing has changed. Its error says what is missing; the
	// caller retries. If the volumes are still missing two minutes later, and the error wraps a *Refusal, the pod is
	// rejected.
	Prepare(ctx context.Context, pod *corev1.Pod) error
	// Mounts returns the mounts of one container. It is called only after Prepare has succeeded.
	Mounts(ctx context.Context, request MountRequest) ([]cri.Mount, error)
	// NextRefresh returns the latest time for the next call of Prepare, because a token is about to expire; the zero
	// time means that only changes require one. That call comes half a second later at the earliest.
	NextRefresh(uid types.UID) time.Time
	// Release removes everything that was made for a pod, none of whose containers runs any more. It succeeds when
	// nothing is left, also for an unknown pod.
	Release(ctx context.Context, uid types.UID) error
	Orphans
}

// Devices are what makes devices available to containers.
type Devices struct {
	// Claims prepares the devices of resource claims; nil refuses pods with claims. For containers that run in name only,
	// DevicesInName accepts them.
	Claims ClaimDevices
	// Plugins has the devices of device plugins; nil means that there are none.
	Plugins DevicePlugins
}

// ClaimDevices makes the devices of pods' resource claims available to containers (dynamic resource allocation).
// Implementations are safe for concurrent use, at least for different pods.
//
//nolint:interfacebloat // the life of the devices of one pod
type ClaimDevices interface {
	// Prepare has the devices of a pod prepared, which are allocated and reserved for it. It is called before any of the
	// pod's containers is started, and again later, so it must be quick when that is done. The caller retries after an
	// error.
	Prepare(ctx context.Context, pod *corev1.Pod) error
	// CDIDevices returns the names of the devices that a container of the pod uses. It is called only after Prepare has
	// succeeded.
	CDIDevices(pod *corev1.Pod, container *corev1.Container) ([]string, error)
	// Release gives the devices of a pod back, none of whose containers runs any more. It succeeds when nothing is left,
	// also for an unknown pod.
	Release(ctx context.Context, uid types.UID) error
	Orphans
}

// DevicesInName are the Devices of a host whose containers run in name only: there is nothing to prepare.
func DevicesInName() Devices { return Devices{Claims: bare{}} }

// Orphans finds pods that no longer exist but still occupy something on the host.
type Orphans interface {
	// Orphans lists the pods that have left something behind and for which live returns false: they ended while no
	// kubelet was running.
	Orphans(live func(types.UID) bool) ([]types.UID, error)
}

// MountRequest describes a container that is about to be created. Everything in it is shared and must not be modified.
type MountRequest struct {
	Pod       *corev1.Pod
	Container *corev1.Container
	// Env is the container's environment, for sub-paths with variables.
	Env []cri.EnvVar
	// IPs are the pod's addresses and Hostname its name, for /etc/hosts; Domain is empty for pods
	// without a subdomain.
	IPs              []string
	Hostname, Domain string
}

// Environment computes the environments of containers.
type Environment interface {
	// Environment returns a container's environment variables: the addresses of services, then envFrom, then env, each
	// name once. A reference to something missing is an error unless it is optional; problems that do not prevent the
	// container from starting are returned as warnings, which become events.
	Environment(ctx context.Context, request EnvironmentRequest) (env []cri.EnvVar, warnings []string, err error)
}

// EnvironmentRequest describes a container that is about to be created. Everything in it is shared and must not be
// modified.
type EnvironmentRequest struct {
	Pod       *corev1.Pod
	Container *corev1.Container
	// IPs are the pod's addresses and HostIPs the node's; Allocatable is what the node has for pods, which is the limit
	// of containers that set none.
	IPs, HostIPs []string
	Allocatable  corev1.ResourceList
}

// Cgroups manages the cgroups of pods, which contain those of their containers.
//
//nolint:interfacebloat // the life of the cgroup of one pod
type Cgroups interface {
	// Ensure creates or updates the cgroup of a pod according to its spec, below that of its quality-of-service class,
	// and returns the CgroupParent for its sandbox. While the pod is resized, its spec has the resources in force.
	Ensure(ctx context.Context, pod *corev1.Pod) (parent string, err error)
	// Remove kills the processes left in a pod's cgroup and removes it. It succeeds when there is none.
	Remove(ctx context.Context, uid types.UID) error
	// Resources returns what a container may use, in the runtime's terms.
	Resources(pod *corev1.Pod, container *corev1.Container) cri.Resources
	Limiter
	Orphans
}

// Limiter changes the limits of the cgroup of a pod that runs, when the pod is resized. It uses CPUShares, CPUQuota,
// CPUPeriod and MemoryLimit; -1 is unlimited.
type Limiter interface {
	// Limits returns the limits in force, and those of the pod's spec. In both, 0 is one that is not managed or that the
	// spec does not set.
	Limits(ctx context.Context, pod *corev1.Pod) (now, want cri.Resources, err error)
	// Limit sets the limits that are not 0.
	Limit(ctx context.Context, pod *corev1.Pod, limits cri.Resources) error
}

// Pressure reports what a node is short of.
type Pressure interface {
	// Conditions returns the node's current MemoryPressure, DiskPressure and PIDPressure, without times. It must be
	// quick.
	Conditions() []corev1.NodeCondition
}

// Memory is what a kubelet leaves to its successor.
type Memory interface {
	Admissions
	Allocations
	Waits
}

// Allocations records what admitted pods were given, so that a later kubelet does not give them what they have to wait
// for, and completes what this one has begun.
type Allocations interface {
	// Allocation returns the resources that a pod was admitted with or, if it was resized, given last; and those in
	// force, nil if they are the same.
	Allocation(uid types.UID) (given decision.Allocation, inForce *decision.Allocation, ok bool)
	// Resize records that an admitted pod was given the resources of its spec. What it had before stays in force until
	// SetInForce says otherwise.
	Resize(pod *corev1.Pod) error
	// SetInForce records the resources in force; nil means those that the pod was given.
	SetInForce(uid types.UID, inForce *decision.Allocation) error
}

// Admissions records the pods that a node has admitted, so that a later kubelet does not check again whether they fit:
// the node may have shrunk, and rejecting them would kill running pods.
//
//nolint:interfacebloat // one memory: what is admitted is also forgotten
type Admissions interface {
	// Admitted reports whether the pod was admitted before.
	Admitted(uid types.UID) bool
	// Admit records newly admitted pods.
	Admit(pods ...*corev1.Pod) error
	Forget(uids ...types.UID) error // removes pods of which nothing is left
	Orphans
}

// Waits records the restart back-offs of admitted pods' failing containers, so that restarting a kubelet does not
// restart all of them at once.
type Waits interface {
	// Waits returns a pod's back-offs, by keys that the kubelet chooses.
	Waits(uid types.UID) map[string]Wait
	SetWait(uid types.UID, key string, w Wait) error // records one back-off
}

// Wait is a back-off: its length, and since when it has had that length.
type Wait struct {
	Delay time.Duration // before the next attempt
	Since time.Time     // when the wait began
}

// Logs are the logs of containers.
type Logs struct {
	// Dir is their directory. If empty, it is /var/log/pods, which the runtime is then expected to create.
	Dir string
	// Remover removes the logs of removed containers; nil leaves them in place.
	Remover LogRemover
}

// LogRemover removes logs of containers.
type LogRemover interface {
	// RemoveLog removes the log at a path on the host and everything rotated from it. It succeeds when there is none.
	RemoveLog(path string) error
}

// Messages reads termination messages.
type Messages interface {
	// Message returns the termination message of a container that has exited: from its file, or from the end of its log
	// if the container's policy says so.
	Message(status cri.ContainerStatus) string
}

// Credentials provides credentials for image registries.
type Credentials interface {
	// For returns the credentials to try for an image, in this order; none means an anonymous pull.
	For(ctx context.Context, pod *corev1.Pod, image string) ([]cri.Auth, error)
}

// Resolver makes the resolv.conf of pods.
type Resolver interface {
	// Resolve returns the result of a pod's DNS policy and configuration on this node. Problems that do not prevent the
	// pod from starting are returned as warnings, which become events; each has the form "reason: message".
	Resolve(pod *corev1.Pod) (dns cri.DNS, warnings []string, err error)
	// Names returns the pod's hostnames.
	Names(pod *corev1.Pod) (Names, error)
}

// Names are a pod's hostnames. Hostname is its name on the network, in Domain, which is empty without a subdomain;
// Kernel is the hostname that its processes see.
type Names struct{ Hostname, Domain, Kernel string }

// Security translates pods' security settings into those of the runtime. Error texts are for people; an error prevents
// the pod, or the container, from starting.
type Security interface {
	// Namespaces returns the namespaces that a pod's containers share with the node and with each other; handler is
	// that of the runtime class.
	Namespaces(pod *corev1.Pod, handler string) (cri.Namespaces, error)
	// Sandbox returns the privileges of a pod's sandbox.
	Sandbox(pod *corev1.Pod) (cri.SandboxSecurity, error)
	// Container returns the privileges of a container that runs the image.
	Container(pod *corev1.Pod, container *corev1.Container, image cri.Image) (cri.Security, error)
}

// Admitter decides whether the node accepts a pod.
type Admitter interface {
	// Admit returns nil to accept the pod. It is called once for each pod, again after a restart of the kubelet, and
	// when the pod is to be resized: then a refusal makes the resize wait.
	Admit(pod *corev1.Pod) *Refusal
}

// Allocator is an Admitter that gives pods parts of the node to themselves when it admits them. What it gave to a pod that is no
// longer Live counts as free, also if the pod was refused for another reason.
type Allocator interface {
	Admitter
	// Resume is called, instead of Admit, for a pod that an earlier kubelet admitted. It is not refused any more.
	Resume(pod *corev1.Pod)
	// AdmitResize is called, instead of Admit, for an admitted pod that requests other resources than it was given, before any
	// other Admitter. A refusal with the reason corev1.PodReasonInfeasible is final.
	AdmitResize(given, wanted *corev1.Pod) *Refusal
}

// AdmitFunc adapts a function to an Admitter.
type AdmitFunc func(pod *corev1.Pod) *Refusal

// Admit calls f.
func (f AdmitFunc) Admit(pod *corev1.Pod) *Refusal { return f(pod) }
