package cluster_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/registry"
)

// cart is a custom kind.
type cart struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              cartSpec   `json:"spec"`
	Status            cartStatus `json:"status,omitempty"`
}

type cartSpec struct {
	Currency string   `json:"currency,omitempty"`
	Items    []string `json:"items,omitempty"`
}

type cartStatus struct {
	Paid bool `json:"paid,omitempty"`
}

type cartList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []cart `json:"items"`
}

func (c *cart) DeepCopyObject() runtime.Object {
	out := *c
	out.ObjectMeta = *c.ObjectMeta.DeepCopy()
	out.Spec.Items = slices.Clone(c.Spec.Items)
	return &out
}

func (l *cartList) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = make([]cart, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*cart)
	}
	return &out
}

func cartVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "shop.example.com", Version: "v1"}
}

func carts() registry.Kind {
	validate := func(c *cart) field.ErrorList {
		if len(c.Spec.Currency) != 3 {
			return field.ErrorList{field.Invalid(field.NewPath("spec", "currency"), c.Spec.Currency, "must be three letters")}
		}
		return nil
	}
	return registry.Definition[*cart]{
		Names:        registry.Names{Kind: "Cart", Plural: "carts", Singular: "cart", Short: []string{"ct"}, Categories: []string{"shop"}},
		GroupVersion: cartVersion(), Namespaced: true,
		New: func() *cart { return &cart{} }, NewList: func() runtime.Object { return &cartList{} },
		Rules: registry.Rules[*cart]{
			Default: func(c *cart) {
				if c.Spec.Currency == "" {
					c.Spec.Currency = "EUR"
				}
			},
			PrepareCreate:  func(_ context.Context, c *cart) { c.Generation, c.Status = 1, cartStatus{} },
			PrepareUpdate:  func(_ context.Context, c, old *cart) { c.Status = old.Status },
			Validate:       validate,
			ValidateUpdate: func(c, _ *cart) field.ErrorList { return validate(c) },
		},
		Sub: registry.Subresources[*cart]{Views: map[string]registry.View[*cart]{
			"status": {PrepareUpdate: func(_ context.Context, c, old *cart) { c.Spec = old.Spec }},
		}},
	}.Kind()
}

func withCarts() cluster.Options { return cluster.Options{Kinds: []registry.Kind{carts()}} }

// typed returns controller-runtime's client with the cluster's scheme.
func (w *world) typed() client.WithWatch {
	w.t.Helper()
	cl, err := client.NewWithWatch(w.c.Config(), client.Options{Scheme: w.c.Scheme()})
	w.check(err)
	return cl
}

func newCart(name string, items ...string) *cart {
	return &cart{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: cartSpec{Items: items}}
}

// TestKindTyped uses a custom kind with controller-runtime's client.
func TestKindTyped(t *testing.T) {
	inBubble(t, withCarts(), func(t *testing.T, w *world) {
		cl := w.typed()
		watching, err := cl.Watch(w.ctx, &cartList{}, client.InNamespace("default"))
		w.check(err)
		defer watching.Stop()
		c := newCart("mine", "tea")
		c.Status.Paid = true
		w.check(cl.Create(w.ctx, c))
		if c.Spec.Currency != "EUR" || c.Status.Paid || c.UID == "" || c.Generation != 1 {
			t.Errorf("created %+v", c)
		}
		c.Spec.Items = append(c.Spec.Items, "milk")
		w.check(cl.Update(w.ctx, c))
		c.Status.Paid = true
		w.check(cl.Status().Update(w.ctx, c))
		w.check(cl.Patch(w.ctx, c, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"currency":"SEK"}}`))))
		var got cart
		w.check(cl.Get(w.ctx, client.ObjectKeyFromObject(c), &got))
		if got.Spec.Currency != "SEK" || !got.Status.Paid || len(got.Spec.Items) != 2 {
			t.Errorf("stored %+v", got)
		}
		if err := cl.Create(w.ctx, &cart{ObjectMeta: c.ObjectMeta, Spec: cartSpec{Currency: "gold"}}); err == nil {
			t.Error("a cart with a resourceVersion was created")
		}
		bad := newCart("bad")
		bad.Spec.Currency = "gold"
		if err := cl.Create(w.ctx, bad); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `Cart.shop.example.com "bad" is invalid: spec.currency: Invalid value: "gold": must be three letters`) {
			t.Errorf("a bad one: %v", err)
		}
		var list cartList
		w.check(cl.List(w.ctx, &list, client.InNamespace("default")))
		if len(list.Items) != 1 || list.Items[0].Name != "mine" {
			t.Errorf("list is %+v", list)
		}
		w.check(cl.Delete(w.ctx, c))
		for _, want := range []watch.EventType{watch.Added, watch.Modified, watch.Modified, watch.Modified, watch.Deleted} {
			if e := <-watching.ResultChan(); e.Type != want || e.Object.(*cart).Name != "mine" {
				t.Errorf("watch says %s %+v, want %s", e.Type, e.Object, want)
			}
		}
	})
}

// TestKindDynamic uses a custom kind without its Go type.
func TestKindDynamic(t *testing.T) {
	inBubble(t, withCarts(), func(t *testing.T, w *world) {
		dyn, err := dynamic.NewForConfig(w.c.Config())
		w.check(err)
		api := dyn.Resource(cartVersion().WithResource("carts")).Namespace("default")
		obj := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "shop.example.com/v1", "kind": "Cart", "metadata": map[string]any{"generateName": "mine-"},
			"spec": map[string]any{"items": []any{"tea"}},
		}}
		made, err := api.Create(w.ctx, obj, metav1.CreateOptions{})
		w.check(err)
		currency, _, err := unstructured.NestedString(made.Object, "spec", "currency")
		if err != nil || currency != "EUR" || !strings.HasPrefix(made.GetName(), "mine-") {
			t.Errorf("created %v: %v", made.Object, err)
		}
		l, err := api.List(w.ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + made.GetName()})
		if err != nil || len(l.Items) != 1 || l.GetKind() != "CartList" {
			t.Errorf("list is %v: %v", l, err)
		}
		w.check(api.DeleteCollection(w.ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
		if _, err := api.Get(w.ctx, made.GetName(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("after it was deleted: %v", err)
		}
	})
}

// TestKindDiscovery: a custom kind is in discovery.
func TestKindDiscovery(t *testing.T) {
	c := start(t, withCarts())
	l, err := clientset(t, c.Config()).Discovery().ServerResourcesForGroupVersion("shop.example.com/v1")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range l.APIResources {
		names = append(names, r.Name)
	}
	r := l.APIResources[0]
	if !slices.Equal(names, []string{"carts", "carts/status"}) || r.Kind != "Cart" || !r.Namespaced || r.SingularName != "cart" ||
		!slices.Equal(r.ShortNames, []string{"ct"}) || !slices.Equal(r.Categories, []string{"shop"}) {
		t.Errorf("discovery says %+v", l.APIResources)
	}
}

// TestKindLife: the garbage collector and the namespace controller handle a custom kind.
func TestKindLife(t *testing.T) {
	inBubble(t, withCarts(), func(t *testing.T, w *world) {
		cl := w.typed()
		owner := newCart("owner")
		w.check(cl.Create(w.ctx, owner))
		ref := metav1.OwnerReference{APIVersion: "shop.example.com/v1", Kind: "Cart", Name: owner.Name, UID: owner.UID}
		child := newCart("child")
		child.OwnerReferences = []metav1.OwnerReference{ref}
		w.check(cl.Create(w.ctx, child))
		note := configMap("receipt")
		note.Namespace, note.OwnerReferences = "default", []metav1.OwnerReference{ref}
		w.check(cl.Create(w.ctx, note))
		time.Sleep(time.Second)
		w.check(cl.Delete(w.ctx, owner))
		time.Sleep(5 * time.Second)
		for _, o := range []client.Object{owner, child, note} {
			if err := cl.Get(w.ctx, client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
				t.Errorf("%s after its owner: %v", o.GetName(), err)
			}
		}

		w.check(cl.Create(w.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}))
		inside := newCart("inside")
		inside.Namespace = "shop"
		w.check(cl.Create(w.ctx, inside))
		w.check(cl.Delete(w.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}))
		time.Sleep(time.Minute)
		if err := cl.Get(w.ctx, client.ObjectKeyFromObject(inside), inside); !apierrors.IsNotFound(err) {
			t.Errorf("a cart after its namespace: %v", err)
		}
		if err := cl.Get(w.ctx, client.ObjectKey{Name: "shop"}, &corev1.Namespace{}); !apierrors.IsNotFound(err) {
			t.Errorf("the namespace: %v", err)
		}
	})
}

// TestKindRBAC: a custom kind requires permissions.
func TestKindRBAC(t *testing.T) {
	c := start(t, withCarts())
	ctx, cs := t.Context(), clientset(t, c.Config())
	jane, err := client.New(c.ConfigFor(cluster.User("jane")), client.Options{Scheme: c.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	err = jane.Create(ctx, newCart("mine"))
	if want := `carts.shop.example.com is forbidden: User "jane" cannot create resource "carts" in API group "shop.example.com" in the namespace "default"`; !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("without a role: %v", err)
	}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "shopper"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"shop.example.com"}, Resources: []string{"carts"}, Verbs: []string{"create", "get"}},
	}}
	if _, err := cs.RbacV1().Roles("default").Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := cs.RbacV1().RoleBindings("default").Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "shoppers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "shopper"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "jane"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := jane.Create(ctx, newCart("mine")); err != nil {
		t.Errorf("with the role: %v", err)
	}
	if err := jane.Delete(ctx, newCart("mine")); !apierrors.IsForbidden(err) {
		t.Errorf("a verb that the role lacks: %v", err)
	}
}
