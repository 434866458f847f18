package node_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/node"
	"github.com/keelson-dev/keelson/authz/rbac"
	"github.com/keelson-dev/keelson/authz/rbac/bootstrap"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
)

func BenchmarkAuthorize(b *testing.B) {
	store := memory.New[*corev1.Pod]()
	for i := range 5000 {
		pod := busy()
		pod.Name, pod.Spec.NodeName = fmt.Sprint("web-", i), fmt.Sprint("n", i%100)
		store.Put(pod)
	}
	pods := informer.New(store, informer.Options{})
	z := node.New(node.Sources{Pods: pods}, rbac.Rules(bootstrap.NodeRules()))
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error)
	go func() { done <- pods.Run(ctx) }()
	if err := pods.WaitSynced(ctx); err != nil {
		b.Fatal(err)
	}
	for name, a := range map[string]authz.Attributes{
		"secret": ask("n7", "get", "", "secrets", "", "dev", "pull"),
		"status": ask("n7", "patch", "", "pods", "status", "dev", "web-7"),
		"events": ask("n7", "create", "", "events", "", "dev", ""),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if d, err := z.Authorize(ctx, a); err != nil || d.Verdict != authz.Allow {
					b.Fatal(d, err)
				}
			}
		})
	}
	cancel()
	<-done
}
