package generate_test

import (
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/client/generate"
)

// nothing is a server without resources.
type nothing struct{}

func (nothing) ResourceFor(partial schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return partial, fmt.Errorf("no %s", partial.Resource)
}

func ExampleRun() {
	objects, err := generate.Run("web", generate.RunOptions{
		Container: generate.Container{Image: "nginx", Port: 80}, Expose: true,
	})
	for _, obj := range objects {
		fmt.Println(obj.GetObjectKind().GroupVersionKind().Kind)
	}
	fmt.Println(err)
	_, err = generate.Run("web", generate.RunOptions{Container: generate.Container{Image: "Nginx"}})
	fmt.Println(err)
	// Output:
	// Deployment
	// Service
	// <nil>
	// invalid image name "Nginx": invalid reference format
}

func ExampleConfigMap() {
	m, err := generate.ConfigMap("settings", generate.ConfigMapOptions{Sources: generate.Sources{
		Literals: []string{"color=blue"},
		Files:    []string{"app.conf=testdata/dir/one.txt"},
		FS:       os.DirFS("."),
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := yaml.Marshal(m.Data)
	fmt.Print(string(text))
	fmt.Println(err)
	// Output:
	// app.conf: one
	// color: blue
	// <nil>
}
