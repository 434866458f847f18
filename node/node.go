package node

import (
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/kubelet/objects"
)

// ErrParts is wrapped by Check's errors.
var ErrParts = errors.New("a node lacks a part of its cluster")

// Parts are a node's access to its cluster: no more than the node authorizer allows. Name, Client, Pods, Node and
// Services are required.
type Parts struct {
	// Name is the node's.
	Name string
	// PodCIDRs are the networks of its pods, at most one of each IP family.
	PodCIDRs []netip.Prefix
	// Capacity overrides the machine's capacity.
	Capacity corev1.ResourceList
	// Client acts as the node: system:node:NAME in the group system:nodes.
	Client client.Client
	// Recorder publishes events that the node reports; nil discards them.
	Recorder events.Recorder
	// Pods are those of this node, Node is its own object, Services are all. Their creator runs them.
	Pods     *informer.Informer[*corev1.Pod]
	Node     *informer.Informer[*corev1.Node]
	Services *informer.Informer[*corev1.Service]
	// Watches open watches of configmaps and secrets; without them every use reads the object.
	Watches objects.Watches
	// Authenticator identifies the clients of the node's own server, Authorizer decides what they may do.
	Authenticator authn.Authenticator
	Authorizer    authz.Authorizer
}

// Check lists missing parts. Its error is ErrParts.
func (p *Parts) Check() error {
	switch {
	case p.Name == "":
		return fmt.Errorf("%w: its name", ErrParts)
	case p.Client == nil:
		return fmt.Errorf("%w: a client", ErrParts)
	case p.Pods == nil || p.Node == nil || p.Services == nil:
		return fmt.Errorf("%w: its pods, itself and the services", ErrParts)
	}
	return nil
}
