package cluster

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/component/controllermanager"
	"github.com/keelson-dev/keelson/component/kubescheduler"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/wire"
	"github.com/keelson-dev/keelson/registry"
)

// Component is one part of a cluster besides its API server and nodes.
type Component = component.Component

// DefaultComponents returns upstream's controllers, as far as they exist here, and the scheduler; it is the default of
// Options.Components. The caller may modify the slice.
func DefaultComponents() []Component {
	return append(controllermanager.Components(), kubescheduler.Component(kubescheduler.Options{}))
}

// addComponents makes the components, each with a client that acts as its identity.
func (c *Cluster) addComponents(pace *component.Pace) error {
	host := &component.Host{
		Connect: c.clientOf, Informers: c.informers, Logger: c.log,
		Cluster: component.Cluster{Resources: c.front.kinds.resources, Changed: c.front.kinds.Changed, RootCA: c.options.Server.RootCA, Signer: c.options.Server.Signer,
			AccountToken: c.tokens.issuer.IssueLegacy},
		Pace:  pace,
		Grace: -1, // the server ends too
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

// followAccounts delays readiness until pods can be created in the namespace default: until its service account exists,
// if a component of the cluster creates it.
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

// feed provides the registry's own objects, and the metadata of those that other servers have.
type feed struct{ cluster *Cluster }

func (f feed) New(resource schema.GroupVersionResource) (informer.Object, error) {
	res, ok := f.cluster.registry.Resource(resource.GroupResource())
	if !ok {
		return nil, fmt.Errorf("resource %s is not served", resource.GroupResource())
	}
	return res.New(), nil
}

func (f feed) Objects(resource schema.GroupVersionResource) (informer.Source[informer.Object], error) {
	return registry.Source[informer.Object](f.cluster.registry, resource.GroupResource(), registry.Selection{})
}

// Metadata implements component.Feed with whole objects if they are in memory anyway. Others are read as by upstream's
// controller manager.
func (f feed) Metadata(resource schema.GroupVersionResource) (informer.Source[informer.Object], error) {
	if !f.cluster.front.kinds.isDelegated(resource) {
		return f.Objects(resource)
	}
	source, err := wire.NewMetadata(f.cluster.ConfigFor(User("system:kube-controller-manager")), resource, wire.Options{})
	if err != nil {
		return nil, err
	}
	return informer.Convert(source, func(obj *metav1.PartialObjectMetadata) (informer.Object, error) { return obj, nil }, nil), nil
}

// has reports whether there is a component of that name.
func (c *Cluster) has(name string) bool {
	return component.Has(c.options.Components, name)
}

// disable removes the components and admission plugins that Disable names.
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
