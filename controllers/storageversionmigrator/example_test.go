package storageversionmigrator_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	svmv1 "k8s.io/api/storagemigration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/storageversionmigrator"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/registry/storagemigration"
)

// The controllers read migrations from an informer and all else through a client; here both are an API in memory. They end
// with the first object that is written.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	api, err := controllerstest.New(controllerstest.Options{
		Kinds: storagemigration.Kinds(),
		Objects: []informer.Object{
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}},
			&svmv1.StorageVersionMigration{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Spec: svmv1.StorageVersionMigrationSpec{
				Resource: metav1.GroupResource{Resource: "configmaps"},
			}},
		},
		Before: func(r faults.Request) error {
			if r.Verb == faults.Patch {
				fmt.Println(r)
				stop()
			}
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	in := storageversionmigrator.Sources{Migrations: informer.New(controllerstest.Source[*svmv1.StorageVersionMigration](api,
		svmv1.SchemeGroupVersion.WithResource("storageversionmigrations")), informer.Options{})}
	find := func(context.Context, schema.GroupResource) (storageversionmigrator.Resource, bool, error) {
		return storageversionmigrator.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps"), Kind: "ConfigMap"}, true, nil
	}
	loop := func(c controllers.Controller) *controllers.Loop { return controllers.NewLoop(c, controllers.Options{}) }
	all := lifecycle.Group(api, in.Migrations, loop(storageversionmigrator.NewRunner(in, api)),
		loop(storageversionmigrator.NewVersions(in, api, find)), loop(storageversionmigrator.New(in, api, find)))

	fmt.Println(all.Run(ctx))
	// Output:
	// patch configmaps default/settings
	// <nil>
}
