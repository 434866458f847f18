package denyserviceexternalips

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
)

// Name is the plugin's name.
const Name = "DenyServiceExternalIPs"

// Plugin is the admission plugin. Make one with New.
type Plugin struct{}

var _ admission.Validator = (*Plugin)(nil)

// New returns the plugin.
func New() *Plugin { return &Plugin{} }

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Validate implements admission.Validator.
func (*Plugin) Validate(_ context.Context, r *admission.Request) error {
	if r.Resource.GroupResource() != (schema.GroupResource{Resource: "services"}) || r.Subresource != "" {
		return nil
	}
	service, ok := r.Object.(*corev1.Service)
	if !ok {
		return unexpected(r)
	}
	var had []string
	if r.OldObject != nil {
		old, ok := r.OldObject.(*corev1.Service)
		if !ok {
			return unexpected(r)
		}
		had = old.Spec.ExternalIPs
	}
	for _, address := range service.Spec.ExternalIPs {
		if !slices.Contains(had, address) {
			return admission.Forbidden(r, "Use of external IPs is denied by admission control")
		}
	}
	return nil
}

func unexpected(r *admission.Request) error {
	return admission.Internal(fmt.Errorf("Expected Service resource, got: %v", r.Kind)) //nolint:staticcheck // upstream's message
}
