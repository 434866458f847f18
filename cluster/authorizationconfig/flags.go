package authorizationconfig

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/authz/abac"
)

// ErrFlags: flags contradict one another. The messages are upstream's.
var ErrFlags = errors.New("flags contradict one another")

// Flags are the values of kube-apiserver's flags about authorization: --authorization-mode and so on. NewFlags has upstream's defaults.
type Flags struct {
	// Modes are types of authorizers, in the order in which they are asked; none means what the caller of Open says.
	Modes []string
	// PolicyFile has the policies of ABAC.
	PolicyFile string
	// WebhookConfigFile leads to the webhook, which speaks WebhookVersion of authorization.k8s.io.
	WebhookConfigFile, WebhookVersion string
	// AuthorizedTTL and UnauthorizedTTL are how long the webhook's answers are cached; 0 is not at all.
	AuthorizedTTL, UnauthorizedTTL time.Duration
}

// NewFlags returns the values of flags that nobody gave.
func NewFlags() Flags {
	return Flags{WebhookVersion: "v1beta1", AuthorizedTTL: 5 * time.Minute, UnauthorizedTTL: 30 * time.Second}
}

// given reports whether one of the flags was given that a file excludes.
func (f *Flags) given() bool {
	usual := NewFlags()
	return len(f.Modes) > 0 || f.WebhookConfigFile != "" || f.WebhookVersion != usual.WebhookVersion || f.AuthorizedTTL != usual.AuthorizedTTL || f.UnauthorizedTTL != usual.UnauthorizedTTL
}

// Open returns what the file at path says, if path is not empty, or else the flags. Modes are the default of Flags.Modes.
func (f *Flags) Open(path string, modes []string, o Options) (*Authorization, error) {
	if path != "" && f.given() {
		return nil, fmt.Errorf("%w: --authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags are defined", ErrFlags)
	}
	if len(f.Modes) > 0 {
		modes = f.Modes
	}
	if path == "" {
		if err := f.check(modes); err != nil {
			return nil, err
		}
	}
	if f.PolicyFile != "" {
		var err error
		if o.Policies, err = abac.Open(f.PolicyFile); err != nil {
			return nil, err
		}
		if o.Policies == nil {
			o.Policies = abac.Policies{}
		}
	}
	if path != "" {
		return Open(path, o)
	}
	return newUnchecked(f.config(modes), o)
}

// check returns what is wrong with the flags.
func (f *Flags) check(modes []string) error {
	var errs []error
	wrong := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrFlags}, args...)...))
	}
	for _, mode := range modes {
		switch {
		case !slices.Contains(Types(), mode):
			wrong("authorization-mode %q is not a valid mode", mode)
		case mode == ABAC && f.PolicyFile == "":
			wrong("authorization-mode ABAC's authorization policy file not passed")
		case mode == Webhook && f.WebhookConfigFile == "":
			wrong("authorization-mode Webhook's authorization config file not passed")
		}
	}
	if f.PolicyFile != "" && !slices.Contains(modes, ABAC) {
		wrong("cannot specify --authorization-policy-file without mode ABAC")
	}
	if f.WebhookConfigFile != "" && !slices.Contains(modes, Webhook) {
		wrong("cannot specify --authorization-webhook-config-file without mode Webhook")
	}
	if len(slices.Compact(slices.Sorted(slices.Values(modes)))) != len(modes) {
		wrong("authorization-mode %q has mode specified more than once", modes)
	}
	return errors.Join(errs...)
}

// config is what a file would say.
func (f *Flags) config(modes []string) Config {
	var c Config
	for _, mode := range modes {
		a := Authorizer{Type: mode, Name: strings.ToLower(mode)}
		if mode == Webhook {
			a.Name = "default"
			a.Webhook = &WebhookOptions{
				AuthorizedTTL: metav1.Duration{Duration: f.AuthorizedTTL}, CacheAuthorizedRequests: new(f.AuthorizedTTL != 0),
				UnauthorizedTTL: metav1.Duration{Duration: f.UnauthorizedTTL}, CacheUnauthorizedRequests: new(f.UnauthorizedTTL != 0),
				Timeout: metav1.Duration{Duration: longest}, FailurePolicy: noOpinion, SubjectAccessReviewVersion: f.WebhookVersion,
				ConnectionInfo: Connection{Type: byFile, KubeConfigFile: &f.WebhookConfigFile},
			}
		}
		c.Authorizers = append(c.Authorizers, a)
	}
	return c
}
