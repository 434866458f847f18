package connect

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/internal/upgrade"
	"github.com/keelson-dev/keelson/registry"
)

const (
	kubeletPort = 10250
	dialTimeout = 30 * time.Second
	idleTimeout = 90 * time.Second
)

// Options of a Connector.
type Options struct {
	// TLS is the configuration for kubelets: Certificates has the API server's client certificate, RootCAs the authorities
	// of the kubelets' certificates. nil has no certificate, and the system's authorities.
	TLS *tls.Config
	// AddressTypes are the types of node addresses to use, the preferred one first; empty is InternalIP, ExternalIP,
	// Hostname.
	AddressTypes []corev1.NodeAddressType
	// Kubelets, if set, finds kubelets in this process, by their nodes' names. They are asked by plain HTTP, over the
	// connections that the function returned makes. nil, and a nil function, mean that a kubelet is reached over the network.
	Kubelets func(node string) Dial
	// Ports, if set, is how ports of pods, services and other nodes are reached; nil is over the network.
	Ports Dial
}

// Dial connects to an address, such as "10.0.0.1:80", as net.Dialer.DialContext does.
type Dial = func(ctx context.Context, network, address string) (net.Conn, error)

// Connector is an apiserver.Connector. Make one with New.
type Connector struct {
	addresses []corev1.NodeAddressType
	local     func(node string) Dial
	kubelets  peer // kubelets, whose certificates are verified
	trusting  peer // kubelets whose certificates are not verified, for logs if the client asks for that
	ports     peer // whatever serves the ports of pods and services
}

// peer is how to connect to a kind of server.
type peer struct {
	dial      Dial
	tls       *tls.Config
	transport *http.Transport
}

// newPeer returns a peer over the network, or through the process if dial is set.
func newPeer(dial Dial, config *tls.Config) peer {
	local := dial != nil
	if !local {
		dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	config.NextProtos = nil
	return peer{dial, config, &http.Transport{
		DialContext:     dial,
		TLSClientConfig: config, TLSHandshakeTimeout: dialTimeout, IdleConnTimeout: idleTimeout,
		DisableKeepAlives: local, // connections cost nothing there
	}}
}

// backend returns a server to which upgrade requests are forwarded.
func (p peer) backend(at *url.URL) upgrade.Backend {
	return upgrade.Backend{URL: at, TLS: p.tls, Connect: p.dial}
}

// New returns a Connector. It opens no connections.
func New(o Options) *Connector {
	if len(o.AddressTypes) == 0 {
		o.AddressTypes = []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP, corev1.NodeHostName}
	}
	config := o.TLS.Clone()
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	trusting := config.Clone()
	trusting.InsecureSkipVerify = true
	return &Connector{
		addresses: slices.Clone(o.AddressTypes), local: o.Kubelets, kubelets: newPeer(nil, config), trusting: newPeer(nil, trusting),
		// The authorities of what runs in pods are not known.
		ports: newPeer(o.Ports, &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}), //nolint:gosec // as upstream
	}
}

// Close closes idle connections.
func (c *Connector) Close() {
	for _, p := range []peer{c.kubelets, c.trusting, c.ports} {
		p.transport.CloseIdleConnections()
	}
}

// Connect implements apiserver.Connector.
func (c *Connector) Connect(ctx context.Context, objects apiserver.Objects, to apiserver.Target) (apiserver.Connection, error) {
	switch o := to.Options.(type) {
	case *corev1.PodLogOptions:
		return c.logs(ctx, objects, to, o)
	case *corev1.PodExecOptions:
		s := streams{o.Stdin, o.Stdout, o.Stderr && !o.TTY, o.TTY}
		return c.stream(ctx, objects, to, command{"exec", o.Container, o.Command, s})
	case *corev1.PodAttachOptions:
		s := streams{o.Stdin, o.Stdout, o.Stderr && !o.TTY, o.TTY}
		return c.stream(ctx, objects, to, command{"attach", o.Container, nil, s})
	case *corev1.PodPortForwardOptions:
		return c.portForward(ctx, objects, to, o)
	case *corev1.PodProxyOptions:
		return c.podProxy(ctx, objects, to, o.Path)
	case *corev1.ServiceProxyOptions:
		return c.serviceProxy(ctx, objects, to, o.Path)
	case *corev1.NodeProxyOptions:
		return c.nodeProxy(ctx, objects, to, o.Path)
	}
	return nil, fmt.Errorf("nothing is known of %T", to.Options)
}

// get looks an object up.
func get[T registry.Object](ctx context.Context, objects apiserver.Objects, resource, namespace, name string) (T, error) {
	var none T
	obj, err := objects.Get(ctx, registry.ObjectKey{Resource: schema.GroupResource{Resource: resource}, Namespace: namespace, Name: name})
	if err != nil {
		return none, err
	}
	typed, ok := obj.(T)
	if !ok {
		return none, fmt.Errorf("%s %q is a %T", resource, name, obj)
	}
	return typed, nil
}

// kubelet is how to reach a node's kubelet.
type kubelet struct {
	peer     // verifies its certificate
	trusting peer
	at       *url.URL // scheme, host and port
}

// kubelet looks a node's kubelet up.
func (c *Connector) kubelet(ctx context.Context, objects apiserver.Objects, name string) (kubelet, error) {
	node, err := get[*corev1.Node](ctx, objects, "nodes", "", name)
	if err != nil {
		return kubelet{}, err
	}
	port := strconv.Itoa(int(cmp.Or(max(node.Status.DaemonEndpoints.KubeletEndpoint.Port, 0), kubeletPort)))
	if c.local != nil {
		if dial := c.local(name); dial != nil {
			p := newPeer(dial, &tls.Config{MinVersion: tls.VersionTLS12})
			return kubelet{p, p, &url.URL{Scheme: "http", Host: net.JoinHostPort(name, port)}}, nil
		}
	}
	for _, kind := range c.addresses {
		for _, a := range node.Status.Addresses {
			if a.Type == kind {
				return kubelet{c.kubelets, c.trusting, &url.URL{Scheme: "https", Host: net.JoinHostPort(a.Address, port)}}, nil
			}
		}
	}
	return kubelet{}, fmt.Errorf("no preferred addresses found; known addresses: %v", node.Status.Addresses)
}

// containerOf returns the container of that name, or without a name the only one.
func containerOf(pod *corev1.Pod, name string) (string, error) {
	var names []string
	for _, c := range pod.Spec.InitContainers {
		names = append(names, c.Name)
	}
	for _, c := range pod.Spec.Containers {
		names = append(names, c.Name)
	}
	for _, c := range pod.Spec.EphemeralContainers {
		names = append(names, c.Name)
	}
	switch {
	case name != "" && !slices.Contains(names, name):
		return "", apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", name, pod.Name))
	case name != "":
		return name, nil
	case len(pod.Spec.Containers) == 1:
		return pod.Spec.Containers[0].Name, nil
	case len(pod.Spec.Containers) == 0:
		return "", apierrors.NewBadRequest("a container name must be specified for pod " + pod.Name)
	}
	return "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s, choose one of: [%s]", pod.Name, strings.Join(names, " ")))
}

// command is what an upgraded request to a container asks for.
type command struct {
	verb, container string
	args            []string
	streams
}

func (c *Connector) stream(ctx context.Context, objects apiserver.Objects, to apiserver.Target, run command) (apiserver.Connection, error) {
	pod, err := get[*corev1.Pod](ctx, objects, "pods", to.Namespace, to.Name)
	if err != nil {
		return nil, err
	}
	container, err := containerOf(pod, run.container)
	if err != nil {
		return nil, err
	}
	if pod.Spec.NodeName == "" {
		return nil, noHost(to.Name)
	}
	k, err := c.kubelet(ctx, objects, pod.Spec.NodeName)
	if err != nil {
		return nil, err
	}
	k.at.Path = "/" + run.verb + "/" + pod.Namespace + "/" + pod.Name + "/" + container
	query := run.query()
	if len(run.args) > 0 {
		query["command"] = run.args
	}
	k.at.RawQuery = query.Encode()
	backend := k.backend(k.at)
	return func(w http.ResponseWriter, r *http.Request) error {
		switch {
		case !upgrade.Wanted(r):
			return upgradeRequired()
		case offers(r, protocolV5):
			return translate(w, r, backend, run.streams)
		}
		return backend.Proxy(w, r)
	}, nil
}

func (c *Connector) portForward(ctx context.Context, objects apiserver.Objects, to apiserver.Target, o *corev1.PodPortForwardOptions) (apiserver.Connection, error) {
	pod, err := get[*corev1.Pod](ctx, objects, "pods", to.Namespace, to.Name)
	if err != nil {
		return nil, err
	}
	if pod.Spec.NodeName == "" {
		return nil, noHost(to.Name)
	}
	k, err := c.kubelet(ctx, objects, pod.Spec.NodeName)
	if err != nil {
		return nil, err
	}
	k.at.Path = "/portForward/" + pod.Namespace + "/" + pod.Name
	if len(o.Ports) > 0 {
		var ports []string
		for _, p := range o.Ports {
			ports = append(ports, strconv.Itoa(int(p)))
		}
		k.at.RawQuery = url.Values{"port": {strings.Join(ports, ",")}}.Encode()
	}
	backend := k.backend(k.at)
	return func(w http.ResponseWriter, r *http.Request) error {
		switch {
		case !upgrade.Wanted(r):
			return upgradeRequired()
		case len(tunneled(r)) > 0:
			return tunnel(w, r, backend)
		}
		return backend.Proxy(w, r)
	}, nil
}

func noHost(pod string) error {
	return apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", pod))
}

func upgradeRequired() error { return apierrors.NewBadRequest("Upgrade request required") }
