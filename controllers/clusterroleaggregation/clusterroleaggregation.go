// Package clusterroleaggregation is upstream's clusterrole-aggregation-controller: a ClusterRole with an aggregation
// rule gets the rules of all ClusterRoles that it selects.
//
// Reconcile returns errors for invalid selectors and failed writes, including conflicts; they are retried. A Controller
// starts no goroutines and is safe for concurrent use by the workers of a Loop.
package clusterroleaggregation

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/authz/rbac"
	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/informer"
)

// Sources are what the controller reads.
type Sources struct {
	ClusterRoles *informer.Informer[*rbacv1.ClusterRole]
}

// Controller is the clusterrole-aggregation-controller. Make one with New.
type Controller struct {
	in     Sources
	client client.Updater
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the controller.
func New(in Sources, c client.Updater) *Controller { return &Controller{in: in, client: c} }

// Name is "clusterrole-aggregation-controller".
func (*Controller) Name() string { return "clusterrole-aggregation-controller" }

// Watch enqueues every aggregated role whenever any role changes, since any role may be selected.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	all := func(*rbacv1.ClusterRole) {
		for _, role := range c.in.ClusterRoles.List("") {
			if role.AggregationRule != nil {
				q.Add(controllers.Key{Name: role.Name})
			}
		}
	}
	c.in.ClusterRoles.AddHandler(informer.Handler[*rbacv1.ClusterRole]{
		Added:   all,
		Updated: func(_, role *rbacv1.ClusterRole) { all(role) },
		Deleted: all,
	})
	return []controllers.Synced{c.in.ClusterRoles}
}

// Reconcile writes the rules that the role should have.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	role, ok := c.in.ClusterRoles.Get("", key.Name)
	if !ok {
		return controllers.Result{}, nil
	}
	rules, err := rbac.Aggregate(role, c.in.ClusterRoles.List("")) // its own rules if it no longer selects any
	if err != nil || equality.Semantic.DeepEqual(rules, role.Rules) {
		return controllers.Result{}, err
	}
	role = role.DeepCopy()
	role.Rules = rules
	at := client.Target{Resource: rbacv1.SchemeGroupVersion.WithResource("clusterroles"), Name: role.Name}
	_, err = c.client.Update(ctx, at, role, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return controllers.Result{}, err
}
