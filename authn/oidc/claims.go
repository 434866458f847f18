package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/keelson-dev/keelson/authn"
)

// idToken has the claims whose types OpenID Connect defines.
type idToken struct {
	Issuer          string                 `json:"iss"`
	Subject         string                 `json:"sub"`
	Audience        audience               `json:"aud"`
	Expiry          *date                  `json:"exp"`
	IssuedAt        *date                  `json:"iat"`
	NotBefore       *date                  `json:"nbf"`
	Nonce           string                 `json:"nonce"`
	AccessTokenHash string                 `json:"at_hash"`
	ClaimNames      map[string]string      `json:"_claim_names"`
	ClaimSources    map[string]claimSource `json:"_claim_sources"`
}

// claimSource is where distributed claims are.
type claimSource struct {
	Endpoint    string `json:"endpoint"`
	AccessToken string `json:"access_token"`
}

// sourced checks that each distributed claim has a source.
func (t *idToken) sourced() error {
	for _, source := range t.ClaimNames {
		if source == "" {
			return errors.New("oidc: failed to obtain source from claim name")
		}
		if _, ok := t.ClaimSources[source]; !ok {
			return errors.New("oidc: source does not exist")
		}
	}
	return nil
}

// audience is a string or a list of strings (RFC 7519, 4.1.3).
type audience []string

// UnmarshalJSON implements json.Unmarshaler.
func (a *audience) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*a = audience{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(a))
}

var errDate = errors.New("date out of range")

// date is in seconds since 1970. Fractions are dropped.
type date int64

// UnmarshalJSON implements json.Unmarshaler.
func (d *date) UnmarshalJSON(data []byte) error {
	var n json.Number
	if err := json.Unmarshal(data, &n); err != nil {
		return err
	}
	if whole, err := n.Int64(); err == nil {
		*d = date(whole)
		return nil
	}
	f, err := n.Float64()
	if err != nil {
		return err
	}
	if math.Abs(f) >= 1<<60 {
		return errDate
	}
	*d = date(f)
	return nil
}

func (d *date) time() time.Time {
	if d == nil {
		return time.Time{}
	}
	return time.Unix(int64(*d), 0)
}

// names is a string or a list of strings.
type names []string

// UnmarshalJSON implements json.Unmarshaler.
func (n *names) UnmarshalJSON(data []byte) error {
	var all []string
	if json.Unmarshal(data, &all) == nil {
		*n = all
		return nil
	}
	var one string
	if err := json.Unmarshal(data, &one); err != nil {
		return err
	}
	*n = names{one}
	return nil
}

// identity returns the user of a token, if all rules allow that.
func (v *Verifier) identity(ctx context.Context, c Claims) (*authn.Identity, error) {
	id := &authn.Identity{}
	var err error
	if id.Name, err = v.username(ctx, c); err != nil {
		return nil, err
	}
	if id.Groups, err = v.groups(ctx, c); err != nil {
		return nil, err
	}
	if id.UID, err = v.uid(ctx, c); err != nil {
		return nil, err
	}
	if id.Extra, err = v.extra(ctx, c); err != nil {
		return nil, err
	}
	if err := v.required(c); err != nil {
		return nil, err
	}
	if err := hold(ctx, v.program.claims, Variables{Claims: c}); err != nil {
		return nil, fmt.Errorf("oidc: error evaluating claim validation expression: %w", err)
	}
	if err := hold(ctx, v.program.user, Variables{User: id}); err != nil {
		return nil, fmt.Errorf("oidc: error evaluating user info validation rule: %w", err)
	}
	return id, nil
}

func (v *Verifier) username(ctx context.Context, c Claims) (string, error) {
	if e := v.program.username; e != nil {
		value, err := e.Evaluate(ctx, Variables{Claims: c})
		if err != nil {
			return "", fmt.Errorf("oidc: error evaluating username claim expression: %w", err)
		}
		name, ok := value.(string)
		switch {
		case !ok:
			return "", errors.New("oidc: error evaluating username claim expression: username claim expression must return a string")
		case name == "":
			return "", errors.New("oidc: empty username via CEL expression is not allowed")
		}
		return name, nil
	}
	m := v.config.ClaimMappings.Username
	var name string
	if err := c.decode(m.Claim, &name); err != nil {
		return "", fmt.Errorf("oidc: parse username claims %q: %w", m.Claim, err)
	}
	if _, told := c["email_verified"]; m.Claim == "email" && told {
		var verified bool
		if err := c.decode("email_verified", &verified); err != nil {
			return "", fmt.Errorf("oidc: parse 'email_verified' claim: %w", err)
		}
		if !verified {
			return "", errors.New("oidc: email not verified")
		}
	}
	return *m.Prefix + name, nil
}

func (v *Verifier) groups(ctx context.Context, c Claims) ([]string, error) {
	m := v.config.ClaimMappings.Groups
	if _, ok := c[m.Claim]; m.Claim != "" && ok {
		var groups names
		if err := c.decode(m.Claim, &groups); err != nil {
			return nil, fmt.Errorf("oidc: parse groups claim %q: %w", m.Claim, err)
		}
		for i := range groups {
			groups[i] = *m.Prefix + groups[i]
		}
		return groups, nil
	}
	if v.program.groups == nil {
		return nil, nil
	}
	groups, err := listed(ctx, v.program.groups, c)
	if err != nil {
		return nil, fmt.Errorf("oidc: error evaluating group claim expression: %w", err)
	}
	return groups, nil
}

func (v *Verifier) uid(ctx context.Context, c Claims) (string, error) {
	if claim := v.config.ClaimMappings.UID.Claim; claim != "" {
		var uid string
		if err := c.decode(claim, &uid); err != nil {
			return "", fmt.Errorf("oidc: parse uid claim %q: %w", claim, err)
		}
		return uid, nil
	}
	if v.program.uid == nil {
		return "", nil
	}
	value, err := v.program.uid.Evaluate(ctx, Variables{Claims: c})
	if err != nil {
		return "", fmt.Errorf("oidc: error evaluating uid claim expression: %w", err)
	}
	uid, ok := value.(string)
	if !ok {
		return "", errors.New("oidc: error evaluating uid claim expression: uid claim expression must return a string")
	}
	return uid, nil
}

// extra returns the extra attributes: those of expressions, and the token's ID.
func (v *Verifier) extra(ctx context.Context, c Claims) (map[string][]string, error) {
	extra := map[string][]string{}
	var id string
	if c.decode("jti", &id) == nil && id != "" {
		extra[authn.CredentialID] = []string{"JTI=" + id}
	}
	values := make([]any, len(v.program.extra))
	for i, r := range v.program.extra { // an expression that fails precedes a value that is none
		var err error
		if values[i], err = r.Evaluate(ctx, Variables{Claims: c}); err != nil {
			return nil, err
		}
	}
	for i, r := range v.program.extra {
		all, err := list(values[i])
		if err != nil {
			return nil, fmt.Errorf("oidc: error evaluating extra claim expression: %s: %w", r.text, err)
		}
		if len(all) > 0 {
			extra[r.message] = all
		}
	}
	if len(extra) == 0 {
		return nil, nil
	}
	return extra, nil
}

// required checks the claims that must have a certain value.
func (v *Verifier) required(c Claims) error {
	for _, r := range v.config.ClaimValidationRules {
		if r.Claim == "" {
			continue
		}
		if _, ok := c[r.Claim]; !ok {
			return fmt.Errorf("oidc: required claim %s not present in ID token", r.Claim)
		}
		var value string
		if err := c.decode(r.Claim, &value); err != nil {
			return fmt.Errorf("oidc: parse claim %s: %w", r.Claim, err)
		}
		if value != r.RequiredValue {
			return fmt.Errorf("oidc: required claim %s value does not match. Got = %.1000s, want = %s", r.Claim, value, r.RequiredValue)
		}
	}
	return nil
}

// hold checks conditions: first that all can be evaluated, then that all hold.
func hold(ctx context.Context, rules []rule, on Variables) error {
	values := make([]any, len(rules))
	for i, r := range rules {
		var err error
		if values[i], err = r.Evaluate(ctx, on); err != nil {
			return err
		}
	}
	for i, r := range rules {
		holds, ok := values[i].(bool)
		switch {
		case !ok:
			return errors.New("validation expression must return a boolean")
		case !holds:
			return fmt.Errorf("validation expression '%s' failed: %s", r.text, r.message)
		}
	}
	return nil
}

func listed(ctx context.Context, e Expression, c Claims) ([]string, error) {
	value, err := e.Evaluate(ctx, Variables{Claims: c})
	if err != nil {
		return nil, err
	}
	return list(value)
}

var errNoList = errors.New("expression must return a string or a list of strings")

// list converts the value of an expression. Null and empty strings count as nothing.
func list(value any) ([]string, error) {
	var all []any
	switch v := value.(type) {
	case nil:
	case string:
		all = []any{v}
	case []any:
		all = v
	default:
		return nil, errNoList
	}
	var out []string
	for _, element := range all {
		text, ok := element.(string)
		if !ok {
			return nil, errNoList
		}
		if text != "" {
			out = append(out, text)
		}
	}
	return out, nil
}
