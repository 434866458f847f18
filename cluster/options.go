package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/apiserver/health"
	"github.com/keelson-dev/keelson/authn/serviceaccount"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/kubelet/volume/claims"
	"github.com/keelson-dev/keelson/node"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/allocation"
	"github.com/keelson-dev/keelson/registry/resource"
	"github.com/keelson-dev/keelson/storage"
)

// Options configures a Cluster. The zero value is a whole control plane in memory, without nodes.
type Options struct {
	// Nodes configures the simulated nodes.
	Nodes Nodes
	// Components run beside the API server; nil is DefaultComponents, an empty slice is none. Each must have an
	// identity.
	Components []Component
	// Disable names components and admission plugins to leave out.
	Disable []string
	// Dir is the directory of an embedded, durable store; if empty, everything is in memory.
	Dir string
	// Store, if set, is used instead, and not closed by Close.
	Store storage.Store
	// Kinds are served in addition to the built-in ones.
	Kinds []registry.Kind
	// Extensions add parts to the API server, such as custom resources: see cluster/customresources.
	Extensions []Extension
	// Authenticators identify, in this order, who makes a request, after the authenticator for clients in this process;
	// nil is DefaultAuthenticators. The stage Anonymous, if there is one, identifies requests without credentials.
	Authenticators []AuthenticatorStage
	// Authorizers decide, in this order, whether a request is allowed; nil is DefaultAuthorizers.
	Authorizers []AuthorizerStage
	// Admission plugins mutate and validate what is written; nil is DefaultAdmission. Those that upstream has run in
	// upstream's order; others follow, in the order given.
	Admission []AdmissionStage
	// Services configures the IPs and ports of services.
	Services Services
	// Seed, if not nil, makes UIDs, generated names and all other random choices the same in each run.
	Seed *uint64
	// Settle is how long controllers and the scheduler wait after an event, so that they handle simultaneous events
	// together. In a synctest bubble, with a Seed, any positive value makes runs reproducible; on a real clock it only
	// slows them down.
	Settle time.Duration
	// Server configures how the API server is reached and what it records.
	Server Server
	// OnMutation, if set, turns on the mutation detector: it is called for every object that was modified in a shared
	// cache, when the object is replaced or removed, or by Close.
	OnMutation func(error)
	Logger     *slog.Logger
}

// Services configures the IPs and ports of services. The zero value is upstream's defaults.
type Services struct {
	// Networks are the networks of cluster IPs: one, or one of each family with the default family first; nil is
	// 10.96.0.0/12.
	Networks []netip.Prefix
	// NodePorts is the range for node ports of services; the zero value is 30000 to 32767.
	NodePorts allocation.PortRange
}

// networks returns the networks of cluster IPs.
func (s *Services) networks() []netip.Prefix {
	if len(s.Networks) > 0 {
		return s.Networks
	}
	return []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 96, 0, 0}), 12)}
}

// nodePorts returns the range of node ports.
func (s *Services) nodePorts() allocation.PortRange {
	if s.NodePorts == (allocation.PortRange{}) {
		return allocation.NodePorts()
	}
	return s.NodePorts
}

// Server configures the API server. The zero value is one that is reached only in process.
type Server struct {
	// RootCA is the PEM of the authority with which pods verify the API server, which the
	// root-ca-certificate-publisher-controller publishes; in process there is none.
	RootCA []byte
	// ClientCA is the PEM of the authority with which Options.Authenticators verify clients' certificates. It is
	// published in kube-system, for servers that delegate authentication to this one.
	ClientCA []byte
	// Signer, if set, is an authority with its key, with which certificatesigningrequest-signing-controller signs approved
	// requests for certificates: that of ClientCA, usually. pki.Authority is one.
	Signer component.Signer
	// FrontProxy, if set, lets proxies, such as the aggregator of another cluster, say whose requests they forward. Their
	// certificates are tried before Options.Authenticators. It is published beside ClientCA.
	FrontProxy *FrontProxy
	// TokenIssuer is the issuer URL of service account tokens, and their default audience; empty is
	// https://kubernetes.default.svc.cluster.local, as in kubeadm's clusters. Others can discover only an issuer with
	// an https URL.
	TokenIssuer string
	// TokenKeys sign service account tokens; nil generates keys in memory, so tokens become invalid when the cluster
	// ends.
	TokenKeys *serviceaccount.Keys
	Telemetry
	// Seats is how many requests are served at once, shared as FlowSchemas and PriorityLevelConfigurations say; 0 is 600,
	// below 0 serves all and those kinds are without effect.
	Seats int
	// CBOR is that of apiserver.Options.
	CBOR bool
	// Paths are served besides the cluster's own, as in apiserver.Options: to those whom Authorizers let read them.
	Paths map[string]http.Handler
	// Checks are served to probes in addition to the server's own.
	Checks []health.Check
	// Selectors compiles the expressions of device classes and resource claims, which are refused without it; package
	// registry/resource/selectors has upstream's compiler, and with it CEL.
	Selectors resource.Compiler
	// Connector connects to kubelets' servers, for logs, exec and so on, as the user kube-apiserver-kubelet-client, which is
	// then granted all of a kubelet's API. nil connects to the simulated nodes, if there are any.
	Connector apiserver.Connector
	// Address is where nodes and pods reach the server, if they do. The service kubernetes in the namespace default
	// points to it; without an address, or with a loopback one, there is no such service.
	Address netip.AddrPort
}

// Telemetry is how others learn what the server does. The zero value is silent.
type Telemetry struct {
	// Audit, if set, logs requests.
	Audit *audit.Log
	// Metrics serves /metrics.
	Metrics bool
	// Tracer, if set, follows requests; that of package apiserver/tracing does with OpenTelemetry.
	Tracer apiserver.Tracer
}

// setDefaults fills in what is nil, and removes what is disabled.
func (o *Options) setDefaults() error {
	if o.Components == nil {
		o.Components = DefaultComponents()
	}
	if o.Authenticators == nil {
		o.Authenticators = DefaultAuthenticators()
	}
	if o.Authorizers == nil {
		o.Authorizers = DefaultAuthorizers()
	}
	if o.Admission == nil {
		o.Admission = DefaultAdmission()
	}
	if err := o.disable(); err != nil {
		return err
	}
	for _, e := range o.Extensions {
		o.Admission = append(o.Admission, e.Admission...)
	}
	return errors.Join(checkComponents(o.Components), checkExtensions(o.Extensions), checkStages("authenticator", o.Authenticators),
		checkStages("authorizer", o.Authorizers), checkStages("admission plugin", o.Admission))
}

func checkComponents(all []Component) error {
	if err := component.Check(all); err != nil {
		return fmt.Errorf("%w: %w", ErrOptions, err)
	}
	for _, c := range all {
		if c.Identity == nil {
			return fmt.Errorf("%w: component %s has no Identity: say whom it acts as", ErrOptions, c.Name)
		}
	}
	return nil
}

// checkStages validates a chain.
func checkStages[T any](what string, all []Stage[T]) error {
	for i, s := range all {
		switch {
		case s.New == nil:
			return fmt.Errorf("%w: %s %q has no New", ErrOptions, what, s.Name)
		case slices.ContainsFunc(all[:i], func(o Stage[T]) bool { return o.Name == s.Name }):
			return fmt.Errorf("%w: there are two %ss %q; WithStages replaces one", ErrOptions, what, s.Name)
		}
	}
	return nil
}

// check validates what can be validated before anything is opened.
func (o *Options) check() error {
	switch {
	case o.Dir != "" && o.Store != nil:
		return fmt.Errorf("%w: Dir and Store are both set: state is kept in one place", ErrOptions)
	case o.Settle < 0:
		return fmt.Errorf("%w: Settle is %v: must not be negative", ErrOptions, o.Settle)
	case o.Nodes.Count < 0 || o.Nodes.Count > maxNodes:
		return fmt.Errorf("%w: Nodes.Count is %d: must lie between 0 and %d", ErrOptions, o.Nodes.Count, maxNodes)
	}
	network := o.Nodes.network()
	if !network.Addr().Is4() || network.Bits() > 24 || o.Nodes.Count > 1<<(24-network.Bits()) {
		return fmt.Errorf("%w: Nodes.Network is %v: must be an IPv4 network with room for %d networks of 254 addresses", ErrOptions, network, o.Nodes.Count)
	}
	return nil
}

// network returns the network that contains the nodes' pod networks.
func (n *Nodes) network() netip.Prefix {
	if n.Network.IsValid() {
		return n.Network.Masked()
	}
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 64, 0, 0}), 10)
}

// Nodes configures the nodes. Each is a kubelet over a runtime that keeps state but starts nothing, unless Run is set.
type Nodes struct {
	// Count is the number of nodes; they are called node-0, node-1 and so on.
	Count int
	// Network is divided into the nodes' pod networks of 254 addresses, in their order; the zero value is 10.64.0.0/10.
	Network netip.Prefix
	// Capacity is that of each node; empty is 8 CPUs, 32 GiB and 110 pods.
	Capacity corev1.ResourceList
	// Prepare, if set, may change a node's labels, taints and capacity before it registers.
	Prepare func(node *corev1.Node)
	// Runtime returns the options of a node's runtime, to make it fail, hang or be slow, and to script the logs and the
	// answers of its containers; nil is the zero options.
	Runtime func(node string) simulated.Options
	// Mount, if set, is called for each volume that a pod on a simulated node is about to have; its error keeps the pod
	// waiting. Nothing is mounted, but claims must be bound to volumes that the node reaches.
	Mount func(ctx context.Context, node string, m claims.Mount) error
	// Run, if set, runs each node until its context ends, from the given parts, instead of the simulated ones; Runtime,
	// Mount and Prepare are then not used. Packages below node run nodes with real containers.
	Run func(ctx context.Context, parts node.Parts) error
}
