package provider_test

import (
	"encoding/json"
	"testing"

	"github.com/keelson-dev/keelson/internal/provider"
	"github.com/keelson-dev/keelson/registry/apiextensions"
	"github.com/keelson-dev/keelson/registry/custom"
)

// TestSizes: definitions and objects are valid, and as large as they say.
func TestSizes(t *testing.T) {
	crd := provider.Definition(3)
	rules := apiextensions.Kinds()[0].Rules
	rules.Default(crd)
	rules.PrepareCreate(t.Context(), crd)
	if errs := rules.Validate(crd); len(errs) > 0 {
		t.Fatal(errs)
	}
	if data, err := json.Marshal(crd); err != nil || len(data) < 22_000 || len(data) > 24_000 {
		t.Errorf("the definition has %d bytes, %v", len(data), err)
	}
	r, err := custom.New(crd, custom.Options{})
	if err != nil {
		t.Fatal(err)
	}
	obj := provider.Object(3, "a")
	if errs := r.Storage().Validate(t.Context(), obj); len(errs) > 0 {
		t.Error(errs)
	}
	if unknown, err := r.Storage().Prune(obj); err != nil || len(unknown) > 0 {
		t.Errorf("unknown: %q, %v", unknown, err)
	}
	if data, err := json.Marshal(obj); err != nil || len(data) < 1_900 || len(data) > 2_100 {
		t.Errorf("the object has %d bytes, %v", len(data), err)
	}
}
