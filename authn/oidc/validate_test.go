package oidc_test

import (
	"encoding/pem"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/authn/oidc"
)

// TestValidate has everything that is wrong with a configuration, in upstream's words; conformance/authentication compares them.
func TestValidate(t *testing.T) {
	const (
		audiencePolicy  = "issuer.audienceMatchPolicy: Invalid value: "
		emailUnverified = "claims.email_verified must be used in claimMappings.username.expression or claimMappings.extra[*].valueExpression or " +
			"claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression"
		both = `claim and expression can't both be set`
	)
	server := httptest.NewTLSServer(nil)
	server.Close()
	der := server.Certificate().Raw
	block := func(kind string, headers map[string]string, bytes []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Headers: headers, Bytes: bytes}))
	}
	issuer := func(change func(*oidc.Issuer)) func(*oidc.Config) { return func(c *oidc.Config) { change(&c.Issuer) } }
	authority := func(text string) func(*oidc.Config) {
		return func(c *oidc.Config) { c.Issuer.CertificateAuthority = text }
	}
	rules := func(all ...oidc.ClaimValidationRule) func(*oidc.Config) {
		return func(c *oidc.Config) { c.ClaimValidationRules = all }
	}
	username := func(m oidc.PrefixedClaimOrExpression) func(*oidc.Config) {
		return func(c *oidc.Config) { c.ClaimMappings.Username = m }
	}
	groups := func(m oidc.PrefixedClaimOrExpression) func(*oidc.Config) {
		return func(c *oidc.Config) { c.ClaimMappings.Groups = m }
	}
	extra := func(all ...oidc.ExtraMapping) func(*oidc.Config) {
		return func(c *oidc.Config) { c.ClaimMappings.Extra = all }
	}
	users := func(all ...oidc.UserValidationRule) func(*oidc.Config) {
		return func(c *oidc.Config) { c.UserValidationRules = all }
	}
	const noCertificates = `issuer.certificateAuthority: Invalid value: "<omitted>": data does not contain any valid RSA or ECDSA certificates`
	for name, tt := range map[string]struct {
		change func(*oidc.Config)
		want   []string
	}{
		"good":       {func(*oidc.Config) {}, nil},
		"no URL":     {issuer(func(i *oidc.Issuer) { i.URL = "" }), []string{"issuer.url: Required value"}},
		"bad URL":    {issuer(func(i *oidc.Issuer) { i.URL = "https://%" }), []string{`issuer.url: Invalid value: "https://%": parse "https://%": invalid URL escape "%"`}},
		"disallowed": {issuer(func(i *oidc.Issuer) { i.URL = "https://pods" }), []string{`issuer.url: Invalid value: "https://pods": URL must not overlap with disallowed issuers: [https://accounts https://pods]`}},
		"all wrong": {issuer(func(i *oidc.Issuer) { i.URL = "http://u@h?q#f" }), []string{
			`issuer.url: Invalid value: "http://u@h?q#f": URL scheme must be https`,
			`issuer.url: Invalid value: "http://u@h?q#f": URL must not contain a username or password`,
			`issuer.url: Invalid value: "http://u@h?q#f": URL must not contain a query`,
			`issuer.url: Invalid value: "http://u@h?q#f": URL must not contain a fragment`,
		}},
		"discovery":          {issuer(func(i *oidc.Issuer) { i.DiscoveryURL = "https://pods/x" }), nil},
		"discovery at pods":  {issuer(func(i *oidc.Issuer) { i.DiscoveryURL = "https://pods" }), nil},
		"the same discovery": {issuer(func(i *oidc.Issuer) { i.DiscoveryURL = issuerURL + "//" }), []string{`issuer.discoveryURL: Invalid value: "https://issuer.example.com//": discoveryURL must be different from URL`}},
		"the same but for a slash": {issuer(func(i *oidc.Issuer) { i.URL, i.DiscoveryURL = issuerURL+"/", issuerURL }), []string{
			`issuer.discoveryURL: Invalid value: "https://issuer.example.com": discoveryURL must be different from URL`,
		}},
		"discovery alone":   {issuer(func(i *oidc.Issuer) { i.URL, i.DiscoveryURL = "", "/" }), []string{"issuer.url: Required value", `issuer.discoveryURL: Invalid value: "/": URL scheme must be https`}},
		"no audience":       {issuer(func(i *oidc.Issuer) { i.Audiences, i.AudienceMatchPolicy = nil, "x" }), []string{"issuer.audiences: Required value: at least one issuer.audiences is required"}},
		"bad audiences":     {issuer(func(i *oidc.Issuer) { i.Audiences, i.AudienceMatchPolicy = []string{"a", "", "a"}, "MatchAny" }), []string{"issuer.audiences[1]: Required value", `issuer.audiences[2]: Duplicate value: "a"`}},
		"audiences":         {issuer(func(i *oidc.Issuer) { i.Audiences = []string{"a", "b"} }), []string{audiencePolicy + `"": audienceMatchPolicy must be MatchAny for multiple audiences`}},
		"audience policy":   {issuer(func(i *oidc.Issuer) { i.AudienceMatchPolicy = "x" }), []string{audiencePolicy + `"x": audienceMatchPolicy must be empty or MatchAny for single audience`}},
		"audience of any":   {issuer(func(i *oidc.Issuer) { i.AudienceMatchPolicy = "MatchAny" }), nil},
		"authority":         {authority("a comment\n" + block("CERTIFICATE", nil, der) + block("OTHER", nil, []byte("x"))), nil},
		"no authority":      {authority("x"), []string{noCertificates}},
		"not a certificate": {authority(block("X", nil, der)), []string{noCertificates}},
		"headers":           {authority(block("CERTIFICATE", map[string]string{"a": "b"}, der)), []string{noCertificates}},
		"bad certificate":   {authority(block("CERTIFICATE", nil, der) + block("CERTIFICATE", nil, []byte("x"))), []string{`issuer.certificateAuthority: Invalid value: "<omitted>": x509: malformed certificate`}},
		"egress": {issuer(func(i *oidc.Issuer) { i.EgressSelectorType = "cluster" }), []string{
			`issuer.egressSelectorType: Invalid value: "cluster": egress selector is not supported when StructuredAuthenticationConfigurationEgressSelector feature gate is disabled`,
		}},

		"rules": {rules(oidc.ClaimValidationRule{Claim: "a", RequiredValue: "x"}, oidc.ClaimValidationRule{Claim: "b"}, oidc.ClaimValidationRule{Expression: "condition a", Message: "m"}, oidc.ClaimValidationRule{Expression: "b"}), nil},
		"values": {func(c *oidc.Config) {
			c.ClaimMappings = oidc.ClaimMappings{
				Username: oidc.PrefixedClaimOrExpression{Expression: "value"}, Groups: oidc.PrefixedClaimOrExpression{Expression: "value"},
				UID: oidc.ClaimOrExpression{Expression: "value"}, Extra: []oidc.ExtraMapping{{Key: "example.com/a", ValueExpression: "value"}},
			}
		}, nil},
		"wrong rules": {rules(oidc.ClaimValidationRule{}, oidc.ClaimValidationRule{Claim: "a", Expression: "b"}, oidc.ClaimValidationRule{Claim: "a", Message: "m"}, oidc.ClaimValidationRule{Expression: "b", RequiredValue: "v"}), []string{
			"claimValidationRules[0]: Required value: claim or expression is required",
			`claimValidationRules[1]: Invalid value: "a": ` + both,
			`claimValidationRules[2].message: Invalid value: "m": may not be specified when claim is set`,
			`claimValidationRules[3].requiredValue: Invalid value: "v": may not be specified when expression is set`,
		}},
		"the same rules": {rules(oidc.ClaimValidationRule{Claim: "a"}, oidc.ClaimValidationRule{Expression: "wrong"}, oidc.ClaimValidationRule{Expression: "wrong"}, oidc.ClaimValidationRule{Claim: "a"}), []string{
			`claimValidationRules[1].expression: Invalid value: "wrong": compilation failed`,
			`claimValidationRules[2].expression: Duplicate value: "wrong"`,
			`claimValidationRules[3].claim: Duplicate value: "a"`,
		}},

		"no name":    {username(oidc.PrefixedClaimOrExpression{Prefix: new("x")}), []string{"claimMappings.username: Required value: claim or expression is required"}},
		"both names": {username(oidc.PrefixedClaimOrExpression{Claim: "sub", Expression: "email;"}), []string{`claimMappings.username: Invalid value: "": ` + both}},
		"prefix":     {username(oidc.PrefixedClaimOrExpression{Expression: "email;", Prefix: new("x")}), []string{`claimMappings.username.prefix: Invalid value: "x": may not be specified when expression is set`}},
		"no prefix":  {username(oidc.PrefixedClaimOrExpression{Claim: "sub"}), []string{"claimMappings.username.prefix: Required value: prefix is required when claim is set. It can be set to an empty string to disable prefixing"}},
		"bad name":   {username(oidc.PrefixedClaimOrExpression{Expression: "wrong"}), []string{`claimMappings.username.expression: Invalid value: "wrong": compilation failed`}},
		"email":      {username(oidc.PrefixedClaimOrExpression{Expression: "email;"}), []string{`claimMappings.username.expression: Invalid value: "email;": ` + emailUnverified}},
		"email verified by what is wrong": {func(c *oidc.Config) {
			c.ClaimMappings.Username = oidc.PrefixedClaimOrExpression{Expression: "email;"}
			c.ClaimValidationRules = []oidc.ClaimValidationRule{{Expression: "wrong;email_verified;"}}
		}, []string{`claimValidationRules[0].expression: Invalid value: "wrong;email_verified;": compilation failed`, `claimMappings.username.expression: Invalid value: "email;": ` + emailUnverified}},
		"verified email":      {username(oidc.PrefixedClaimOrExpression{Expression: "email;email_verified;"}), nil},
		"only whether":        {username(oidc.PrefixedClaimOrExpression{Expression: "email_verified;"}), nil},
		"groups":              {groups(oidc.PrefixedClaimOrExpression{Expression: "x"}), nil},
		"prefix of no groups": {groups(oidc.PrefixedClaimOrExpression{Prefix: new("x")}), nil},
		"both groups":         {groups(oidc.PrefixedClaimOrExpression{Claim: "a", Expression: "b"}), []string{`claimMappings.groups: Invalid value: "": ` + both}},
		"groups by no prefix": {groups(oidc.PrefixedClaimOrExpression{Claim: "a"}), []string{"claimMappings.groups.prefix: Required value: prefix is required when claim is set. It can be set to an empty string to disable prefixing"}},
		"UID":                 {func(c *oidc.Config) { c.ClaimMappings.UID = oidc.ClaimOrExpression{Claim: "a", Expression: "b"} }, []string{`claimMappings.uid: Invalid value: "": ` + both}},
		"bad UID":             {func(c *oidc.Config) { c.ClaimMappings.UID.Expression = "wrong" }, []string{`claimMappings.uid.expression: Invalid value: "wrong": compilation failed`}},

		"extra":        {extra(oidc.ExtraMapping{Key: "example.com/a", ValueExpression: "x"}, oidc.ExtraMapping{Key: "notk8s.io/a", ValueExpression: "x"}, oidc.ExtraMapping{Key: "mykubernetes.io/a", ValueExpression: "x"}), nil},
		"no key":       {extra(oidc.ExtraMapping{ValueExpression: "x"}), []string{"claimMappings.extra[0].key: Required value"}},
		"unqualified":  {extra(oidc.ExtraMapping{Key: "k8s.io", ValueExpression: "x"}), []string{`claimMappings.extra[0].key: Invalid value: "k8s.io": must be a domain-prefixed path (such as "acme.io/foo")`}},
		"capitals":     {extra(oidc.ExtraMapping{Key: "example.com/A", ValueExpression: "x"}), []string{`claimMappings.extra[0].key: Invalid value: "example.com/A": must be lowercase`}},
		"no value":     {extra(oidc.ExtraMapping{Key: "example.com/a"}), []string{"claimMappings.extra[0].valueExpression: Required value"}},
		"wrong value":  {extra(oidc.ExtraMapping{Key: "example.com/a", ValueExpression: "wrong"}), []string{`claimMappings.extra[0].valueExpression: Invalid value: "wrong": compilation failed`}},
		"the same key": {extra(oidc.ExtraMapping{Key: "example.com/a", ValueExpression: "x"}, oidc.ExtraMapping{Key: "example.com/a", ValueExpression: "wrong"}), []string{`claimMappings.extra[1].key: Duplicate value: "example.com/a"`}},

		"users": {users(oidc.UserValidationRule{Expression: "x"}, oidc.UserValidationRule{}, oidc.UserValidationRule{Expression: "x"}, oidc.UserValidationRule{Expression: "wrong"}), []string{
			"userValidationRules[1].expression: Required value", `userValidationRules[2].expression: Duplicate value: "x"`, `userValidationRules[3].expression: Invalid value: "wrong": compilation failed`,
		}},
	} {
		c := basic()
		tt.change(&c)
		var got []string
		for _, err := range c.Validate(nil, upper{}, []string{"https://pods", "https://accounts", "https://pods"}) {
			got = append(got, err.Error())
		}
		if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
			t.Errorf("%s: got\n%s", name, strings.Join(got, "\n"))
		}
	}
	for _, domain := range []string{"kubernetes.io", "k8s.io", "x.kubernetes.io", "x.k8s.io"} {
		c := basic()
		c.ClaimMappings.Extra = []oidc.ExtraMapping{{Key: domain + "/a", ValueExpression: "x"}}
		if errs := c.Validate(nil, upper{}, nil); len(errs) != 1 || errs[0].Error() != `claimMappings.extra[0].key: Invalid value: "`+domain+`/a": k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use` {
			t.Errorf("%s: %v", domain, errs)
		}
	}
}
