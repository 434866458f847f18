// Cluster measures how fast an in-process control plane is: from cold start to ready, many at once, and a thousand pods
// on fifty nodes. It prints the figures, writes results/cluster.json and fails if one exceeds its limit.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/internal/evidence"
)

func main() {
	dir := flag.String("results", "results", "directory to write cluster.json to")
	runs := flag.Int("runs", 10, "how often to measure; the median counts")
	one := flag.String("one", "", "measure once in this process and print milliseconds: ready, twenty or pods")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	var err error
	if *one != "" {
		err = once(ctx, *one)
	} else {
		err = all(ctx, *dir, *runs)
	}
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// measures returns the measurements; each runs in fresh processes.
func measures() map[string]func(context.Context) (time.Duration, error) {
	return map[string]func(context.Context) (time.Duration, error){"ready": ready, "twenty": twenty, "pods": pods}
}

func once(ctx context.Context, what string) error {
	measure, ok := measures()[what]
	if !ok {
		return fmt.Errorf("-one %q: there are ready, twenty and pods", what)
	}
	d, err := measure(ctx)
	if err != nil {
		return err
	}
	fmt.Println(float64(d.Microseconds()) / 1000)
	return nil
}

// all measures everything and writes the results, also after a failure.
func all(ctx context.Context, dir string, runs int) error {
	run, err := evidence.Begin(dir, "cluster")
	if err != nil {
		return err
	}
	figures, err := everything(ctx, runs)
	return run.End(evidence.Result{Figures: figures}, err)
}

func everything(ctx context.Context, runs int) ([]evidence.Figure, error) {
	figures := []evidence.Figure{
		{What: "start to ready, in memory, cold process", Unit: "ms", Limit: 50},
		{What: "20 clusters started in parallel, cold process", Unit: "ms", Limit: 1000},
		{What: "1,000 pods created to Running on 50 simulated nodes", Unit: "ms", Limit: 5000},
	}
	for i, what := range []string{"ready", "twenty", "pods"} {
		f := &figures[i]
		var times []float64
		for range runs {
			out, err := exec.CommandContext(ctx, os.Args[0], "-one", what).Output()
			if err != nil {
				return figures[:i], fmt.Errorf("measure %s: %w%s", what, err, complaint(err))
			}
			ms, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
			if err != nil {
				return figures[:i], err
			}
			times = append(times, ms)
		}
		slices.Sort(times)
		f.Value, f.Of, f.Runs = times[len(times)/2], "median", runs
	}
	virtual, err := virtualTime(ctx)
	if err != nil {
		return figures, err
	}
	return append(figures, virtual), nil
}

// complaint extracts the error message from a failed program's output.
func complaint(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return "\n" + string(exit.Stderr)
	}
	return ""
}

// virtualTime runs the test that simulates many minutes in a bubble a hundred times, and returns the time of one run.
func virtualTime(ctx context.Context) (evidence.Figure, error) {
	out, err := exec.CommandContext(ctx, "go", "test", "-count=1", "-v", "-run", "^TestVirtualTimeRepeats$", "./cluster").CombinedOutput()
	if err != nil {
		return evidence.Figure{}, fmt.Errorf("virtual time: %w\n%s", err, out)
	}
	for _, line := range strings.Split(string(out), "\n") {
		var where string
		var runs int
		var virtual, wall float64
		if n, _ := fmt.Sscanf(strings.TrimSpace(line), "%s %d runs of %f s of cluster time, %f ms of wall time each", &where, &runs, &virtual, &wall); n == 4 {
			return evidence.Figure{
				What: fmt.Sprintf("%.0f s of cluster time in a bubble: rollout, update, deadline, lost node", virtual),
				Of:   "mean", Value: wall, Unit: "ms", Limit: 1000, Runs: runs,
			}, nil
		}
	}
	return evidence.Figure{}, fmt.Errorf("virtual time: the test did not say how long it took:\n%s", out)
}

// ready measures from Start until a user who has only the role edit has created a pod.
func ready(ctx context.Context) (_ time.Duration, err error) {
	began := time.Now()
	c, err := cluster.Start(ctx, cluster.Options{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := firstPod(ctx, c); err != nil {
		return 0, err
	}
	return time.Since(began), nil
}

func firstPod(ctx context.Context, c *cluster.Cluster) error {
	admin, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return err
	}
	_, err = admin.RbacV1().RoleBindings("default").Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "editors"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "jane"}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	jane, err := kubernetes.NewForConfig(c.ConfigFor(cluster.User("jane")))
	if err != nil {
		return err
	}
	_, err = jane.CoreV1().Pods("default").Create(ctx, pod("first"), metav1.CreateOptions{})
	return err
}

func twenty(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	errs := make([]error, 20)
	clusters := make([]*cluster.Cluster, len(errs))
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			if clusters[i], errs[i] = cluster.Start(ctx, cluster.Options{}); errs[i] == nil {
				errs[i] = firstPod(ctx, clusters[i])
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	err := errors.Join(errs...)
	for _, c := range clusters {
		if c != nil {
			err = errors.Join(err, c.Close())
		}
	}
	return took, err
}

// pods measures from the first of 1,000 creates until the last pod is seen Running.
func pods(ctx context.Context) (_ time.Duration, err error) {
	const count = 1000
	c, err := cluster.Start(ctx, cluster.Options{Nodes: cluster.Nodes{Count: 50}})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.WaitNodes(ctx); err != nil {
		return 0, err
	}
	config := c.Config()
	config.ContentType = "application/vnd.kubernetes.protobuf"
	admin, err := kubernetes.NewForConfig(config)
	if err != nil {
		return 0, err
	}
	w, err := admin.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	defer w.Stop()
	began := time.Now()
	created := make(chan error, 1)
	go func() {
		for i := range count {
			if _, err := admin.CoreV1().Pods("default").Create(ctx, pod("p"+strconv.Itoa(i)), metav1.CreateOptions{}); err != nil {
				created <- err
				return
			}
		}
		created <- nil
	}()
	running := map[string]bool{}
	for len(running) < count {
		select {
		case e, ok := <-w.ResultChan():
			if !ok {
				return 0, errors.New("the watch ended early")
			}
			if p, ok := e.Object.(*corev1.Pod); ok && p.Status.Phase == corev1.PodRunning {
				running[p.Name] = true
			}
		case <-ctx.Done():
			return 0, fmt.Errorf("%d of %d pods run: %w", len(running), count, ctx.Err())
		}
	}
	return time.Since(began), <-created
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx:1.27"}}},
	}
}
