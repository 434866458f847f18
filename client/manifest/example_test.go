package manifest_test

import (
	"fmt"

	"github.com/keelson-dev/keelson/client/manifest"
)

func ExampleRead() {
	text := `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Service, metadata: {name: web}}
- {apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}
`
	for obj, err := range manifest.Read([]byte(text)) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(obj.Document, obj.APIVersion, obj.Kind)
	}
	// Output:
	// 1 v1 Namespace
	// 2 v1 Service
	// 2 apps/v1 Deployment
}
