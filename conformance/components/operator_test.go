package components_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// TestOperator runs a program made with controller-runtime twice, as a service account with a token and the rights it
// needs. One of the two leads, the other takes over.
func TestOperator(t *testing.T) {
	w := newWorld(t, "--nodes", "2")
	program := filepath.Join(t.TempDir(), "operator")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./operator").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	credentials := w.account(t, "operator")
	first := start(t, program, "--kubeconfig="+credentials)
	w.leads(t, "")
	second := start(t, program, "--kubeconfig="+credentials)

	services := w.api.CoreV1().Services("default")
	if _, err := services.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "blog", Annotations: map[string]string{"example.com/image": "blog:1"}},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "blog"}, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.runs(t, "blog:1")
	w.event(t, "default", "Service", "Applied", "run")

	leader := w.leads(t, "")
	first.stop(t)
	w.leads(t, leader)
	if _, err := services.Patch(t.Context(), "blog", "application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"example.com/image":"blog:2"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	w.runs(t, "blog:2")

	if err := w.api.AppsV1().Deployments("default").Delete(t.Context(), "blog", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.runs(t, "blog:2")

	if err := services.Delete(t.Context(), "blog", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.event(t, "default", "Service", "Ended", "run")
	eventually(t, "end of the service and what it owned", func(ctx context.Context) (string, error) {
		_, serviceErr := services.Get(ctx, "blog", metav1.GetOptions{})
		_, deploymentErr := w.api.AppsV1().Deployments("default").Get(ctx, "blog", metav1.GetOptions{})
		pods, err := w.api.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(serviceErr) && apierrors.IsNotFound(deploymentErr) && err == nil && len(pods.Items) == 0 {
			return "", nil
		}
		return fmt.Sprintf("service: %v, deployment: %v, %d pods", serviceErr, deploymentErr, len(pods.Items)), err
	})
	second.stop(t)
	w.rights(t, "system:serviceaccount:operator:operator")
}

// account creates a service account with the operator's rights in its own namespace, and returns a kubeconfig file with
// a token of it.
func (w *world) account(t *testing.T, name string) string {
	t.Helper()
	ctx := t.Context()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	everything := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	must(w.api.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))
	must(w.api.CoreV1().ServiceAccounts(name).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))
	must(w.api.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"services", "services/status", "services/finalizers"}, Verbs: everything},
		{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: everything},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: everything},
		{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}}, metav1.CreateOptions{}))
	must(w.api.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: name, Name: name}},
	}, metav1.CreateOptions{}))
	token, err := w.api.CoreV1().ServiceAccounts(name).CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: w.config.Host, CertificateAuthorityData: w.config.CAData}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// leads waits until a process other than the given one leads, and returns it.
func (w *world) leads(t *testing.T, before string) string {
	t.Helper()
	var holder string
	eventually(t, "a leader", func(ctx context.Context) (string, error) {
		lease, err := w.api.CoordinationV1().Leases("operator").Get(ctx, "run.example.com", metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" || *lease.Spec.HolderIdentity == before {
			return "nobody, or still the first", err
		}
		holder = *lease.Spec.HolderIdentity
		return "", nil
	})
	return holder
}

// runs waits until the service's status says that the image runs.
func (w *world) runs(t *testing.T, image string) {
	t.Helper()
	eventually(t, image+" runs", func(ctx context.Context) (string, error) {
		service, err := w.api.CoreV1().Services("default").Get(ctx, "blog", metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		c := meta.FindStatusCondition(service.Status.Conditions, "example.com/Available")
		if c == nil {
			return "no condition", nil
		}
		d, err := w.api.AppsV1().Deployments("default").Get(ctx, "blog", metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		if owner := metav1.GetControllerOf(d); owner == nil || owner.UID != service.UID {
			return fmt.Sprintf("the deployment is owned by %v", owner), nil
		}
		return differ(fmt.Sprint(c.Status, " ", c.Message), "True "+image), nil
	})
}
