package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/keelson-dev/keelson/apiserver/serving"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/serviceaccount"
	"github.com/keelson-dev/keelson/client/kubeconfig"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/customresources"
	"github.com/keelson-dev/keelson/cluster/policies"
	"github.com/keelson-dev/keelson/cluster/webhooks"
	"github.com/keelson-dev/keelson/component/controllermanager"
	"github.com/keelson-dev/keelson/controllers/loadbalancer"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/node/nodetools"
	"github.com/keelson-dev/keelson/pki"
	"github.com/keelson-dev/keelson/registry/kubernetesservice"
	"github.com/keelson-dev/keelson/registry/resource/selectors"
)

// life is the validity of certificates; they are renewed at startup.
const life = 365 * 24 * time.Hour

// run starts the cluster, prints how to use it, and stops it when ctx ends.
func run(ctx context.Context, s settings, began time.Time, out io.Writer) (err error) {
	defer func() {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			err = nil // interrupted before anything had started
		}
	}()
	if err := claim(s.dataDir); err != nil {
		return err
	}
	nodes, err := s.machines(ctx, out)
	if err != nil {
		return err
	}
	if s.down {
		return nodes.down(ctx)
	}
	if nodes != nil {
		release, err := hold(ctx, s.dataDir)
		if err != nil {
			return err
		}
		defer release()
	}
	authority, err := pki.Open(filepath.Join(s.dataDir, "pki"), "kubernetes")
	if err != nil {
		return err
	}
	listener, err := serving.Listen(ctx, s.listen)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }() // if serving did not
	return s.serve(ctx, authority, listener, nodes, console{out, began})
}

// console prints that the cluster is ready.
type console struct {
	out   io.Writer
	began time.Time
}

// serve runs the cluster on the listener.
func (s *settings) serve(ctx context.Context, authority *pki.Authority, listener net.Listener, nodes *machines, to console) (err error) {
	inside := nodes.inside(listener.Addr())
	shown, roots, err := s.foreign.serving(authority, listener.Addr(), inside.Addr())
	if err != nil {
		return err
	}
	if err := s.credentials(ctx, authority, serverURL(listener.Addr()), roots); err != nil {
		return err
	}
	o := s.options()
	closeLog, err := s.audit(&o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	people, err := s.people(authority)
	if err != nil {
		return err
	}
	s.given.show(&o)
	s.addVolumes(nodes, &o)
	if err := errors.Join(s.aggregate(&o), s.permission.apply(s, &o)); err != nil {
		return err
	}
	o.Server.RootCA, o.Server.TokenIssuer, o.Server.Signer = roots, s.foreign.issuer, authority
	if o.Server.ClientCA, err = s.foreign.clientRoots(authority); err != nil {
		return err
	}
	beside := []lifecycle.Runnable{people}
	if nodes != nil {
		beside = append(beside, nodes.join(authority, advertised(listener.Addr(), inside), &o)...)
	}
	if nodes != nil || s.disabled("nodes") { // other clusters' kubelets have servers, too
		way, err := connector(authority)
		if err != nil {
			return err
		}
		defer way.Close()
		o.Server.Connector = way
	}
	o.Server.Metrics, o.Server.Address = true, advertised(listener.Addr(), inside)
	people.apply(&o)
	if o.Server.TokenKeys, err = s.tokenKeys(); err != nil {
		return err
	}
	closeStore, err := s.openStore(ctx, &o, &beside, to.out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	c, err := cluster.New(o)
	if err != nil {
		return err
	}
	servers, err := s.servers(ctx, c, shown, listener, inside)
	if err != nil {
		return err
	}
	return together(ctx, c, inTurn(lifecycle.Group(beside...), lifecycle.Group(servers...)), func() {
		s.welcome(to.out, listener.Addr(), time.Since(to.began))
	}, func() { fmt.Fprintln(to.out, "ending: requests finish, watches end") })
}

// machines returns the nodes of real containers, nil if they are simulated.
func (s *settings) machines(ctx context.Context, out io.Writer) (*machines, error) {
	if s.runtime != "containerd" && !s.down {
		return nil, nil
	}
	m, err := newMachines(ctx, *s, out)
	if errors.Is(err, nodetools.ErrUnsupported) && !s.down {
		fmt.Fprintf(out, "containers are simulated: %v\n", err)
		return nil, nil
	}
	return m, err
}

// together runs the cluster and its servers. When ctx or one of them ends, the servers stop first, which lets requests
// in flight be answered.
func together(ctx context.Context, c *cluster.Cluster, servers lifecycle.Runnable, ready, ending func()) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ran := make(chan error, 1)
	go func() {
		ran <- c.Run(context.WithoutCancel(ctx))
		stop()
	}()
	if err := c.WaitReady(ctx); err != nil { // it failed, which Run reports, or was interrupted
		_ = c.Close()
		if err := <-ran; !errors.Is(err, cluster.ErrStarted) { // closed before Run had started
			return err
		}
		return nil
	}
	ready()
	context.AfterFunc(ctx, ending)
	err := servers.Run(ctx)
	stop()
	_ = c.Close() // Run returns the same
	return errors.Join(err, <-ran)
}

// inTurn runs both, and ends the second only when the first has ended: hosts need the API server to the last.
func inTurn(first, second lifecycle.Runnable) lifecycle.Runnable {
	return lifecycle.Func(func(ctx context.Context) error {
		later, end := context.WithCancel(context.WithoutCancel(ctx))
		defer end()
		return lifecycle.Group(lifecycle.Func(func(ctx context.Context) error {
			defer end()
			if err := first.Run(ctx); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		}), lifecycle.Func(func(context.Context) error { return second.Run(later) })).Run(ctx)
	})
}

// certificate returns the server's certificate.
func certificate(authority *pki.Authority, address net.Addr, inside netip.Addr) (tls.Certificate, error) {
	names := hosts(address)
	if inside.IsValid() {
		names = append(names, inside.String())
	}
	pair, err := authority.Keep("apiserver", pki.Subject{Name: "kube-apiserver", Hosts: names}, life)
	if err != nil {
		return tls.Certificate{}, err
	}
	return pair.TLS()
}
func (s *settings) logger() *slog.Logger {
	if s.verbose {
		return slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// options returns those of the cluster.
func (s *settings) options() cluster.Options {
	o := cluster.Options{Logger: s.logger(), Nodes: cluster.Nodes{Count: s.nodes, Network: s.network}}
	o.Extensions = []cluster.Extension{customresources.Extension(customresources.Options{})}
	s.inflight.apply(&o.Server)
	o.Components = []cluster.Component{}
	if !s.disabled("controllers") {
		o.Components = append(o.Components, controllermanager.Components()...)
		if len(s.balancers) > 0 {
			o.Components = append(o.Components, controllermanager.LoadBalancer(loadbalancer.Options{Ranges: s.balancers, Default: true}))
		}
	}
	if !s.disabled("scheduler") {
		s.scheduling.apply(&o, s.nodes)
	}
	o.Server.Selectors = selectors.Compile
	hooks := webhooks.New(webhooks.Options{Wrap: s.spans.wrap()})
	o.Kinds = append(o.Kinds, hooks.Kinds()...)
	rules := policies.New(policies.Options{})
	o.Kinds = append(o.Kinds, rules.Kinds()...)
	o.Admission = slices.Concat(cluster.DefaultAdmission(), hooks.Admission(), rules.Admission())
	s.plugins.apply(&o)
	if !s.disabled("controllers") {
		o.Components = append(o.Components, rules.Components()...)
	}
	if s.disabled("nodes") {
		o.Nodes.Count = 0
	}
	return o
}

// tokenKeys are the keys of service accounts' tokens, which are kept across restarts.
func (s *settings) tokenKeys() (*serviceaccount.Keys, error) {
	key, err := serviceaccount.OpenKey(filepath.Join(s.dataDir, "pki", "sa.key"))
	if err != nil {
		return nil, err
	}
	return serviceaccount.NewKeys(key)
}

// hosts are the names under which clients reach the server.
func hosts(address net.Addr) []string {
	names := []string{
		"localhost", "127.0.0.1", "::1", "10.96.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local",
	}
	if tcp, ok := address.(*net.TCPAddr); ok && !tcp.IP.IsUnspecified() {
		names = append(names, tcp.IP.String())
	}
	if name, err := os.Hostname(); err == nil {
		names = append(names, name)
	}
	return names
}

// advertised is the server's address for pods, as in the service kubernetes.
func advertised(address net.Addr, inside netip.AddrPort) netip.AddrPort {
	if inside.IsValid() {
		return inside
	}
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	listen := tcp.AddrPort()
	at, ok := kubernetesservice.Advertised(listen.Addr().Unmap(), netip.MustParsePrefix("10.96.0.0/12"))
	if !ok {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(at, listen.Port())
}

// serverURL is the server's URL for clients on this machine.
func serverURL(address net.Addr) string {
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return "https://" + address.String()
	}
	host := tcp.IP.String()
	if tcp.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "https://" + net.JoinHostPort(host, fmt.Sprint(tcp.Port))
}

// credentials writes kubeconfig files: one for the administrator, and one for each disabled component.
func (s *settings) credentials(ctx context.Context, authority *pki.Authority, url string, roots []byte) error {
	people := map[string]pki.Subject{s.kubeconfig: {Name: "kubernetes-admin", Groups: []string{authn.GroupMasters}}}
	if s.disabled("scheduler") {
		people[filepath.Join(s.dataDir, "scheduler.conf")] = pki.Subject{Name: "system:kube-scheduler"}
	}
	if s.disabled("controllers") {
		people[filepath.Join(s.dataDir, "controller-manager.conf")] = pki.Subject{Name: "system:kube-controller-manager"}
	}
	for path, subject := range people {
		pair, err := authority.Issue(subject, life)
		if err != nil {
			return err
		}
		if err := kubeconfig.Add(ctx, path, kubeconfig.Entry{
			Name: "keelson", User: subject.Name, Server: url, CA: roots, Certificate: pair.Certificate, Key: pair.Key,
		}); err != nil {
			return err
		}
	}
	return nil
}

func (s *settings) welcome(out io.Writer, address net.Addr, took time.Duration) {
	fmt.Fprintf(out, "ready in %d ms: Kubernetes v1.37 API at %s\n", took.Milliseconds(), serverURL(address))
	fmt.Fprintf(out, "kubeconfig: %s\n\n", s.kubeconfig)
	fmt.Fprintf(out, "try, in another terminal:\n  export KUBECONFIG=%s\n", s.kubeconfig)
	fmt.Fprint(out, "  kubectl create deployment nginx --image=nginx --replicas=3\n  kubectl get pods --watch\n  kubectl explain deployment.spec.strategy\n\n")
	switch s.storage {
	case "embedded":
		fmt.Fprintf(out, "Ctrl-C ends it; the state stays in %s\n", s.dataDir)
	case "etcd":
		fmt.Fprintf(out, "Ctrl-C ends it; the state stays in etcd at %s\n", s.etcd.endpoints)
	default:
		fmt.Fprintln(out, "Ctrl-C ends it, and the state with it")
	}
}
