package main

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
)

// Cart is a custom kind.
type Cart struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              CartSpec `json:"spec"`
}

// CartSpec is the content of a cart.
type CartSpec struct {
	Currency string `json:"currency,omitempty"`
	Items    []Item `json:"items,omitempty"`
}

// Item is one line of a cart.
type Item struct {
	Article string `json:"article"`
	Count   int32  `json:"count"`
}

// CartList is a list of carts.
type CartList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Cart `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (c *Cart) DeepCopyObject() runtime.Object {
	out := *c
	out.ObjectMeta = *c.ObjectMeta.DeepCopy()
	c.Spec.DeepCopyInto(&out.Spec)
	return &out
}

// DeepCopyInto copies the spec.
func (s *CartSpec) DeepCopyInto(out *CartSpec) {
	*out = *s
	out.Items = slices.Clone(s.Items)
}

// DeepCopyObject implements runtime.Object.
func (l *CartList) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = make([]Cart, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Cart)
	}
	return &out
}

// Carts describes the kind: its names, types, defaults, rules and columns.
func Carts() registry.Kind {
	parts := registry.Parts[*Cart]{Spec: registry.PartOf(func(c *Cart) *CartSpec { return &c.Spec })}
	return registry.Definition[*Cart]{
		Names:        registry.Names{Kind: "Cart", Plural: "carts", Singular: "cart"},
		GroupVersion: schema.GroupVersion{Group: "shop.example.com", Version: "v1"},
		Namespaced:   true,
		New:          func() *Cart { return &Cart{} },
		NewList:      func() runtime.Object { return &CartList{} },
		Rules: registry.Rules[*Cart]{
			Default: func(c *Cart) {
				if c.Spec.Currency == "" {
					c.Spec.Currency = "EUR"
				}
			},
			PrepareCreate:  parts.PrepareCreate,
			PrepareUpdate:  parts.PrepareUpdate,
			Validate:       validate,
			ValidateUpdate: func(c, _ *Cart) field.ErrorList { return validate(c) },
		},
		Columns: columns(),
	}.Kind()
}

// columns are the columns of kubectl get carts.
func columns() registry.Columns[*Cart] {
	return registry.Columns[*Cart]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			{Name: "Items", Type: "integer", Description: "How many things are in the cart."},
			registry.AgeColumn(),
			registry.WideColumn("Currency", "What the cart is paid in."),
		},
		Cells: func(c *Cart, now time.Time) []any {
			things := int64(0)
			for _, item := range c.Spec.Items {
				things += int64(item.Count)
			}
			return []any{c.Name, things, registry.Age(c.CreationTimestamp, now), c.Spec.Currency}
		},
	}
}

func validate(c *Cart) field.ErrorList {
	var errs field.ErrorList
	for i, item := range c.Spec.Items {
		path := field.NewPath("spec", "items").Index(i)
		if item.Article == "" {
			errs = append(errs, field.Required(path.Child("article"), ""))
		}
		if item.Count < 1 {
			errs = append(errs, field.Invalid(path.Child("count"), item.Count, "must be at least 1"))
		}
	}
	return errs
}
