package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/controllers/rootca"
)

// TestNamespaceDefaults: every namespace has its service account and its root certificate, and gets them back if
// deleted.
func TestNamespaceDefaults(t *testing.T) {
	c := start(t, cluster.Options{Server: cluster.Server{RootCA: []byte("PEM")}})
	ctx, cs := t.Context(), clientset(t, c.Config())
	if _, err := cs.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	there := func() error {
		if _, err := cs.CoreV1().ServiceAccounts("shop").Get(ctx, "default", metav1.GetOptions{}); err != nil {
			return err
		}
		cm, err := cs.CoreV1().ConfigMaps("shop").Get(ctx, rootca.ConfigMapName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if cm.Data["ca.crt"] != "PEM" || cm.Annotations[rootca.DescriptionAnnotation] != rootca.Description {
			return fmt.Errorf("it says %v %v", cm.Data, cm.Annotations)
		}
		return nil
	}
	eventually(t, "defaults of a new namespace", there)
	cm, err := cs.CoreV1().ConfigMaps("shop").Get(ctx, rootca.ConfigMapName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cm.Data["ca.crt"] = "forged"
	if _, err := cs.CoreV1().ConfigMaps("shop").Update(ctx, cm, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := cs.CoreV1().ServiceAccounts("shop").Delete(ctx, "default", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "defaults that were changed", there)
}

// TestClusterRoleAggregation: roles are aggregated by their labels.
func TestClusterRoleAggregation(t *testing.T) {
	c := start(t, cluster.Options{})
	ctx, cs := t.Context(), clientset(t, c.Config())
	rule := rbacv1.PolicyRule{APIGroups: []string{"shop.example.com"}, Resources: []string{"carts"}, Verbs: []string{"create"}}
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "carts", Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-edit": "true"}},
		Rules:      []rbacv1.PolicyRule{rule},
	}
	if _, err := cs.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the rule in edit and, through it, admin", func() error {
		for _, name := range []string{"edit", "admin"} {
			got, err := cs.RbacV1().ClusterRoles().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(got.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "carts") }) {
				return fmt.Errorf("%s lacks it", name)
			}
		}
		return nil
	})
}

func TestDisableUnknown(t *testing.T) {
	_, err := cluster.New(cluster.Options{Disable: []string{"deployments"}})
	if err == nil {
		t.Fatal("a component that does not exist can be disabled")
	}
	if want := `cannot disable "deployments"; there are deployment-controller`; !strings.Contains(err.Error(), want) {
		t.Errorf("got %q, want %q in it", err, want)
	}
}
