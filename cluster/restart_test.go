package cluster_test

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cluster"
)

// TestRestart: a restarted control plane on a directory has everything it acknowledged, continues pending work, and
// updates its default policy without touching additions.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	options := cluster.Options{Dir: dir, Nodes: cluster.Nodes{Count: 2}, Disable: []string{"scheduler"}}
	c, err := cluster.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cs := t.Context(), clientset(t, c.Config())
	created, err := cs.AppsV1().Deployments("default").Create(ctx, deploymentOf("web", 3), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := cs.RbacV1().ClusterRoles().Delete(ctx, "system:node-proxier", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	view, err := cs.RbacV1().ClusterRoles().Get(ctx, "system:kube-dns", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	extra := rbacv1.PolicyRule{APIGroups: []string{"shop.example.com"}, Resources: []string{"carts"}, Verbs: []string{"get"}}
	view.Rules = append(view.Rules, extra)
	if _, err := cs.RbacV1().ClusterRoles().Update(ctx, view, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Start(ctx, options); err == nil {
		t.Fatal("two control planes on one directory")
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}

	options.Disable = nil
	c = start(t, options)
	cs = clientset(t, c.Config())
	got, err := cs.AppsV1().Deployments("default").Get(ctx, "web", metav1.GetOptions{})
	if err != nil || got.UID != created.UID {
		t.Fatalf("the deployment after a restart: %v %v", got.UID, err)
	}
	eventually(t, "the rollout that the first life could not finish", running(ctx, cs, "web", 3))
	if _, err := cs.RbacV1().ClusterRoles().Get(ctx, "system:node-proxier", metav1.GetOptions{}); err != nil {
		t.Errorf("a default role that was deleted: %v", err)
	}
	view, err = cs.RbacV1().ClusterRoles().Get(ctx, "system:kube-dns", metav1.GetOptions{})
	if err != nil || view.Rules[len(view.Rules)-1].Resources[0] != "carts" {
		t.Errorf("a rule that was added: %v %v", view.Rules, err)
	}
}
