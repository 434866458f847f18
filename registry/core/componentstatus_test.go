package core_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/direct"
	"github.com/keelson-dev/keelson/storage/memory"
)

// TestComponentStatus: each read checks the components; nothing can be written.
func TestComponentStatus(t *testing.T) {
	checked := 0
	kinds := core.Kinds(core.Options{Components: []core.Component{
		{Name: "scheduler", Check: func(context.Context) error { checked++; return nil }},
		{Name: "etcd-0", Check: func(context.Context) error { return errors.New("no disk") }},
	}})
	r, err := registry.New(memory.New(memory.Options{}), kinds, registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, ctx := direct.New(r, direct.Options{}), t.Context()
	at := client.Target{Resource: corev1.SchemeGroupVersion.WithResource("componentstatuses")}
	shown := func(s *corev1.ComponentStatus) string {
		if len(s.Conditions) != 1 || s.Conditions[0].Type != "Healthy" {
			return fmt.Sprintf("%+v", s)
		}
		return fmt.Sprintf("%s %s %q %q", s.Name, s.Conditions[0].Status, s.Conditions[0].Message, s.Conditions[0].Error)
	}
	list, err := c.List(ctx, at, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	items := list.(*corev1.ComponentStatusList).Items
	if len(items) != 2 || shown(&items[0]) != `etcd-0 False "" "no disk"` || shown(&items[1]) != `scheduler True "ok" ""` {
		t.Errorf("list: %+v", items)
	}
	at.Name = "scheduler"
	obj, err := c.Get(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	if got := shown(obj.(*corev1.ComponentStatus)); got != `scheduler True "ok" ""` || checked != 2 {
		t.Errorf("get: %s after %d checks", got, checked)
	}
	at.Name = "x"
	if _, err := c.Get(ctx, at); !apierrors.IsNotFound(err) || err.Error() != `componentstatus "x" not found` {
		t.Errorf("missing: %v", err)
	}
	if _, err := c.Create(ctx, at, &corev1.ComponentStatus{}, metav1.CreateOptions{}); !apierrors.IsMethodNotSupported(err) && err == nil {
		t.Errorf("create: %v", err)
	}
}
