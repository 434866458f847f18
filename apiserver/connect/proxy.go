package connect

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	utilproxy "k8s.io/apimachinery/pkg/util/proxy"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/internal/upgrade"
)

// named is a target as "name", "name:port" or "scheme:name:port".
type named struct{ scheme, name, port string }

func parse(what, id string) (named, error) {
	scheme, name, port, ok := utilnet.SplitSchemeNamePort(id)
	if !ok {
		return named{}, apierrors.NewBadRequest(fmt.Sprintf("invalid %s request %q", what, id))
	}
	return named{scheme, name, port}, nil
}

func (c *Connector) podProxy(ctx context.Context, objects apiserver.Objects, to apiserver.Target, path string) (apiserver.Connection, error) {
	n, err := parse("pod", to.Name)
	if err != nil {
		return nil, err
	}
	pod, err := get[*corev1.Pod](ctx, objects, "pods", to.Namespace, n.name)
	if err != nil {
		return nil, err
	}
	if n.port == "" {
		n.port = firstPort(pod)
	}
	host := ""
	if len(pod.Status.PodIPs) > 0 {
		host = pod.Status.PodIPs[0].IP
	}
	if ip, err := netip.ParseAddr(host); err != nil || !global(ip) {
		return nil, apierrors.NewBadRequest("address not allowed")
	}
	return c.ports.proxy(n.scheme, host, n.port, path), nil
}

func firstPort(pod *corev1.Pod) string {
	for _, container := range pod.Spec.Containers {
		if len(container.Ports) > 0 {
			return strconv.Itoa(int(container.Ports[0].ContainerPort))
		}
	}
	return ""
}

// global tells whether an address is another host's: neither loopback nor link-local.
func global(ip netip.Addr) bool { return ip.Unmap().IsGlobalUnicast() }

func (c *Connector) nodeProxy(ctx context.Context, objects apiserver.Objects, to apiserver.Target, path string) (apiserver.Connection, error) {
	n, err := parse("node", to.Name)
	if err != nil {
		return nil, err
	}
	k, err := c.kubelet(ctx, objects, n.name)
	if err != nil {
		return nil, err
	}
	if n.port == "" || n.port == k.at.Port() {
		return k.proxy(k.at.Scheme, k.at.Hostname(), k.at.Port(), path), nil
	}
	if k.at.Scheme == "http" {
		return nil, apierrors.NewBadRequest("nothing listens on other ports of a node in this process")
	}
	// A kubelet proves its identity. Other servers on the node do not: they must not be on this host.
	ips, err := (&net.Resolver{}).LookupNetIP(ctx, "ip", k.at.Hostname())
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if slices.ContainsFunc(ips, func(ip netip.Addr) bool { return !global(ip) }) {
		return nil, apierrors.NewBadRequest("address not allowed")
	}
	return c.ports.proxy(n.scheme, k.at.Hostname(), n.port, path), nil
}

func (c *Connector) serviceProxy(ctx context.Context, objects apiserver.Objects, to apiserver.Target, path string) (apiserver.Connection, error) {
	n, err := parse("service", to.Name)
	if err != nil {
		return nil, err
	}
	if number, err := strconv.ParseInt(n.port, 10, 64); err == nil {
		svc, err := get[*corev1.Service](ctx, objects, "services", to.Namespace, n.name)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return int64(p.Port) == number })
		if i < 0 {
			return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", number, n.name))
		}
		n.port = svc.Spec.Ports[i].Name
	}
	endpoints, err := get[*corev1.Endpoints](ctx, objects, "endpoints", to.Namespace, n.name)
	switch {
	case err != nil:
		return nil, err
	case len(endpoints.Subsets) == 0:
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", n.name))
	}
	host, port, ok := pick(ctx, objects, to.Namespace, n.port, endpoints.Subsets)
	if !ok {
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", to.Name))
	}
	return c.ports.proxy(n.scheme, host, port, path), nil
}

// pick chooses at random an address that a pod of the namespace really has, and the port of that name.
func pick(ctx context.Context, objects apiserver.Objects, namespace, port string, subsets []corev1.EndpointSubset) (host, at string, ok bool) {
	for _, i := range rand.Perm(len(subsets)) {
		for _, p := range subsets[i].Ports {
			if p.Name != port {
				continue
			}
			for _, j := range rand.Perm(len(subsets[i].Addresses)) {
				if a := subsets[i].Addresses[j]; podHas(ctx, objects, namespace, a) {
					return a.IP, strconv.Itoa(int(p.Port)), true
				}
			}
		}
	}
	return "", "", false
}

func podHas(ctx context.Context, objects apiserver.Objects, namespace string, a corev1.EndpointAddress) bool {
	if a.TargetRef == nil || a.TargetRef.Namespace != namespace {
		return false
	}
	pod, err := get[*corev1.Pod](ctx, objects, "pods", namespace, a.TargetRef.Name)
	return err == nil && slices.ContainsFunc(pod.Status.PodIPs, func(ip corev1.PodIP) bool { return ip.IP == a.IP })
}

// proxy passes on requests of any kind. It rewrites links in the answers so that they lead through the proxy.
func (p peer) proxy(scheme, host, port, path string) apiserver.Connection {
	at := &url.URL{Scheme: scheme, Host: host, Path: path}
	switch {
	case port != "":
		at.Host = net.JoinHostPort(host, port)
	case strings.Contains(host, ":"):
		at.Host = "[" + host + "]"
	}
	if at.Scheme == "" {
		at.Scheme = "http"
	}
	return func(w http.ResponseWriter, r *http.Request) error {
		if upgrade.Wanted(r) {
			to := *at
			to.RawQuery = r.URL.RawQuery
			return p.backend(&to).Proxy(w, r)
		}
		var failure error
		h := utilproxy.NewUpgradeAwareHandler(at, p.transport, true, false, responder{&failure})
		h.ServeHTTP(w, r)
		return failure
	}
}

// responder keeps an error for the caller to answer.
type responder struct{ failure *error }

func (r responder) Error(_ http.ResponseWriter, _ *http.Request, err error) { *r.failure = err }
