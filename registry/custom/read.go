package custom

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/internal/boundedyaml"
	"github.com/keelson-dev/keelson/registry/apiextensions"
	"github.com/keelson-dev/keelson/registry/codec"
)

// Read reads definitions from a YAML or JSON text of one or several documents, each of at most 3 MiB, and returns them
// as a server would store them: with defaults, and validated. Errors, which wrap ErrDefinition, include unknown and
// duplicate fields.
func Read(text []byte) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var out []*apiextensionsv1.CustomResourceDefinition
	for i, document := range split(text) {
		crd, err := read(document)
		if err != nil {
			return nil, fmt.Errorf("%w: document %d: %w", ErrDefinition, i+1, err)
		}
		if crd != nil {
			out = append(out, crd)
		}
	}
	return out, nil
}

// split cuts a text at the lines that begin documents.
func split(text []byte) [][]byte {
	var documents [][]byte
	var current []byte
	for line := range bytes.Lines(text) {
		if words := bytes.Fields(line); len(words) > 0 && string(words[0]) == "---" && line[0] == '-' {
			documents, current = append(documents, current), nil
		}
		current = append(current, line...)
	}
	return append(documents, current)
}

// read returns nil for an empty document.
func read(document []byte) (*apiextensionsv1.CustomResourceDefinition, error) {
	data, err := boundedyaml.ToJSONStrict(document, boundedyaml.Limit)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(bytes.TrimSpace(data), []byte("null")) {
		return nil, nil //nolint:nilnil // as documented
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	gvk, strict, err := codec.DecodeStrict(data, crd)
	if err != nil {
		return nil, err
	}
	if want := apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"); gvk != want {
		return nil, fmt.Errorf("%s is not %s", gvk, want)
	}
	if err := errors.Join(strict...); err != nil {
		return nil, err
	}
	for _, v := range crd.Spec.Versions {
		if v.Schema != nil {
			if err := bounded(v.Schema.OpenAPIV3Schema); err != nil {
				return nil, err
			}
		}
	}
	rules := apiextensions.Kinds()[0].Rules
	rules.Default(crd)
	rules.PrepareCreate(context.Background(), crd)
	errs := apivalidation.ValidateObjectMeta(&crd.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	if err := append(errs, rules.Validate(crd)...).ToAggregate(); err != nil {
		return nil, fmt.Errorf("%s: %w", crd.Name, err)
	}
	return crd, nil
}
