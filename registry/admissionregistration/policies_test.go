package admissionregistration_test

import (
	"testing"

	"github.com/keelson-dev/keelson/registry/admissionregistration"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

func TestPolicyKinds(t *testing.T) {
	registrytest.Kinds(t, admissionregistration.PolicyKinds(admissionregistration.PolicyOptions{}))
}
