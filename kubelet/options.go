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

// Options configures a Kubelet. Only NodeName is required.
type Options struct {
	// NodeName is the name of the node.
	NodeName string
	Registration
	// Host provides what real containers need from the machine.
	Host Host
	// Periods override upstream's timings.
	Periods Periods
	// MaxRestartDelay is the longest back-off between restarts of a container; 0 is 300 s.
	MaxRestartDelay time.Duration
	// OnRegistered is called once the node is registered.
	OnRegistered func(*corev1.Node)
	// Observer, if set, is notified of what happens, for metrics.
	Observer Observer
	// Logger records failures; nil discards them.
	Logger *slog.Logger
}

// Observer is notified of what a kubelet does. It is called from many goroutines and must be quick.
type Observer interface {
	// PodStarted is called once for each pod, when all its containers run, with the times of its creation, of its first
	// sight by the kubelet, and of now.
	PodStarted(created, seen, running time.Time)
	// PodSynced is called after each sync of a pod, with its duration.
	PodSynced(took time.Duration)
	// Rejected is called for each pod that the node rejects.
	Rejected(reason string)
}

// Registration describes the node that a kubelet registers.
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
	// ServerPort is the port of the kubelet's own server; 0 means that there is none.
	ServerPort int32
	// Capacity is what the node has; entries default to 8 CPUs, 32Gi of memory, 256Gi of ephemeral storage and 110
	// pods. Allocatable is what pods may use of it; entries default to the capacity.
	Capacity, Allocatable corev1.ResourceList
	// Info describes the machine; unset fields are filled in as far as they are known.
	Info corev1.NodeSystemInfo
	// RegisterUnready registers the node as not ready, like upstream's kubelet, and reports it ready in the next
	// status. Otherwise the node is registered as ready.
	RegisterUnready bool
}

// Periods set how often a kubelet reports; zero values are upstream's.
type Periods struct {
	// StatusUpdate is how often the node's status is computed, and sent if it changed; 10 s by default.
	StatusUpdate time.Duration
	// StatusReport is how often an unchanged status is sent; 5 min by default.
	StatusReport time.Duration
	// LeaseDuration is how long the node's lease is valid; 40 s by default. It is renewed four times as often.
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

// hostIPs returns the node's addresses for pods' status.hostIPs.
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
