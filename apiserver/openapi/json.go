package openapi

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// JSON returns the document of OpenAPI v3 about a group-version, for use in the server's own process; false if the group-version
// is not served.
func (d *Documents) JSON(of schema.GroupVersion) ([]byte, bool, error) {
	key := "apis/" + of.String()
	if of.Group == "" {
		key = "api/" + of.Version
	}
	doc, ok := d.edition().v3[key]
	if !ok {
		return nil, false, nil
	}
	e, err := d.get(doc, false)
	if err != nil {
		return nil, false, fmt.Errorf("OpenAPI document of %s: %w", key, err)
	}
	z, err := gzip.NewReader(bytes.NewReader(e.compressed))
	if err != nil {
		return nil, false, err
	}
	data, err := io.ReadAll(z)
	return data, err == nil, err
}
