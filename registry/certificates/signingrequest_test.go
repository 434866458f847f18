package certificates_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/certificates"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

type signingRequest = *certificatesv1.CertificateSigningRequest

func signingRequests(t *testing.T) registry.Kind {
	return registrytest.Find(t, certificates.Kinds(nil), "certificatesigningrequests")
}

// condition returns a condition that was met an hour ago.
func condition(kind certificatesv1.RequestConditionType, status corev1.ConditionStatus) certificatesv1.CertificateSigningRequestCondition {
	return certificatesv1.CertificateSigningRequestCondition{
		Type: kind, Status: status, LastUpdateTime: metav1.Unix(1e9, 0), LastTransitionTime: metav1.Unix(1e9, 0),
	}
}

func add(kind certificatesv1.RequestConditionType, status corev1.ConditionStatus) func(signingRequest) {
	return func(r signingRequest) { r.Status.Conditions = append(r.Status.Conditions, condition(kind, status)) }
}

const (
	allUsages = `supported values: "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment", "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel", "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime", "server auth", "signing", "timestamping"`
	both      = "status.conditions: Invalid value: \"{conditions[{\\\"type\\\": \\\"Approved\\\"}], conditions[{\\\"type\\\": \\\"Denied\\\"}]}\": must specify at most one of: `conditions[{\"type\": \"Approved\"}]`, `conditions[{\"type\": \"Denied\"}]`"
)

func TestSigningRequest(t *testing.T) {
	k := signingRequests(t)
	if k.Rules.CreateOnUpdate || k.Rules.ConditionalUpdate || k.Rules.ValidateName("Not_A:Subdomain", false) != nil {
		t.Error("it is created by updates, or needs a version or a certain name")
	}
	if got, want := k.Fields(signing(t)), (fields.Set{"spec.signerName": "example.com/ca"}); got.String() != want.String() {
		t.Errorf("fields %v", got)
	}
	registrytest.Create(t, k, signing(t), []registrytest.Change[signingRequest]{
		{Name: "no PEM", To: func(r signingRequest) { r.Spec.Request = []byte("x") }, Refused: []string{
			`spec.request: Invalid value: "eA==": PEM block type must be CERTIFICATE REQUEST`}},
		{Name: "no usages", To: func(r signingRequest) { r.Spec.Usages = nil }, Refused: []string{"spec.usages: Required value"}},
		{Name: "unknown and repeated usages", To: func(r signingRequest) {
			r.Spec.Usages = []certificatesv1.KeyUsage{"x", "client auth", "client auth", "client auth"}
		}, Refused: []string{
			`spec.usages[0]: Unsupported value: "x": ` + allUsages,
			`spec.usages[2]: Duplicate value: "client auth"`,
			`spec.usages[3]: Duplicate value: "client auth"`}},
		{Name: "every usage", To: func(r signingRequest) { r.Spec.Usages = []certificatesv1.KeyUsage{"signing", "s/mime", "netscape sgc"} }},
		{Name: "no signer", To: func(r signingRequest) { r.Spec.SignerName = "" }, Refused: []string{"spec.signerName: Required value"}},
		{Name: "the legacy signer", To: func(r signingRequest) { r.Spec.SignerName = "kubernetes.io/legacy-unknown" }, Refused: []string{
			`spec.signerName: Invalid value: "kubernetes.io/legacy-unknown": the legacy signerName is not allowed via this API version`}},
		{Name: "short", To: func(r signingRequest) { r.Spec.ExpirationSeconds = new(int32(599)) }, Refused: []string{
			`spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)`}},
		{Name: "just not short", To: func(r signingRequest) { r.Spec.ExpirationSeconds = new(int32(600)) }},
		{Name: "a status is dropped", To: func(r signingRequest) { r.Status.Certificate = []byte("x"); add("Approved", "False")(r) }},
	})
	forged := signing(t)
	der := asking(t, newKey(t), "a")
	der[len(der)-1] ^= 1
	forged.Spec.Request = block("CERTIFICATE REQUEST", der)
	if errs := k.Rules.Validate(forged); len(errs) != 1 || errs[0].Field != "spec.request" || !strings.Contains(errs[0].Detail, "x509:") {
		t.Errorf("a request that someone else signed: %v", errs)
	}
}

// TestRequestor: a request says who made it, whatever its maker says.
func TestRequestor(t *testing.T) {
	k := signingRequests(t)
	user := &authn.Identity{Name: "ann", UID: "7", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}}
	r := signing(t)
	r.Spec.Username, r.Spec.UID, r.Spec.Groups, r.Spec.Extra = "root", "0", []string{"system:masters"}, map[string]certificatesv1.ExtraValue{"x": {"y"}}
	anonymous := r.DeepCopy()
	k.Rules.PrepareCreate(authn.NewContext(t.Context(), user), r)
	if s := r.Spec; s.Username != "ann" || s.UID != "7" || !slices.Equal(s.Groups, user.Groups) || len(s.Extra) != 1 || s.Extra["k"][0] != "v" {
		t.Errorf("made by %+v", s)
	}
	k.Rules.PrepareCreate(t.Context(), anonymous)
	if s := anonymous.Spec; s.Username != "" || s.UID != "" || s.Groups != nil || s.Extra != nil {
		t.Errorf("made by %+v", s)
	}
}

// TestSigningRequestStays: an update of the object itself changes its metadata only.
func TestSigningRequestStays(t *testing.T) {
	k := signingRequests(t)
	old := signing(t)
	add("Approved", "True")(old)
	next := old.DeepCopy()
	next.Spec.SignerName, next.Status.Conditions, next.Labels = "example.com/other", nil, map[string]string{"a": "b"}
	if errs := registrytest.Replace(k, "", next, old); len(errs) > 0 || next.Spec.SignerName != "example.com/ca" || len(next.Status.Conditions) != 1 || next.Labels == nil {
		t.Errorf("%v: %+v", errs, next)
	}
	if want := []string{"spec", "status"}; !slices.Equal(k.Sub.Resets, want) {
		t.Errorf("resets %v", k.Sub.Resets)
	}
	for view, want := range map[string]string{"status": "status.conditions", "approval": "status.certificate"} {
		if got := k.Sub.Views[view].Resets; !slices.Equal(got, []string{"spec", want}) {
			t.Errorf("%s resets %v", view, got)
		}
	}
}

func TestApproval(t *testing.T) {
	k := signingRequests(t)
	registrytest.Update(t, k, "approval", signing(t), []registrytest.Change[signingRequest]{
		{Name: "approved", To: add("Approved", "True")},
		{Name: "denied", To: add("Denied", "True")},
		{Name: "an own condition", To: add("Mine", "Unknown")},
		{Name: "the certificate stays", To: func(r signingRequest) { r.Status.Certificate = []byte("x") }},
		{Name: "not approved", To: add("Approved", "False"), Refused: []string{
			`status.conditions[0].status: Unsupported value: "False": supported values: "True"`}},
		{Name: "no status, no type", To: func(r signingRequest) { add("", "Maybe")(r); add("x", "")(r) }, Refused: []string{
			"status.conditions[0].type: Required value",
			`status.conditions[0].status: Unsupported value: "Maybe": supported values: "False", "True", "Unknown"`,
			"status.conditions[1].status: Required value"}},
		{Name: "twice", To: func(r signingRequest) { add("Approved", "True")(r); add("Approved", "True")(r) }, Refused: []string{
			`status.conditions[1].type: Duplicate value: "Approved"`}},
		{Name: "both", To: func(r signingRequest) { add("Denied", "True")(r); add("Approved", "True")(r) }, Refused: []string{both}},
	})
	approved := signing(t)
	add("Approved", "True")(approved)
	registrytest.Update(t, k, "approval", approved, []registrytest.Change[signingRequest]{
		{Name: "taken back", To: func(r signingRequest) { r.Status.Conditions = nil }, Refused: []string{
			`status.conditions: Forbidden: updates may not remove a condition of type "Approved"`}},
		{Name: "explained", To: func(r signingRequest) { r.Status.Conditions[0].Message = "m" }},
	})
	other := approved.DeepCopy()
	other.Spec.SignerName = "example.com/other"
	if registrytest.Replace(k, "approval", other, approved); other.Spec.SignerName != "example.com/ca" {
		t.Errorf("an approval wrote %+v", other.Spec)
	}
	twice := approved.DeepCopy()
	twice.Spec.Usages = append(twice.Spec.Usages, twice.Spec.Usages[0])
	if errs := k.Rules.ValidateUpdate(twice, approved); len(errs) != 1 || errs[0].Type != field.ErrorTypeDuplicate {
		t.Errorf("usages that repeat from now on: %v", errs)
	}
	odd := signing(t)
	odd.Spec.SignerName, odd.Spec.Usages = "kubernetes.io/legacy-unknown", []certificatesv1.KeyUsage{"x", "x"}
	for _, kind := range []certificatesv1.RequestConditionType{"Approved", "Denied", "", ""} {
		add(kind, "True")(odd)
	}
	registrytest.Update(t, k, "approval", odd, []registrytest.Change[signingRequest]{
		{Name: "what older rules allowed", To: func(r signingRequest) { add("", "True")(r) }},
	})
}

func TestSigned(t *testing.T) {
	k := signingRequests(t)
	certificate := block("CERTIFICATE", certified(t, newKey(t)))
	sign := func(data ...[]byte) func(signingRequest) {
		return func(r signingRequest) { r.Status.Certificate = slices.Concat(data...) }
	}
	invalid := func(reason string) []string {
		return []string{`status.certificate: Invalid value: "<certificate data>": ` + reason}
	}
	old := signing(t)
	add("Approved", "True")(old)
	registrytest.Update(t, k, "status", old, []registrytest.Change[signingRequest]{
		{Name: "signed", To: sign(certificate)},
		{Name: "a chain", To: sign(certificate, []byte("text\n"), certificate)},
		{Name: "failed", To: add("Failed", "True")},
		{Name: "no PEM", To: sign([]byte("x")), Refused: invalid("must contain at least one CERTIFICATE PEM block")},
		{Name: "with a key", To: sign(certificate, block("PRIVATE KEY", nil)), Refused: invalid(`only CERTIFICATE PEM blocks are allowed, found "PRIVATE KEY"`)},
		{Name: "headers", To: sign([]byte(strings.Replace(string(certificate), "\n", "\na: b\n\n", 1))), Refused: invalid("no PEM block headers are permitted")},
		{Name: "empty", To: sign(block("CERTIFICATE", nil)), Refused: invalid("found CERTIFICATE PEM block containing 0 certificates")},
		{Name: "not X.509", To: sign(block("CERTIFICATE", []byte("x"))), Refused: invalid("x509: malformed certificate")},
		{Name: "denied", To: add("Denied", "True"), Refused: []string{
			`status.conditions: Forbidden: updates may not add a condition of type "Denied"`, both}},
		{Name: "disapproved", To: func(r signingRequest) { r.Status.Conditions = nil }, Refused: []string{
			`status.conditions: Forbidden: updates may not remove a condition of type "Approved"`}},
		{Name: "the approval stays", To: func(r signingRequest) { r.Status.Conditions[0].Message = "m" }},
	})
	signed := old.DeepCopy()
	signed.Status.Certificate = certificate
	registrytest.Update(t, k, "status", signed, []registrytest.Change[signingRequest]{
		{Name: "again", To: sign(certificate, certificate), Refused: []string{
			"status.certificate: Forbidden: updates may not modify existing certificate content"}},
	})
	broken := signing(t)
	broken.Status.Certificate = []byte("x")
	registrytest.Update(t, k, "status", broken, []registrytest.Change[signingRequest]{
		{Name: "an old one that is none", To: sign([]byte("y")), Refused: []string{
			"status.certificate: Forbidden: updates may not modify existing certificate content"}},
	})
	next := old.DeepCopy()
	next.Spec.SignerName, next.Status.Conditions[0].Reason = "example.com/other", "r"
	if registrytest.Replace(k, "status", next, old); next.Spec.SignerName != "example.com/ca" || next.Status.Conditions[0].Reason != "" {
		t.Errorf("the view of the status wrote %+v", next)
	}
}

// TestApprovalStays: whoever validates without having prepared sees what changed.
func TestApprovalStays(t *testing.T) {
	k := signingRequests(t)
	old := signing(t)
	add("Approved", "True")(old)
	next := old.DeepCopy()
	next.Status.Conditions[0].Reason = "r"
	errs := k.Sub.Views["status"].ValidateUpdate(next, old)
	if len(errs) != 1 || !strings.HasPrefix(errs[0].Detail, "updates may not modify a condition of type \"Approved\"\n@@ ") || !strings.Contains(errs[0].Detail, "\n+  \"Reason\": \"r\",\n") {
		t.Errorf("%v", errs)
	}
	if errs := k.Rules.ValidateUpdate(func() signingRequest { r := old.DeepCopy(); r.Status.Certificate = []byte("x"); return r }(), old); len(errs) != 2 ||
		errs[1].Error() != "status.certificate: Forbidden: updates may not set certificate content" {
		t.Errorf("%v", errs)
	}
}

// TestTimes: conditions get the times that they lack.
func TestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := signingRequests(t)
		now, before := metav1.Now(), metav1.NewTime(time.Now().Add(-time.Hour))
		for _, view := range []string{"approval", "status"} {
			old := signing(t)
			old.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{
				{Type: "a", Status: "True", LastTransitionTime: before}, {Type: "b", Status: "True", LastTransitionTime: before}, {Type: "c", Status: "True"},
			}
			next := old.DeepCopy()
			next.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{
				{Type: "a", Status: "True"}, {Type: "b", Status: "False"}, {Type: "c", Status: "True"},
				{Type: "d", Status: "True", LastTransitionTime: before, LastUpdateTime: before},
			}
			registrytest.Replace(k, view, next, old)
			for i, want := range []metav1.Time{before, now, now, before} {
				c := next.Status.Conditions[i]
				updated := now
				if c.Type == "d" {
					updated = before
				}
				if !c.LastTransitionTime.Equal(&want) || !c.LastUpdateTime.Equal(&updated) {
					t.Errorf("%s: %+v", view, c)
				}
			}
		}
	})
}

func ExampleKinds() {
	for _, k := range certificates.Kinds(nil) {
		fmt.Println(k.GroupVersion, k.Plural, k.Short)
	}
	// Output:
	// certificates.k8s.io/v1 certificatesigningrequests [csr]
	// certificates.k8s.io/v1 clustertrustbundles []
	// certificates.k8s.io/v1 podcertificaterequests []
}
