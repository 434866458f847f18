package kubescheduler

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/predicates"
	"github.com/keelson-dev/keelson/scheduler/priorities"
)

// Name is the component's.
const Name = "scheduler"

// Profile is upstream's default profile.
func Profile() scheduler.Profile {
	return scheduler.Profile{Predicates: predicates.Default(), Priorities: priorities.Default()}
}

// Options of the scheduler. The zero value has upstream's default profile.
type Options struct {
	// Profile is by what it decides; one without predicates and priorities is upstream's default.
	Profile scheduler.Profile
	// OnDecision, if set, gets every decision, as that of scheduler.Options does.
	OnDecision func(scheduler.Decision)
}

// Component is the scheduler. A seed of the process is that of the profile.
func Component(o Options) component.Component {
	return component.Component{
		Name: Name, Program: "kube-scheduler", Source: cmp.Or(o.Profile.SchedulerName, scheduler.DefaultSchedulerName), Series: true,
		Identity: &authn.Identity{Name: "system:kube-scheduler", Groups: []string{authn.GroupAuthenticated}},
		New:      o.build,
	}
}

func (o Options) build(p *component.Parts) (lifecycle.Runnable, error) {
	in := scheduler.Sources{
		Pods:  component.Informer[*corev1.Pod](p.Informers, corev1.SchemeGroupVersion.WithResource("pods")),
		Nodes: component.Informer[*corev1.Node](p.Informers, corev1.SchemeGroupVersion.WithResource("nodes")),
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	profile := o.Profile
	if len(profile.Predicates) == 0 && len(profile.Priorities) == 0 {
		standard := Profile()
		profile.Predicates, profile.Priorities = standard.Predicates, standard.Priorities
	}
	options := scheduler.Options{Settle: p.Pace.Settle / 2, OnDecision: o.OnDecision, Logger: p.Logger}
	if p.Pace.InOrder() {
		profile.Seed, options.Writes = *p.Pace.Seed, 1
	}
	return scheduler.New(in, profile, p.Client, p.Recorder, options)
}
