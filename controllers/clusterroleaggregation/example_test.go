package clusterroleaggregation_test

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/clusterroleaggregation"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

// A role that gathers others gets their rules. The API and the cache of it are in memory.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	part := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "part", Labels: map[string]string{"of": "all"}},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}},
	}
	all := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "all"},
		AggregationRule: &rbacv1.AggregationRule{
			ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"of": "all"}}},
		},
	}
	api, err := controllerstest.New(controllerstest.Options{Objects: []informer.Object{part, all}, Before: func(r faults.Request) error {
		if r.Verb == faults.Update {
			fmt.Println(r, r.Object.(*rbacv1.ClusterRole).Rules[0].Verbs)
			stop()
		}
		return nil
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	source := controllerstest.Source[*rbacv1.ClusterRole](api, rbacv1.SchemeGroupVersion.WithResource("clusterroles"))
	roles := informer.New(source, informer.Options{})
	c := clusterroleaggregation.New(clusterroleaggregation.Sources{ClusterRoles: roles}, api)
	fmt.Println(lifecycle.Group(api, roles, controllers.NewLoop(c, controllers.Options{})).Run(ctx))
	// Output:
	// update clusterroles all [get]
	// <nil>
}
