package scheduler_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/predicates"
	"github.com/keelson-dev/keelson/scheduler/priorities"
)

// defaults is the profile that tests decide by unless they say otherwise.
func defaults() scheduler.Profile {
	return scheduler.Profile{Predicates: predicates.Default(), Priorities: priorities.Default()}
}

func node(name, cpu, memory string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse(cpu),
			corev1.ResourceMemory: resource.MustParse(memory),
			corev1.ResourcePods:   resource.MustParse("110"),
		}},
	}
}

func pod(name, cpu, memory string) *corev1.Pod {
	requests := corev1.ResourceList{}
	if cpu != "" {
		requests[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		requests[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name + "-uid")},
		Spec: corev1.PodSpec{
			SchedulerName: corev1.DefaultSchedulerName,
			Containers:    []corev1.Container{{Name: "c", Image: "nginx", Resources: corev1.ResourceRequirements{Requests: requests}}},
		},
	}
}

func on(p *corev1.Pod, node string) *corev1.Pod {
	p = p.DeepCopy()
	p.Spec.NodeName = node
	return p
}

// BenchmarkPlace places 1,000 pods one after the other, as the loop does without its I/O.
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

// BenchmarkRefuse tries 1,000 pods that no node can take.
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

// BenchmarkScheduler runs 1,000 pods through the whole loop, with informers and bindings in
// memory.
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
		sched, err := scheduler.New(in, defaults(), s, events.Func(func(events.Event) { bound.Done() }), scheduler.Options{})
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
