package client

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
)

// As gives the answer of a Client its type. It passes an error on, and returns one when the
// object is of another type.
func As[T runtime.Object](obj runtime.Object, err error) (T, error) {
	var none T
	if err != nil {
		return none, err
	}
	typed, ok := obj.(T)
	if !ok {
		return none, fmt.Errorf("the server answered with a %T, want a %T", obj, none)
	}
	return typed, nil
}
