package admissionconfig

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/eventratelimit"
	"github.com/keelson-dev/keelson/admission/imagepolicywebhook"
	"github.com/keelson-dev/keelson/admission/imagepolicywebhook/remote"
	"github.com/keelson-dev/keelson/admission/initialresources"
	"github.com/keelson-dev/keelson/admission/podnodeselector"
	"github.com/keelson-dev/keelson/admission/podsecurity"
	"github.com/keelson-dev/keelson/admission/podtolerationrestriction"
	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/client/kubeconfig"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/internal/configfile"
	"github.com/keelson-dev/keelson/podspec"
	"github.com/keelson-dev/keelson/registry"
)

// configurable returns, by a plugin's name, what makes its stage from its configuration.
func configurable() map[string]func(configfile.Document) (cluster.AdmissionStage, error) {
	return map[string]func(configfile.Document) (cluster.AdmissionStage, error){
		eventratelimit.Name:           eventRateLimit,
		imagepolicywebhook.Name:       imagePolicy,
		initialresources.Name:         initialResources,
		podnodeselector.Name:          podNodeSelector,
		podsecurity.Name:              podSecurity,
		podtolerationrestriction.Name: podTolerationRestriction,
	}
}

func namespaces(p cluster.ServerParts) (*registry.Live[*corev1.Namespace], error) {
	return registry.NewLive[*corev1.Namespace](p.Registry, schema.GroupResource{Resource: "namespaces"})
}

func podSecurity(d configfile.Document) (cluster.AdmissionStage, error) {
	var c struct {
		metav1.TypeMeta `json:",inline"`
		Defaults        struct {
			Enforce        string `json:"enforce"`
			EnforceVersion string `json:"enforce-version"`
			Audit          string `json:"audit"`
			AuditVersion   string `json:"audit-version"`
			Warn           string `json:"warn"`
			WarnVersion    string `json:"warn-version"`
		} `json:"defaults"`
		Exemptions struct {
			Usernames      []string `json:"usernames"`
			Namespaces     []string `json:"namespaces"`
			RuntimeClasses []string `json:"runtimeClasses"`
		} `json:"exemptions"`
	}
	if err := d.As(configfile.Kinds{Group: "pod-security.admission.config.k8s.io", Kind: "PodSecurityConfiguration", Versions: []string{"v1", "v1beta1", "v1alpha1"}}, &c); err != nil {
		return cluster.AdmissionStage{}, err
	}
	o := podsecurity.Options{Warn: registry.Warn, Annotate: audit.Annotate}
	o.Defaults.Enforce, o.Defaults.EnforceVersion = c.Defaults.Enforce, c.Defaults.EnforceVersion
	o.Defaults.Audit, o.Defaults.AuditVersion = c.Defaults.Audit, c.Defaults.AuditVersion
	o.Defaults.Warn, o.Defaults.WarnVersion = c.Defaults.Warn, c.Defaults.WarnVersion
	o.Exemptions.Usernames, o.Exemptions.Namespaces = c.Exemptions.Usernames, c.Exemptions.Namespaces
	o.Exemptions.RuntimeClasses = c.Exemptions.RuntimeClasses
	if _, err := podsecurity.New(nil, nil, o); err != nil {
		return cluster.AdmissionStage{}, d.Wrong("defaults", err)
	}
	return cluster.AdmissionStage{Name: podsecurity.Name, New: func(p cluster.ServerParts) (admission.Plugin, error) {
		all, err := namespaces(p)
		if err != nil {
			return nil, err
		}
		pods, err := registry.NewLive[*corev1.Pod](p.Registry, schema.GroupResource{Resource: "pods"})
		if err != nil {
			return nil, err
		}
		return podsecurity.New(all, pods, o)
	}}, nil
}

// podNodeSelector reads the plugin's own format, which has no version.
func podNodeSelector(d configfile.Document) (cluster.AdmissionStage, error) {
	var c struct {
		Selectors map[string]string `json:"podNodeSelectorPluginConfig"`
	}
	if err := d.As(configfile.Kinds{}, &c); err != nil {
		return cluster.AdmissionStage{}, err
	}
	const byDefault = "clusterDefaultNodeSelector"
	o := podnodeselector.Options{Default: c.Selectors[byDefault], Allowed: c.Selectors}
	delete(o.Allowed, byDefault)
	if _, err := podnodeselector.New(nil, o); err != nil {
		return cluster.AdmissionStage{}, d.Wrong("podNodeSelectorPluginConfig", err)
	}
	return cluster.AdmissionStage{Name: podnodeselector.Name, New: func(p cluster.ServerParts) (admission.Plugin, error) {
		all, err := namespaces(p)
		if err != nil {
			return nil, err
		}
		return podnodeselector.New(all, o)
	}}, nil
}

func podTolerationRestriction(d configfile.Document) (cluster.AdmissionStage, error) {
	var c struct {
		metav1.TypeMeta `json:",inline"`
		Default         []corev1.Toleration `json:"default"`
		Whitelist       []corev1.Toleration `json:"whitelist"`
	}
	if err := d.As(configfile.Kinds{Group: "podtolerationrestriction.admission.k8s.io", Kind: "Configuration", Versions: []string{"v1alpha1"}}, &c); err != nil {
		return cluster.AdmissionStage{}, err
	}
	errs := podspec.ValidateTolerations(c.Default, field.NewPath("default"))
	errs = append(errs, podspec.ValidateTolerations(c.Whitelist, field.NewPath("whitelist"))...)
	if len(errs) > 0 {
		return cluster.AdmissionStage{}, d.Fields(errs)
	}
	return cluster.AdmissionStage{Name: podtolerationrestriction.Name, New: func(p cluster.ServerParts) (admission.Plugin, error) {
		all, err := namespaces(p)
		return podtolerationrestriction.New(all, podtolerationrestriction.Options{Default: c.Default, Allowed: c.Whitelist}), err
	}}, nil
}

func eventRateLimit(d configfile.Document) (cluster.AdmissionStage, error) {
	var c struct {
		metav1.TypeMeta `json:",inline"`
		Limits          []eventratelimit.Limit `json:"limits"`
	}
	if err := d.As(configfile.Kinds{Group: "eventratelimit.admission.k8s.io", Kind: "Configuration", Versions: []string{"v1alpha1"}}, &c); err != nil {
		return cluster.AdmissionStage{}, err
	}
	if errs := eventratelimit.Validate(c.Limits); len(errs) > 0 {
		return cluster.AdmissionStage{}, d.Fields(errs)
	}
	return cluster.AdmissionStage{Name: eventratelimit.Name, New: func(cluster.ServerParts) (admission.Plugin, error) {
		return eventratelimit.New(c.Limits)
	}}, nil
}

// imagePolicy reads the file that upstream's plugin has, whose form has no version.
func imagePolicy(d configfile.Document) (cluster.AdmissionStage, error) {
	var c struct {
		ImagePolicy struct {
			KubeConfigFile string `json:"kubeConfigFile"`
			AllowTTL       int64  `json:"allowTTL"`     // seconds
			DenyTTL        int64  `json:"denyTTL"`      // seconds
			RetryBackoff   int64  `json:"retryBackoff"` // milliseconds
			DefaultAllow   bool   `json:"defaultAllow"`
		} `json:"imagePolicy"`
	}
	none := cluster.AdmissionStage{}
	if err := d.As(configfile.Kinds{}, &c); err != nil {
		return none, err
	}
	p := c.ImagePolicy
	o := imagepolicywebhook.Options{FailOpen: p.DefaultAllow, Annotate: audit.Annotate}
	var retry time.Duration
	for _, f := range []struct {
		name        string
		value       int64
		unit        time.Duration
		least, most time.Duration
		into        *time.Duration
	}{
		{"allowTTL", p.AllowTTL, time.Second, time.Second, 30 * time.Minute, &o.KeepAllowed},
		{"denyTTL", p.DenyTTL, time.Second, time.Second, 30 * time.Minute, &o.KeepDenied},
		{"retryBackoff", p.RetryBackoff, time.Millisecond, 1, 5 * time.Minute, &retry},
	} {
		at := field.NewPath("imagePolicy", f.name)
		*f.into = time.Duration(f.value) * f.unit
		if f.value != 0 && f.value != -1 && (*f.into < f.least || *f.into > f.most) {
			return none, d.Wrong(at.String(), fmt.Errorf("%s: valid value is between %v and %v, got %v", at, f.least, f.most, *f.into))
		}
	}
	at := field.NewPath("imagePolicy", "kubeConfigFile")
	if p.KubeConfigFile == "" {
		return none, d.Wrong(at.String(), fmt.Errorf("%s: is required: it leads to the backend", at))
	}
	access, err := kubeconfig.Load(kubeconfig.Options{Path: d.Beside(p.KubeConfigFile)})
	if err != nil {
		return none, d.Wrong(at.String(), fmt.Errorf("%s: %w", at, err))
	}
	backend, err := remote.New(access.Config, remote.Options{RetryDelay: max(retry, 0)})
	if err != nil {
		return none, d.Wrong(at.String(), fmt.Errorf("%s: %w", at, err))
	}
	return cluster.AdmissionStage{Name: imagepolicywebhook.Name, New: func(cluster.ServerParts) (admission.Plugin, error) {
		return imagepolicywebhook.New(backend, o), nil
	}}, nil
}

// undecided is ImagePolicyWebhook without a configuration, which cannot be made.
func undecided() cluster.AdmissionStage {
	return cluster.AdmissionStage{Name: imagepolicywebhook.Name, New: func(cluster.ServerParts) (admission.Plugin, error) {
		return nil, errors.New("ImagePolicyWebhook: no config specified")
	}}
}

// unlimited is EventRateLimit without a configuration, which cannot be made.
func unlimited() cluster.AdmissionStage {
	return cluster.AdmissionStage{Name: eventratelimit.Name, New: func(cluster.ServerParts) (admission.Plugin, error) {
		return eventratelimit.New(nil)
	}}
}
