package scheduler_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

// defaults returns the profile that tests use by default.
func defaults() scheduler.Profile {
	return scheduler.Profile{Plugins: plugins.Default()}
}

// BenchmarkPlace places 1,000 pods one after the other, like the loop without its I/O.
func BenchmarkPlace(b *testing.B) {
	profile := defaults()
	for _, nodes := range []int{50, 1000, 5000} {
		b.Run(fmt.Sprintf("nodes=%d/pods=1000/classes", nodes), func(b *testing.B) {
			for b.Loop() {
				place(b, nodes, scheduler.NewPlanner(&profile).Place)
			}
		})
		b.Run(fmt.Sprintf("nodes=%d/pods=1000/explained", nodes), func(b *testing.B) {
			for b.Loop() {
				place(b, nodes, func(pod *corev1.Pod, s *scheduler.Snapshot) (string, error) {
					d := profile.Schedule(pod, s)
					return d.Node, d.Err
				})
			}
		})
	}
}

// BenchmarkRefuse tries 1,000 pods that fit on no node.
func BenchmarkRefuse(b *testing.B) {
	profile := defaults()
	for _, nodes := range []int{50, 5000} {
		b.Run(fmt.Sprintf("nodes=%d/pods=1000", nodes), func(b *testing.B) {
			var state scheduler.State
			for i := range nodes {
				state.SetNode(node(fmt.Sprintf("node-%04d", i), "8", "32Gi"))
			}
			for b.Loop() {
				planner := scheduler.NewPlanner(&profile)
				for i := range 1000 {
					if _, err := planner.Place(pod(fmt.Sprintf("pod-%04d", i), "100", "128Mi"), state.Snapshot()); err == nil {
						b.Fatal("placed")
					}
				}
			}
		})
	}
}

func place(b *testing.B, nodes int, decide func(*corev1.Pod, *scheduler.Snapshot) (string, error)) {
	var state scheduler.State
	for i := range nodes {
		state.SetNode(node(fmt.Sprintf("node-%04d", i), "8", "32Gi"))
	}
	for i := range 1000 {
		p := pod(fmt.Sprintf("pod-%04d", i), "100m", "128Mi")
		to, err := decide(p, state.Snapshot())
		if err != nil {
			b.Fatal(err)
		}
		p.Spec.NodeName = to
		state.SetPod(p)
	}
}

// BenchmarkScheduler runs 1,000 pods through the whole loop, with informers and bindings in memory.
func BenchmarkScheduler(b *testing.B) {
	for b.Loop() {
		s := &server{pods: memory.New[*corev1.Pod](memory.Options{History: 5000}), nodes: memory.New[*corev1.Node]()}
		for i := range 50 {
			s.nodes.Put(node(fmt.Sprintf("node-%02d", i), "8", "32Gi"))
		}
		in := scheduler.Sources{
			Pods:  informer.New[*corev1.Pod](s.pods, informer.Options{}),
			Nodes: informer.New[*corev1.Node](s.nodes, informer.Options{}),
		}
		var bound sync.WaitGroup
		bound.Add(1000)
		profile := defaults()
		profile.Plugins = append(profile.Plugins, scheduler.Enabled{Plugin: plugins.DefaultBinder{Client: s}})
		sched, err := scheduler.New(in, profile, s, events.Func(func(events.Event) { bound.Done() }), scheduler.Options{})
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(b.Context())
		var all sync.WaitGroup
		for _, run := range []func(context.Context) error{in.Pods.Run, in.Nodes.Run, sched.Run} {
			all.Go(func() { _ = run(ctx) })
		}
		for i := range 1000 {
			s.pods.Put(pod(fmt.Sprintf("pod-%04d", i), "100m", "128Mi"))
		}
		bound.Wait()
		cancel()
		all.Wait()
	}
}
