package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/component/kubescheduler"
	"github.com/keelson-dev/keelson/internal/testcluster"
)

// said collects the output of a program.
type said struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// TestScheduler: given only a kubeconfig, it schedules its own pods beside the cluster's own scheduler, and gives the
// reasons.
func TestScheduler(t *testing.T) {
	config, c := testcluster.Serve(t, cluster.Options{Nodes: cluster.Nodes{Count: 2}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	out := &said{}
	go func() {
		ended <- run(ctx, []string{"--kubeconfig", config, "--scheduler-name", "mine", "--explain"}, out)
	}()
	api, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	pods := api.CoreV1().Pods("default")
	for name, scheduler := range map[string]string{"theirs": "", "mine": "mine"} {
		_, err := pods.Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.PodSpec{SchedulerName: scheduler, Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"theirs", "mine"} {
		for {
			pod, err := pods.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if pod.Spec.NodeName != "" {
				break
			}
			select {
			case err := <-ended:
				t.Fatalf("ended with %v: %s", err, out)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	if text := out.String(); !strings.Contains(text, "default/mine") || strings.Contains(text, "default/theirs") {
		t.Errorf("it explains:\n%s", text)
	}
	if lease, err := api.CoordinationV1().Leases("kube-system").Get(ctx, "mine", metav1.GetOptions{}); err != nil || *lease.Spec.HolderIdentity == "" {
		t.Errorf("lease %+v, %v", lease, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// write writes a file and returns its path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "scheduler.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestFiles: what the files and the flags say.
func TestFiles(t *testing.T) {
	config := write(t, `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: /from/the/file, qps: 3}
leaderElection: {leaderElect: false}
podMaxBackoffSeconds: 20
profiles: [{schedulerName: one}, {schedulerName: two}]
`)
	policy := write(t, "apiVersion: v1\nkind: Policy\npredicates: []\n")
	s, err := parse([]string{"--config", config}, &said{})
	if err != nil {
		t.Fatal(err)
	}
	o := s.options(&said{})
	if o.Profile.SchedulerName != "one" || len(o.More) != 1 || o.More[0].SchedulerName != "two" || o.MaxBackoff != 20*time.Second ||
		s.kubeconfig != "/from/the/file" || s.file.Election.Enabled || s.file.Client.QPS != 3 {
		t.Errorf("%+v of %+v", o, s)
	}
	s, err = parse([]string{"--policy-config-file", policy, "--kubeconfig", "k", "--scheduler-name", "mine"}, &said{})
	if err != nil {
		t.Fatal(err)
	}
	if o := s.options(&said{}); o.Profile.SchedulerName != "mine" || len(o.Profile.Plugins) >= len(kubescheduler.Profile().Plugins) || s.file.Election.Name != "mine" {
		t.Errorf("%+v of %+v", o, s)
	}
}

func TestMistakes(t *testing.T) {
	config := write(t, "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"two files":                {[]string{"--config", config, "--policy-config-file", config}, "exclude each other"},
		"a file and a flag":        {[]string{"--config", config, "--scheduler-name", "x"}, "for the --config file to say"},
		"no connection":            {[]string{"--config", config}, "--kubeconfig is required"},
		"no policy":                {[]string{"--policy-config-file", config}, "want apiVersion v1 and kind Policy"},
		"a file that is not there": {[]string{"--config", "/none/x"}, "/none/x"},
		"no flags":                 {nil, "--kubeconfig is required"},
		"not a flag":               {[]string{"--kubeconfig", "x", "web"}, `"web" is not a flag`},
		"missing file":             {[]string{"--kubeconfig", filepath.Join(t.TempDir(), "none")}, "none"},
		"unknown flag":             {[]string{"--mistake"}, "--mistake"},
	} {
		if err := run(t.Context(), c.args, &said{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want something of %q", name, err, c.want)
		}
	}
	out := &said{}
	if err := run(t.Context(), []string{"--help"}, out); !errors.Is(err, pflag.ErrHelp) || !strings.Contains(out.String(), "--scheduler-name") {
		t.Errorf("%v: %s", err, out)
	}
}
