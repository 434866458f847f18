package cluster

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/events/publish"
	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/predicates"
	"github.com/keelson-dev/keelson/scheduler/priorities"
)

// part is one running component.
type part struct {
	name string
	controllers.Runnable
}

// component is how one component is made.
type component struct {
	name string
	// account is the service account in kube-system that a controller acts as.
	account string
	make    func(c *Cluster, k kit) (controllers.Runnable, error)
}

// kit is what a component works with: its own client and recorder.
type kit struct {
	client   client.Client
	recorder events.Recorder
}

// Components are the names of what Options.Disable can leave out, by upstream's names.
func Components() []string {
	names := []string{"scheduler"}
	for _, k := range controllerTable() {
		names = append(names, k.name)
	}
	return names
}

func (c *Cluster) enabled(name string) bool { return !slices.Contains(c.options.Disable, name) }

// needsAccount tells whether pods need a service account, and so readiness does.
func (c *Cluster) needsAccount() bool {
	return c.enabled("serviceaccount-controller")
}

func (c *Cluster) addComponents() error {
	for _, k := range controllerTable() {
		if !c.enabled(k.name) {
			continue
		}
		if err := c.add(k, controllerIdentity(k.account), publish.New); err != nil {
			return err
		}
	}
	if c.enabled("scheduler") {
		k := component{name: "default-scheduler", make: newScheduler}
		if err := c.add(k, schedulerIdentity(), publish.NewSeries); err != nil {
			return err
		}
	}
	return c.addNodes()
}

// add makes a component with a client of its own identity, and a publisher of its events.
func (c *Cluster) add(k component, id *authn.Identity, publisher func(publish.Client, publish.Options) *publish.Publisher) error {
	program := "kube-controller-manager"
	if id.Name == schedulerIdentity().Name {
		program = "kube-scheduler"
	}
	api, err := c.clientOf(id, program)
	if err != nil {
		return err
	}
	recorder := publisher(api, publish.Options{Component: eventSource(k.name), Logger: c.log, Grace: -1})
	run, err := k.make(c, kit{client: api, recorder: recorder})
	if err != nil {
		return fmt.Errorf("%s: %w", k.name, err)
	}
	c.parts = append(c.parts, part{k.name, controllers.Group(recorder, run)})
	return nil
}

// eventSource is what a component calls itself in events, which upstream mostly leaves at its name.
func eventSource(component string) string {
	switch component {
	case "endpoints-controller":
		return "endpoint-controller"
	case "endpointslice-controller":
		return "endpoint-slice-controller"
	case "disruption-controller":
		return "controllermanager"
	case "node-lifecycle-controller":
		return "node-controller"
	}
	return component
}

func newScheduler(c *Cluster, k kit) (controllers.Runnable, error) {
	var err error
	in := scheduler.Sources{
		Pods:  shared[*corev1.Pod](c.informers, coreResource("pods"), &err),
		Nodes: shared[*corev1.Node](c.informers, coreResource("nodes"), &err),
	}
	if err != nil {
		return nil, err
	}
	profile := scheduler.Profile{
		Predicates: append(predicates.Default(), c.options.Scheduler.Predicates...),
		Priorities: append(priorities.Default(), c.options.Scheduler.Priorities...),
	}
	o := scheduler.Options{Settle: c.options.Settle / 2, OnDecision: c.options.Scheduler.OnDecision, Logger: c.log}
	if c.options.Seed != nil {
		profile.Seed, o.Writes = *c.options.Seed, 1
	}
	return scheduler.New(in, profile, k.client, k.recorder, o)
}

// slots is how many components can act at instants of their own within one batch.
const slots = 64

// loop runs a controller as upstream does, or with a seed one key at a time, so that runs
// repeat. With Options.Settle each loop acts at instants of its own.
func (c *Cluster) loop(k controllers.Controller) controllers.Runnable {
	o := controllers.Options{Workers: 5, Logger: c.log}
	if c.options.Seed != nil {
		o.Workers = 1
	}
	if settle := c.options.Settle; settle > 0 {
		c.slot++
		o.Batch, o.Offset = slots*settle, time.Duration(c.slot)*settle
	}
	return controllers.NewLoop(k, o)
}

func appsResource(name string) schema.GroupResource {
	return schema.GroupResource{Group: appsv1.GroupName, Resource: name}
}
