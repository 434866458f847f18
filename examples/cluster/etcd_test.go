package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/internal/etcdtest"
	"github.com/keelson-dev/keelson/internal/pause"
)

const etcdTestPatience = 2 * time.Minute

// TestEtcd: a killed cluster on etcd has everything when it starts again, and a second API server shows the same, in
// both directions.
func TestEtcd(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{TLS: true, Password: "s3cret-word"})
	p := program(t)
	ctx, cancel := context.WithTimeout(t.Context(), etcdTestPatience)
	defer cancel()
	password := filepath.Join(t.TempDir(), "password")
	write(t, password, "s3cret-word\n")
	flags := []string{"--storage", "etcd", "--etcd-endpoints", strings.Join(c.Endpoints(), ","), "--etcd-cafile", c.CAFile(),
		"--etcd-certfile", c.CertFile(), "--etcd-keyfile", c.KeyFile(), "--etcd-user", etcdtest.User, "--etcd-password-file", password}
	dir := filepath.Join(t.TempDir(), "first")
	process := started(t, p, dir, flags...)
	_, api := clients(t, process)
	deploy(ctx, t, api, "web")
	available(ctx, t, api, "web")
	if strings.Contains(process.Output(), "s3cret") {
		t.Error("the password was printed")
	}
	before := everything(ctx, t, api)
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	process = started(t, p, dir, flags...)
	config, api := clients(t, process)
	for name, uid := range before {
		if now := everything(ctx, t, api)[name]; now != uid {
			t.Errorf("%s is %q after the restart, was %q", name, now, uid)
		}
	}
	raw, err := c.Client(t).Get(ctx, "/registry/deployments/default/web")
	if err != nil || len(raw.Kvs) != 1 || !strings.HasPrefix(string(raw.Kvs[0].Value), "k8s\x00") {
		t.Errorf("the deployment in etcd: %v, %v", raw, err)
	}

	other := filepath.Join(t.TempDir(), "second")
	if err := os.CopyFS(filepath.Join(other, "pki"), os.DirFS(filepath.Join(dir, "pki"))); err != nil {
		t.Fatal(err)
	}
	second := started(t, p, other, append(flags, "--disable", "scheduler,controllers,nodes")...)
	secondConfig, secondAPI := clients(t, second)
	deploy(ctx, t, secondAPI, "more")
	available(ctx, t, secondAPI, "more") // by the controllers, scheduler and nodes of the first server
	available(ctx, t, api, "more")
	c.Kill(t, 0) // both servers continue when their etcd is back
	c.Restart(t, 0)
	deploy(ctx, t, secondAPI, "late")
	available(ctx, t, secondAPI, "late")
	available(ctx, t, api, "late")
	token, err := api.CoreV1().ServiceAccounts("default").CreateToken(ctx, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	review, err := secondAPI.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token.Status.Token}}, metav1.CreateOptions{})
	if err != nil || !review.Status.Authenticated {
		t.Errorf("the first server's token at the second: %+v, %v", review, err)
	}
	if config.Host == secondConfig.Host {
		t.Errorf("both servers are at %s", config.Host)
	}
	for _, process := range []interface{ Interrupt() error }{second, process} {
		if err := process.Interrupt(); err != nil {
			t.Error(err)
		}
	}
}

func deploy(ctx context.Context, t *testing.T, api kubernetes.Interface, name string) {
	t.Helper()
	labels := map[string]string{"app": name}
	if _, err := api.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{Replicas: new(int32(3)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
		}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// available waits until a deployment's pods are available according to a server.
func available(ctx context.Context, t *testing.T, api kubernetes.Interface, name string) {
	t.Helper()
	for {
		d, err := api.AppsV1().Deployments("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatalf("deployment %s: %v", name, err)
		}
		if d.Status.AvailableReplicas == 3 {
			return
		}
		if err := pause.For(ctx, 20*time.Millisecond); err != nil {
			t.Fatalf("deployment %s does not come about: %+v", name, d.Status)
		}
	}
}

// everything returns the UIDs of pods, deployments and namespaces.
func everything(ctx context.Context, t *testing.T, api kubernetes.Interface) map[string]string {
	t.Helper()
	all := map[string]string{}
	pods, err := api.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range pods.Items {
		all["pod "+o.Name] = string(o.UID)
	}
	deployments, err := api.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range deployments.Items {
		all["deployment "+o.Name] = string(o.UID)
	}
	namespaces, err := api.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range namespaces.Items {
		all["namespace "+o.Name] = string(o.UID)
	}
	if len(pods.Items) != 3 || len(deployments.Items) != 1 {
		t.Fatalf("there are %v", all)
	}
	return all
}
