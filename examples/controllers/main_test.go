package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
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

// TestControllers: given only a kubeconfig, they roll out a deployment in a cluster without controllers.
func TestControllers(t *testing.T) {
	config, c := testcluster.Serve(t, cluster.Options{
		Components: []cluster.Component{kubescheduler.Component(kubescheduler.Options{})}, Nodes: cluster.Nodes{Count: 1},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	out := &said{}
	go func() {
		ended <- run(ctx, []string{"--kubeconfig", config, "--allocate-node-cidrs", "--cluster-cidr", "10.64.0.0/16", "--node-cidr-mask-size", "26"}, out)
	}()
	api, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	replicas, labels := int32(2), map[string]string{"app": "web"}
	_, err = api.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for {
		d, err := api.AppsV1().Deployments("default").Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if d.Status.AvailableReplicas == replicas {
			break
		}
		select {
		case err := <-ended:
			t.Fatalf("ended with %v: %s", err, out.text.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
	lease, err := api.CoordinationV1().Leases("kube-system").Get(ctx, "kube-controller-manager", metav1.GetOptions{})
	if err != nil || *lease.Spec.HolderIdentity == "" {
		t.Errorf("lease %+v, %v", lease.Spec, err)
	}
	_, err = api.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for {
		n, err := api.CoreV1().Nodes().Get(ctx, "new", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if n.Spec.PodCIDR != "" {
			if !strings.HasSuffix(n.Spec.PodCIDR, "/26") {
				t.Errorf("the node's network is %s", n.Spec.PodCIDR)
			}
			break
		}
		select {
		case err := <-ended:
			t.Fatalf("ended with %v: %s", err, out.text.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
	root, err := api.CoreV1().ConfigMaps("default").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
	if err != nil || !strings.Contains(root.Data["ca.crt"], "BEGIN CERTIFICATE") {
		t.Errorf("the authority of the kubeconfig is not published: %v, %v", root.Data, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	lease, err = api.CoordinationV1().Leases("kube-system").Get(t.Context(), "kube-controller-manager", metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "" {
		t.Errorf("it keeps the lease after its end: %+v, %v", lease.Spec, err)
	}
}

func TestMistakes(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no flags":           {nil, "--kubeconfig is required"},
		"not a flag":         {[]string{"--kubeconfig", "x", "web"}, `"web" is not a flag`},
		"missing file":       {[]string{"--kubeconfig", filepath.Join(t.TempDir(), "none")}, "none"},
		"unknown controller": {[]string{"--kubeconfig", "x", "--without", "web"}, `--without: unknown component "web": there are deployment-controller`},
		"unknown flag":       {[]string{"--mistake"}, "--mistake"},
		"no cluster network": {[]string{"--kubeconfig", "x", "--allocate-node-cidrs"}, "needs --cluster-cidr"},
		"no network":         {[]string{"--kubeconfig", "x", "--allocate-node-cidrs", "--cluster-cidr", "10.0.0.0"}, "--cluster-cidr"},
		"no service network": {[]string{"--kubeconfig", "x", "--allocate-node-cidrs", "--cluster-cidr", "10.0.0.0/16", "--service-cluster-ip-range", "x"}, "--service-cluster-ip-range"},
		"one size for two":   {[]string{"--kubeconfig", "x", "--allocate-node-cidrs", "--cluster-cidr", "10.0.0.0/16,fd00::/48", "--node-cidr-mask-size", "24"}, "dual-stack"},
		"two kinds of sizes": {[]string{"--kubeconfig", "x", "--allocate-node-cidrs", "--cluster-cidr", "10.0.0.0/16", "--node-cidr-mask-size", "24", "--node-cidr-mask-size-ipv4", "24"}, "is not allowed if"},
		"size of IPv6":       {[]string{"--kubeconfig", "x", "--allocate-node-cidrs", "--cluster-cidr", "10.0.0.0/16", "--node-cidr-mask-size-ipv6", "64"}, "single-stack IPv4"},
		"size of IPv4":       {[]string{"--kubeconfig", "x", "--allocate-node-cidrs", "--cluster-cidr", "fd00::/48", "--node-cidr-mask-size-ipv4", "24"}, "single-stack IPv6"},
	} {
		if err := run(t.Context(), c.args, &said{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want something of %q", name, err, c.want)
		}
	}
	out := &said{}
	if err := run(t.Context(), []string{"--help"}, out); !errors.Is(err, pflag.ErrHelp) || !strings.Contains(out.text.String(), "--leader-elect") {
		t.Errorf("%v: %s", err, out.text.String())
	}
}
