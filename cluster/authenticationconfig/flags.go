package authenticationconfig

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/keelson-dev/keelson/authn/oidc"
)

// ErrFlags: flags contradict one another. The messages are upstream's.
var ErrFlags = errors.New("flags contradict one another")

// Flags are the values of kube-apiserver's flags about tokens of one issuer: --oidc-issuer-url and so on. The zero value is that of none.
type Flags struct {
	// IssuerURL is who signs the tokens, ClientID is for whom, and CAFile has the authorities of the issuer's certificate, if those of the
	// system do not know it.
	IssuerURL, ClientID, CAFile string
	// UsernameClaim is sub if it is empty.
	UsernameClaim string
	// UsernamePrefix precedes names. If it is empty and the claim is not email, the issuer's URL and # do; "-" is none.
	UsernamePrefix string
	// GroupsClaim has the user's groups, which GroupsPrefix precedes.
	GroupsClaim, GroupsPrefix string
	// SigningAlgs are those that are accepted; empty means RS256.
	SigningAlgs []string
	// RequiredClaims are claims with the values that they must have.
	RequiredClaims map[string]string
}

// RequiredClaim adds a required claim, as --oidc-required-claim writes it.
func (f *Flags) RequiredClaim(text string) error {
	claim, value, ok := strings.Cut(text, "=")
	if claim = strings.TrimSpace(claim); !ok {
		return fmt.Errorf("malformed pair, expect string=string")
	}
	if f.RequiredClaims == nil {
		f.RequiredClaims = map[string]string{}
	}
	f.RequiredClaims[claim] = strings.TrimSpace(value)
	return nil
}

func (f *Flags) given() bool {
	return f.IssuerURL+f.ClientID+f.CAFile+f.UsernameClaim+f.UsernamePrefix+f.GroupsClaim+f.GroupsPrefix != "" || len(f.SigningAlgs)+len(f.RequiredClaims) > 0
}

// Open returns what the file at path says, if path is not empty, or else the flags. Without either, it returns nil.
func (f *Flags) Open(path string, o Options) (*Authentication, error) {
	switch {
	case path != "" && f.given():
		return nil, fmt.Errorf("%w: authentication-config file and oidc-* flags are mutually exclusive", ErrFlags)
	case path != "":
		return Open(path, o)
	case !f.given():
		return nil, nil //nolint:nilnil // nothing is asked for
	case f.IssuerURL == "" || f.ClientID == "":
		return nil, fmt.Errorf("%w: oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set", ErrFlags)
	}
	c, err := f.config()
	if err != nil {
		return nil, err
	}
	if o.SigningAlgorithms = f.SigningAlgs; len(o.SigningAlgorithms) == 0 {
		o.SigningAlgorithms = []string{"RS256"}
	}
	return New(Config{JWT: []oidc.Config{c}}, o)
}

func (f *Flags) config() (oidc.Config, error) {
	claim, prefix := f.UsernameClaim, f.UsernamePrefix
	if claim == "" {
		claim = "sub"
	}
	switch {
	case prefix == "" && claim != "email":
		prefix = f.IssuerURL + "#"
	case prefix == "-":
		prefix = ""
	}
	c := oidc.Config{
		Issuer:        oidc.Issuer{URL: f.IssuerURL, Audiences: []string{f.ClientID}},
		ClaimMappings: oidc.ClaimMappings{Username: oidc.PrefixedClaimOrExpression{Claim: claim, Prefix: &prefix}},
	}
	if f.GroupsClaim != "" {
		c.ClaimMappings.Groups = oidc.PrefixedClaimOrExpression{Claim: f.GroupsClaim, Prefix: &f.GroupsPrefix}
	}
	for _, name := range slices.Sorted(maps.Keys(f.RequiredClaims)) {
		c.ClaimValidationRules = append(c.ClaimValidationRules, oidc.ClaimValidationRule{Claim: name, RequiredValue: f.RequiredClaims[name]})
	}
	if f.CAFile != "" {
		text, err := os.ReadFile(f.CAFile)
		if err != nil {
			return c, err
		}
		c.Issuer.CertificateAuthority = string(text)
	}
	return c, nil
}
