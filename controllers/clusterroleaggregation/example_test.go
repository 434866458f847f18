package clusterroleaggregation_test

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/clusterroleaggregation"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/fakeapi"
	"github.com/keelson-dev/keelson/lifecycle"
)

// A role that gathers others gets their rules. Server and cache are in memory.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	api := fakeapi.New(fakeapi.Options{Before: func(a fakeapi.Action) error {
		if a.Verb == fakeapi.Update {
			fmt.Println(a, a.Object.(*rbacv1.ClusterRole).Rules[0].Verbs)
			stop()
		}
		return nil
	}})
	roles := informer.New(fakeapi.Source[*rbacv1.ClusterRole](api, clusterRoles), informer.Options{})
	c := clusterroleaggregation.New(clusterroleaggregation.Sources{ClusterRoles: roles}, api)
	for _, role := range []*rbacv1.ClusterRole{
		{ObjectMeta: metav1.ObjectMeta{Name: "part", Labels: map[string]string{"of": "all"}}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "all"}, AggregationRule: &rbacv1.AggregationRule{
			ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"of": "all"}}},
		}},
	} {
		if _, err := api.Create(ctx, client.Target{Resource: clusterRoles}, role, metav1.CreateOptions{}); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(lifecycle.Group(roles, controllers.NewLoop(c, controllers.Options{})).Run(ctx))
	// Output:
	// update clusterroles all [get]
	// <nil>
}
