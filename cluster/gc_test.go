package cluster_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/cluster"
)

func configMap(name string, owners ...*corev1.ConfigMap) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, o := range owners {
		cm.OwnerReferences = append(cm.OwnerReferences, metav1.OwnerReference{
			APIVersion: "v1", Kind: "ConfigMap", Name: o.Name, UID: o.UID, BlockOwnerDeletion: ptr.To(true),
		})
	}
	return cm
}

// family creates config maps, each with the owners named.
func family(t *testing.T, cs kubernetes.Interface, owners map[string][]string, order ...string) map[string]*corev1.ConfigMap {
	t.Helper()
	made := map[string]*corev1.ConfigMap{}
	for _, name := range order {
		var list []*corev1.ConfigMap
		for _, o := range owners[name] {
			list = append(list, made[o])
		}
		cm, err := cs.CoreV1().ConfigMaps("default").Create(t.Context(), configMap(name, list...), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		made[name] = cm
	}
	return made
}

// left waits until exactly these config maps are left.
func left(ctx context.Context, cs kubernetes.Interface, want ...string) func() error {
	return func() error {
		l, err := cs.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var got []string
		for _, cm := range l.Items {
			if cm.Name != "kube-root-ca.crt" {
				got = append(got, cm.Name)
			}
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("left are %v, want %v", got, want)
		}
		return nil
	}
}

func TestGarbageCollection(t *testing.T) {
	c := start(t, cluster.Options{})
	ctx, cs := t.Context(), clientset(t, c.Config())
	maps := cs.CoreV1().ConfigMaps("default")
	remove := func(name string, policy metav1.DeletionPropagation) {
		t.Helper()
		if err := maps.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
			t.Fatal(err)
		}
	}

	family(t, cs, map[string][]string{"b": {"a"}, "c": {"b"}}, "a", "b", "c")
	remove("a", metav1.DeletePropagationBackground)
	eventually(t, "background, over two generations", left(ctx, cs))

	family(t, cs, map[string][]string{"b": {"a"}, "c": {"b"}}, "a", "b", "c")
	remove("a", metav1.DeletePropagationForeground)
	eventually(t, "foreground, over two generations", left(ctx, cs))

	family(t, cs, map[string][]string{"b": {"a"}, "c": {"a"}}, "a", "b", "c")
	remove("a", metav1.DeletePropagationOrphan)
	eventually(t, "orphans", left(ctx, cs, "b", "c"))
	for _, name := range []string{"b", "c"} {
		cm, err := maps.Get(ctx, name, metav1.GetOptions{})
		if err != nil || len(cm.OwnerReferences) > 0 {
			t.Errorf("%s after orphaning: %v %v", name, cm.OwnerReferences, err)
		}
		remove(name, metav1.DeletePropagationBackground)
	}

	family(t, cs, map[string][]string{"c": {"a", "b"}}, "a", "b", "c")
	remove("a", metav1.DeletePropagationBackground)
	eventually(t, "one owner of two is left", func() error {
		cm, err := maps.Get(ctx, "c", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(cm.OwnerReferences) != 1 || cm.OwnerReferences[0].Name != "b" {
			return fmt.Errorf("owners are %v", cm.OwnerReferences)
		}
		return nil
	})
	remove("b", metav1.DeletePropagationBackground)
	eventually(t, "both owners gone", left(ctx, cs))
}

// TestForegroundWaits: the owner stays as long as a dependent that blocks its deletion.
func TestForegroundWaits(t *testing.T) {
	c := start(t, cluster.Options{})
	ctx, cs := t.Context(), clientset(t, c.Config())
	maps := cs.CoreV1().ConfigMaps("default")
	made := family(t, cs, nil, "a")
	child := configMap("b", made["a"])
	child.Finalizers = []string{"example.com/hold"}
	if _, err := maps.Create(ctx, child, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := maps.Delete(ctx, "a", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the dependent begins to go", func() error {
		cm, err := maps.Get(ctx, "b", metav1.GetOptions{})
		if err == nil && cm.DeletionTimestamp == nil {
			return fmt.Errorf("it is not being deleted")
		}
		return err
	})
	owner, err := maps.Get(ctx, "a", metav1.GetOptions{})
	if err != nil || !slices.Contains(owner.Finalizers, metav1.FinalizerDeleteDependents) {
		t.Fatalf("the owner did not wait: %v %v", owner, err)
	}
	held, err := maps.Get(ctx, "b", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	held.Finalizers = nil
	if _, err := maps.Update(ctx, held, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	eventually(t, "both go", left(ctx, cs))
}

// TestOwnerElsewhere: an owner in another namespace does not count.
func TestOwnerElsewhere(t *testing.T) {
	c := start(t, cluster.Options{})
	ctx, cs := t.Context(), clientset(t, c.Config())
	owner, err := cs.CoreV1().ConfigMaps("kube-system").Create(ctx, configMap("owner"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cs.CoreV1().ConfigMaps("default").Create(ctx, configMap("child", owner), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the child goes", left(ctx, cs))
	eventually(t, "an event says why", func() error {
		l, err := cs.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "reason=OwnerRefInvalidNamespace"})
		if err == nil && len(l.Items) == 0 {
			err = fmt.Errorf("no event")
		}
		return err
	})
	if _, err := cs.CoreV1().ConfigMaps("kube-system").Get(ctx, "owner", metav1.GetOptions{}); err != nil {
		t.Errorf("the owner: %v", err)
	}
}
