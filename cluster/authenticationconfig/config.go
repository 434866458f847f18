package authenticationconfig

import (
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/oidc"
	"github.com/keelson-dev/keelson/internal/configfile"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxIssuers is how many issuers there may be.
const maxIssuers = 64

// Error says what is wrong with a file: its Path, Line and Err.
type Error = configfile.Error

// Config is what a file says.
type Config struct {
	// JWT are the issuers whose tokens are accepted.
	JWT []oidc.Config `json:"jwt"`
	// Anonymous says which requests need no credentials; nil leaves that to others.
	Anonymous *Anonymous `json:"anonymous"`
}

// Anonymous says which requests need no credentials.
type Anonymous struct {
	Enabled bool `json:"enabled"`
	// Conditions are the paths of those requests; none means all paths.
	Conditions []Condition `json:"conditions"`
}

// Condition is met by requests for a path.
type Condition struct {
	Path string `json:"path"`
}

// authenticator identifies the requests without credentials.
func (a *Anonymous) authenticator() authn.Authenticator {
	if !a.Enabled {
		return authn.Nobody()
	}
	var paths []string
	for _, c := range a.Conditions {
		paths = append(paths, c.Path)
	}
	return authn.AnonymousAt(paths...)
}

// parse reads the text of a file.
func parse(path string, text []byte) (configfile.Document, Config, error) {
	var file struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Config     `json:",inline"`
	}
	d, err := configfile.Parse(path, text)
	if err != nil {
		return d, file.Config, err
	}
	kinds := configfile.Kinds{Group: "apiserver.config.k8s.io", Kind: "AuthenticationConfiguration", Versions: []string{"v1", "v1beta1", "v1alpha1"}}
	return d, file.Config, d.As(kinds, &file)
}

// validate returns what is wrong, in upstream's words.
func (c *Config) validate(compiler oidc.Compiler, disallowed []string) field.ErrorList {
	root := field.NewPath("jwt")
	if len(c.JWT) > maxIssuers {
		return field.ErrorList{field.TooMany(root, len(c.JWT), maxIssuers)}
	}
	var errs field.ErrorList
	issuers, discovery := map[string]bool{}, map[string]bool{}
	for i := range c.JWT {
		at, issuer := root.Index(i), c.JWT[i].Issuer
		errs = append(errs, c.JWT[i].Validate(at, compiler, disallowed)...)
		if issuers[issuer.URL] {
			errs = append(errs, field.Duplicate(at.Child("issuer", "url"), issuer.URL))
		}
		issuers[issuer.URL] = true
		if issuer.DiscoveryURL != "" && discovery[issuer.DiscoveryURL] {
			errs = append(errs, field.Duplicate(at.Child("issuer", "discoveryURL"), issuer.DiscoveryURL))
		}
		discovery[issuer.DiscoveryURL] = true
	}
	if a := c.Anonymous; a != nil && !a.Enabled && len(a.Conditions) > 0 {
		errs = append(errs, field.Invalid(field.NewPath("anonymous", "conditions"), a.Conditions, "enabled should be set to true when conditions are defined"))
	}
	return errs
}
