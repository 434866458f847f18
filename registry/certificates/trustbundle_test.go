package certificates_test

import (
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/keelson-dev/keelson/registry/certificates"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

func TestTrustBundle(t *testing.T) {
	k := registrytest.Find(t, certificates.Kinds(nil), "clustertrustbundles")
	if k.Rules.CreateOnUpdate || !k.Rules.ConditionalUpdate || k.Rules.ValidateName("a:b", false) != nil {
		t.Error("it is created by updates, needs no version or a certain name")
	}
	if got := k.Fields(bundle(t)).String(); got != "spec.signerName=example.com/ca" {
		t.Errorf("fields %v", got)
	}
	type change = registrytest.Change[*certificatesv1.ClusterTrustBundle]
	holds := func(parts ...[]byte) func(*certificatesv1.ClusterTrustBundle) {
		return func(b *certificatesv1.ClusterTrustBundle) {
			b.Spec.TrustBundle = ""
			for _, part := range parts {
				b.Spec.TrustBundle += string(part)
			}
		}
	}
	invalid := func(reasons ...string) []string {
		var all []string
		for _, reason := range reasons {
			all = append(all, `spec.trustBundle: Invalid value: "<value omitted>": `+reason)
		}
		return all
	}
	root, other := block("CERTIFICATE", certified(t, newKey(t), isCA)), block("CERTIFICATE", certified(t, newKey(t), isCA))
	headers := []byte(strings.Replace(string(root), "\n", "\na: b\n\n", 1))
	changes := []change{
		{Name: "two", To: holds(root, other)},
		{Name: "none", To: holds([]byte("text")), Refused: invalid("at least one trust anchor must be provided")},
		{Name: "twice", To: holds(root, other, root), Refused: invalid("duplicate trust anchor (indices [0 2])")},
		{Name: "mistakes", To: holds(root, root, block("PRIVATE KEY", nil), headers, block("CERTIFICATE", []byte("x")), block("CERTIFICATE", certified(t, newKey(t)))),
			Refused: invalid("entry 2 has bad block type: PRIVATE KEY", "entry 3 has PEM block headers", "entry 4 does not parse as X.509", "entry 5 does not have the CA bit set")},
		{Name: "long", To: holds([]byte(times("x", 1<<20+1))), Refused: []string{"spec.trustBundle: Too long: may not be more than 1048576 bytes"}},
	}
	registrytest.Create(t, k, bundle(t), append(changes, []change{
		{Name: "of no signer", To: func(b *certificatesv1.ClusterTrustBundle) { b.Name, b.Spec.SignerName = "b", "" }},
		{Name: "of no signer, named after one", To: func(b *certificatesv1.ClusterTrustBundle) { b.Spec.SignerName = "" }, Refused: []string{
			`metadata.name: Invalid value: "example.com:ca:b": ClusterTrustBundle without signer name must not have ":" in its name`}},
		{Name: "of another signer", To: func(b *certificatesv1.ClusterTrustBundle) { b.Spec.SignerName = "com/other" }, Refused: []string{
			`metadata.name: Invalid value: "example.com:ca:b": ClusterTrustBundle for signerName com/other must be named with prefix com:other:`,
			`spec.signerName: Invalid value: "com": should be a domain with at least two segments separated by dots`}},
		{Name: "generated", To: func(b *certificatesv1.ClusterTrustBundle) { b.Name, b.GenerateName = "", "b-" }, Refused: []string{
			`metadata.generateName: Invalid value: "b-": ClusterTrustBundle for signerName example.com/ca must be named with prefix example.com:ca:`}},
		{Name: "well generated", To: func(b *certificatesv1.ClusterTrustBundle) { b.Name, b.GenerateName = "", "example.com:ca:b-" }},
	}...))
	registrytest.Update(t, k, "", bundle(t), append(changes, change{
		Name: "another signer", To: func(b *certificatesv1.ClusterTrustBundle) { b.Spec.SignerName = "example.com/other" }, Refused: []string{
			`metadata.name: Invalid value: "example.com:ca:b": ClusterTrustBundle for signerName example.com/other must be named with prefix example.com:other:`,
			`spec.signerName: Invalid value: "example.com/other": field is immutable`}}))
	broken := bundle(t)
	broken.Spec.TrustBundle = "x"
	registrytest.Update(t, k, "", broken, []change{
		{Name: "what was accepted once stays", To: func(b *certificatesv1.ClusterTrustBundle) { b.Labels = map[string]string{"a": "b"} }},
	})
}
