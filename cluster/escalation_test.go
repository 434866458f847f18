package cluster_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/keelson-dev/keelson/cluster"
)

// grants is a resource whose objects grant permissions, with a harmless object, and what changes it to grant
// permissions that only administrators have.
type grants struct {
	resource, kind, namespace string
	innocent, guilty          map[string]any
}

func allGrants() []grants {
	secrets := map[string]any{"rules": []any{map[string]any{"verbs": []any{"get"}, "apiGroups": []any{""}, "resources": []any{"secrets"}}}}
	friend := map[string]any{"subjects": []any{map[string]any{"kind": "User", "name": "mallory", "apiGroup": rbacv1.GroupName}}}
	bound := map[string]any{"roleRef": map[string]any{"apiGroup": rbacv1.GroupName, "kind": "ClusterRole", "name": "secret-reader"}}
	return []grants{
		{"roles", "Role", "default", nil, secrets},
		{"clusterroles", "ClusterRole", "", nil, secrets},
		{"rolebindings", "RoleBinding", "default", bound, friend},
		{"clusterrolebindings", "ClusterRoleBinding", "", bound, friend},
	}
}

func (g grants) object(name string, guilty bool) *unstructured.Unstructured {
	metadata := map[string]any{"name": name}
	if g.namespace != "" {
		metadata["namespace"] = g.namespace
	}
	obj := map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": g.kind, "metadata": metadata}
	for k, v := range g.innocent {
		obj[k] = v
	}
	for k, v := range g.guilty {
		if guilty {
			obj[k] = v
		}
	}
	return &unstructured.Unstructured{Object: runtime.DeepCopyJSON(obj)}
}

// writes returns all ways to grant permissions. There is a harmless object called "there", and no other.
func (g grants) writes(ctx context.Context, c dynamic.ResourceInterface) map[string]func() error {
	patch := func(how types.PatchType) func() error {
		return func() error {
			data, err := json.Marshal(g.guilty)
			if err != nil {
				return err
			}
			_, err = c.Patch(ctx, "there", how, data, metav1.PatchOptions{})
			return err
		}
	}
	apply := func(name string) func() error {
		return func() error {
			_, err := c.Apply(ctx, name, g.object(name, true), metav1.ApplyOptions{FieldManager: "test", Force: true})
			return err
		}
	}
	update := func(name string) func() error {
		return func() error {
			_, err := c.Update(ctx, g.object(name, true), metav1.UpdateOptions{})
			return err
		}
	}
	return map[string]func() error{
		"create": func() error {
			_, err := c.Create(ctx, g.object("created", true), metav1.CreateOptions{})
			return err
		},
		"update":            update("there"),
		"create by update":  update("updated"),
		"merge patch":       patch(types.MergePatchType),
		"strategic patch":   patch(types.StrategicMergePatchType),
		"apply":             apply("there"),
		"creation by apply": apply("applied"),
	}
}

// TestNobodyGivesMoreThanTheyHave: whichever way a role or a binding is written, it grants only permissions that the
// writer has, unless the writer has the verb escalate on roles or bind on the role.
func TestNobodyGivesMoreThanTheyHave(t *testing.T) {
	c := start(t, cluster.Options{})
	ctx := t.Context()
	admin := clientset(t, c.Config())
	rule := func(verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: verbs, APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles", "clusterroles", "rolebindings", "clusterrolebindings"}}
	}
	for name, rules := range map[string][]rbacv1.PolicyRule{
		"secret-reader": {{Verbs: []string{"get"}, APIGroups: []string{corev1.GroupName}, Resources: []string{"secrets"}}},
		"eve":           {rule("get", "create", "update", "patch")},
		"escalator":     {rule("get", "create", "update", "patch", "escalate")},
		"binder":        {rule("get", "create", "update", "patch", "bind")},
	} {
		if _, err := admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
		}
		if _, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	as := func(user string, g grants) dynamic.ResourceInterface {
		config := c.Config()
		if user != "" {
			config = c.ConfigFor(cluster.User(user))
		}
		d, err := dynamic.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		all := d.Resource(rbacv1.SchemeGroupVersion.WithResource(g.resource))
		if g.namespace == "" {
			return all
		}
		return all.Namespace(g.namespace)
	}
	for _, g := range allGrants() {
		binding := strings.HasSuffix(g.resource, "bindings")
		root := as("", g)
		for user, may := range map[string]bool{"eve": false, "escalator": !binding, "binder": binding, "": true} {
			for name, write := range g.writes(ctx, as(user, g)) {
				if _, err := root.Create(ctx, g.object("there", false), metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				err := write()
				if (err == nil) != may || err != nil && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "is attempting to grant RBAC permissions not currently held")) {
					t.Errorf("%s of %s by %q: %v", name, g.resource, user, err)
				}
				for _, made := range []string{"there", "created", "updated", "applied"} {
					if err := root.Delete(ctx, made, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
						t.Fatal(err)
					}
				}
			}
		}
	}
}
