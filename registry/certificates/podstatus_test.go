package certificates_test

import (
	"crypto/x509"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry/registrytest"
)

func ended(kinds ...string) []metav1.Condition {
	var all []metav1.Condition
	for _, kind := range kinds {
		all = append(all, metav1.Condition{Type: kind, Status: "True", Reason: "R", LastTransitionTime: metav1.Unix(1e9, 0)})
	}
	return all
}

func TestOutcomes(t *testing.T) {
	k := podRequests(t)
	chain := func(r podRequest) { r.Status.CertificateChain = "x" }
	registrytest.Update(t, k, "status", ofPod(t, newKey(t)), []registrytest.Change[podRequest]{
		{Name: "denied", To: func(r podRequest) { r.Status.Conditions = ended("Denied") }},
		{Name: "failed", To: func(r podRequest) { r.Status.Conditions = ended("Failed") }},
		{Name: "both", To: func(r podRequest) { r.Status.Conditions = ended("Denied", "Failed") }, Refused: []string{
			`status.conditions.[1].type: Invalid value: "Failed": There may be at most one condition with type "Issued", "Denied", or "Failed"`}},
		{Name: "unknown", To: func(r podRequest) { r.Status.Conditions = ended("X") }, Refused: []string{
			`status.conditions.[0].type: Unsupported value: "X": supported values: "Issued", "Denied", "Failed"`}},
		{Name: "not denied", To: func(r podRequest) { r.Status.Conditions = ended("Denied"); r.Status.Conditions[0].Status = "False" }, Refused: []string{
			`status.conditions.[0].status: Unsupported value: "False": supported values: "True"`}},
		{Name: "no reason", To: func(r podRequest) { r.Status.Conditions = ended("Denied"); r.Status.Conditions[0].Reason = "" }, Refused: []string{
			"status.conditions[0].reason: Required value"}},
		{Name: "denied with a certificate", To: func(r podRequest) { r.Status.Conditions = ended("Denied"); chain(r) }, Refused: []string{
			"status: Invalid value: non-condition status fields must be empty when denying or failing the PodCertificateRequest"}},
		{Name: "no outcome", To: chain, Refused: []string{
			`status: Invalid value: status is immutable unless transitioning to "Issued", "Denied", or "Failed"`}},
	})
	for _, outcome := range []string{"Issued", "Denied", "Failed"} {
		old := ofPod(t, newKey(t))
		old.Status.Conditions = ended(outcome)
		registrytest.Update(t, k, "status", old, []registrytest.Change[podRequest]{
			{Name: "after " + outcome, To: func(r podRequest) { r.Status.Conditions[0].Message = "m" }, Refused: []string{
				"status: Invalid value: immutable after PodCertificateRequest is issued, denied, or failed"}},
		})
	}
}

func TestIssued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, key, now := podRequests(t), newKey(t), time.Now()
		at := func(d time.Duration) *metav1.Time { return new(metav1.NewTime(now.Add(d))) }
		shown := func(d time.Duration) string { return fmt.Sprintf("%q", now.Add(d).Format(time.RFC3339)) }
		issued := func(changes ...func(*x509.Certificate)) func(podRequest) {
			return func(r podRequest) {
				r.Status.Conditions = ended("Issued")
				r.Status.CertificateChain = string(block("CERTIFICATE", certified(t, key, changes...)))
				r.Status.NotBefore, r.Status.NotAfter, r.Status.BeginRefreshAt = at(0), at(2*time.Hour), at(time.Hour)
			}
		}
		and := func(changes ...func(podRequest)) func(podRequest) {
			return func(r podRequest) {
				for _, change := range changes {
					change(r)
				}
			}
		}
		chain := func(text string) func(podRequest) { return func(r podRequest) { r.Status.CertificateChain = text } }
		more := func(text []byte) func(podRequest) {
			return func(r podRequest) { r.Status.CertificateChain += string(text) }
		}
		from := func(begin time.Duration) func(*x509.Certificate) {
			return func(c *x509.Certificate) { c.NotBefore = now.Add(begin); c.NotAfter = now.Add(begin + 2*time.Hour) }
		}
		began := func(d time.Duration) func(podRequest) {
			return and(issued(from(d)), func(r podRequest) { r.Status.NotBefore, r.Status.NotAfter = at(d), at(d+2*time.Hour) })
		}
		lives := func(d time.Duration) func(podRequest) {
			return and(issued(func(c *x509.Certificate) { c.NotAfter = now.Add(d) }), func(r podRequest) {
				r.Status.NotAfter, r.Status.BeginRefreshAt = at(d), at(30*time.Minute)
			})
		}
		refresh := func(d time.Duration) func(podRequest) {
			return and(issued(), func(r podRequest) { r.Status.BeginRefreshAt = at(d) })
		}
		anothers := certified(t, newKey(t))
		chained := func(text, reason string) []string {
			return []string{fmt.Sprintf("status.certificateChain: Invalid value: %q: %s", text, reason)}
		}
		cases := []registrytest.Change[podRequest]{
			{Name: "issued", To: issued()},
			{Name: "with an intermediate", To: and(issued(), more(block("CERTIFICATE", anothers)))},
			{Name: "nothing", To: and(issued(), chain("x")), Refused: chained("x", "issued certificate chain must contain at least one certificate")},
			{Name: "a key", To: and(issued(), chain("-----BEGIN X-----\n-----END X-----\n")), Refused: chained("-----BEGIN X-----\n-----END X-----\n", "issued certificate chain must consist entirely of CERTIFICATE PEM blocks")},
			{Name: "no certificate", To: and(issued(), chain("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n")), Refused: chained("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n", "leaf certificate does not parse as valid X.509")},
			{Name: "long", To: and(issued(), chain(times("x", 100<<10+1))), Refused: []string{"status.certificateChain: Too long: may not be more than 102400 bytes"}},
			{Name: "odd names", To: issued(func(c *x509.Certificate) { c.DNSNames, c.EmailAddresses = []string{".a..b"}, []string{"a"} }), Refused: []string{
				`status.certificateChain: Invalid value: ".a..b": leaf certificate's DNSName should not contain '..'`,
				`status.certificateChain: Invalid value: ".a..b": leaf certificate's DNSName should not start or end with '.'`,
				`status.certificateChain: Invalid value: "a": leaf certificate should not contain invalid EmailAddress`}},
			{Name: "another's", To: and(issued(), chain(string(block("CERTIFICATE", anothers)))), Refused: chained(string(block("CERTIFICATE", anothers)), "leaf certificate was not issued to the requested public key")},
			{Name: "no times", To: and(issued(), func(r podRequest) { r.Status.NotBefore, r.Status.NotAfter, r.Status.BeginRefreshAt = nil, nil, nil }), Refused: []string{
				"status.notBefore: Required value: must be present and consistent with the issued certificate",
				"status.notAfter: Required value: must be present and consistent with the issued certificate",
				"status.beginRefreshAt: Required value: must be present and in the range [notbefore+10min, notafter-10min]"}},
			{Name: "another beginning", To: issued(func(c *x509.Certificate) { c.NotBefore = now.Add(time.Second) }), Refused: []string{
				"status.notBefore: Invalid value: " + shown(0) + ": must be set to the NotBefore time encoded in the leaf certificate"}},
			{Name: "began early", To: began(-299 * time.Second)},
			{Name: "began too early", To: began(-300 * time.Second), Refused: []string{
				"status.notBefore: Invalid value: " + shown(-300*time.Second) + ": must be set to within 5 minutes of kube-apiserver's current time"}},
			{Name: "begins late", To: began(299 * time.Second)},
			{Name: "begins too late", To: began(300 * time.Second), Refused: []string{
				"status.notBefore: Invalid value: " + shown(300*time.Second) + ": must be set to within 5 minutes of kube-apiserver's current time"}},
			{Name: "another end", To: issued(func(c *x509.Certificate) { c.NotAfter = now.Add(time.Hour) }), Refused: []string{
				"status.notAfter: Invalid value: " + shown(2*time.Hour) + ": must be set to the NotAfter time encoded in the leaf certificate"}},
			{Name: "an hour", To: lives(time.Hour)},
			{Name: "not an hour", To: lives(time.Hour - time.Second), Refused: []string{
				"status.certificateChain: Invalid value: 3599000000000: leaf certificate lifetime must be >= 1 hour"}},
			{Name: "a day", To: lives(24 * time.Hour)},
			{Name: "more than a day", To: lives(24*time.Hour + time.Second), Refused: []string{
				"status.certificateChain: Invalid value: 86401000000000: leaf certificate lifetime must be <= spec.maxExpirationSeconds (86400)"}},
			{Name: "replaced soon", To: refresh(10 * time.Minute)},
			{Name: "replaced too soon", To: refresh(10*time.Minute - time.Second), Refused: []string{
				"status.beginRefreshAt: Invalid value: " + shown(10*time.Minute-time.Second) + ": must be at least 10 minutes after status.notBefore"}},
			{Name: "replaced late", To: refresh(110 * time.Minute)},
			{Name: "replaced too late", To: refresh(110*time.Minute + time.Second), Refused: []string{
				"status.beginRefreshAt: Invalid value: " + shown(110*time.Minute+time.Second) + ": must be at least 10 minutes before status.notAfter"}},
		}
		for _, tt := range cases {
			old := ofPod(t, key)
			obj := old.DeepCopy()
			tt.To(obj)
			var got []string
			for _, err := range registrytest.Replace(k, "status", obj, old) {
				got = append(got, err.Error())
			}
			if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", tt.Refused) {
				t.Errorf("%s:\n\t%q, want\n\t%q", tt.Name, got, tt.Refused)
			}
		}
		for reason, intermediate := range map[string]string{
			"issued certificate chain must consist entirely of CERTFICATE PEM blocks": "-----BEGIN X-----\n-----END X-----\n",
			"intermediate certificate does not parse as valid X.509":                  "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n",
		} {
			old := ofPod(t, key)
			obj := old.DeepCopy()
			and(issued(), more([]byte(intermediate)))(obj)
			if errs := registrytest.Replace(k, "status", obj, old); len(errs) != 1 || errs[0].Detail != reason {
				t.Errorf("%v, want %s", errs, reason)
			}
		}
		odd := ofPod(t, key)
		odd.Spec.StubPKCS10Request = []byte("x")
		obj := odd.DeepCopy()
		issued()(obj)
		if errs := registrytest.Replace(k, "status", obj, odd); len(errs) != 1 || errs[0].Error() != "spec.stubPKCS10Request: Invalid value: must be a valid PKCS#10 CSR" {
			t.Errorf("of a request without a key: %v", errs)
		}
	})
}
