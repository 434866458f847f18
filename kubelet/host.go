package kubelet

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
)

// Host is what a kubelet needs of the machine to run real containers on it. Each part may be nil,
// and all are where nothing really runs: pods then have no volumes, no cgroups, no credentials
// and only the variables that their spec spells out.
type Host struct {
	Volumes     Volumes
	Environment Environment
	Cgroups     Cgroups
	Credentials Credentials
	Resolver    Resolver
	Security    Security
	// Admitters are asked, in this order, whether the node takes a pod, after its resources are
	// known to suffice.
	Admitters []Admitter
	// Prober runs HTTP, TCP and gRPC probes; nil lets them all succeed, which is right where
	// nothing listens because nothing really runs. Hooks runs HTTP handlers of a container's
	// lifecycle; nil is the Prober.
	Prober, Hooks Prober
	// Messages reads termination messages; nil takes those that the runtime has.
	Messages Messages
	// Pressure tells what the node runs short of; nil is nothing ever.
	Pressure Pressure
	// Memory remembers pods from one life of the kubelet to the next; nil forgets.
	Memory Memory
	// Logs removes what logs containers leave that are removed; nil leaves them.
	Logs Logs
	// LogDir is where the containers' logs are. Empty is /var/log/pods, which is then taken to be
	// the runtime's to make.
	LogDir string
}

// complete puts parts that do nothing where there are none.
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
	if h.Logs == nil {
		h.Logs = bare{}
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

// Volumes are the files that the containers of pods see beside their image's: the volumes of the
// spec, and what every container gets, such as /etc/hosts and the file of its termination message.
// Implementations are safe for concurrent use, for different pods at least.
//
//nolint:interfacebloat // the life of the volumes of one pod
type Volumes interface {
	// Prepare makes a pod's volumes ready, or brings those that are ready up to date. It is called
	// before any of the pod's containers is started and with every pass over the pod, so it is
	// quick when nothing has changed. It fails with what is missing; the caller tries again.
	Prepare(ctx context.Context, pod *corev1.Pod) error
	// Mounts are what one container sees of them. The volumes are ready.
	Mounts(ctx context.Context, request MountRequest) ([]cri.Mount, error)
	// NextRefresh is when Prepare is to be called again at the latest, because a token gets old; zero
	// is whenever something changes.
	NextRefresh(uid types.UID) time.Time
	// Release takes away all that was made for a pod, whose containers do not run any more. It
	// succeeds when nothing is left, also for a pod it never heard of.
	Release(ctx context.Context, uid types.UID) error
	Orphans
}

// Orphans are pods that something is kept for and nobody wants any more.
type Orphans interface {
	// Orphans lists the pods that something is left of but that live does not report: they ended
	// while no kubelet ran.
	Orphans(live func(types.UID) bool) ([]types.UID, error)
}

// MountRequest is about a container that is about to be created. All of it is shared and must not
// be changed.
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

// Environment makes containers' environments.
type Environment interface {
	// Environment returns what a container finds in its environment: services' addresses, what
	// envFrom and env say, in the order in which they are set, each name once. A reference
	// that leads nowhere is an error unless it is optional; problems that do not keep the
	// container from starting are returned as warnings, which become events.
	Environment(ctx context.Context, request EnvironmentRequest) (env []cri.EnvVar, warnings []string, err error)
}

// EnvironmentRequest is about a container that is about to be created. All of it is shared and
// must not be changed.
type EnvironmentRequest struct {
	Pod       *corev1.Pod
	Container *corev1.Container
	// IPs are the pod's addresses and HostIPs the node's; Allocatable is what the node has for
	// pods, the limit of containers without one.
	IPs, HostIPs []string
	Allocatable  corev1.ResourceList
}

// Cgroups keeps the cgroups of pods, which contain those of their containers.
//
//nolint:interfacebloat // the life of the cgroup of one pod
type Cgroups interface {
	// Ensure makes the cgroup of a pod as its spec has it, below that of its quality-of-service
	// class, and returns the CgroupParent of its sandbox.
	Ensure(ctx context.Context, pod *corev1.Pod) (parent string, err error)
	// Remove ends what still runs in a pod's cgroup and removes it. It succeeds when there is
	// none.
	Remove(ctx context.Context, uid types.UID) error
	// Resources are what a container may use, as its runtime takes it.
	Resources(pod *corev1.Pod, container *corev1.Container) cri.Resources
	Orphans
}

// Pressure tells what a node runs short of.
type Pressure interface {
	// Conditions are the node's MemoryPressure, DiskPressure and PIDPressure as they are now, without
	// times. It is quick.
	Conditions() []corev1.NodeCondition
}

// Memory is what a kubelet leaves to the one after it.
type Memory interface {
	Admissions
	Waits
}

// Admissions remember the pods that a node has admitted, so that a later kubelet does not ask again
// whether they fit: the node may have shrunk, and refusing them would end what runs well.
//
//nolint:interfacebloat // one memory: what is admitted is also forgotten
type Admissions interface {
	// Admitted reports whether the pod was admitted before.
	Admitted(uid types.UID) bool
	// Admit remembers pods that are admitted now, Forget those of which nothing is left.
	Admit(pods ...*corev1.Pod) error
	Forget(uids ...types.UID) error
	Orphans
}

// Waits are how long the failing containers of admitted pods have to wait: restarting a kubelet starts
// no storm of containers that fail.
type Waits interface {
	// Waits are a pod's, by keys of the kubelet's, and SetWait remembers one.
	Waits(uid types.UID) map[string]Wait
	SetWait(uid types.UID, key string, w Wait) error
}

// Wait is how long the next attempt has to wait, and since when the wait is that long.
type Wait struct {
	Delay time.Duration
	Since time.Time
}

// Logs are those of containers.
type Logs interface {
	// RemoveLog removes the log at a path on the host with all that was rotated away from it. It
	// succeeds when there is none.
	RemoveLog(path string) error
}

// Messages reads what containers left to say at their end.
type Messages interface {
	// Message returns the termination message of a container that has exited: of its file, or of
	// the end of its log where the container's policy wants that.
	Message(status cri.ContainerStatus) string
}

// Credentials know what to tell registries.
type Credentials interface {
	// For returns the credentials to try for an image, in this order; none is to try without.
	For(ctx context.Context, pod *corev1.Pod, image string) ([]cri.Auth, error)
}

// Resolver makes the resolv.conf of pods.
type Resolver interface {
	// Resolve returns what a pod's DNS policy and configuration come to on this node. Problems
	// that do not keep the pod from starting are returned as warnings, which become events; each
	// is the event's reason, a colon with a space, and its message.
	Resolve(pod *corev1.Pod) (dns cri.DNS, warnings []string, err error)
	// Names are what the pod is called.
	Names(pod *corev1.Pod) (Names, error)
}

// Names are what a pod is called: Hostname on its network, in Domain, which is empty without a
// subdomain; Kernel is the hostname that its processes see.
type Names struct{ Hostname, Domain, Kernel string }

// Security turns what a pod says of its security into what a runtime is told. Errors are texts for
// people and keep the pod, or the container, from starting.
type Security interface {
	// Namespaces are what a pod's sandbox and containers share with the node and each other;
	// handler is the runtime class's.
	Namespaces(pod *corev1.Pod, handler string) (cri.Namespaces, error)
	// Sandbox is what a pod's sandbox may do.
	Sandbox(pod *corev1.Pod) (cri.SandboxSecurity, error)
	// Container is what a container may do that runs an image.
	Container(pod *corev1.Pod, container *corev1.Container, image cri.Image) (cri.Security, error)
}

// Admitter decides whether the node takes a pod.
type Admitter interface {
	// Admit returns nil for yes. It is called once for each pod, and again after a restart of the
	// kubelet.
	Admit(pod *corev1.Pod) *Refusal
}

// AdmitFunc is an Admitter made of a function.
type AdmitFunc func(pod *corev1.Pod) *Refusal

// Admit calls f.
func (f AdmitFunc) Admit(pod *corev1.Pod) *Refusal { return f(pod) }
