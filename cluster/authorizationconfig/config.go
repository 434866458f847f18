package authorizationconfig

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/authz/webhook/cel"
	"github.com/keelson-dev/keelson/internal/configfile"
)

// Types of authorizers.
const (
	AlwaysAllow = "AlwaysAllow"
	AlwaysDeny  = "AlwaysDeny"
	ABAC        = "ABAC"
	Node        = "Node"
	RBAC        = "RBAC"
	Webhook     = "Webhook"
)

// Types returns all types of authorizers, sorted.
func Types() []string { return []string{ABAC, AlwaysAllow, AlwaysDeny, Node, RBAC, Webhook} }

const (
	noOpinion  = "NoOpinion"
	deny       = "Deny"
	byFile     = "KubeConfigFile"
	longest    = 30 * time.Second // of webhooks' timeouts
	maxMatches = 64
)

// Error says what is wrong with a file: its Path, Line and Err.
type Error = configfile.Error

// Config is what a file says.
type Config struct {
	// Authorizers are asked in this order.
	Authorizers []Authorizer `json:"authorizers"`
}

// Authorizer is a link of the chain. The name of one that is no webhook is its type in lower case.
type Authorizer struct {
	Type    string          `json:"type"`
	Name    string          `json:"name"`
	Webhook *WebhookOptions `json:"webhook,omitempty"` // of a webhook alone
}

// WebhookOptions configure a webhook, with upstream's names and defaults.
type WebhookOptions struct {
	AuthorizedTTL                            metav1.Duration `json:"authorizedTTL"`
	CacheAuthorizedRequests                  *bool           `json:"cacheAuthorizedRequests,omitempty"`
	UnauthorizedTTL                          metav1.Duration `json:"unauthorizedTTL"`
	CacheUnauthorizedRequests                *bool           `json:"cacheUnauthorizedRequests,omitempty"`
	Timeout                                  metav1.Duration `json:"timeout"`
	SubjectAccessReviewVersion               string          `json:"subjectAccessReviewVersion"`
	MatchConditionSubjectAccessReviewVersion string          `json:"matchConditionSubjectAccessReviewVersion"`
	FailurePolicy                            string          `json:"failurePolicy"`
	ConnectionInfo                           Connection      `json:"connectionInfo"`
	MatchConditions                          []Condition     `json:"matchConditions"`
}

// Connection leads to a webhook.
type Connection struct {
	Type           string  `json:"type"` // KubeConfigFile
	KubeConfigFile *string `json:"kubeConfigFile"`
}

// Condition selects the requests about which a webhook is asked.
type Condition struct {
	Expression string `json:"expression"`
}

// parse reads the text of a file and fills in defaults.
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
	kinds := configfile.Kinds{Group: "apiserver.config.k8s.io", Kind: "AuthorizationConfiguration", Versions: []string{"v1", "v1beta1", "v1alpha1"}}
	err = d.As(kinds, &file)
	for i := range file.Authorizers {
		file.Authorizers[i].Webhook.setDefaults()
	}
	return d, file.Config, err
}

func (w *WebhookOptions) setDefaults() {
	if w == nil {
		return
	}
	if w.AuthorizedTTL.Duration == 0 {
		w.AuthorizedTTL.Duration = 5 * time.Minute
	}
	if w.UnauthorizedTTL.Duration == 0 {
		w.UnauthorizedTTL.Duration = 30 * time.Second
	}
	if w.CacheAuthorizedRequests == nil {
		w.CacheAuthorizedRequests = new(true)
	}
	if w.CacheUnauthorizedRequests == nil {
		w.CacheUnauthorizedRequests = new(true)
	}
}

// validate returns what is wrong, in upstream's words.
func (c *Config) validate(compiler *cel.Compiler) field.ErrorList {
	var errs field.ErrorList
	root := field.NewPath("authorizers")
	if len(c.Authorizers) == 0 {
		errs = append(errs, field.Required(root, "at least one authorization mode must be defined"))
	}
	types, names := map[string]bool{}, map[string]bool{}
	for i, a := range c.Authorizers {
		at := root.Index(i)
		switch {
		case a.Type == "":
			errs = append(errs, field.Required(at.Child("type"), ""))
			continue
		case !slices.Contains(Types(), a.Type):
			errs = append(errs, field.NotSupported(at.Child("type"), a.Type, Types()))
			continue
		case types[a.Type] && a.Type != Webhook:
			errs = append(errs, field.Duplicate(at.Child("type"), a.Type))
			continue
		}
		types[a.Type] = true
		errs = append(errs, validateName(a, names, at.Child("name"))...)
		names[a.Name] = true
		switch {
		case a.Type != Webhook && a.Webhook != nil:
			errs = append(errs, field.Invalid(at.Child("webhook"), "non-null", "may only be specified when type=Webhook"))
		case a.Type == Webhook && a.Webhook == nil:
			errs = append(errs, field.Required(at.Child("webhook"), "required when type=Webhook"))
		case a.Type == Webhook:
			errs = append(errs, a.Webhook.validate(at, compiler)...)
		}
	}
	return errs
}

func validateName(a Authorizer, earlier map[string]bool, at *field.Path) field.ErrorList {
	if a.Name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	if earlier[a.Name] {
		return field.ErrorList{field.Duplicate(at, a.Name)}
	}
	if wrong := validation.IsDNS1123Subdomain(a.Name); len(wrong) > 0 {
		return field.ErrorList{field.Invalid(at, a.Name, "authorizer name is invalid: "+strings.Join(wrong, ", "))}
	}
	return nil
}

// validate returns what is wrong with a webhook. Upstream's errors omit the field webhook, whose fields these are.
func (w *WebhookOptions) validate(at *field.Path, compiler *cel.Compiler) field.ErrorList {
	var errs field.ErrorList
	if w.Timeout.Duration == 0 {
		errs = append(errs, field.Required(at.Child("timeout"), ""))
	} else if w.Timeout.Duration > longest || w.Timeout.Duration < 0 {
		errs = append(errs, field.Invalid(at.Child("timeout"), w.Timeout.Duration.String(), "must be > 0s and <= 30s"))
	}
	if w.AuthorizedTTL.Duration < 0 {
		errs = append(errs, field.Invalid(at.Child("authorizedTTL"), w.AuthorizedTTL.Duration.String(), "must be > 0s"))
	}
	if w.UnauthorizedTTL.Duration < 0 {
		errs = append(errs, field.Invalid(at.Child("unauthorizedTTL"), w.UnauthorizedTTL.Duration.String(), "must be > 0s"))
	}
	errs = append(errs, choice(w.SubjectAccessReviewVersion, "", at.Child("subjectAccessReviewVersion"), "v1", "v1beta1")...)
	if version := w.MatchConditionSubjectAccessReviewVersion; version != "" || len(w.MatchConditions) > 0 {
		errs = append(errs, choice(version, "required if match conditions are specified", at.Child("matchConditionSubjectAccessReviewVersion"), "v1")...)
	}
	errs = append(errs, choice(w.FailurePolicy, "", at.Child("failurePolicy"), noOpinion, deny)...)
	errs = append(errs, w.ConnectionInfo.validate(at.Child("connectionInfo"))...)
	return append(errs, w.validateMatches(at.Child("matchConditions"), compiler)...)
}

// choice validates a required value.
func choice(value, why string, at *field.Path, of ...string) field.ErrorList {
	switch {
	case value == "":
		return field.ErrorList{field.Required(at, why)}
	case !slices.Contains(of, value):
		return field.ErrorList{field.NotSupported(at, value, of)}
	}
	return nil
}

func (c *Connection) validate(at *field.Path) field.ErrorList {
	file := at.Child("kubeConfigFile")
	switch {
	case c.Type == "":
		return field.ErrorList{field.Required(at.Child("type"), "")}
	case c.Type != byFile: // nothing here runs in the cluster that it serves
		return field.ErrorList{field.NotSupported(at.Child("type"), c.Type, []string{byFile})}
	case c.KubeConfigFile == nil || *c.KubeConfigFile == "":
		return field.ErrorList{field.Required(file, "")}
	case !filepath.IsAbs(*c.KubeConfigFile):
		return field.ErrorList{field.Invalid(file, *c.KubeConfigFile, "must be an absolute path")}
	}
	info, err := os.Stat(*c.KubeConfigFile)
	if err != nil {
		return field.ErrorList{field.Invalid(file, *c.KubeConfigFile, fmt.Sprintf("error loading file: %v", err))}
	}
	if !info.Mode().IsRegular() {
		return field.ErrorList{field.Invalid(file, *c.KubeConfigFile, "must be a regular file")}
	}
	return nil
}

func (w *WebhookOptions) validateMatches(at *field.Path, compiler *cel.Compiler) field.ErrorList {
	if len(w.MatchConditions) > maxMatches {
		return field.ErrorList{field.TooMany(at, len(w.MatchConditions), maxMatches)}
	}
	var errs field.ErrorList
	for i, m := range w.MatchConditions {
		at := at.Index(i).Child("expression")
		if strings.TrimSpace(m.Expression) == "" {
			errs = append(errs, field.Required(at, ""))
		} else if slices.Contains(w.MatchConditions[:i], m) {
			errs = append(errs, field.Duplicate(at, m.Expression))
		} else if err := compiler.Check(m.Expression); err != nil {
			errs = append(errs, field.Invalid(at, m.Expression, err.Error()))
		}
	}
	return errs
}

// conform checks what kube-apiserver checks beyond the validation: the names of authorizers, and that required ones are there.
func (c *Config) conform(required []string) []error {
	var errs []error
	seen := map[string]bool{}
	for _, a := range c.Authorizers {
		if a.Type == Webhook {
			continue
		}
		seen[a.Type] = true
		if want := strings.ToLower(a.Type); a.Name != want {
			errs = append(errs, fmt.Errorf("expected name %s for authorizer %s instead of %s", want, a.Type, a.Name))
		}
	}
	if missing := slices.DeleteFunc(slices.Sorted(slices.Values(required)), func(name string) bool { return seen[name] }); len(missing) > 0 {
		errs = append(errs, fmt.Errorf("missing required types: %v", missing))
	}
	return errs
}
