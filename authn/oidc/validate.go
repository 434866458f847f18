package oidc

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Validate returns what is wrong with a configuration, in upstream's words; at is its field in a file, which may be nil. A nil
// compiler refuses all expressions. The issuer must not be one of disallowed, usually the issuers of service accounts' tokens.
func (c *Config) Validate(at *field.Path, compiler Compiler, disallowed []string) field.ErrorList {
	_, errs := compile(c, at, compiler, disallowed)
	return errs
}

// rule is a compiled condition.
type rule struct {
	Expression
	text, message string
}

// program has the compiled expressions of a configuration; those that it does not have are nil.
type program struct {
	username, groups, uid Expression
	extra                 []rule // the message is the key
	claims, user          []rule
}

// validation collects what is wrong, and the compiled expressions.
type validation struct {
	compiler Compiler
	errs     field.ErrorList
	program  program
}

func compile(c *Config, at *field.Path, compiler Compiler, disallowed []string) (*program, field.ErrorList) {
	v := &validation{compiler: compiler}
	if compiler == nil {
		v.compiler = noCompiler{}
	}
	v.issuer(&c.Issuer, at.Child("issuer"), disallowed)
	v.claimRules(c.ClaimValidationRules, at.Child("claimValidationRules"))
	v.mappings(&c.ClaimMappings, at.Child("claimMappings"))
	v.userRules(c.UserValidationRules, at.Child("userValidationRules"))
	return &v.program, v.errs
}

func (v *validation) add(errs ...*field.Error) { v.errs = append(v.errs, errs...) }

func (v *validation) issuer(i *Issuer, at *field.Path, disallowed []string) {
	if i.URL == "" {
		v.add(field.Required(at.Child("url"), ""))
	} else {
		v.url(i.URL, at.Child("url"), disallowed)
	}
	if i.DiscoveryURL != "" {
		if i.URL != "" && strings.TrimRight(i.URL, "/") == strings.TrimRight(i.DiscoveryURL, "/") {
			v.add(field.Invalid(at.Child("discoveryURL"), i.DiscoveryURL, "discoveryURL must be different from URL"))
		}
		v.url(i.DiscoveryURL, at.Child("discoveryURL"), nil)
	}
	v.audiences(i, at)
	if i.CertificateAuthority != "" {
		if _, err := pool(i.CertificateAuthority); err != nil {
			v.add(field.Invalid(at.Child("certificateAuthority"), "<omitted>", err.Error()))
		}
	}
	if i.EgressSelectorType != "" {
		v.add(field.Invalid(at.Child("egressSelectorType"), i.EgressSelectorType,
			"egress selector is not supported when StructuredAuthenticationConfigurationEgressSelector feature gate is disabled"))
	}
}

func (v *validation) url(text string, at *field.Path, disallowed []string) {
	if slices.Contains(disallowed, text) {
		v.add(field.Invalid(at, text, fmt.Sprintf("URL must not overlap with disallowed issuers: %s", slices.Compact(slices.Sorted(slices.Values(disallowed))))))
	}
	u, err := url.Parse(text)
	if err != nil {
		v.add(field.Invalid(at, text, err.Error()))
		return
	}
	for _, c := range []struct {
		wrong bool
		what  string
	}{
		{u.Scheme != "https", "URL scheme must be https"},
		{u.User != nil, "URL must not contain a username or password"},
		{u.RawQuery != "", "URL must not contain a query"},
		{u.Fragment != "", "URL must not contain a fragment"},
	} {
		if c.wrong {
			v.add(field.Invalid(at, text, c.what))
		}
	}
}

func (v *validation) audiences(i *Issuer, at *field.Path) {
	list := at.Child("audiences")
	if len(i.Audiences) == 0 {
		v.add(field.Required(list, fmt.Sprintf("at least one %s is required", list)))
	}
	for n, audience := range i.Audiences {
		if audience == "" {
			v.add(field.Required(list.Index(n), ""))
		}
		if slices.Contains(i.Audiences[:n], audience) {
			v.add(field.Duplicate(list.Index(n), audience))
		}
	}
	policy := at.Child("audienceMatchPolicy")
	switch {
	case len(i.Audiences) > 1 && i.AudienceMatchPolicy != MatchAny:
		v.add(field.Invalid(policy, i.AudienceMatchPolicy, "audienceMatchPolicy must be MatchAny for multiple audiences"))
	case len(i.Audiences) == 1 && i.AudienceMatchPolicy != "" && i.AudienceMatchPolicy != MatchAny:
		v.add(field.Invalid(policy, i.AudienceMatchPolicy, "audienceMatchPolicy must be empty or MatchAny for single audience"))
	}
}

// pool returns the certificates in a PEM.
func pool(text string) (*x509.CertPool, error) {
	all := x509.NewCertPool()
	found := false
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" || len(block.Headers) > 0 {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		all.AddCert(certificate)
		found = true
	}
	if !found {
		return nil, errors.New("data does not contain any valid RSA or ECDSA certificates")
	}
	return all, nil
}

func (v *validation) claimRules(rules []ClaimValidationRule, at *field.Path) {
	for i, r := range rules {
		at := at.Index(i)
		switch {
		case r.Claim != "" && r.Expression != "":
			v.add(field.Invalid(at, r.Claim, "claim and expression can't both be set"))
		case r.Claim == "" && r.Expression == "":
			v.add(field.Required(at, "claim or expression is required"))
		case r.Claim != "":
			if r.Message != "" {
				v.add(field.Invalid(at.Child("message"), r.Message, "may not be specified when claim is set"))
			}
			// Rules with both a claim and an expression do not count.
			if slices.ContainsFunc(rules[:i], func(o ClaimValidationRule) bool { return o.Claim == r.Claim && o.Expression == "" }) {
				v.add(field.Duplicate(at.Child("claim"), r.Claim))
			}
		default:
			if r.RequiredValue != "" {
				v.add(field.Invalid(at.Child("requiredValue"), r.RequiredValue, "may not be specified when expression is set"))
			}
			if slices.ContainsFunc(rules[:i], func(o ClaimValidationRule) bool { return o.Expression == r.Expression && o.Claim == "" }) {
				v.add(field.Duplicate(at.Child("expression"), r.Expression))
				continue
			}
			if e := v.expression(r.Expression, true, at.Child("expression")); e != nil {
				v.program.claims = append(v.program.claims, rule{e, r.Expression, r.Message})
			}
		}
	}
}

// expression compiles an expression over claims. It returns nil if that is wrong.
func (v *validation) expression(text string, condition bool, at *field.Path) Expression {
	e, err := v.compiler.Claims(text, condition)
	if err != nil {
		v.add(field.Invalid(at, text, err.Error()))
		return nil
	}
	return e
}

func (v *validation) mappings(m *ClaimMappings, at *field.Path) {
	v.program.username = v.prefixed(&m.Username, at.Child("username"), true)
	v.program.groups = v.prefixed(&m.Groups, at.Child("groups"), false)
	switch {
	case m.UID.Claim != "" && m.UID.Expression != "":
		v.add(field.Invalid(at.Child("uid"), "", "claim and expression can't both be set"))
	case m.UID.Expression != "":
		v.program.uid = v.expression(m.UID.Expression, false, at.Child("uid", "expression"))
	}
	for i, extra := range m.Extra {
		if !v.extraKey(m.Extra[:i], extra.Key, at.Child("extra").Index(i).Child("key")) {
			continue
		}
		value := at.Child("extra").Index(i).Child("valueExpression")
		if extra.ValueExpression == "" {
			v.add(field.Required(value, ""))
			continue
		}
		if e := v.expression(extra.ValueExpression, false, value); e != nil {
			v.program.extra = append(v.program.extra, rule{e, extra.ValueExpression, extra.Key})
		}
	}
	v.email(m, at)
}

// email: whoever uses claims.email as a name by an expression must also look at whether it was verified.
func (v *validation) email(m *ClaimMappings, at *field.Path) {
	name := v.program.username
	if name == nil || !name.Selects("email") || name.Selects("email_verified") {
		return
	}
	for _, r := range slices.Concat(v.program.claims, v.program.extra) {
		if r.Selects("email_verified") {
			return
		}
	}
	v.add(field.Invalid(at.Child("username", "expression"), m.Username.Expression,
		"claims.email_verified must be used in claimMappings.username.expression or claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression"))
}

// extraKey validates the key of an extra attribute. It reports whether it is the first with that key.
func (v *validation) extraKey(earlier []ExtraMapping, key string, at *field.Path) bool {
	v.add(utilvalidation.IsDomainPrefixedPath(at, key)...)
	if key != strings.ToLower(key) {
		v.add(field.Invalid(at, key, "must be lowercase"))
	}
	domain, _, qualified := strings.Cut(key, "/")
	if qualified && (domain == "kubernetes.io" || domain == "k8s.io" || strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io")) {
		v.add(field.Invalid(at, key, "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use"))
	}
	if slices.ContainsFunc(earlier, func(e ExtraMapping) bool { return e.Key == key }) {
		v.add(field.Duplicate(at, key))
		return false
	}
	return true
}

func (v *validation) prefixed(m *PrefixedClaimOrExpression, at *field.Path, required bool) Expression {
	before := len(v.errs)
	var compiled Expression
	switch {
	case m.Expression != "" && m.Claim != "":
		v.add(field.Invalid(at, "", "claim and expression can't both be set"))
	case m.Expression == "" && m.Claim == "" && required:
		v.add(field.Required(at, "claim or expression is required"))
	case m.Expression != "":
		if m.Prefix != nil {
			v.add(field.Invalid(at.Child("prefix"), *m.Prefix, "may not be specified when expression is set"))
		}
		compiled = v.expression(m.Expression, false, at.Child("expression"))
	case m.Claim != "" && m.Prefix == nil:
		v.add(field.Required(at.Child("prefix"), "prefix is required when claim is set. It can be set to an empty string to disable prefixing"))
	}
	if len(v.errs) > before {
		return nil
	}
	return compiled
}

func (v *validation) userRules(rules []UserValidationRule, at *field.Path) {
	for i, r := range rules {
		at := at.Index(i).Child("expression")
		switch {
		case r.Expression == "":
			v.add(field.Required(at, ""))
		case slices.ContainsFunc(rules[:i], func(o UserValidationRule) bool { return o.Expression == r.Expression }):
			v.add(field.Duplicate(at, r.Expression))
		default:
			e, err := v.compiler.User(r.Expression)
			if err != nil {
				v.add(field.Invalid(at, r.Expression, err.Error()))
				continue
			}
			v.program.user = append(v.program.user, rule{e, r.Expression, r.Message})
		}
	}
}
