package controllermanager

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/controllers/nodeipam"
	"github.com/keelson-dev/keelson/controllers/nodelifecycle"
	"github.com/keelson-dev/keelson/controllers/podgc"
	"github.com/keelson-dev/keelson/controllers/tainteviction"
	"github.com/keelson-dev/keelson/controllers/ttl"
	"github.com/keelson-dev/keelson/lifecycle"
)

func newNodeLifecycle(p *component.Parts) (lifecycle.Runnable, error) {
	in := nodelifecycle.Sources{
		Nodes:  component.Informer[*corev1.Node](p.Informers, corev1.SchemeGroupVersion.WithResource("nodes")),
		Pods:   component.Informer[*corev1.Pod](p.Informers, corev1.SchemeGroupVersion.WithResource("pods")),
		Leases: component.Informer[*coordinationv1.Lease](p.Informers, coordinationv1.SchemeGroupVersion.WithResource("leases")),
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	o := nodelifecycle.Options{Logger: p.Logger}
	if p.Pace.InOrder() {
		o.Parallel = 1
	}
	return p.Loop(nodelifecycle.New(in, p.Client, p.Recorder, o)), nil
}

func newTaintEviction(p *component.Parts) (lifecycle.Runnable, error) {
	in := tainteviction.Sources{
		Nodes: component.Informer[*corev1.Node](p.Informers, corev1.SchemeGroupVersion.WithResource("nodes")),
		Pods:  component.Informer[*corev1.Pod](p.Informers, corev1.SchemeGroupVersion.WithResource("pods")),
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	return p.Loop(tainteviction.New(in, p.Client, p.Recorder)), nil
}

func newPodGC(p *component.Parts) (lifecycle.Runnable, error) {
	in := podgc.Sources{
		Nodes: component.Informer[*corev1.Node](p.Informers, corev1.SchemeGroupVersion.WithResource("nodes")),
		Pods:  component.Informer[*corev1.Pod](p.Informers, corev1.SchemeGroupVersion.WithResource("pods")),
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	return p.Loop(podgc.New(in, p.Client, podgc.Options{Logger: p.Logger})), nil
}

func newTTL(p *component.Parts) (lifecycle.Runnable, error) {
	in := ttl.Sources{Nodes: component.Informer[*corev1.Node](p.Informers, corev1.SchemeGroupVersion.WithResource("nodes"))}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	return p.Loop(ttl.New(in, p.Client)), nil
}

// NodeIPAM returns the controller that gives nodes networks for their pods. Upstream's runs only with --allocate-node-cidrs, so it
// is not among Components.
func NodeIPAM(o nodeipam.Options) component.Component {
	return component.Component{
		Name: "node-ipam-controller", Source: "cidrAllocator", Program: program, Identity: account("node-controller"),
		New: func(p *component.Parts) (lifecycle.Runnable, error) {
			in := nodeipam.Sources{Nodes: component.Informer[*corev1.Node](p.Informers, corev1.SchemeGroupVersion.WithResource("nodes"))}
			if err := p.Informers.Err(); err != nil {
				return nil, err
			}
			c, err := nodeipam.New(in, p.Client, p.Recorder, o)
			if err != nil {
				return nil, err
			}
			return p.Loop(c), nil
		},
	}
}
