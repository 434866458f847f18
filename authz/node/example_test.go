package node_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/node"
	"github.com/keelson-dev/keelson/authz/rbac"
	"github.com/keelson-dev/keelson/authz/rbac/bootstrap"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
)

func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	store := memory.New[*corev1.Pod]()
	store.Put(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "dev", Name: "web"},
		Spec: corev1.PodSpec{NodeName: "node-1", Volumes: []corev1.Volume{{
			Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "tls"}},
		}}},
	})
	pods := informer.New(store, informer.Options{})
	z := node.New(node.Sources{Pods: pods}, rbac.Rules(bootstrap.NodeRules()))

	done := make(chan error)
	go func() { done <- pods.Run(ctx) }()
	if err := pods.WaitSynced(ctx); err != nil {
		fmt.Println(err)
	}
	for _, name := range []string{"node-1", "node-2"} {
		d, _ := z.Authorize(ctx, authz.Attributes{
			User: &authn.Identity{Name: "system:node:" + name, Groups: []string{authn.GroupNodes}},
			Verb: "get", Resource: "secrets", Namespace: "dev", Name: "tls", ResourceRequest: true,
		})
		fmt.Printf("%s %t %q\n", name, d.Verdict == authz.Allow, d.Reason)
	}
	cancel()
	<-done
	// Output:
	// node-1 true ""
	// node-2 false "no relationship found between node 'node-2' and this object"
}
