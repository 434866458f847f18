package cluster

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/component/controllermanager"
	"github.com/keelson-dev/keelson/component/kubescheduler"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/registry"
)

// Component is one part of a cluster beside its API server and nodes.
type Component = component.Component

// DefaultComponents are upstream's controllers, as far as they exist here, and the scheduler: what runs where
// Options.Components says nothing else. The slice is the caller's to filter, replace in and append to.
func DefaultComponents() []Component {
	return append(controllermanager.Components(), kubescheduler.Component(kubescheduler.Options{}))
}

// addComponents makes the components, each with a client of its own identity.
func (c *Cluster) addComponents() error {
	host := &component.Host{
		Connect: c.clientOf, Informers: c.informers, Logger: c.log,
		Cluster: component.Cluster{Resources: c.stored, RootCA: c.options.Server.RootCA},
		Pace:    &component.Pace{Seed: c.options.Seed, Settle: c.options.Settle},
		Grace:   -1, // the server ends, too
	}
	for _, k := range c.options.Components {
		run, err := host.Make(k)
		if err != nil {
			return err
		}
		c.parts = append(c.parts, run)
	}
	if err := c.followAccounts(); err != nil {
		return err
	}
	return c.addNodes()
}

// followAccounts has the cluster ready when pods can be created in the namespace default: once its service account is
// there, where somebody in the cluster makes it.
func (c *Cluster) followAccounts() error {
	if !c.has(controllermanager.ServiceAccount) {
		return nil
	}
	accounts := component.Informer[*corev1.ServiceAccount](c.informers, corev1.SchemeGroupVersion.WithResource("serviceaccounts"))
	accounts.AddHandler(informer.Handler[*corev1.ServiceAccount]{Added: func(account *corev1.ServiceAccount) {
		if account.Namespace == "default" && account.Name == "default" {
			c.life.ready.fire()
		}
	}})
	return c.informers.Err()
}

// stored are the resources that have objects.
func (c *Cluster) stored() ([]component.Resource, error) {
	var all []component.Resource
	for _, res := range c.registry.Resources() {
		if res.Stored() {
			all = append(all, component.Resource{
				GroupVersionResource: res.GroupVersion.WithResource(res.Plural), Kind: res.Names.Kind,
				Namespaced: res.Namespaced, Scalable: res.Sub.Scale != nil,
			})
		}
	}
	return all, nil
}

// feed is the registry's own objects.
type feed struct{ registry *registry.Registry }

func (f feed) New(resource schema.GroupVersionResource) (informer.Object, error) {
	res, ok := f.registry.Resource(resource.GroupResource())
	if !ok {
		return nil, fmt.Errorf("resource %s is not served", resource.GroupResource())
	}
	return res.New(), nil
}

func (f feed) Objects(resource schema.GroupVersionResource) (informer.Source[informer.Object], error) {
	return registry.Source[informer.Object](f.registry, resource.GroupResource(), registry.Selection{})
}

// Metadata implements component.Feed: whole objects are there already.
func (f feed) Metadata(resource schema.GroupVersionResource) (informer.Source[informer.Object], error) {
	return f.Objects(resource)
}

// has tells whether there is a component of the name.
func (c *Cluster) has(name string) bool {
	return component.Has(c.options.Components, name)
}

// disable leaves out what Disable names, of components and of admission plugins.
func (o *Options) disable() error {
	known := append(component.Names(o.Components), StageNames(o.Admission)...)
	for _, name := range o.Disable {
		if !slices.Contains(known, name) {
			return fmt.Errorf("%w: cannot disable %q; there are %s", ErrUnknownComponent, name, strings.Join(known, ", "))
		}
	}
	disabled := func(name string) bool { return slices.Contains(o.Disable, name) }
	o.Components = slices.DeleteFunc(slices.Clone(o.Components), func(k Component) bool { return disabled(k.Name) })
	o.Admission = slices.DeleteFunc(slices.Clone(o.Admission), func(s AdmissionStage) bool { return disabled(s.Name) })
	return nil
}
