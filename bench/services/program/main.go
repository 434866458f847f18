// Program is keelson's side of bench/services: the proxy of services, or the DNS of a cluster, for any API server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/client/kubeconfig"
	"github.com/keelson-dev/keelson/dns"
	"github.com/keelson-dev/keelson/dns/server"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/wire"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/proxy"
	"github.com/keelson-dev/keelson/proxy/nftables"
)

func main() {
	path := flag.String("kubeconfig", "", "how to reach the API server")
	address := flag.String("dns", "", "where to answer names, instead of being a proxy")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *path, *address)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// sources are what both sides of the program read.
type sources struct {
	services *informer.Informer[*corev1.Service]
	slices   *informer.Informer[*discoveryv1.EndpointSlice]
}

func run(ctx context.Context, path, address string) error {
	access, err := kubeconfig.Load(kubeconfig.Options{Path: path})
	if err != nil {
		return err
	}
	services, err := watched[*corev1.Service](access.Config, corev1.SchemeGroupVersion, "services")
	if err != nil {
		return err
	}
	slices, err := watched[*discoveryv1.EndpointSlice](access.Config, discoveryv1.SchemeGroupVersion, "endpointslices")
	if err != nil {
		return err
	}
	in := sources{services, slices}
	if address != "" {
		return in.names(ctx, access.Config, address)
	}
	writer, err := nftables.New(nftables.Options{})
	if err != nil {
		return err
	}
	p := proxy.New(proxy.Sources{Services: services, EndpointSlices: slices}, writer, proxy.Options{
		Settings: proxy.Settings{Services: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}}, Nodes: []string{"node-0"},
	})
	return errors.Join(lifecycle.Group(services, slices, p).Run(ctx), writer.Close())
}

// names serves DNS.
func (in sources) names(ctx context.Context, config *rest.Config, address string) error {
	namespaces, err := watched[*corev1.Namespace](config, corev1.SchemeGroupVersion, "namespaces")
	if err != nil {
		return err
	}
	index := dns.NewIndex(dns.Sources{Services: in.services, EndpointSlices: in.slices, Namespaces: namespaces})
	defer index.Close()
	zone, err := dns.New(index, dns.Options{TTL: 30})
	if err != nil {
		return err
	}
	socket, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp", address)
	if err != nil {
		return err
	}
	s, err := server.New(zone, server.Options{Packets: []net.PacketConn{socket}})
	if err != nil {
		return err
	}
	return lifecycle.Group(in.services, in.slices, namespaces, s).Run(ctx)
}

func watched[T informer.Object](config *rest.Config, version schema.GroupVersion, resource string) (*informer.Informer[T], error) {
	source, err := wire.New[T](config, scheme.Scheme, version.WithResource(resource), wire.Options{})
	if err != nil {
		return nil, err
	}
	kept := informer.Transform(source, func(o T) (T, error) {
		o.SetManagedFields(nil)
		return o, nil
	}, func(T, error) {})
	return informer.New(kept, informer.Options{}), nil
}
