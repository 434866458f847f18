package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/keelson-dev/keelson/apiserver/serving"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/customresources"
	"github.com/keelson-dev/keelson/cluster/policies"
	"github.com/keelson-dev/keelson/cluster/webhooks"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/registry/kubernetesservice"
	"github.com/keelson-dev/keelson/registry/resource/selectors"
	"github.com/keelson-dev/keelson/storage/wal"
)

const apiServerUsage = `kube-apiserver serves the Kubernetes API as keelson implements it, for envtest. It has the flags of the upstream program
that matter to tests; others are told on standard error and have no effect.`

// grace is how long requests may take to finish at the end; watches end at once. Tests that end keep connections that nobody
// closes.
const grace = 100 * time.Millisecond

// apiServer are the settings of kube-apiserver.
type apiServer struct {
	address   string
	port      int
	advertise string
	etcd      []string
	verbosity int
	without   ignored
	serving   servingFlags
	people    peopleFlags
	access    accessFlags
	audit     auditFlags
	services  serviceFlags
	workloads workloads
	tell      func(format string, args ...any)
}

func (s *apiServer) define(f *pflag.FlagSet) {
	f.StringVar(&s.address, "bind-address", "0.0.0.0", "the address to listen at")
	f.IntVar(&s.port, "secure-port", 6443, "the port to listen at, over TLS; 0 takes a free one")
	f.StringVar(&s.advertise, "advertise-address", "", "the address of this server in the service kubernetes")
	f.StringSliceVar(&s.etcd, "etcd-servers", nil, "the URL of the etcd beside this program, which holds the state")
	f.IntVarP(&s.verbosity, "v", "v", 0, "from 1 on, tell what the server does")
	s.serving.define(f)
	s.people.define(f)
	s.access.define(f)
	s.services.define(f)
	s.audit.define(f)
	s.workloads.define(f)
	s.without.define(f)
}

// runAPIServer is the program kube-apiserver.
func runAPIServer(ctx context.Context, args []string) error {
	s := apiServer{tell: tell(apiServerName)}
	f := newFlags(apiServerName)
	s.define(f)
	earlier, err := remembered()
	if err != nil {
		return err
	}
	if err := parseFlags(f, append(earlier, args...), s.tell); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			fmt.Println(usageOf(apiServerUsage, f))
		}
		return err
	}
	if err := s.check(); err != nil {
		return err
	}
	s.without.say(s.tell)
	ctx, stop := withParent(ctx)
	defer stop()
	return s.run(ctx)
}

func (s *apiServer) check() error {
	if len(s.etcd) == 0 {
		return fmt.Errorf("%w: --etcd-servers is missing: name the URL of the etcd beside this program", errUsage)
	}
	if len(s.etcd) > 1 {
		s.tell("--etcd-servers: all but the first are ignored")
	}
	return errors.Join(s.access.check(), s.workloads.check())
}

// run serves until ctx ends. It listens first: clients that connect before all is ready wait, instead of trying again later.
func (s *apiServer) run(ctx context.Context) (err error) {
	listener, err := serving.Listen(ctx, net.JoinHostPort(s.address, fmt.Sprint(s.port)))
	if err != nil {
		return fmt.Errorf("--secure-port: %w", err)
	}
	defer func() { _ = listener.Close() }() // if serving did not
	lent, err := borrow(ctx, s.etcd[0])
	if err != nil {
		return err
	}
	shown, err := s.serving.certificate(listener.Addr())
	if err != nil {
		return err
	}
	o, beside, err := s.options(listener.Addr())
	if err != nil {
		return err
	}
	log, closeLog, err := s.audit.open(s.tell, o.Logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	store, err := wal.Open(lent.Dir, wal.Options{NoSync: lent.NoSync, Logger: o.Logger})
	if errors.Is(err, wal.ErrInUse) {
		return fmt.Errorf("--etcd-servers %s: another kube-apiserver works with it, and there can be one at a time: %w", s.etcd[0], err)
	}
	if err != nil {
		return fmt.Errorf("--etcd-servers %s: %w", s.etcd[0], err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	o.Store, o.Server.Audit = store, log
	c, err := cluster.New(o)
	if err != nil {
		return err
	}
	s.services.sayUnserved(c.Registry().Kinds(), s.tell)
	return together(ctx, c, beside, listener, shown)
}

// options returns those of the cluster, and what runs beside it.
func (s *apiServer) options(address net.Addr) (cluster.Options, lifecycle.Runnable, error) {
	hooks, rules := webhooks.New(webhooks.Options{}), policies.New(policies.Options{})
	o := cluster.Options{
		Kinds:      slices.Concat(hooks.Kinds(), rules.Kinds()),
		Admission:  slices.Concat(cluster.DefaultAdmission(), hooks.Admission(), rules.Admission()),
		Extensions: []cluster.Extension{customresources.Extension(customresources.Options{})},
		Components: []component.Component{},
		Nodes:      cluster.Nodes{Count: s.workloads.nodes},
		Logger:     s.logger(),
	}
	if s.workloads.controllers {
		o.Components = append(cluster.DefaultComponents(), rules.Components()...)
	}
	o.Server.Metrics, o.Server.CBOR, o.Server.Selectors = true, s.without.cbor(), selectors.Compile
	files, err := s.people.apply(&o)
	if err != nil {
		return o, nil, err
	}
	if err := s.access.apply(&o, s.tell); err != nil {
		return o, nil, err
	}
	if err := s.services.apply(&o); err != nil {
		return o, nil, err
	}
	o.Server.Address, err = s.advertised(address, o.Services.Networks)
	return o, files, err
}

func (s *apiServer) logger() *slog.Logger {
	level := slog.LevelWarn
	if s.verbosity > 0 {
		level = slog.LevelInfo
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}

// advertised is the server's address in the service kubernetes, if there is one.
func (s *apiServer) advertised(address net.Addr, networks []netip.Prefix) (netip.AddrPort, error) {
	tcp, ok := address.(*net.TCPAddr)
	if !ok || len(networks) == 0 {
		return netip.AddrPort{}, nil
	}
	listen := tcp.AddrPort()
	at, ok := kubernetesservice.Advertised(listen.Addr().Unmap(), networks[0])
	if s.advertise != "" {
		var err error
		if at, err = netip.ParseAddr(s.advertise); err != nil {
			return netip.AddrPort{}, fmt.Errorf("%w: --advertise-address: %w", errUsage, err)
		}
	} else if !ok {
		return netip.AddrPort{}, nil
	}
	return netip.AddrPortFrom(at, listen.Port()), nil
}

// together runs the cluster, and serves it once it is ready, until ctx ends.
func together(ctx context.Context, c *cluster.Cluster, beside lifecycle.Runnable, l net.Listener, shown tls.Certificate) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ran := make(chan error, 1)
	go func() {
		ran <- c.Run(context.WithoutCancel(ctx))
		stop()
	}()
	var err error
	if c.WaitReady(ctx) == nil {
		server := serving.New(l, shown, c.Handler(), serving.Options{Drain: c.Drain, Grace: grace})
		err = lifecycle.Group(beside, server).Run(ctx)
		if errors.Is(err, context.DeadlineExceeded) { // clients that kept their connections
			err = nil
		}
	}
	stop()
	_ = c.Close()                                                // Run returns the same
	if failed := <-ran; !errors.Is(failed, cluster.ErrStarted) { // closed before Run had started
		err = errors.Join(err, failed)
	}
	return err
}
