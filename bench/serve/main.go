// Serve measures examples/cluster from outside: the time from the start of the process until a user has created a pod
// over TLS, and its memory a minute after kubectl create, apply and explain. It prints the figures, writes
// results/serve.json and fails if one exceeds its limit.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/internal/clusterprocess"
	"github.com/keelson-dev/keelson/internal/evidence"
	"github.com/keelson-dev/keelson/internal/kubectl"
)

func main() {
	results := flag.String("results", "results", "directory to write serve.json to")
	runs := flag.Int("runs", 10, "how often to measure a start; the median counts")
	quiet := flag.Duration("quiet", time.Minute, "how long after the last command memory is measured")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	run, err := evidence.Begin(*results, "serve")
	if err == nil {
		var figures []evidence.Figure
		figures, err = measure(ctx, *runs, *quiet)
		err = run.End(evidence.Result{Figures: figures}, err)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, runs int, quiet time.Duration) ([]evidence.Figure, error) {
	dir, err := os.MkdirTemp("", "keelson-serve-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program, err := clusterprocess.Build(ctx, dir)
	if err != nil {
		return nil, err
	}
	figures, err := starts(ctx, program, dir, runs)
	if err != nil {
		return nil, err
	}
	memory, err := resident(ctx, program, filepath.Join(dir, "memory"), quiet)
	if err != nil {
		return figures, err
	}
	return append(figures, memory), nil
}

// starts measures starts in new data directories, each followed by a second start in the same directory.
func starts(ctx context.Context, program clusterprocess.Program, dir string, runs int) ([]evidence.Figure, error) {
	var fresh, again []float64
	for i := range runs {
		data := filepath.Join(dir, "start-"+strconv.Itoa(i))
		for _, times := range []*[]float64{&fresh, &again} {
			took, err := start(ctx, program, data)
			if err != nil {
				return nil, err
			}
			*times = append(*times, float64(took.Microseconds())/1000)
		}
	}
	slices.Sort(fresh)
	slices.Sort(again)
	return []evidence.Figure{
		{What: "process start to a user's first pod over TLS, durable storage, new directory", Of: "median", Value: fresh[runs/2], Unit: "ms", Limit: 300, Runs: runs},
		{What: "the same on the directory of an earlier run", Of: "median", Value: again[runs/2], Unit: "ms", Limit: 300, Runs: runs},
	}, nil
}

// start measures from the start of the process until a user who has only the role edit has created a pod.
func start(ctx context.Context, program clusterprocess.Program, data string) (took time.Duration, err error) {
	began := time.Now()
	p, err := program.Start(ctx, data)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, p.Interrupt()) }()
	config, err := p.Config()
	if err != nil {
		return 0, err
	}
	admin, err := kubernetes.NewForConfig(config)
	if err != nil {
		return 0, err
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "jane"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "jane"}},
	}
	if _, err := admin.RbacV1().RoleBindings("default").Create(ctx, binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return 0, err
	}
	config.Impersonate = rest.ImpersonationConfig{UserName: "jane"}
	jane, err := kubernetes.NewForConfig(config)
	if err != nil {
		return 0, err
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "first-"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
	}
	_, err = jane.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
	return time.Since(began), err
}

const manifest = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings"},"data":{"color":"blue"}}`

// resident measures the memory of a cluster after kubectl has used it.
func resident(ctx context.Context, program clusterprocess.Program, data string, quiet time.Duration) (f evidence.Figure, err error) {
	path, err := kubectl.Build(ctx)
	if err != nil {
		return f, err
	}
	p, err := program.Start(ctx, data)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, p.Interrupt()) }()
	k := kubectl.Kubectl{Path: path, Kubeconfig: p.Kubeconfig, Home: data}
	for _, args := range [][]string{
		{"create", "deployment", "nginx", "--image=nginx", "--replicas=3"},
		{"apply", "-f", "-"},
		{"explain", "deployment.spec"},
	} {
		answer, err := k.Run(ctx, manifest, args...)
		if err != nil {
			return f, err
		}
		if answer.Code != 0 {
			return f, fmt.Errorf("kubectl %s: %s", strings.Join(args, " "), answer.Stderr)
		}
	}
	fmt.Printf("memory is measured in %v\n", quiet)
	select {
	case <-time.After(quiet):
	case <-ctx.Done():
		return f, ctx.Err()
	}
	bytes, err := residentBytes(p.PID())
	return evidence.Figure{
		What:  fmt.Sprintf("resident memory %.0f s after kubectl create, apply and explain", quiet.Seconds()),
		Value: float64(bytes) / 1e6, Unit: "MB", Limit: 60, Runs: 1,
	}, err
}

// residentBytes reads the resident memory of a process on Linux.
func residentBytes(pid int) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("memory can be measured on Linux only: %w", err)
	}
	for _, line := range strings.Split(string(data), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("the system does not tell the resident memory")
}
