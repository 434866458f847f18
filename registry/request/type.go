package request

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TypeOf returns the type in a JSON document, completed from the wanted one.
func TypeOf(document []byte, want schema.GroupVersionKind) (*schema.GroupVersionKind, error) {
	got, err := Named(document)
	if err != nil {
		return nil, err
	}
	completed := Complete(*got, want)
	return &completed, nil
}

// Named returns the type that a JSON document names, parts of which may be missing.
func Named(document []byte) (*schema.GroupVersionKind, error) {
	var named struct {
		APIVersion string `json:"apiVersion,omitempty"`
		Kind       string `json:"kind,omitempty"`
	}
	if err := json.Unmarshal(document, &named); err != nil {
		return nil, fmt.Errorf("couldn't get version/kind; json parse error: %w", err)
	}
	gv, err := schema.ParseGroupVersion(named.APIVersion)
	if err != nil {
		return nil, err
	}
	gvk := gv.WithKind(named.Kind)
	return &gvk, nil
}

// Complete fills the missing parts of a document's type from the wanted one.
func Complete(named, want schema.GroupVersionKind) schema.GroupVersionKind {
	if named.Kind == "" {
		named.Kind = want.Kind
	}
	if named.Version == "" && named.Group == "" {
		named.Group, named.Version = want.Group, want.Version
	}
	return named
}
