package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	"github.com/keelson-dev/keelson/node"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/allocation"
	"github.com/keelson-dev/keelson/storage"
)

// Options of a Cluster. The zero value is a whole control plane in memory, without nodes.
type Options struct {
	// Nodes are the simulated nodes.
	Nodes Nodes
	// Components are what runs beside the API server; nil is DefaultComponents, an empty slice is none. Each has an
	// identity.
	Components []Component
	// Disable leaves components and admission plugins out, by their names.
	Disable []string
	// Dir is where an embedded, durable store keeps its files; empty keeps all in memory.
	Dir string
	// Store, if set, is used instead, and not closed by Close.
	Store storage.Store
	// Kinds are served beside the built-in ones.
	Kinds []registry.Kind
	// Authenticators are asked in their order who makes a request, after the one for clients in this process; nil is
	// DefaultAuthenticators.
	Authenticators []AuthenticatorStage
	// Authorizers are asked in their order whether it may; nil is DefaultAuthorizers.
	Authorizers []AuthorizerStage
	// Admission plugins change and judge what is written; nil is DefaultAdmission. Those that upstream knows run in
	// upstream's order, others behind them, in the order given.
	Admission []AdmissionStage
	// Services are what services get.
	Services Services
	// Seed, if not nil, makes UIDs, generated names and all other choices the same in each run.
	Seed *uint64
	// Settle is how long controllers and scheduler wait after something happened, so that they
	// see together what happens at the same moment. In a synctest bubble, with a Seed, any
	// positive value makes runs repeat; on a real clock it only slows them down.
	Settle time.Duration
	// Server is how the API server is reached and what it keeps record of.
	Server Server
	// OnMutation, if set, turns the mutation detector on: it is told of every object in a shared
	// cache that somebody changed, when that object is replaced or removed, or by Close.
	OnMutation func(error)
	Logger     *slog.Logger
}

// Services options. The zero value is upstream's defaults.
type Services struct {
	// Networks are those of cluster IPs: one, or one of each family, that of the default family
	// first; nil is 10.96.0.0/12.
	Networks []netip.Prefix
	// NodePorts are given out to services that ask for them; the zero value is 30000 to 32767.
	NodePorts allocation.PortRange
}

// networks are those of cluster IPs.
func (s *Services) networks() []netip.Prefix {
	if len(s.Networks) > 0 {
		return s.Networks
	}
	return []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 96, 0, 0}), 12)}
}

// nodePorts are those that are given out.
func (s *Services) nodePorts() allocation.PortRange {
	if s.NodePorts == (allocation.PortRange{}) {
		return allocation.NodePorts()
	}
	return s.NodePorts
}

// Server options for the API server. The zero value is one that is reached in process alone.
type Server struct {
	// RootCA is the PEM of the authority that pods verify the API server by, which the
	// root-ca-certificate-publisher-controller publishes; in process there is none.
	RootCA []byte
	// ClientCA is the PEM of the authority by which Options.Authenticators verify clients'
	// certificates. It is published in kube-system, for servers that leave authentication to
	// this one.
	ClientCA []byte
	// TokenIssuer is the URL in tokens of service accounts, and whom they are meant for unless they say
	// otherwise; empty is https://kubernetes.default.svc.cluster.local, which kubeadm's clusters have. Only
	// that of an https URL can be discovered by others.
	TokenIssuer string
	// TokenKeys sign the tokens of service accounts; nil are keys that nobody else ever knows, so
	// that tokens end with the cluster.
	TokenKeys *serviceaccount.Keys
	// Audit, if set, records requests.
	Audit *audit.Log
	// MaxInFlight and MaxMutatingInFlight are those of apiserver.Options.
	MaxInFlight, MaxMutatingInFlight int
	// Metrics serves /metrics.
	Metrics bool
	// Checks are asked by probes beside the server's own.
	Checks []health.Check
	// Connector leads to containers of nodes that have servers: logs, exec and so on. nil says that
	// there is no way. It connects as the user that kube-apiserver-kubelet-client is, who is then
	// allowed all of a kubelet's API.
	Connector apiserver.Connector
	// Address is where nodes and pods reach the server, if they do: the service kubernetes in the
	// namespace default leads there. It does not exist when there is no address, or a loopback one.
	Address netip.AddrPort
}

// setDefaults fills in what is nil, and leaves out what is disabled.
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
	return errors.Join(checkComponents(o.Components), checkStages("authenticator", o.Authenticators),
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

// checkStages finds what is wrong with a chain.
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

// check finds the mistakes that can be seen before anything is opened.
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

// network is what nodes' pod networks are cut out of.
func (n *Nodes) network() netip.Prefix {
	if n.Network.IsValid() {
		return n.Network.Masked()
	}
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 64, 0, 0}), 10)
}

// Nodes are a kubelet each, over a runtime that keeps state and starts nothing unless Run says
// otherwise.
type Nodes struct {
	// Count is how many there are; they are called node-0, node-1 and so on.
	Count int
	// Network is what the nodes' pod networks of 254 addresses are cut out of, in their order; the
	// zero value is 10.64.0.0/10.
	Network netip.Prefix
	// Capacity of each; empty is 8 CPUs, 32 GiB and 110 pods.
	Capacity corev1.ResourceList
	// Prepare, if set, may change a node's labels, taints and capacity before it registers.
	Prepare func(node *corev1.Node)
	// Runtime returns the options of a node's runtime, to make it fail, hang or slow; nil is
	// the zero ones.
	Runtime func(node string) simulated.Options
	// Run, if set, runs the nodes instead, each as long as the context lasts; it starts nothing
	// that the parts do not offer. Runtime and Prepare are then not asked. Packages below node run nodes
	// of real containers.
	Run func(ctx context.Context, parts node.Parts) error
}
