package localvolumes_test

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/localvolumes"
)

// A cluster whose claims are provided for, on simulated nodes in name.
func Example() {
	ctx := context.Background()
	volumes := localvolumes.Options{}
	c, err := cluster.Start(ctx, cluster.Options{
		Extensions: []cluster.Extension{localvolumes.Extension(volumes)},
		Components: append(cluster.DefaultComponents(), localvolumes.Component(volumes)),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close() }()
	cs, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		fmt.Println(err)
		return
	}
	class, err := cs.StorageV1().StorageClasses().Get(ctx, localvolumes.Class, metav1.GetOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(class.Provisioner, *class.VolumeBindingMode)
	// Output: keelson.dev/local WaitForFirstConsumer
}
