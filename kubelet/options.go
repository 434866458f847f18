package kubelet

import (
	"cmp"
	"errors"
	"log/slog"
	"maps"
	"runtime"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Options of a Kubelet. All but NodeName may be left at their zero values.
type Options struct {
	// NodeName names the node.
	NodeName string
	Registration
	// Host is what the kubelet has of the machine to run real containers on it.
	Host Host
	// Periods override upstream's timings.
	Periods Periods
	// MaxRestartDelay is the longest back-off between restarts of a container; 0 is 300 s.
	MaxRestartDelay time.Duration
	// OnRegistered is called once the node is registered.
	OnRegistered func(*corev1.Node)
	// Observer sees what happens, for metrics; nil is nobody.
	Observer Observer
	// Logger is told about failures; nil discards.
	Logger *slog.Logger
}

// Observer sees what a kubelet does. It is called from many goroutines and must be quick.
type Observer interface {
	// PodStarted is told once of each pod, when all its containers run: when it was created, when the
	// kubelet saw it first, and now.
	PodStarted(created, seen, running time.Time)
	// PodSynced is told how long a pass over a pod took.
	PodSynced(took time.Duration)
	// Rejected is told why a pod was not admitted.
	Rejected(reason string)
}

// Registration is what a kubelet says of its node.
type Registration struct {
	// Labels and Taints are put on the node when it is registered, besides the usual labels.
	Labels map[string]string
	Taints []corev1.Taint
	// PodCIDRs are put on the node when it is registered; usually a controller allocates them.
	PodCIDRs []string
	// ProviderID is the cloud's name for the node.
	ProviderID string
	// Addresses are the node's; empty is 127.0.0.1 as InternalIP, and the node's name as Hostname.
	Addresses []corev1.NodeAddress
	// ServerPort is where the kubelet's own server listens; 0 is that there is none.
	ServerPort int32
	// Capacity is what the node has; unset entries are 8 CPUs, 32Gi of memory, 256Gi of ephemeral
	// storage and 110 pods. Allocatable is what pods may use of it; unset entries are all.
	Capacity, Allocatable corev1.ResourceList
	// Info describes the machine; unset fields are filled in as far as they are known.
	Info corev1.NodeSystemInfo
	// RegisterUnready registers the node as not ready, as upstream's kubelet does, and reports it
	// ready with the status that follows. Otherwise a node is ready from the first moment.
	RegisterUnready bool
}

// Periods are how often a kubelet reports; zero values are upstream's.
type Periods struct {
	// StatusUpdate is how often the node's status is computed, and sent when it changed: 10 s.
	StatusUpdate time.Duration
	// StatusReport is how often it is sent although it has not changed: 5 min.
	StatusReport time.Duration
	// LeaseDuration is how long the node's lease is good for: 40 s. It is renewed four times as
	// often.
	LeaseDuration time.Duration
}

// complete checks the options and fills in what is unset.
func (o Options) complete() (Options, error) {
	if o.NodeName == "" {
		return o, errors.New("a kubelet needs a node name")
	}
	o.MaxRestartDelay = cmp.Or(o.MaxRestartDelay, maxRestartDelay)
	o.Periods.StatusUpdate = cmp.Or(o.Periods.StatusUpdate, 10*time.Second)
	o.Periods.StatusReport = cmp.Or(o.Periods.StatusReport, 5*time.Minute)
	o.Periods.LeaseDuration = cmp.Or(o.Periods.LeaseDuration, 40*time.Second)
	if o.Periods.LeaseDuration < time.Second {
		return o, errors.New("a node's lease lasts at least a second")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Host.complete()
	if o.Observer == nil {
		o.Observer = bare{}
	}
	if len(o.Addresses) == 0 {
		o.Addresses = []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: "127.0.0.1"},
			{Type: corev1.NodeHostName, Address: o.NodeName},
		}
	}
	o.Capacity = fillResources(o.Capacity, corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("8"),
		corev1.ResourceMemory:           resource.MustParse("32Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("256Gi"),
		corev1.ResourcePods:             resource.MustParse("110"),
	})
	o.Allocatable = fillResources(o.Allocatable, o.Capacity)
	o.Info.OperatingSystem = cmp.Or(o.Info.OperatingSystem, runtime.GOOS)
	o.Info.Architecture = cmp.Or(o.Info.Architecture, runtime.GOARCH)
	o.Info.KubeletVersion = cmp.Or(o.Info.KubeletVersion, "v1.37.1")
	return o, nil
}

func fillResources(list, defaults corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	maps.Copy(out, defaults.DeepCopy())
	for name, quantity := range list {
		out[name] = quantity.DeepCopy()
	}
	return out
}

// hostIPs are the addresses that pods are told as their host's.
func (o Options) hostIPs() []string {
	var ips []string
	for _, t := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP} {
		for _, a := range o.Addresses {
			if a.Type == t {
				ips = append(ips, a.Address)
			}
		}
		if len(ips) > 0 {
			return ips[:min(len(ips), 2)]
		}
	}
	return nil
}
