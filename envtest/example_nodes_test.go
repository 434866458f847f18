package envtest_test

import (
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/envtest"
)

// A test of an operator that reads the log of a database's pod and runs a command in it: a program scripts the pod.
func Example_pods() {
	database := func(p simulated.Process) simulated.Program {
		return simulated.Program{
			Log: simulated.Text("starting " + p.Image + " of " + p.Pod.Name),
			Streams: simulated.Streams{Exec: func(_ context.Context, command []string, s cri.StreamIO) (int32, error) {
				if command[0] != "pg_dump" {
					_, err := fmt.Fprintf(s.Stderr, "%s: not found\n", command[0])
					return 127, err
				}
				_, err := fmt.Fprintln(s.Stdout, "CREATE TABLE visitors;")
				return 0, err
			}},
		}
	}
	env := &envtest.Environment{Nodes: cluster.Nodes{
		Count: 1, Runtime: func(string) simulated.Options { return simulated.Options{Program: database} },
	}}
	config, err := env.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() {
		if err := env.Stop(); err != nil {
			fmt.Println(err)
		}
	}()
	ctx := context.Background()
	api := kubernetes.NewForConfigOrDie(config)
	pods := api.CoreV1().Pods("default")
	_, err = pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec:       corev1.PodSpec{NodeName: "node-0", Containers: []corev1.Container{{Name: "main", Image: "postgres"}}}, // there is no scheduler
	}, metav1.CreateOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	changes, err := pods.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=db"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for e := range changes.ResultChan() {
		if pod, ok := e.Object.(*corev1.Pod); ok && pod.Status.Phase == corev1.PodRunning {
			changes.Stop()
			break
		}
	}

	log, err := pods.GetLogs("db", &corev1.PodLogOptions{}).DoRaw(ctx)
	fmt.Print(string(log))
	if err != nil {
		fmt.Println(err)
	}
	for _, command := range []string{"pg_dump", "mysqldump"} {
		at := api.CoreV1().RESTClient().Get().Namespace("default").Resource("pods").Name("db").SubResource("exec").
			VersionedParams(&corev1.PodExecOptions{Command: []string{command}, Stdout: true, Stderr: true}, scheme.ParameterCodec).URL()
		executor, err := remotecommand.NewWebSocketExecutor(config, "GET", at.String())
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: os.Stdout, Stderr: os.Stdout}); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// starting postgres of db
	// CREATE TABLE visitors;
	// mysqldump: not found
	// command terminated with exit code 127
}
