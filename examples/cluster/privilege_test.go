package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/authn"
)

// TestLeastPrivilege: during a rollout, an update, a deletion and a restart, only the administrator and the API server itself
// appear as members of system:masters, and every component is refused what its role does not permit.
func TestLeastPrivilege(t *testing.T) {
	p, dir := program(t), filepath.Join(t.TempDir(), "data")
	process := started(t, p, dir, "--nodes", "2")
	_, api := clients(t, process)
	rollOut(t, api)
	if err := process.Interrupt(); err != nil {
		t.Fatal(err)
	}
	process = started(t, p, dir, "--nodes", "2")
	config, api := clients(t, process)
	rollOut(t, api)
	seen := identities(t, filepath.Join(dir, "audit.log"))
	for _, want := range []string{
		"kubernetes-admin", "system:kube-scheduler", "system:node:node-0", "system:node:node-1",
		"system:serviceaccount:kube-system:deployment-controller", "system:serviceaccount:kube-system:replicaset-controller",
		"system:serviceaccount:kube-system:generic-garbage-collector", "system:serviceaccount:kube-system:service-account-controller",
	} {
		if _, ok := seen[want]; !ok {
			t.Errorf("%s is not in the audit log: there are %v", want, slices.Sorted(maps.Keys(seen)))
		}
	}
	for name, groups := range seen {
		if name == "kubernetes-admin" || name == "system:apiserver" { // the latter is the API server itself, as upstream's
			continue
		}
		if slices.Contains(groups, authn.GroupMasters) {
			t.Errorf("%s acts as a member of system:masters", name)
		}
		c := rest.CopyConfig(config)
		c.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: groups}
		as, err := kubernetes.NewForConfig(c)
		if err != nil {
			t.Fatal(err)
		}
		_, err = as.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "more-"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}},
		}, metav1.CreateOptions{})
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s may make itself an administrator: %v", name, err)
		}
	}
	if err := process.Interrupt(); err != nil {
		t.Error(err)
	}
}

// rollOut creates a deployment, updates it and deletes it, and waits each time until it is done.
func rollOut(t *testing.T, api kubernetes.Interface) {
	t.Helper()
	deployments := api.AppsV1().Deployments("default")
	replicas, labels := int32(3), map[string]string{"app": "web"}
	_, err := deployments.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx:1"}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	available := func() bool {
		d, err := deployments.Get(t.Context(), "web", metav1.GetOptions{})
		return err == nil && d.Status.ObservedGeneration == d.Generation && d.Status.UpdatedReplicas == 3 && d.Status.AvailableReplicas == 3 && d.Status.Replicas == 3
	}
	eventually(t, "the deployment is available", available)
	patch := []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"nginx:2"}]}}}}`)
	if _, err := deployments.Patch(t.Context(), "web", types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the update is rolled out", available)
	if err := deployments.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pods are gone", func() bool {
		pods, err := api.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
		return err == nil && len(pods.Items) == 0
	})
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v it does not hold that %s", patience, what)
		}
	}
}

// identities returns the users of an audit log and their groups.
func identities(t *testing.T, path string) map[string][]string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string][]string{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct {
			User struct {
				Username string
				Groups   []string
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || e.User.Username == "" {
			t.Fatalf("%v: %s", err, lines.Text())
		}
		if strings.Contains(lines.Text(), "PRIVATE KEY") {
			t.Error("a key in the audit log")
		}
		seen[e.User.Username] = e.User.Groups
	}
	return seen
}
