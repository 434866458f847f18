package static_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/podspec/origin"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/kubelet/static"
	"github.com/keelson-dev/keelson/podspec"
	"github.com/keelson-dev/keelson/registry"
)

// TestMirrorsInACluster: a control plane with its authorizers and admission plugins lets a node have
// the mirrors of its static pods.
func TestMirrorsInACluster(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	dir := t.TempDir()
	write(t, dir, "web.yaml", manifest("web", "    resources: {requests: {cpu: 100m}}\n"))
	directory, err := static.New(dir, "n1", static.Options{Prepare: func(pod *corev1.Pod) error {
		podspec.DefaultPod(pod)
		return podspec.ValidateCreate(pod).ToAggregate()
	}})
	if err != nil {
		t.Fatal(err)
	}
	runMirrors(t, c, directory)

	admin, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	// The node exists after the pod: its mirror has to wait for it.
	if _, err := admin.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pods := admin.CoreV1().Pods("default")
	// await waits for a mirror that is another than the last.
	last := corev1.Pod{}
	await := func(what string) {
		t.Helper()
		for {
			pod, err := pods.Get(ctx, "web-n1", metav1.GetOptions{})
			if err == nil && pod.UID != last.UID && pod.DeletionTimestamp == nil {
				last = *pod
				return
			}
			select {
			case <-ctx.Done():
				t.Fatalf("%s: no mirror: %v", what, err)
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	await("a new pod")
	if !origin.Mirror(&last) || last.Spec.NodeName != "n1" || last.OwnerReferences[0].Kind != "Node" || last.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		t.Errorf("got %+v", last)
	}
	if err := pods.Delete(ctx, "web-n1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await("deleted by somebody")
	before := last.Annotations[corev1.MirrorPodAnnotationKey]
	write(t, dir, ".web.tmp", manifest("web", "    resources: {requests: {cpu: 200m}}\n"))
	if err := os.Rename(filepath.Join(dir, ".web.tmp"), filepath.Join(dir, "web.yaml")); err != nil {
		t.Fatal(err)
	}
	await("changed")
	if last.Annotations[corev1.MirrorPodAnnotationKey] == before || last.Spec.Containers[0].Resources.Requests.Cpu().String() != "200m" {
		t.Errorf("got %+v", last)
	}
}

// runMirrors keeps the mirrors of the node n1, as its own user.
func runMirrors(t *testing.T, c *cluster.Cluster, directory *static.Directory) {
	t.Helper()
	pods, err := registry.Source[*corev1.Pod](c.Registry(), schema.GroupResource{Resource: "pods"}, registry.Selection{})
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := registry.Source[*corev1.Node](c.Registry(), schema.GroupResource{Resource: "nodes"}, registry.Selection{})
	if err != nil {
		t.Fatal(err)
	}
	in := static.Sources{
		Static: informer.New[*corev1.Pod](directory, informer.Options{}),
		Pods:   informer.New(pods, informer.Options{}),
		Nodes:  informer.New(nodes, informer.Options{}),
	}
	client, err := c.Client(authn.NodeIdentity("n1"))
	if err != nil {
		t.Fatal(err)
	}
	mirrors, err := static.NewMirrors(in, client, "n1", static.MirrorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for _, run := range []func(context.Context) error{in.Static.Run, in.Pods.Run, in.Nodes.Run, mirrors.Run} {
		group.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() { cancel(); group.Wait() })
}
