package cluster_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/cluster"
)

func start(t testing.TB, o cluster.Options) *cluster.Cluster {
	t.Helper()
	if o.OnMutation == nil {
		o.OnMutation = func(err error) { t.Error(err) }
	}
	c, err := cluster.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func clientset(t testing.TB, config *rest.Config) kubernetes.Interface {
	t.Helper()
	cs, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return cs
}

func testPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
	}
}

// TestReady: in a ready cluster, a user with only the role edit can create a pod.
func TestReady(t *testing.T) {
	began := time.Now()
	c := start(t, cluster.Options{})
	admin := clientset(t, c.Config())
	_, err := admin.RbacV1().RoleBindings("default").Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "editors"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "jane"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	jane := clientset(t, c.ConfigFor(cluster.User("jane")))
	if _, err := jane.CoreV1().Pods("default").Create(t.Context(), testPod("web"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Logf("ready and first pod in %v", time.Since(began))
	if _, err := jane.CoreV1().Pods("kube-system").Create(t.Context(), testPod("web"), metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("edit in one namespace reaches another: %v", err)
	}
	if _, err := clientset(t, c.Anonymous()).CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("anonymous: %v", err)
	}
}

func deploymentOf(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx"}}},
			},
		},
	}
}
