package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/flowcontrol"
	"github.com/keelson-dev/keelson/flowcontrol/fairqueuing"
	flowmetrics "github.com/keelson-dev/keelson/flowcontrol/metrics"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/registry/allocation"
	"github.com/keelson-dev/keelson/registry/flowcontrol/upkeep"
	"github.com/keelson-dev/keelson/registry/kubernetesservice"
	"github.com/keelson-dev/keelson/storage"
)

// services are the parts of the API server that maintain objects: the IPs and ports of services, the service kubernetes,
// the default flow schemas.
type services struct {
	ports      *allocation.Ports
	repair     *allocation.Repair
	kubernetes *kubernetesservice.Service
	flows      *upkeep.Upkeep
	limiter    *fairqueuing.Limiter // nil limits nothing
	waiting    *flowmetrics.Metrics // of the limiter; nil counts nothing
}

// newPorts makes the allocator of node ports, which the kinds need.
func (c *Cluster) newPorts(store storage.Store) (err error) {
	c.services.ports, err = allocation.NewPorts(store, c.options.Services.nodePorts())
	return err
}

// newServices makes the parts that need the registry.
func (c *Cluster) newServices(store storage.Store) (err error) {
	c.services.repair = allocation.NewRepair(c.registry.Access(), c.services.ports, allocation.RepairOptions{Logger: c.log})
	// A deleted address may belong to a service.
	addresses := component.Informer[*networkingv1.IPAddress](c.informers, networkingv1.SchemeGroupVersion.WithResource("ipaddresses"))
	if err := c.informers.Err(); err != nil {
		return err
	}
	addresses.AddHandler(informer.Handler[*networkingv1.IPAddress]{Deleted: func(*networkingv1.IPAddress) { c.services.repair.Wake() }})
	o := kubernetesservice.Options{Networks: c.options.Services.networks(), Logger: c.log}
	if at := c.options.Server.Address; at.IsValid() && !at.Addr().IsLoopback() {
		o.Address, o.Port = at.Addr(), int(at.Port())
	}
	if c.services.kubernetes, err = kubernetesservice.New(c.registry, store, o); err != nil {
		return err
	}
	return c.newFlows()
}

// newFlows makes what maintains flow schemas and priority levels, and what acts on them.
func (c *Cluster) newFlows() (err error) {
	if c.services.flows, err = upkeep.New(c.registry, upkeep.Options{Logger: c.log}); err != nil {
		return err
	}
	schemas := component.Informer[*flowcontrolv1.FlowSchema](c.informers, flowcontrolv1.SchemeGroupVersion.WithResource("flowschemas"))
	levels := component.Informer[*flowcontrolv1.PriorityLevelConfiguration](c.informers,
		flowcontrolv1.SchemeGroupVersion.WithResource("prioritylevelconfigurations"))
	if err := c.informers.Err(); err != nil {
		return err
	}
	wake(schemas, c.services.flows)
	wake(levels, c.services.flows)
	if c.options.Server.Seats >= 0 {
		o := fairqueuing.Options{Seats: c.options.Server.Seats}
		if c.options.Server.Metrics {
			c.services.waiting = flowmetrics.New(func() []fairqueuing.Level { return c.services.limiter.Levels() })
			o.Observer = c.services.waiting
		}
		c.services.limiter = fairqueuing.New(flowcontrol.DefaultConfig(), o)
		c.services.limiter.Follow(schemas, levels)
	}
	return nil
}

// flowControl decides when requests are served.
func (c *Cluster) flowControl() flowcontrol.Limiter {
	if c.services.limiter == nil {
		return flowcontrol.Unlimited{}
	}
	return c.services.limiter
}

func wake[T informer.Object](of *informer.Informer[T], flows *upkeep.Upkeep) {
	of.AddHandler(informer.Handler[T]{
		Added: func(T) { flows.Wake() }, Updated: func(T, T) { flows.Wake() }, Deleted: func(T) { flows.Wake() },
	})
}

// bootstrapServices stores the record of node ports and creates the objects that must exist before services are
// created.
func (c *Cluster) bootstrapServices(ctx context.Context) error {
	var err error
	used := allocation.UsedPorts(view[*corev1.Service](c.registry, coreResource("services"), &err).List(""))
	if err != nil {
		return err
	}
	if err := c.services.ports.Init(ctx, used); err != nil {
		return fmt.Errorf("node ports: %w", err)
	}
	return c.services.kubernetes.Once(asServer(ctx))
}

// run keeps them until the context ends.
func (s *services) run(ctx context.Context) error {
	ctx = asServer(ctx)
	return lifecycle.Group(s.repair, s.kubernetes, s.flows).Run(ctx)
}
