package custom_test

import (
	"context"
	"fmt"
	"os"

	"github.com/keelson-dev/keelson/registry/custom"
)

// A definition from a file decodes, prunes, completes and validates objects without a server.
func Example() {
	text, err := os.ReadFile("testdata/crontab.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	definitions, err := custom.Read(text)
	if err != nil {
		fmt.Println(err)
		return
	}
	crontabs, err := custom.New(definitions[0], custom.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	v1, err := crontabs.Version("v1")
	if err != nil {
		fmt.Println(err)
		return
	}

	obj, strict, err := v1.Decode([]byte(`{
		"apiVersion": "stable.example.com/v1", "kind": "CronTab", "metadata": {"name": "backup", "namespace": "default"},
		"spec": {"cronSpec": "* * * * */5", "color": "blue"}
	}`))
	fmt.Println(strict, err)
	fmt.Println(obj.Object["spec"])
	fmt.Println(len(v1.Validate(context.Background(), obj)), "errors")

	if err := v1.SetReplicas(obj, 20); err != nil {
		fmt.Println(err)
	}
	for _, err := range v1.Validate(context.Background(), obj) {
		fmt.Println(err)
	}
	// Output:
	// [unknown field "spec.color"] <nil>
	// map[cronSpec:* * * * */5 replicas:1]
	// 0 errors
	// spec.replicas: Invalid value: 20: at most 10 replicas
}
