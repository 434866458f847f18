package customresourcedefinition_test

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/customresourcedefinition"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/registry/apiextensions"
)

// printer is a Server that serves nothing.
type printer struct{}

func (printer) Serve(_ context.Context, crd *apiextensionsv1.CustomResourceDefinition) error {
	fmt.Println("serving", crd.Status.AcceptedNames.Kind)
	return nil
}

func (printer) Withdraw(context.Context, schema.GroupResource) error { return nil }

// The controller reads from an informer and writes through a client; here both are an API in memory. It ends when a
// definition is established.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	dogs := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "dogs.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "dogs", Singular: "dog", Kind: "Dog", ListKind: "DogList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
			}},
		},
	}
	api, err := controllerstest.New(controllerstest.Options{
		Kinds: apiextensions.Kinds(), Objects: []informer.Object{dogs},
		Before: func(r faults.Request) error {
			for _, c := range r.Object.(*apiextensionsv1.CustomResourceDefinition).Status.Conditions {
				if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
					fmt.Println(c.Message)
					stop()
				}
			}
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	cache := informer.New(controllerstest.Source[*apiextensionsv1.CustomResourceDefinition](api, apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")), informer.Options{})
	c := customresourcedefinition.New(cache, api, api.Others, printer{}, customresourcedefinition.Options{})
	if err := lifecycle.Group(api, cache, controllers.NewLoop(c, controllers.Options{})).Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// serving Dog
	// the initial names have been accepted
}
