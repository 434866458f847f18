package certificates

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/podspec/signername"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

// maxTrustBundle is the maximum size of a bundle in bytes.
const maxTrustBundle = 1 << 20

func trustBundles() registry.Kind {
	type bundle = *certificatesv1.ClusterTrustBundle
	return registry.Definition[bundle]{
		Names:        registry.Names{Kind: "ClusterTrustBundle", Plural: "clustertrustbundles", Singular: "clustertrustbundle"},
		GroupVersion: certificatesv1.SchemeGroupVersion,
		Older:        olderTrustBundles(),
		New:          func() bundle { return &certificatesv1.ClusterTrustBundle{} },
		NewList:      func() runtime.Object { return &certificatesv1.ClusterTrustBundleList{} },
		Fields:       func(b bundle) fields.Set { return fields.Set{"spec.signerName": b.Spec.SignerName} },
		Rules: registry.Rules[bundle]{
			Validate: func(b bundle) field.ErrorList { return validateTrustBundle(b, nil) },
			ValidateUpdate: func(b, old bundle) field.ErrorList {
				return append(validateTrustBundle(b, old),
					check.Immutable(field.NewPath("spec", "signerName"), b.Spec.SignerName, old.Spec.SignerName)...)
			},
			ValidateName:      func(string, bool) []string { return nil }, // its rules depend on the signer
			ConditionalUpdate: true,
		},
		Columns: trustBundleColumns(),
	}.Kind()
}

// validateTrustBundle validates a bundle; old is nil in a create.
func validateTrustBundle(b, old *certificatesv1.ClusterTrustBundle) field.ErrorList {
	signer, meta := b.Spec.SignerName, field.NewPath("metadata")
	var errs field.ErrorList
	if b.GenerateName != "" {
		errs = append(errs, check.Messages(meta.Child("generateName"), b.GenerateName, signername.TrustBundle(signer, b.GenerateName, true))...)
	}
	if b.Name != "" {
		errs = append(errs, check.Messages(meta.Child("name"), b.Name, signername.TrustBundle(signer, b.Name, false))...)
	}
	if signer != "" {
		errs = append(errs, signername.Validate(field.NewPath("spec", "signerName"), signer)...)
	}
	if old == nil || b.Spec.TrustBundle != old.Spec.TrustBundle {
		errs = append(errs, validateAnchors(field.NewPath("spec", "trustBundle"), b.Spec.TrustBundle)...)
	}
	return errs
}

// validateAnchors requires certificates of authorities, each once.
func validateAnchors(p *field.Path, bundle string) field.ErrorList {
	if len(bundle) > maxTrustBundle {
		return field.ErrorList{field.TooLong(p, "", maxTrustBundle)}
	}
	var errs field.ErrorList
	refuse := func(format string, args ...any) {
		errs = append(errs, field.Invalid(p, "<value omitted>", fmt.Sprintf(format, args...)))
	}
	places := map[string][]int{}
	var order []string
	rest := []byte(bundle)
	for i := 0; ; i++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if reason := anchor(block); reason != "" {
			refuse("entry %d %s", i, reason)
			continue
		}
		der := string(block.Bytes)
		if places[der] == nil {
			order = append(order, der)
		}
		places[der] = append(places[der], i)
	}
	if len(errs) > 0 {
		return errs
	}
	if len(order) == 0 {
		refuse("at least one trust anchor must be provided")
	}
	for _, der := range order {
		if len(places[der]) > 1 {
			refuse("duplicate trust anchor (indices %v)", places[der])
		}
	}
	return errs
}

// anchor returns why a block is not an authority's certificate, or nothing.
func anchor(block *pem.Block) string {
	switch {
	case block.Type != "CERTIFICATE":
		return "has bad block type: " + block.Type
	case len(block.Headers) > 0:
		return "has PEM block headers"
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	switch {
	case err != nil:
		return "does not parse as X.509"
	case !cert.IsCA:
		return "does not have the CA bit set"
	}
	return ""
}
