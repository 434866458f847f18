package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/keelson-dev/keelson/cluster"
)

// TestSite runs in virtual time: sleeping for a minute returns at once, after a minute of cluster activity.
func TestSite(t *testing.T) { synctest.Test(t, testSite) }

func testSite(t *testing.T) {
	c, err := cluster.Start(t.Context(), cluster.Options{Nodes: cluster.Nodes{Count: 1}})
	if err != nil {
		t.Fatal(err)
	}
	manager, err := ctrl.NewManager(c.Config(), ctrl.Options{
		Scheme:     c.Scheme(),
		Metrics:    metrics.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := (&Reconciler{}).SetUp(manager); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- manager.Start(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()

	cl := manager.GetClient()
	site := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blog", Labels: map[string]string{"kind": "site"}},
		Data:       map[string]string{"image": "nginx:1.27"},
	}
	if err := cl.Create(ctx, site); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
	var deployment appsv1.Deployment
	if err := cl.Get(ctx, client.ObjectKeyFromObject(site), &deployment); err != nil {
		t.Fatal(err)
	}
	if deployment.Status.AvailableReplicas != 1 {
		t.Errorf("the site is not up after a minute: %+v", deployment.Status)
	}
	if err := cl.Delete(ctx, site); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
	if err := cl.Get(ctx, client.ObjectKeyFromObject(site), &deployment); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the deployment outlives its owner by a minute: %v", err)
	}
}
