package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/token"
	tokenreview "github.com/keelson-dev/keelson/authn/webhook"
	"github.com/keelson-dev/keelson/authn/x509"
	accessreview "github.com/keelson-dev/keelson/authz/webhook"
	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/kubeconfig"
	keelsonrest "github.com/keelson-dev/keelson/client/rest"
	"github.com/keelson-dev/keelson/cluster/host"
	"github.com/keelson-dev/keelson/cri/remote"
	"github.com/keelson-dev/keelson/events/publish"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/wire"
	"github.com/keelson-dev/keelson/kubelet/objects"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/pki"
)

// node is all that runs.
type node struct {
	settings settings
	config   *rest.Config
	client   client.Client
	runtime  *remote.Runtime
	log      *slog.Logger
	runs     []lifecycle.Runnable
}

// newNode assembles the node. The order is that of the data: the way to the API server, what is read there, the machine.
func newNode(ctx context.Context, s settings, out io.Writer) (*node, error) {
	n := &node{settings: s, log: slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level(s.debug)}))}
	access, err := kubeconfig.Load(kubeconfig.Options{Path: s.kubeconfig})
	if err != nil {
		return nil, err
	}
	n.config = access.Config
	n.config.ContentType, n.config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	n.config.QPS, n.config.Burst, n.config.UserAgent = 50, 100, "keelson-kubelet" // upstream's limits
	if n.client, err = keelsonrest.New(n.config, scheme.Scheme); err != nil {
		return nil, err
	}
	if n.runtime, err = remote.New(s.endpoint, remote.Options{}); err != nil {
		return nil, err
	}
	parts, err := n.parts()
	if err != nil {
		return nil, err
	}
	address, err := n.address(ctx)
	if err != nil {
		return nil, err
	}
	options, err := s.options(address, n.log)
	if err != nil {
		return nil, err
	}
	if options.Server, err = n.server(ctx, address); err != nil {
		return nil, err
	}
	h, err := host.New(parts, options)
	if err != nil {
		return nil, errors.Join(err, closed(options.Server.Listener))
	}
	n.runs = append(n.runs, h)
	fmt.Fprintf(out, "node %s at %s", s.name, address)
	if l := options.Server.Listener; l != nil {
		fmt.Fprintf(out, ", server at https://%s", l.Addr())
	}
	fmt.Fprintf(out, ", runtime at %s, API server at %s\n", n.runtime.Endpoint(), n.config.Host)
	return n, nil
}

// run runs it all until the context ends.
func (n *node) run(ctx context.Context) error {
	return errors.Join(lifecycle.Group(n.runs...).Run(ctx), n.runtime.Close())
}

func closed(l net.Listener) error {
	if l == nil {
		return nil
	}
	return l.Close()
}

func level(debug bool) slog.Level {
	if debug {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// parts are what the node has of its cluster: no more than the node authorizer lets it read.
func (n *node) parts() (host.Parts, error) {
	pods, err := watched[*corev1.Pod](n, "pods", wire.Options{FieldSelector: "spec.nodeName=" + n.settings.name})
	if err != nil {
		return host.Parts{}, err
	}
	self, err := watched[*corev1.Node](n, "nodes", wire.Options{FieldSelector: "metadata.name=" + n.settings.name})
	if err != nil {
		return host.Parts{}, err
	}
	services, err := watched[*corev1.Service](n, "services", wire.Options{})
	if err != nil {
		return host.Parts{}, err
	}
	recorder := publish.New(n.client, publish.Options{Component: "kubelet", Host: n.settings.name, Logger: n.log})
	n.runs = append(n.runs, pods, self, services, recorder)
	return host.Parts{
		Name: n.settings.name, Runtime: n.runtime, Client: n.client, Recorder: recorder,
		Pods: pods, Node: self, Services: services,
		Watches: objects.Watches{ConfigMap: single[*corev1.ConfigMap](n, "configmaps"), Secret: single[*corev1.Secret](n, "secrets")},
	}, nil
}

func watched[T informer.Object](n *node, resource string, o wire.Options) (*informer.Informer[T], error) {
	source, err := wire.New[T](n.config, scheme.Scheme, corev1.SchemeGroupVersion.WithResource(resource), o)
	if err != nil {
		return nil, err
	}
	return informer.New(source, informer.Options{Logger: n.log}), nil
}

// single makes sources of one object: a node may read the configmaps and secrets of its pods each by its name.
func single[T informer.Object](n *node, resource string) func(namespace, name string) (informer.Source[T], error) {
	return func(namespace, name string) (informer.Source[T], error) {
		return wire.New[T](n.config, scheme.Scheme, corev1.SchemeGroupVersion.WithResource(resource), wire.Options{
			Namespace: namespace, FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(),
		})
	}
}

// address is the node's.
func (n *node) address(ctx context.Context) (netip.Addr, error) {
	if ip, ok := netip.AddrFromSlice(n.settings.address); ok {
		return ip.Unmap(), nil
	}
	server, err := url.Parse(n.config.Host)
	if err != nil {
		return netip.Addr{}, err
	}
	return addressTo(ctx, net.JoinHostPort(server.Hostname(), cmp.Or(server.Port(), "443")))
}

// server is the node's own, whose clients the API server knows and judges.
func (n *node) server(ctx context.Context, address netip.Addr) (s host.Server, err error) {
	at := n.settings.listen
	if at == "none" {
		return s, nil
	}
	tokens := review[*authenticationv1.TokenReview](n, authenticationv1.SchemeGroupVersion, "tokenreviews")
	authenticators := []authn.Authenticator{token.New(tokenreview.New(tokenreview.ReviewerFunc(tokens), tokenreview.Options{}))}
	if n.settings.clientCA != "" {
		authority, err := x509.Open(n.settings.clientCA, x509.Options{Log: n.log})
		if err != nil {
			return s, fmt.Errorf("--client-ca: %w", err)
		}
		n.runs = append(n.runs, authority)
		authenticators = append(authenticators, x509.New(authority))
	}
	s.Authenticator = authn.WithGroup(authn.Union(authenticators...), authn.GroupAuthenticated)
	access := review[*authorizationv1.SubjectAccessReview](n, authorizationv1.SchemeGroupVersion, "subjectaccessreviews")
	s.Authorizer = accessreview.New(accessreview.ReviewerFunc(access), accessreview.Options{})
	if s.Certificate, err = n.certificate(address); err != nil {
		return s, fmt.Errorf("the server's certificate: %w", err)
	}
	s.Listener, err = new(net.ListenConfig).Listen(ctx, "tcp", cmp.Or(at, net.JoinHostPort(address.String(), "10250")))
	return s, err
}

// certificate returns what looks for the server's certificate at each handshake, so that a new one is used when it is
// there: a file's, or one that is made here.
func (n *node) certificate(address netip.Addr) (find func() (*tls.Certificate, error), err error) {
	s := n.settings
	find = func() (*tls.Certificate, error) {
		c, err := tls.LoadX509KeyPair(s.certificate, s.key)
		return &c, err
	}
	if s.certificate == "" {
		if err := os.MkdirAll(s.root, 0o750); err != nil {
			return nil, err
		}
		own, err := pki.Open(filepath.Join(s.root, "pki"), s.name+"-ca")
		if err != nil {
			return nil, err
		}
		find = func() (*tls.Certificate, error) {
			pair, err := own.Keep("kubelet", pki.Subject{Name: s.name, Hosts: []string{s.name, address.String()}}, 365*24*time.Hour)
			if err != nil {
				return nil, err
			}
			c, err := pair.TLS()
			return &c, err
		}
	}
	_, err = find()
	return find, err
}

// review asks the API server a question.
func review[T runtime.Object](n *node, group schema.GroupVersion, resource string) func(context.Context, T) (T, error) {
	return func(ctx context.Context, question T) (answer T, err error) {
		obj, err := n.client.Create(ctx, client.Target{Resource: group.WithResource(resource)}, question, metav1.CreateOptions{})
		if err != nil {
			return answer, err
		}
		answer, ok := obj.(T)
		if !ok {
			return answer, fmt.Errorf("a %T for a %T", obj, question)
		}
		return answer, nil
	}
}
