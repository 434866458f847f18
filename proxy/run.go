package proxy

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/informer"
)

// Sources are what a Proxy follows.
type Sources struct {
	Services       *informer.Informer[*corev1.Service]
	EndpointSlices *informer.Informer[*discoveryv1.EndpointSlice]
	// Nodes may be nil if there are no local nodes.
	Nodes *informer.Informer[*corev1.Node]
}

// Options of a Proxy. The zero value is ready to use.
type Options struct {
	Settings Settings
	// Nodes are the names of the nodes whose endpoints are local. The first that exists decides on the zone.
	Nodes []string
	// Period is the shortest time between two writes; 0 means 10 ms. The first change after a pause is written at once,
	// others are collected meanwhile.
	Period time.Duration
	// CheckPeriod is how often to check that others have not changed what was written, and how long to wait after a
	// failure; 0 means 1 s.
	CheckPeriod time.Duration
	// Written, unless nil, is called after each write with everything that is in effect; the Tables must not be changed
	// or kept. The names are those of services that changed, or nil if all may have.
	Written func(tables Tables, changed []Service)
	// Checks, unless nil, answers the health checks of services.
	Checks Checker
	// Health, unless nil, learns whether the Proxy keeps up.
	Health *Health
	Logger *slog.Logger
}

// Proxy has a Writer write the tables that follow from a cluster's services. Make one with New.
type Proxy struct {
	in     Sources
	writer Writer
	o      Options

	mu    sync.Mutex
	dirty map[Service]bool
	all   bool          // everything has to be decided again
	wake  chan struct{} // has an element if there is something to do

	// The rest belongs to Run.
	tables Tables
	checks map[Service][]Check
	// rechecked are services whose checks have changed since the last write.
	rechecked map[Service][]Check
	node      Node
	synced    bool
}

const byService = "proxy.service"

// New makes a Proxy. It adds an index and handlers to the informers, of which that of slices must not be running yet.
func New(in Sources, w Writer, o Options) *Proxy {
	if o.Period <= 0 {
		o.Period = 10 * time.Millisecond
	}
	if o.CheckPeriod <= 0 {
		o.CheckPeriod = time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Health == nil {
		o.Health = NewHealth(0)
	}
	p := &Proxy{
		in: in, writer: w, o: o, dirty: map[Service]bool{}, wake: make(chan struct{}, 1), checks: map[Service][]Check{}, rechecked: map[Service][]Check{},
	}
	if !in.EndpointSlices.Indexed(byService) {
		in.EndpointSlices.AddIndex(byService, func(s *discoveryv1.EndpointSlice) []string { return []string{serviceOf(s).String()} })
	}
	in.Services.AddHandler(informer.Handler[*corev1.Service]{
		Added:   func(s *corev1.Service) { p.changed(nameOf(s)) },
		Updated: func(_, s *corev1.Service) { p.changed(nameOf(s)) },
		Deleted: func(s *corev1.Service) { p.changed(nameOf(s)) },
	})
	in.EndpointSlices.AddHandler(informer.Handler[*discoveryv1.EndpointSlice]{
		Added:   func(s *discoveryv1.EndpointSlice) { p.changed(serviceOf(s)) },
		Updated: func(old, s *discoveryv1.EndpointSlice) { p.changed(serviceOf(old), serviceOf(s)) },
		Deleted: func(s *discoveryv1.EndpointSlice) { p.changed(serviceOf(s)) },
	})
	if in.Nodes != nil {
		local := func(n *corev1.Node) {
			if slices.Contains(o.Nodes, n.Name) {
				p.nodeChanged()
			}
		}
		in.Nodes.AddHandler(informer.Handler[*corev1.Node]{Added: local, Updated: func(_, n *corev1.Node) { local(n) }, Deleted: local})
	}
	return p
}

func nameOf(s *corev1.Service) Service {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
}

func serviceOf(s *discoveryv1.EndpointSlice) Service {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Labels[discoveryv1.LabelServiceName]}
}

func (p *Proxy) changed(names ...Service) {
	p.mu.Lock()
	for _, n := range names {
		p.dirty[n] = true
	}
	p.mu.Unlock()
	p.poke()
}

func (p *Proxy) nodeChanged() {
	p.mu.Lock()
	p.all = true
	p.mu.Unlock()
	p.poke()
}

func (p *Proxy) poke() {
	p.o.Health.queue()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Run follows the informers, which others run, until the context ends, and then returns nil. What was written stays.
func (p *Proxy) Run(ctx context.Context) error {
	if err := p.waitSynced(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	check := time.NewTicker(p.o.CheckPeriod)
	defer check.Stop()
	p.o.Health.update() // it is healthy while it starts
	p.poke()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-check.C:
			p.check(ctx)
			continue
		case <-p.wake:
		}
		p.write(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(p.o.Period):
		}
	}
}

func (p *Proxy) waitSynced(ctx context.Context) error {
	if err := p.in.Services.WaitSynced(ctx); err != nil {
		return err
	}
	if err := p.in.EndpointSlices.WaitSynced(ctx); err != nil {
		return err
	}
	if p.in.Nodes != nil {
		return p.in.Nodes.WaitSynced(ctx)
	}
	return nil
}

// check repairs what others have changed, or what failed.
func (p *Proxy) check(ctx context.Context) {
	if p.synced {
		intact, err := p.writer.Intact(ctx)
		if err == nil && intact {
			return
		}
		p.o.Logger.Warn("the tables of services are not as written: writing them again", "error", err)
		p.synced = false
		p.o.Health.queue()
	}
	p.write(ctx)
}

// take returns what is to be decided again.
func (p *Proxy) take() (names []Service, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := range p.dirty {
		names = append(names, n)
	}
	all = p.all
	clear(p.dirty)
	p.all = false
	return names, all
}

// write decides on what has changed and writes it: everything if there is no other way.
func (p *Proxy) write(ctx context.Context) {
	names, all := p.take()
	if node := p.local(); all || p.tables.Services == nil {
		if p.tables.Services == nil || !same(node, p.node) {
			names = p.everything()
		}
		p.node = node
	}
	changed := map[Service][]Port{}
	for _, n := range names {
		ports := p.decide(n)
		if !slices.EqualFunc(ports, p.tables.Services[n], equal) {
			changed[n] = ports
		}
		p.recheck(n)
	}
	p.keep(changed)
	if !p.synced {
		p.sync(ctx)
		return
	}
	if len(changed) == 0 {
		p.done()
		return
	}
	if err := p.writer.Update(ctx, changed); err != nil {
		p.o.Logger.Warn("writing changes of services failed: writing all tables", "error", err)
		p.sync(ctx)
		return
	}
	p.written(changed)
}

func (p *Proxy) sync(ctx context.Context) {
	if err := p.writer.Sync(ctx, p.tables); err != nil {
		p.synced = false
		if ctx.Err() == nil {
			p.o.Logger.Error("writing the tables of services failed", "error", err, "retryAfter", p.o.CheckPeriod)
		}
		return
	}
	p.synced = true
	p.written(nil)
}

// recheck decides on the checks of a service.
func (p *Proxy) recheck(n Service) {
	if p.o.Checks == nil {
		return
	}
	var checks []Check
	if service, ok := p.in.Services.Get(n.Namespace, n.Name); ok {
		checks = ChecksOf(service, p.in.EndpointSlices.ByIndex(byService, n.String()), p.node)
	}
	if slices.Equal(checks, p.checks[n]) {
		return
	}
	p.rechecked[n] = checks
	if p.checks[n] = checks; checks == nil {
		delete(p.checks, n)
	}
}

// done is called when all is written: only then do load balancers hear of new endpoints.
func (p *Proxy) done() {
	p.o.Health.update()
	if len(p.rechecked) > 0 {
		p.o.Checks.Check(p.rechecked)
		p.rechecked = map[Service][]Check{}
	}
}

func (p *Proxy) written(changed map[Service][]Port) {
	p.done()
	if p.o.Written == nil {
		return
	}
	var names []Service
	for n := range changed {
		names = append(names, n)
	}
	p.o.Written(p.tables, names)
}

// keep notes what is now desired.
func (p *Proxy) keep(changed map[Service][]Port) {
	if p.tables.Services == nil {
		p.tables = Tables{Settings: p.o.Settings, Services: map[Service][]Port{}}
	}
	for n, ports := range changed {
		if len(ports) == 0 {
			delete(p.tables.Services, n)
		} else {
			p.tables.Services[n] = ports
		}
	}
}

// everything is the names of all services, present or known.
func (p *Proxy) everything() (names []Service) {
	for _, s := range p.in.Services.List("") {
		names = append(names, nameOf(s))
	}
	for n := range p.tables.Services {
		if _, ok := p.in.Services.Get(n.Namespace, n.Name); !ok {
			names = append(names, n)
		}
	}
	return names
}

// decide returns the ports of a service.
func (p *Proxy) decide(n Service) []Port {
	service, ok := p.in.Services.Get(n.Namespace, n.Name)
	if !ok {
		return nil
	}
	return Of(service, p.in.EndpointSlices.ByIndex(byService, n.String()), p.node)
}

// local describes the local nodes.
func (p *Proxy) local() Node {
	n := Node{Names: p.o.Nodes}
	if p.in.Nodes == nil {
		return n
	}
	for _, name := range p.o.Nodes {
		node, ok := p.in.Nodes.Get("", name)
		if !ok {
			continue
		}
		if n.Zone == "" {
			n.Zone = node.Labels[corev1.LabelTopologyZone]
		}
		for _, a := range node.Status.Addresses {
			if ip, err := netip.ParseAddr(a.Address); err == nil {
				n.Addresses = append(n.Addresses, ip.Unmap())
			}
		}
	}
	return n
}

func same(a, b Node) bool {
	return a.Zone == b.Zone && slices.Equal(a.Addresses, b.Addresses) && slices.Equal(a.Names, b.Names)
}

func equal(a, b Port) bool {
	return a.Name == b.Name && a.Protocol == b.Protocol && a.ClusterIP == b.ClusterIP && a.Port == b.Port && a.NodePort == b.NodePort &&
		a.Affinity == b.Affinity && a.InternalLocal == b.InternalLocal && a.ExternalLocal == b.ExternalLocal && slices.Equal(a.Serving, b.Serving) &&
		slices.Equal(a.External, b.External) && slices.Equal(a.LoadBalancers, b.LoadBalancers) && slices.Equal(a.Sources, b.Sources) &&
		slices.Equal(a.Cluster, b.Cluster) && slices.Equal(a.Local, b.Local) && slices.Equal(a.Own, b.Own)
}
