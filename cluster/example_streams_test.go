package cluster_test

import (
	"context"
	"fmt"
	"net/http"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	clientspdy "k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
)

// A command in a scripted pod, by client-go and without a network, as it also works in a synctest bubble.
func ExampleCluster_Dial() {
	ctx := context.Background()
	program := simulated.Program{Streams: simulated.Streams{Exec: func(_ context.Context, command []string, s cri.StreamIO) (int32, error) {
		_, err := fmt.Fprintln(s.Stdout, "you said", command)
		return 0, err
	}}}
	c, err := cluster.Start(ctx, cluster.Options{Nodes: cluster.Nodes{Count: 1, Runtime: func(string) simulated.Options {
		return simulated.Options{Program: func(simulated.Process) simulated.Program { return program }}
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close() }()
	api := kubernetes.NewForConfigOrDie(c.Config())
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web"}}}}
	if _, err := api.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	changes, err := api.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for e := range changes.ResultChan() {
		if p, ok := e.Object.(*corev1.Pod); ok && p.Status.Phase == corev1.PodRunning {
			changes.Stop()
			break
		}
	}

	through, err := spdy.NewRoundTripperWithConfig(spdy.RoundTripperConfig{UpgradeTransport: &http.Transport{DialContext: c.Dial(cluster.Admin())}})
	if err != nil {
		fmt.Println(err)
		return
	}
	at := api.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name("web").SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Command: []string{"hello"}, Stdout: true}, scheme.ParameterCodec).URL()
	executor, err := remotecommand.NewSPDYExecutorForTransports(through, clientspdy.NewUpgraderForStreaming(through), http.MethodPost, at)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: os.Stdout}); err != nil {
		fmt.Println(err)
	}
	// Output: you said [hello]
}
